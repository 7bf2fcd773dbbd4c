"""Hyper-parameters: merged from their layers, parsed from text, read-only, saved and compared."""

from collections.abc import Mapping
import difflib
import json
import os
import re
import sys

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.files import read_json, write_json
from hparams.check import check_params
from hparams.defaults import DEFAULTS, MAXIMUM, MINIMUM, RENAMED

SETS_DIR = os.path.dirname(os.path.abspath(__file__))


class UnknownHParam(UsageError, AttributeError, KeyError):
    """A model or a dataset asks for a hyper-parameter that nobody has defined, such as a model for that of a dataset."""


class HParams(Mapping):
    """Read-only hyper-parameters, by attribute or key: `params.batch_size`, `params['batch_size']`. Lists are tuples."""

    __slots__ = ('_values',)

    def __init__(self, values):
        frozen = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        object.__setattr__(self, '_values', frozen)

    def __getitem__(self, key):
        try:
            return self._values[key]
        except KeyError:
            raise UnknownHParam(
                f'--model={self._values.get("model")} and --dataset={self._values.get("dataset")} define no '
                f'hyper-parameter {key}{nearest(str(key), self._values)}'
            ) from None

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name, value):
        raise AttributeError(f'hyper-parameters are read-only: {name}')

    def __deepcopy__(self, memo):  # The Estimator copies its params.
        return self

    def __repr__(self):
        return f'HParams({self._values})'


def nearest(name, known):
    """Returns ', did you mean X?' for the known name nearest to a mistyped one, or '' where none is near."""
    found = [RENAMED[name]] if name in RENAMED else difflib.get_close_matches(name, list(known), n=1)
    return f', did you mean {found[0]}?' if found else ''


def parse(text):
    """Splits 'a=1,b=[1,2]' into {'a': '1', 'b': '[1,2]'}.

    Raises:
      UsageError: an item is not of the form name=value, or a name comes twice.
    """
    pairs = {}
    for item in filter(None, re.split(r',(?![^\[]*\])', text)):
        name, equals, value = item.partition('=')
        name = name.strip()
        if not equals or not name:
            raise UsageError(f'--hparams: {item!r} is not of the form name=value')
        if name in pairs:
            raise UsageError(f'--hparams: {name} is given twice')
        pairs[name] = value.strip()
    return pairs


def _from_text(text, default):
    """Returns the value that `text` stands for, if it has the type of `default`; else raises ValueError."""
    if isinstance(default, str):
        return text
    if isinstance(default, (list, tuple)):
        if not (text.startswith('[') and text.endswith(']')):
            raise ValueError
        items = [item.strip() for item in text[1:-1].split(',')] if text[1:-1].strip() else []
        return [_from_text(item, default[0] if default else '') for item in items]
    if isinstance(default, bool):
        return {'true': True, 'false': False}[text.lower()]
    if '_' in text:  # Python takes 1_0 for 10.
        raise ValueError
    return type(default)(text)


def _has_type(value, default):
    if isinstance(default, (list, tuple)):
        return isinstance(value, (list, tuple)) and (not default or all(_has_type(item, default[0]) for item in value))
    if isinstance(default, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return type(value) is type(default)


def _type_name(default):
    if isinstance(default, (list, tuple)):
        return f'a list such as {json.dumps(default)}'
    return {bool: 'true or false', int: 'an integer', float: 'a number', str: 'a string'}[type(default)]


def override(values, source, changes):
    """Returns `values` with `changes` laid over them, dicts of hyper-parameters.

    Raises:
      UsageError: a change names none of the values, or has not its type, or is out of range; it begins with `source`.
    """
    merged = dict(values)
    for key, value in changes.items():
        if key not in values:
            raise UsageError(f'{source}: unknown hyper-parameter {key}{nearest(key, values)}')
        if not _has_type(value, values[key]):
            raise UsageError(f'{source}: {key}={value} must be {_type_name(values[key])}')
        if any(type(item) is int and abs(item) > MAXIMUM for item in (value if isinstance(value, (list, tuple)) else [value])):
            raise UsageError(f'{source}: {key}={value} must be at most {MAXIMUM}')
        if key in MINIMUM and value < MINIMUM[key]:
            raise UsageError(f'{source}: {key}={value} must be at least {MINIMUM[key]}')
        merged[key] = float(value) if isinstance(values[key], float) else value
    if 'num_epochs' in changes and 'train_steps' not in changes:
        merged['train_steps'] = 0  # Steps win over epochs, but not an earlier layer's steps over this layer's epochs.
    return merged


def _typed(values, pairs):
    """Returns parsed `pairs` as the types that `values` have; what does not fit stays text, for the error to show."""
    typed = {}
    for key, text in pairs.items():
        try:
            typed[key] = _from_text(text, values[key])
        except (KeyError, ValueError):
            typed[key] = text
    return typed


def set_path(name):
    """Returns the path of a set: a path is taken as it is, a name is a file of this directory."""
    return name if name.endswith('.json') else os.path.join(SETS_DIR, f'{name}.json')


def available_sets():
    """Returns the names of the sets in this directory."""
    return sorted(name[:-5] for name in os.listdir(SETS_DIR) if name.endswith('.json'))


def renamed(values: Mapping) -> dict:
    """Returns hyper-parameters of a file under the names that they have today."""
    return {RENAMED.get(key, key): value for key, value in values.items()}


def _load_set(name):
    path = set_path(name)
    if not tf.io.gfile.exists(path):
        raise UsageError(f'--hparams_set={name}: no file {path}; the sets are: {", ".join(available_sets())}')
    try:
        return renamed(read_json(path))
    except ValueError as error:
        raise UsageError(f'--hparams_set: {error}') from None


def make_hparams(model_name, model_params, dataset_name, dataset_params, set_name='', text='', **flags):
    """Merges the layers: defaults, the model's, the dataset's, the set, `--hparams`, other flags; later wins.

    Args:
      model_name, dataset_name: str; they name the layers in errors, the default set, and are part of the result.
      model_params, dataset_params: dict of the hyper-parameters that the modules add or override, with defaults.
      set_name: str, a file of hparams/ or a path to a JSON file; '' is MODEL_DATASET where that file exists.
      text: str such as 'learning_rate=0.01,filters=[16,32]'.
      **flags: hyper-parameters with flags of their own; None is a flag that was not given.

    Returns:
      HParams.

    Raises:
      UsageError: an unknown name, a wrong type or a value out of range; the message names it and its layer.
    """
    values = {'model': model_name, 'dataset': dataset_name, 'seed': 1, **DEFAULTS}
    for source, layer in ((f'--model={model_name}', model_params), (f'--dataset={dataset_name}', dataset_params)):
        check_params(source, layer)
        known = {key: value for key, value in layer.items() if key in values}
        values = {**override(values, source, known), **{key: layer[key] for key in layer if key not in values}}
    default_set = f'{model_name}_{dataset_name}'
    if set_name or default_set in available_sets():
        name = set_name or default_set
        changes = _load_set(name)
        _check_same_plugins(name, values, changes)
        values = override(values, f'--hparams_set={name}', changes)
    changes = parse(text)
    for key in ('model', 'dataset', 'seed'):
        if key in changes:
            raise UsageError(f'--hparams: {key} has its own flag, --{key}')
    values = override(values, '--hparams', _typed(values, changes))
    return HParams(override(values, 'flags', {key: value for key, value in flags.items() if value is not None}))


def _check_same_plugins(name, values, changes):
    """A run's hparams.json can be used as a set: for the same model and dataset."""
    for key in ('model', 'dataset'):
        if changes.get(key, values[key]) != values[key]:
            raise UsageError(f'--hparams_set={name} is for --{key}={changes[key]}, not {values[key]}')


def save(params, path):
    """Writes hyper-parameters as JSON, which `--hparams_set` takes again."""
    write_json(path, dict(params))


def compare(params, path, free=()):
    """Checks that a run goes on with the hyper-parameters that it was started with.

    How long to train may change.

    Raises:
      UsageError: some differ, which the message names with both values; or the file cannot be read.
    """
    try:
        saved = HParams({**DEFAULTS, **renamed(read_json(path))})  # Older runs know fewer of them.
    except ValueError as error:
        raise UsageError(f'{error}; choose another --output_dir') from None
    found = differences(saved, params, ('train_steps', 'num_epochs', *free))
    if found:
        raise UsageError(f'{path}: {found}: reuse the saved values, with --hparams_set={path}, or choose another --output_dir')


def differences(old, new, free=()):
    """Returns text that tells which values of two dicts are not the same, '' where all are, but the free ones."""
    return '; '.join(
        f'{key} was {_text(old, key)}, now it is {_text(new, key)}'
        for key in {**old, **new}
        if key not in free and old.get(key) != new.get(key)
    )


def _text(values, key):
    return json.dumps(values[key]) if key in values else 'absent'
