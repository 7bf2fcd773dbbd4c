"""Turns the arguments of a Python program into the flags and objects of a request."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import os
import re
import tempfile
import types
from typing import Any

from absl import flags as absl_flags
import numpy as np

from estimator_trainer.common.cluster import tf_config
from estimator_trainer.common.commands import flags, frames, request
from estimator_trainer.common.commands.report import naming_arguments
from estimator_trainer.common.errors import UsageError, check_utf8, describe, show
from estimator_trainer.common.files import dumps
from estimator_trainer.common.inference import predicted_masks
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import Options, names_with
from estimator_trainer.common.paths import absolute, expand
from estimator_trainer.common.plugins import module_check
from estimator_trainer.common.processes import check_not_forked
from estimator_trainer.common.stop import StopInProgram


class Settings:
    """The model, the dataset and the directories of a run.

    Args:
      output_dir: by default `default_dir`.
      model, dataset: names, modules, or objects with the functions of a module.
      data_dir: by default, that of the flag.
      default_dir: a format, to which the names of model and dataset are passed.

    Raises:
      UsageError: one is missing or wrong.
    """

    def __init__(
        self,
        output_dir: str | None,
        model: Any,
        dataset: Any,
        data_dir: str | None = None,
        default_dir: str = flags.DEFAULT_DIR,
    ):
        for kind, module in (('model', model), ('dataset', dataset)):
            if module is None:
                raise UsageError(f'{kind} is None: give the name of a {kind}, a module, or an object with its functions')
        if output_dir is None and not all(isinstance(module, (str, types.ModuleType)) for module in (model, dataset)):
            raise UsageError('output_dir is missing: objects other than modules have no default directory')
        given = {'model': module_check.of_function('model', model), 'dataset': module_check.of_function('dataset', dataset)}
        names = {kind: _name(module) for kind, module in given.items()}
        self._objects = {kind: None if isinstance(module, str) else module for kind, module in given.items()}
        self.output_dir = _absolute('output_dir', default_dir.format(**names) if output_dir is None else output_dir)
        data_dir = None if data_dir is None else _absolute('data_dir', data_dir)
        self._flags = {**names, 'data_dir': data_dir, 'output_dir': self.output_dir}

    @contextlib.contextmanager
    def asking(
        self, fixed: Mapping[str, Any], options: Mapping[str, Any] = types.MappingProxyType({}), on_metrics: Any = None
    ) -> Iterator[tuple[absl_flags.FlagValues, request.Objects, StopInProgram]]:
        """Yields the flags and the objects of a request, and what stops it; errors in the block name arguments, not flags.

        Args:
          fixed: flags that the program cannot choose; None for those that are not given.
          options: those that it has chosen.
          on_metrics: see `common.commands.api.train`.

        Raises:
          UsageError: an option is wrong.
        """
        with naming_arguments(), StopInProgram() as stop:
            yield (*self._to_flags(fixed, options, on_metrics), stop)

    def _to_flags(self, fixed, options, on_metrics):
        check_not_forked()
        tf_config.refuse(os.environ, 'a Python program')
        for name in options:
            if name in names_with(Trait.COMMAND_LINE):
                raise UsageError(f'{name} is an option of trainer.py only')
            if name in fixed or name in self._flags:
                raise UsageError(f'{name} is not an option here: this call sets it')
        values = {**self._flags, **{name: to_python(value) for name, value in {**fixed, **options}.items()}}
        for name in {'hparams', 'override_hparams'} & values.keys():
            value = values[name]
            if not isinstance(value, (str, Mapping)) or not all(isinstance(key, str) for key in value):
                raise UsageError(f'{name} must be a dict of names and values, or text, not {describe(value)}')
        hparams = {}
        if isinstance(values.get('hparams'), Mapping):
            hparams = {name: to_python(value) for name, value in values.pop('hparams').items()}
        if isinstance(values.get('override_hparams'), Mapping):
            values['override_hparams'] = ','.join(f'{name}={_text(v)}' for name, v in values['override_hparams'].items())
        return flags.from_values(values), request.Objects(**self._objects, hparams=hparams, on_metrics=on_metrics)


def read_predictions(
    execute: Callable[..., Mapping[str, Any]], fixed: Mapping[str, Any], options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Returns the predictions of the schedule predict, a dict per example; masks as arrays, unless `options` has predictions.

    Args:
      execute: function from fixed flags and chosen options to the result of a schedule.
    """
    with tempfile.TemporaryDirectory() as directory:  # Which no other prediction uses.
        given = {'predictions': os.path.join(directory, 'predictions.jsonl'), **options}
        path = execute({'schedule': 'predict', **fixed}, given)['predictions']
        return predicted_masks.read_lines(path, 'predictions' in options)


def in_files(
    dataset: Any, hparams: Mapping[str, Any] | str, options: dict[str, Any], target: str | Sequence[str]
) -> tuple[Any, str | None, Mapping[str, Any] | str]:
    """Returns the dataset, the data_dir, removed from the options, and the hyper-parameters.

    For a table in memory, they are those of a file of it, which is written to data_dir.

    Raises:
      UsageError: it cannot be written, or there is a target for another dataset.
    """
    data_dir = options.pop('data_dir', None)
    if frames.is_frame(dataset):
        path = frames.write(dataset, _absolute('data_dir', Options.data_dir if data_dir is None else data_dir))
        return 'table', data_dir, frames.add_file(hparams, path, target)
    if isinstance(dataset, (dict, list, np.ndarray)):
        raise UsageError(f'dataset is {describe(dataset)}: give a DataFrame of pandas or polars, or a table of Arrow')
    if target:
        raise UsageError('target is for a dataset that is a table in memory: give hparams={"target": ...}')
    return dataset, data_dir, hparams


def check_importable(model: Any, dataset: Any, unit: str) -> None:
    """Raises UsageError if a process of each `unit` could not import the model and the dataset."""
    for kind, module in (('model', model), ('dataset', dataset)):
        if not isinstance(module, (str, types.ModuleType)):
            text = f'but each {unit} is a process that imports it: give a name or a module'
            raise UsageError(f'{kind} is {describe(module)}, {text}')


def to_path(name: str, value: Any) -> str:
    """Returns a path as text; raises UsageError for another object, or one that is not UTF-8."""
    try:
        path = os.fsdecode(value)
    except TypeError:
        raise UsageError(f'{name} must be a path, not {describe(value)}') from None
    check_utf8([path])
    if not path:
        raise UsageError(f'{name} is empty')
    return expand(path)


def _absolute(name, value):
    """Returns a path that stays valid if the program changes its directory."""
    return absolute(to_path(name, value))


def check_pattern(value: Any) -> None:
    """Raises UsageError if a value does not name files."""
    if not isinstance(value, (str, os.PathLike)):
        raise UsageError(
            f'pattern is {describe(value)}, but must name files: give a file, a folder or a pattern such as *.png, or write a '
            'table to a file'
        )
    if not os.fspath(value):
        raise UsageError('pattern is empty: give the name of a file, a folder, or a pattern such as *.png')


def to_python(value: Any) -> Any:
    """Converts NumPy numbers and arrays, tuples and paths to values of flags."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return list(value) if isinstance(value, tuple) else value


def _text(value):
    """Returns the value of a hyper-parameter as text for its flag."""
    return value if isinstance(value, str) else dumps(to_python(value), default=show).replace('"', '')


def _name(module):
    """Returns the name of a model or dataset; for a module, the value of its flag."""
    if isinstance(module, str):
        return module
    name = getattr(module, '__name__', type(module).__name__)
    return re.sub(r'^estimator_trainer\.(models|datasets)\.(?=\w+$)', '', name)
