"""Spellings of one value: as spreadsheets, pandas and operating systems write it, and which of them mean that it is missing."""

import re
import unicodedata

# Those of pandas.read_csv, and ?, as the UCI repository writes it.
MISSING = frozenset(
    ['', '#N/A', '#N/A N/A', '#NA', '-1.#IND', '-1.#QNAN', '-NaN', '-nan', '1.#IND', '1.#QNAN', '<NA>', 'N/A', 'NA', 'NULL']
    + ['NaN', 'None', 'n/a', 'nan', 'null', '?']
)
WHOLE = r'([+-]?[0-9]+)\.0+'
_LARGE = re.compile(r'(-?[0-9])(?:\.([0-9]+))?e\+([0-9]{2})')  # As Arrow and Python write a float from 1e10 or 1e16 on.
_SMALL = re.compile(r'-?(?:0\.0000[0-9]+|[1-9](?:\.[0-9]+)?e-[0-9]+)')  # A float below 1e-4: each writes it otherwise.
_MOMENT = re.compile(r'([0-9]{4}-[0-9]{2}-[0-9]{2}[ T])?([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]+))?(Z|[+-][0-9]{2}:?[0-9]{2})?')
_BOOLEANS = ('true', 'false')


def display(text: str) -> str:
    """Returns a value as it is shown: in NFC, with composed accents; an integer without a float's decimals, no -0."""
    text = text if text.isascii() else unicodedata.normalize('NFC', text)
    whole = re.fullmatch(WHOLE, text)
    shown = whole[1] if whole else _without_exponent(text)
    return '0' if shown == '-0' else shown


def _without_exponent(text):
    """Returns an integer that is written as 4.91701234567e+11 without the exponent."""
    match = _LARGE.fullmatch(text)
    first, others, exponent = match.groups('') if match else ('', '', '0')
    return first + others.ljust(int(exponent), '0') if match and len(others) <= int(exponent) else text


def key(text: str) -> str:
    """Returns what all spellings of a value have in common: TRUE and True are one, and 2024-01-01T00:00:00 and 2024-01-01."""
    shown = display(text)
    lowered = shown.lower() if len(shown) <= 5 else shown
    if match := _MOMENT.fullmatch(shown):
        return _moment(*match.groups(''))
    if _SMALL.fullmatch(shown):
        return repr(float(shown))
    return lowered if lowered in _BOOLEANS else shown


def _moment(date, time, fraction, zone):
    """Returns a time, of a day or not, without a fraction, a zone or a midnight that says nothing."""
    fraction, zone = fraction.rstrip('0'), zone.replace(':', '').replace('Z', '+0000')
    if date and time == '00:00:00' and not fraction and not zone:
        return date[:-1]
    return f'{date.replace("T", " ")}{time}{"." if fraction else ""}{fraction}{zone}'


def spellings(text: str) -> list[str]:
    """Returns the spellings of a value for lookups in a graph, which cannot normalize; the value as it is shown comes first."""
    shown = display(text)
    found = [shown]
    if not shown.isascii():
        found.append(unicodedata.normalize('NFD', shown))
    if re.fullmatch('[+-]?[0-9]+', shown):
        found += [f'{shown}.0', *(['-0', '-0.0'] if shown == '0' else [])]
    found.append(key(shown))
    if found[-1] in _BOOLEANS:
        found += [shown.lower(), shown.capitalize(), shown.upper()]
    return list(dict.fromkeys(found))
