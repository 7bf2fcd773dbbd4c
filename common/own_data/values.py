"""Spellings of one value: as spreadsheets, pandas and operating systems write it, and which of them mean that it is missing."""

import re
import unicodedata

from estimator_trainer.common import unicode_forms

# Those of pandas.read_csv, and ?, as the UCI repository writes it.
MISSING = frozenset(
    ['', '#N/A', '#N/A N/A', '#NA', '-1.#IND', '-1.#QNAN', '-NaN', '-nan', '1.#IND', '1.#QNAN', '<NA>', 'N/A', 'NA', 'NULL']
    + ['NaN', 'None', 'n/a', 'nan', 'null', '?']
)
WHOLE = re.compile(r'([+-]?[0-9]+)\.0+')
_BOOLEANS = {spelling: text for text in ('true', 'false') for spelling in (text, text.capitalize(), text.upper())}


def display(text: str) -> str:
    """Returns a value as it is shown: in NFC, with composed accents; an integer without a float's decimals, no -0."""
    text = unicode_forms.composed(text)
    whole = WHOLE.fullmatch(text)
    shown = whole[1] if whole else text
    return '0' if shown == '-0' else shown


def key(text: str) -> str:
    """Returns what all spellings of a value have in common: TRUE and True are one."""
    shown = display(text)
    return _BOOLEANS.get(shown, shown)


def of_float(number: float) -> str:
    """Returns a float64 of a typed table as a text: an integer below 2**63 in digits, as ids are, others as Python does."""
    return str(int(number)) if number.is_integer() and abs(number) < 2**63 else str(number)


def spellings(text: str) -> list[str]:
    """Returns the spellings of a value for lookups in a graph, which cannot normalize; the value as it is shown comes first."""
    shown = display(text)
    found = [shown]
    if not shown.isascii():
        found.append(unicodedata.normalize('NFD', shown))
    if re.fullmatch(r'-?[0-9](\.[0-9]+)?e[+]1[0-8]', shown):  # As older versions wrote the long integers of typed tables.
        found.append(of_float(float(shown)))
    if re.fullmatch('[+-]?[0-9]+', shown):
        found += [f'{shown}.0', *(['-0', '-0.0'] if shown == '0' else [])]
    if shown in _BOOLEANS:
        found += [shown.lower(), shown.capitalize(), shown.upper()]
    return list(dict.fromkeys(found))
