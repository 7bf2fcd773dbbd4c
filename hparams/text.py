"""Hyper-parameters as text: parsing, conversion to their types and back, suggestions for mistyped names."""

from collections.abc import Iterable, Mapping
import difflib
import json
from typing import Any

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.json_text import Misread, loads, to_float
from estimator_trainer.hparams.defaults import RENAMED, TABLE
from estimator_trainer.hparams.elsewhere import ELSEWHERE


def find(name: str, known: Iterable[str]) -> str:
    """Returns the known name, or NAME=VALUE, that a mistyped, former or other tools' one stands for; '' if there is none."""
    known, plain = [*known], name.replace('-', '_').lower()
    for meant in (plain, RENAMED.get(plain, ''), ELSEWHERE.get(plain, '')):
        found, _, value = meant.partition('=')
        if found in known or value in known:  # Of all names, or of the choices of one.
            return meant if found in known else value
    return next(iter(difflib.get_close_matches(plain, known, n=1)), '')


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns ', did you mean X?' for the known name that another stands for, or '' if there is none."""
    found = find(name, known)
    return f', did you mean {found}?' if found else ''


def parse(text: str, source: str = '--hparams') -> dict[str, str]:
    """Splits 'a=1,b=[1,2],c={x:1,y:2}' into {'a': '1', 'b': '[1,2]', 'c': '{x:1,y:2}'}.

    Raises:
      UsageError: an item is not of the form name=value, or a name is repeated.
    """
    pairs: dict[str, str] = {}
    mistakes = []
    for item in filter(None, _split(text)):
        name, equals, value = item.partition('=')
        name = name.strip()
        if not equals or not name:
            comma = ': a value with a comma can be given in a JSON file, with --hparams_set=FILE' if pairs else ''
            json = '; JSON can be given in a file, with --hparams_set=FILE' if text.startswith('{') else ''
            mistakes.append(f'{source}: {item!r} is not of the form name=value{comma or json}')
        elif name in pairs:
            mistakes.append(f'{source}: {name} is given twice')
        pairs[name] = value.strip()
    if mistakes:
        raise UsageError(*mistakes)
    return pairs


def _split(text):
    """Splits at the commas outside of brackets, and of the braces of a value that begins with one."""
    items, depth, braces = [''], 0, 0
    for character in text:
        if character == '{' and (braces or items[-1].rstrip().endswith('=')):
            braces += 1
        elif character == '}' and braces:
            braces -= 1
        elif not braces:
            depth += {'[': 1, ']': -1}.get(character, 0)
        if character == ',' and depth <= 0 and not braces:
            items.append('')
        else:
            items[-1] += character
    return items


def _named_numbers(text):
    """Parses {cat:2,dog:1}, or JSON, as a dict of floats; raises ValueError if it is neither."""
    try:
        pairs = loads(text).items()
    except Misread:
        raise
    except ValueError:
        pairs = [item.rpartition(':')[::2] for item in filter(str.strip, text[1:-1].split(','))]
    found = {name.strip(): to_float(number) if isinstance(number, str) else number for name, number in pairs}
    if not text.endswith('}') or '' in found or len(found) < len(pairs):
        raise ValueError
    return found


def _from_text(text, default):
    """Parses text as a value of the type of `default`; raises ValueError or KeyError if it is not one."""
    if isinstance(default, str):
        return text
    if isinstance(default, (list, tuple)):
        if not (text.startswith('[') and text.endswith(']')):
            raise ValueError
        items = [item.strip() for item in _split(text[1:-1])] if text[1:-1].strip() else []
        return [_from_text(item, default[0] if default else '') for item in items]
    if isinstance(default, bool):
        return {'true': True, 'false': False}[text.lower()]
    if '_' in text:  # Python reads 1_0 as 10.
        raise ValueError
    return to_float(text) if isinstance(default, float) else type(default)(text)


def default_of(values: Mapping[str, Any], key: str) -> Any:
    """Returns a value of the type of a hyper-parameter: its default, of a module's own its value."""
    return TABLE[key].default if key in TABLE else values[key]


def to_text(value: Any) -> str:
    """Formats a value for --hparams."""
    return value if isinstance(value, str) else json.dumps(value).replace(', ', ',').replace('"', '')


def typed(values: Mapping[str, Any], pairs: Mapping[str, str]) -> dict[str, Any]:
    """Converts the parsed `pairs` to the types of `values`; invalid ones stay text, for the error message.

    Raises:
      UsageError: a number is so small that it would become 0.
    """
    found: dict[str, Any] = {}
    for key, text in pairs.items():
        try:
            by_name = text.startswith('{') and key in TABLE and TABLE[key].by_name
            found[key] = _named_numbers(text) if by_name else _from_text(text, default_of(values, key))
        except Misread as error:
            raise UsageError(f'{key}: {error}') from None
        except (KeyError, ValueError):
            found[key] = text
    return found
