"""Read-only hyper-parameters: merged from layers, parsed from text, and saved."""

from collections.abc import Collection, Iterable, Iterator, Mapping
import types
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import read_json, write_json
from estimator_trainer.hparams import merge
from estimator_trainer.hparams.defaults import DEFAULTS, RENAMED
from estimator_trainer.hparams.merge import add_text, apply, expanded, of_modules
from estimator_trainer.hparams.sets import available_sets, missing_set, set_path
from estimator_trainer.hparams.text import nearest, parse

HISTORY = 'override_history'  # In an hparams.json; see hparams/overrides.py.


class UnknownHParam(UsageError, AttributeError, KeyError):
    """A model or dataset reads an undefined hyper-parameter, such as one defined only by another dataset."""


class HParams(Mapping):
    """Read-only hyper-parameters, by attribute or key: `params.batch_size`, `params['batch_size']`. Lists are tuples.

    Two attributes are not hyper-parameters. `metadata` is the result of the dataset module's function of this name: facts about
    the data, such as class names. `batch_start` is (step, examples) at the last change of batch_size.
    """

    __slots__ = ('_values', '_metadata', '_batch_start')

    def __init__(
        self, values: Mapping[str, Any], metadata: Mapping[str, Any] | None = None, batch_start: tuple[int, int] = (0, 0)
    ):
        given = values._values if isinstance(values, HParams) else values  # A copy is no reading.
        frozen = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
        object.__setattr__(self, '_values', frozen)
        object.__setattr__(self, '_metadata', types.MappingProxyType(dict(metadata or {})))
        object.__setattr__(self, '_batch_start', batch_start)

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self._metadata

    @property
    def batch_start(self) -> tuple[int, int]:
        return self._batch_start

    def with_batch_start(self, batch_start: tuple[int, int]) -> 'HParams':
        """Returns the same hyper-parameters with another `batch_start`."""
        return HParams(self, self.metadata, batch_start)

    def examples_at(self, step: Any) -> Any:
        """Returns the number of training examples seen up to a global step, a number or an int64 tensor."""
        first, examples = self._batch_start
        return examples + (step - first) * self.batch_size

    def __getitem__(self, key: str) -> Any:
        try:
            return self._values[key]
        except KeyError:
            raise UnknownHParam(
                f'--model={self._values.get("model")} and --dataset={self._values.get("dataset")} define no '
                f'hyper-parameter {key}{nearest(str(key), self._values)}'
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name, value):
        raise AttributeError(f'hyper-parameters are read-only: {name}')

    def __deepcopy__(self, memo):  # The Estimator copies its params.
        return self

    def __repr__(self):
        return f'HParams({self._values})'


class ReadHParams(HParams):
    """Hyper-parameters that add the name of each one that is read to a set."""

    __slots__ = ('_names_read',)

    def __init__(self, params: HParams, names_read: set[str]):
        super().__init__(params, params.metadata, params.batch_start)
        object.__setattr__(self, '_names_read', names_read)

    def __getitem__(self, key: str) -> Any:
        self._names_read.add(key)
        return super().__getitem__(key)


def add_metadata(params: HParams, metadata: Mapping[str, Any]) -> HParams:
    """Returns hyper-parameters with metadata, whose items set hyper-parameters of the same name.

    Raises:
      UsageError: such a hyper-parameter has another value already, other than 0 or an empty one.
    """
    found = {key: value for key, value in metadata.items() if key in params}
    for key, value in found.items():
        if params[key] and params[key] != HParams({key: value})[key]:
            other = ', or choose a --model for it' if key == 'task' else ''  # A model may have another default.
            raise UsageError(f'--dataset={params.dataset}: the data has {key}={value}, not {params[key]}: omit {key}{other}')
    return HParams(apply(params, f'--dataset={params.dataset}: metadata()', found), metadata, params.batch_start)


def add_overrides(params: HParams, text: str) -> tuple[HParams, list[str]]:
    """Returns hyper-parameters overridden by the text of --override_hparams, and the names in it.

    Raises:
      UsageError: an unknown name, a wrong type or a value out of range.
    """
    values, names = merge.add_overrides(params, text)
    return HParams(values), names


def renamed(values: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Returns the hyper-parameters of a file with old names replaced by the current ones, unless a module defines the old ones.

    If both are present and one has the default value, the other counts; otherwise both are kept.

    Args:
      values: of the file.
      known: the defined names.
    """
    old_names = {old: new for old, new in RENAMED.items() if old not in known}
    found = {key: value for key, value in values.items() if key not in old_names and key != HISTORY}
    for old, new in old_names.items():
        if old in values and found.get(new, DEFAULTS[new]) == DEFAULTS[new]:
            found[new] = values[old]
        elif old in values and values[old] != DEFAULTS[new]:
            found[old] = values[old]
    return expanded(found)


def find_set(model_name: str, dataset_name: str, name: str) -> str:
    """Returns the name of a set, for '' that of MODEL_DATASET if its file exists."""
    default_set = f'{model_name}_{dataset_name}'
    return name or (default_set if default_set in available_sets() else '')


def load_set(name: str, known: Collection[str]) -> dict[str, Any]:
    """Returns the hyper-parameters of a set, with their current names.

    Args:
      known: the defined names.

    Raises:
      UsageError: there is no such set, or it is not JSON.
    """
    path = set_path(name)
    if not tf.io.gfile.exists(path):
        raise missing_set(name)
    try:
        return renamed(read_json(path), known)
    except ValueError as error:
        raise UsageError(f'--hparams_set: {error}') from None


def make_hparams(
    model_name: str,
    model_params: Mapping[str, Any],
    dataset_name: str,
    dataset_params: Mapping[str, Any],
    set_name: str = '',
    text: str = '',
    given: Mapping[str, Any] = types.MappingProxyType({}),
    saved: Mapping[str, Any] | None = None,
    **flags: Any,
) -> HParams:
    """Merges the layers: defaults, the model's, the dataset's, the set, `--hparams`, other flags; later ones take precedence.

    Args:
      model_name: names its layer in errors, selects the default set, and is part of the result.
      model_params: the hyper-parameters added or overridden by the model, with defaults.
      dataset_name: like model_name.
      dataset_params: like model_params.
      set_name: a file of hparams/ or a path to a JSON file; '' is MODEL_DATASET if that file exists.
      text: such as 'learning_rate=0.01,filters=[16,32]'.
      given: hyper-parameters of the same layer, with values of their types.
      saved: the content of a run's hparams.json, which takes the place of the set MODEL_DATASET; names that no module has any
        longer are left out.
      **flags: hyper-parameters with their own flags; None if not given.

    Raises:
      UsageError: an unknown name, a wrong type or a value out of range; the message names it and its layer.
    """
    values = of_modules(model_name, model_params, dataset_name, dataset_params)
    if saved is not None:
        own = {key: value for key, value in renamed(saved, values).items() if key in values}
        values = apply(values, 'hparams.json of the run', own)
    if name := set_name if saved is not None else find_set(model_name, dataset_name, set_name):
        changes = load_set(name, values)
        _check_same_plugins(name, values, changes)
        values = apply(values, f'--hparams_set={name}', changes)
    values = add_text(values, text, given)
    return HParams(apply(values, 'flags', {key: value for key, value in flags.items() if value is not None}))


def _check_same_plugins(name, values, changes):
    """Raises UsageError if a run's hparams.json is used as a set for another model or dataset."""
    for key in ('model', 'dataset'):
        if changes.get(key, values[key]) != values[key]:
            raise UsageError(f'--hparams_set={name} is for --{key}={changes[key]}, not {values[key]}')


def origins(params: HParams, set_name: str, text: str, given: Iterable[str], overrides: str) -> dict[str, str]:
    """Returns {name: '--hparams_set=SET', '--hparams' or '--override_hparams'} of the hyper-parameters that a user gave.

    The hparams.json of a run, or of a sweep, gives none: it has all values.

    Args:
      params: all of them.
      set_name: of a set that is merged, also by default; '' for none.
      text: of --hparams.
      given: names beside those in `text`.
      overrides: of --override_hparams.
    """
    of_set = load_set(set_name, params) if set_name else {}
    return {
        **({} if 'model' in of_set else dict.fromkeys(of_set, f'--hparams_set={set_name}')),
        **dict.fromkeys([*parse(text), *given], '--hparams'),
        **dict.fromkeys(parse(overrides, '--override_hparams'), '--override_hparams'),
    }


def save(params: Mapping[str, Any], path: str) -> None:
    """Writes hyper-parameters as JSON for `--hparams_set`."""
    write_json(path, dict(params))
