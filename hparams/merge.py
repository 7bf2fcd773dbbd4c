"""The layers of hyper-parameters, each checked and overriding the previous ones. Does not import TensorFlow."""

import collections.abc
from collections.abc import Mapping
import functools
import json
import operator
import struct
import sys
import types
from typing import Any

from estimator_trainer.common.errors import UsageError, check_all, describe, show
from estimator_trainer.common.paths import expand
from estimator_trainer.hparams.defaults import DEFAULTS, MAX_FLOAT, MAXIMUM, TABLE, HParam
from estimator_trainer.hparams.text import default_of, nearest, parse, typed

_BOUNDS: Mapping[str, tuple[str, Any]] = {
    'minimum': ('at least', operator.ge),
    'maximum': ('at most', operator.le),
    'above': ('more than', operator.gt),
    'below': ('less than', operator.lt),
}
_FLAGS = ('model', 'dataset', 'seed')  # Which have no other way to be given.
_SEED, _NONE = HParam(1, '', minimum=0), HParam(0, '')


def of_modules(
    model_name: str, model_params: Mapping[str, Any], dataset_name: str, dataset_params: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the defaults, overridden and extended by those of the model, then of the dataset.

    Raises:
      UsageError: a module's get_params() returns an invalid hyper-parameter.
    """
    values = {'model': model_name, 'dataset': dataset_name, 'seed': 1, **DEFAULTS}
    for origin, layer in ((f'--model={model_name}', model_params), (f'--dataset={dataset_name}', dataset_params)):
        check_params(origin, layer)
        known = {key: value for key, value in layer.items() if key in values}
        values = {**apply(values, origin, known), **{key: layer[key] for key in layer if key not in values}}
    return values


def add_text(values: Mapping[str, Any], text: str, given: Mapping[str, Any] = types.MappingProxyType({})) -> dict[str, Any]:
    """Returns the hyper-parameters overridden by the text of --hparams and by others with values of their types.

    Raises:
      UsageError: an unknown name, a wrong type or a value out of range.
    """
    parsed = parse(text)
    others = {key: value for key, value in {**typed(values, parsed), **given}.items() if key not in _FLAGS}
    merged: dict[str, Any] = {}
    check_all([lambda: _check_flags([*parsed, *given]), lambda: merged.update(apply(values, '--hparams', others))])
    return merged


def add_overrides(values: Mapping[str, Any], text: str) -> tuple[dict[str, Any], list[str]]:
    """Returns the hyper-parameters overridden by the text of --override_hparams, and the names in it; errors as `add_text`."""
    changes = typed(values, parse(text, '--override_hparams'))
    return apply(values, '--override_hparams', changes), list(changes)


def _check_flags(names):
    if found := [name for name in _FLAGS if name in names]:
        raise UsageError(*(f'--hparams: {name} has its own flag, --{name}' for name in found))


def apply(values: Mapping[str, Any], origin: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the hyper-parameters `values`, overridden by `changes`.

    Raises:
      UsageError: a change has an unknown name or the wrong type, or is out of range; the message begins with `origin`.
    """
    merged = dict(values)

    def merge(key, value):
        value = as_text(value) if isinstance(values.get(key), str) and not is_path(key) else value
        value = _with_floats(value, default_of(values, key)) if key in values else value
        _check(values, origin, key, value)
        merged[key] = value

    check_all(functools.partial(merge, key, value) for key, value in changes.items())
    merged = expanded(merged)
    if 'num_epochs' in changes:  # Steps take precedence over epochs, but not those of an earlier layer.
        merged |= {name: 0 for name in ('train_steps', 'min_steps') if name not in changes}
    return merged


def _with_floats(value, default):
    """Returns a value with its numbers as floats where the default has these."""
    if isinstance(default, (list, tuple)):
        return [_with_floats(item, default[0]) for item in value] if default and isinstance(value, (list, tuple)) else value
    return float(value) if isinstance(default, float) and _has_type(value, default) else value


def as_text(value):
    """Returns the text of a list of texts, as --hparams=target=[a,b] gives it; other values as they are."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        return value
    is_plain = all(item and item == item.strip() and not set(item) & set(',[]"\\') for item in value)
    return f'[{",".join(value)}]' if is_plain else json.dumps(list(value), ensure_ascii=False)


def _check(values, origin, key, value):
    """Raises UsageError if a change has an unknown name or the wrong type, or is out of range."""
    if key not in values:
        raise UsageError(f'{origin}: unknown hyper-parameter {key}{nearest(key, values)}')
    entry = _SEED if key == 'seed' else TABLE.get(key, _NONE)
    if isinstance(value, str) and value in entry.words:
        return
    default = default_of(values, key)
    is_named = entry.by_name and isinstance(value, collections.abc.Mapping)
    if not _has_type([*value.values()] if is_named else value, default):
        names = ', or {name: number}' if entry.by_name else ''
        names += ''.join(f', or {word}' for word in entry.words)
        raise UsageError(f'{origin}: {key}={_given(value)} must be {_type_name(default)}{names}')
    if entry.choices and value not in entry.choices:
        choices = f'{", ".join(entry.choices)}{nearest(value, entry.choices)}'
        raise UsageError(f'{origin}: {key}={_given(value)} is not one of {choices}')
    items = [*value.values()] if is_named else value if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(item, str) or _is_in_range(item) for item in items):
        limit = MAX_FLOAT if isinstance(items[0], float) else MAXIMUM
        raise UsageError(f'{origin}: {key}={_given(value)} must be between -{limit} and {limit}')
    rounded = [_float32(item) if isinstance(item, float) else item for item in items]
    if any(item and not number for item, number in zip(items, rounded)):
        raise UsageError(f'{origin}: {key}={_given(value)} would be 0 in float32')
    for field, (words, holds) in _BOUNDS.items():
        limit = getattr(entry, field)
        if limit is not None and not all(holds(number, limit) for number in rounded):
            raise UsageError(f'{origin}: {key}={_given(value)} must be {words} {limit}')


def is_path(name: str) -> bool:
    """Whether a hyper-parameter is the path of a user's file or directory, such as table_file, image_dir or schema."""
    return name in ('schema', 'embeddings', 'exclude') or name.endswith(('_file', '_dir', '_path'))


def expanded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns hyper-parameters with paths as `common.paths.expand` returns them."""
    return {name: expand(value) if is_path(name) and isinstance(value, str) else value for name, value in values.items()}


def _given(value):
    if isinstance(value, collections.abc.Mapping):
        return f'{{{",".join(f"{name}:{number}" for name, number in value.items())}}}'
    return value if isinstance(value, str) else show(value)


def _has_type(value, default):
    if isinstance(default, (list, tuple)):
        is_list = isinstance(value, (list, tuple))  # A program may give several types, as missing=[-999, 'unknown'].
        return is_list and (not default or all(any(_has_type(item, one) for one in default) for item in value))
    if isinstance(default, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return type(value) is type(default)


def _type_name(default):
    if isinstance(default, (list, tuple)):
        return f'a list such as {json.dumps(default)}'
    return {bool: 'true or false', int: 'an integer', float: 'a number', str: 'a string'}[type(default)]


def check_params(origin: str, values: Any) -> None:
    """Checks that --hparams and JSON can represent the names and values of get_params().

    Args:
      origin: the flag that names the module.
      values: the result of get_params().

    Raises:
      UsageError: the result is not a dict, or a name or value is invalid.
    """
    origin = f'{origin}: get_params()'
    if not isinstance(values, collections.abc.Mapping):
        raise UsageError(f'{origin} must return a dict, not {describe(values)}')
    for key, value in values.items():
        if not isinstance(key, str) or not key.isidentifier() or key == 'metadata' or hasattr(collections.abc.Mapping, key):
            raise UsageError(
                f'{origin} gives {show(key)}={show(value)}: the name of a hyper-parameter must be a Python '
                'identifier, and neither metadata nor that of a method of dict'
            )
        items = value if isinstance(value, (list, tuple)) else [value]
        if any(type(item) not in (bool, int, float, str) or type(item) is not type(items[0]) for item in items):
            raise UsageError(
                f'{origin} gives {key}={show(value)}, but a hyper-parameter must be a bool, an int, '
                'a float, a str, or a list of one of these'
            )
        if not all(map(_is_in_range, items)):
            raise UsageError(
                f'{origin} gives {key}={show(value)}: integers must be between -{MAXIMUM} and {MAXIMUM}, '
                f'floats between -{MAX_FLOAT} and {MAX_FLOAT}, and strings valid Unicode'
            )


def _float32(value):
    return struct.unpack('f', struct.pack('f', value))[0]


def _is_in_range(item):
    if isinstance(item, str):
        return not any('\ud800' <= character <= '\udfff' for character in item)
    return abs(item) <= (MAX_FLOAT if isinstance(item, float) else MAXIMUM)
