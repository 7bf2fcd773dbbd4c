"""Python API for training, evaluation, prediction and export, equivalent to trainer.py.

    from estimator_trainer.common.commands import api

    run = api.train(model='alexnet', dataset='mnist', hparams={'learning_rate': 0.01}, output_dir='output/x', on_metrics=print)
    run.metrics['eval']['accuracy']
    run.history.training['loss']
    run.evaluate('test')
    run.predict(images)
    api.load('output/x').export()

Mistakes raise UsageError, failures RunError, both with one line of text. A run restores signal handlers, loggers and the random
states of Python and NumPy. Concurrent runs in several threads share these states, so the initial weights of Keras layers depend
on both. In the main thread, Ctrl-C during training saves a checkpoint before it raises KeyboardInterrupt; to resume, call
`train` again with the same arguments, or `run.train()`.
"""

from collections.abc import Callable, Mapping
import contextlib
import functools
import json
import os
import re
import tempfile
import threading
import types
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster import tf_config
from estimator_trainer.common.commands import flags, frames, request, saved_run
from estimator_trainer.common.commands.arguments_text import to_arguments
from estimator_trainer.common.errors import RunError, UsageError, check_utf8, describe, show
from estimator_trainer.common.files import dumps
from estimator_trainer.common.inference.predictor import Predictor
from estimator_trainer.common.inference.raw_predictor import make_predictor
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import Options, names_with
from estimator_trainer.common.paths import absolute, expand
from estimator_trainer.common.plugins import module_check
from estimator_trainer.common.plugins.traceback_filter import check_exit, original
from estimator_trainer.common.processes import check_not_forked
from estimator_trainer.common.runs import chosen_checkpoint, saved_flags
from estimator_trainer.common.runs.diagnosis import find_cause
from estimator_trainer.common.stop import StopInProgram
from estimator_trainer.common.storage import checkpoints
from estimator_trainer.common.storage.history import History, read_history
from estimator_trainer.common.storage.metrics import read_evaluation, read_metrics

__all__ = ['Predictor', 'Run', 'RunError', 'UsageError', 'load', 'train']


def train(
    model: Any,
    dataset: Any,
    output_dir: str | None = None,
    *,
    hparams: Mapping[str, Any] | str = types.MappingProxyType({}),
    on_metrics: Callable[[dict[str, Any]], None] | None = None,
    target: str = '',
    **options: Any,
) -> 'Run':
    """Trains a model, or resumes its run, and evaluates it; skips work already done in the output_dir.

    A run goes on with its own hyper-parameters and options where none are given. To give others is a mistake, unless the run
    starts over, with overwrite=True, or changes them from here on, with override_hparams={...}.

    Args:
      model: the name of a model, a module, or any object with the functions of a model module; see docs/modules.md. Also a
        function of its own: model_fn(features, labels, mode, params, config), or estimator(config, params).
      dataset: likewise, and input_fn(split, params); or a DataFrame of pandas or polars, or a table of Arrow, which is written
        to data_dir, for --dataset=table.
      output_dir: the run's directory; by default output/DATASET/MODEL.
      hparams: hyper-parameters, {name: value}, or text as for --hparams.
      on_metrics: called with {'global_step': int, 'train': {name: float}} every save_summary_steps steps, and with
        {'global_step': int, split: {name: value}} after each evaluation.
      target: the column of a DataFrame to predict, if it is not named target or label.
      **options: the flags of trainer.py, such as train_steps=1000 or data_dir='data'; schedule='train' does not evaluate.

    Raises:
      UsageError: an argument, a module or a hyper-parameter is wrong, or the output_dir has a run with others.
      RunError: files are missing or corrupt, memory or disk space is insufficient, or training fails.
    """
    if on_metrics is not None and not callable(on_metrics):
        raise UsageError(f'on_metrics must be a function of a dict, not {describe(on_metrics)}')
    if options.setdefault('schedule', 'train_and_evaluate') not in ('train_and_evaluate', 'train'):
        raise UsageError(f'schedule={options["schedule"]}: train() has train_and_evaluate and train')
    data_dir = options.pop('data_dir', None)
    if frames.is_frame(dataset):
        path = frames.write(dataset, _absolute('data_dir', Options.data_dir if data_dir is None else data_dir))
        dataset, hparams = 'table', frames.add_file(hparams, path, target)
    elif target:
        raise UsageError('target is for a dataset that is a table in memory: give hparams={"target": ...}')
    run = Run(output_dir, model, dataset, data_dir)
    run._execute({'hparams': hparams}, options, on_metrics)
    return run


def load(output_dir: str, model: Any = None, dataset: Any = None, data_dir: str | None = None) -> 'Run':
    """Returns the run in an output_dir.

    Args:
      output_dir: of a run.
      model: as for `train`; required if it was an object that cannot be imported by name.
      dataset: likewise.
      data_dir: the new location of its data, if it was moved.

    Raises:
      UsageError, RunError: there is no run, or its files are corrupt.
    """
    output_dir = _path('output_dir', output_dir)
    with _reported():
        checkpoints.require_checkpoint(output_dir)
        found = saved_run.settings(output_dir)
    if not all([model or 'model' in found, dataset or 'dataset' in found]):
        raise UsageError(f'{output_dir}: has no hparams.json that names the model and the dataset: give both')
    return Run(output_dir, model or found.get('model'), dataset or found.get('dataset'), data_dir)


class Run:
    """A run in its output_dir, as returned by `train` and `load`.

    Attributes:
      output_dir: its directory, to be passed to TensorBoard.
    """

    def __init__(self, output_dir: str | None, model: Any, dataset: Any, data_dir: str | None = None):
        for kind, module in (('model', model), ('dataset', dataset)):
            if module is None:
                raise UsageError(f'{kind} is None: give the name of a {kind}, a module, or an object with its functions')
        if output_dir is None and not all(isinstance(module, (str, types.ModuleType)) for module in (model, dataset)):
            raise UsageError('output_dir is missing: objects other than modules have no default directory')
        model, dataset = (module_check.of_function(kind, module) for kind, module in (('model', model), ('dataset', dataset)))
        self._objects = {'model': _unless_name(model), 'dataset': _unless_name(dataset)}
        self.output_dir = _absolute(
            'output_dir', f'output/{_name(dataset)}/{_name(model)}' if output_dir is None else output_dir
        )
        self._flags = {
            'model': _name(model),
            'dataset': _name(dataset),
            'data_dir': None if data_dir is None else _absolute('data_dir', data_dir),
        }
        self._flags['output_dir'] = self.output_dir
        self._predictor: Predictor | None = None
        self._lock = threading.Lock()

    def __repr__(self):
        return f'Run({self.output_dir!r})'

    @property
    def metrics(self) -> dict[str, Any]:
        """The latest evaluation: {'global_step': int, split: {metric: value}}; {} if there is none.

        If the training had best_metric or early_stopping_patience, 'best' is the same of the best checkpoint.
        """
        rows = read_metrics(self.output_dir)  # Ordered by step.
        found = read_evaluation(self.output_dir, int(rows[-1]['global_step'])) if rows else {}
        return chosen_checkpoint.with_best(found, self.output_dir, saved_flags.load(self.output_dir))

    @property
    def history(self) -> History:
        """The curves of the run so far, as NumPy arrays: `training` and `evaluations`, see `History`.

            run.history.training['loss'], run.history.evaluations['eval']['loss']

        Raises:
          RunError: metrics.csv is corrupt.
        """
        return read_history(self.output_dir)

    def train(
        self,
        steps: int | None = None,
        *,
        num_epochs: float | None = None,
        on_metrics: Callable[[dict[str, Any]], None] | None = None,
        **options: Any,
    ) -> 'Run':
        """Trains on, with the run's own hyper-parameters and options where none are given, and returns the run.

        Args:
          steps: the step at which training ends, counted from the beginning of the run, as train_steps of `train`; by default,
            that of the run.
          num_epochs: the epochs after which it ends, likewise.
          on_metrics, **options: as for `train`.

        Raises:
          UsageError, RunError: there is no checkpoint, or as for `train`.
        """
        if options.get('overwrite'):
            raise UsageError(
                'overwrite is not an option here: train(..., overwrite=True) starts over, with other settings, too'
            )
        with _reported():
            checkpoints.require_checkpoint(self.output_dir)
        self._execute({'train_steps': steps, 'num_epochs': num_epochs}, options, on_metrics, names=())
        return self

    def evaluate(self, split: str = 'eval', checkpoint: str | None = None, **options: Any) -> dict[str, Any]:
        """Evaluates a split, and returns {metric: value}, with 'global_step'.

        Args:
          split: of the dataset.
          checkpoint: latest, best, or the path of a checkpoint; by default best, if the training had best_metric or
            early_stopping_patience, else latest.
          **options: flags of trainer.py, such as eval_steps=10.

        Raises:
          UsageError, RunError: there is no such split or checkpoint, or it does not match the model.
        """
        result = self._execute({'schedule': 'evaluate', 'eval_splits': [split], 'checkpoint': checkpoint}, options)
        return {'global_step': result['global_step'], **result[split]}

    def evaluate_files(self, pattern: str, checkpoint: str | None = None, **options: Any) -> dict[str, Any]:
        """Evaluates files of the dataset's kind, with labels, and returns {metric: value}, with 'global_step'.

        The run's own metrics do not change.

        Args:
          pattern: the name of a file, a folder, or a pattern such as *.csv.
          checkpoint, **options: as for `evaluate`.

        Raises:
          UsageError, RunError: an example is invalid or has no label, or as for `evaluate`.
        """
        result = self._execute({'schedule': 'evaluate', 'input': _pattern(pattern), 'checkpoint': checkpoint}, options)
        return {'global_step': result['global_step'], **result['input']}

    def predict(self, inputs: Any) -> dict[str, np.ndarray]:
        """Returns predictions for a batch or a single example, as `Predictor.predict` does.

        They are those of the newest checkpoint that `predictor()` chooses.

        Args:
          inputs: for a dataset with raw inputs, as in its files. Of a table or TFRecord files: a DataFrame of pandas or polars,
            a dict of columns or of one row, a list of dicts, or an array [batch, columns] in the order of the columns to learn
            from; None, NaN and '' are missing. Texts: str. Pictures: paths, the contents of files, PIL images, or uint8 arrays
            [height, width, 1 or 3] of any size. For another dataset: its features, {name: array [batch, ...]}.

        Returns:
          {name: array [batch, ...]}, with 'class_name', if the classes have names; without [batch] for a single example.

        Raises:
          ValueError: the inputs do not fit the model.
        """
        with self._lock:
            if self._predictor is None:
                self._predictor = self.predictor()
        self._predictor.reload()
        return self._predictor.predict(inputs)

    def predictor(self, checkpoint: str | None = None) -> Predictor:
        """Returns a Predictor, which any number of threads may use.

        Its inputs are those of `predict`. `reload()` loads the best checkpoint if this one is the best, else the latest.

        Args:
          checkpoint: as for `evaluate`.

        Raises:
          UsageError, RunError: as for `evaluate`.
        """
        with self._opened({'schedule': 'export', 'checkpoint': checkpoint}) as experiment:
            which = chosen_checkpoint.choose(self.output_dir, checkpoint)
            make = functools.partial(make_predictor, experiment.estimator, experiment.source, follows_best=which == 'best')
            return checkpoints.use_checkpoint(self.output_dir, which, make)

    def predict_split(self, split: str = 'eval', checkpoint: str | None = None, **options: Any) -> list[dict[str, Any]]:
        """Predicts all examples of a split, in its order.

        Args:
          split: of the dataset.
          checkpoint: as for `evaluate`.
          **options: flags of trainer.py, such as visualize='predictions.png'; predictions='FILE.jsonl' keeps what is returned.

        Returns:
          A dict per example: its split, its place there, its id and label, if known, and its predictions; 'label_name' and
          'class_name', if the classes have names.

        Raises:
          UsageError, RunError: as for `evaluate`.
        """
        return self._predict_all({'predict_split': split, 'checkpoint': checkpoint}, options)

    def predict_files(self, pattern: str, checkpoint: str | None = None, **options: Any) -> list[dict[str, Any]]:
        """Predicts files of the dataset's kind, such as '*.png'; see `predict_split`. A bad example has an 'error'."""
        return self._predict_all({'input': _pattern(pattern), 'checkpoint': checkpoint}, options)

    def _predict_all(self, fixed, options):
        with tempfile.TemporaryDirectory() as directory:  # Which no other prediction uses.
            given = {'predictions': os.path.join(directory, 'predictions.jsonl'), **options}
            path = self._execute({'schedule': 'predict', **fixed}, given)['predictions']
            with tf.io.gfile.GFile(path) as file:
                return [json.loads(line) for line in file]

    def export(self, checkpoint: str | None = None, **options: Any) -> str:
        """Writes a SavedModel below output_dir/export, and returns its directory.

        Args:
          checkpoint, **options: as for `evaluate`.

        Raises:
          UsageError, RunError: the model cannot be exported, or as for `evaluate`.
        """
        return self._execute({'schedule': 'export', 'checkpoint': checkpoint}, options)['export']

    def _execute(self, fixed, options, on_metrics=None, names=('model', 'dataset')):
        try:
            with _reported(), StopInProgram() as stop:
                FLAGS, objects = self._settings(fixed, options, on_metrics, names)
                return request.run(FLAGS, stop, None, objects)
        except _OfProgram as error:
            raise error.error from None

    @contextlib.contextmanager
    def _opened(self, fixed):
        with _reported(), StopInProgram() as stop:
            FLAGS, objects = self._settings(fixed, {})
            with request.opened(FLAGS, objects, stop) as experiment:
                yield experiment

    def _settings(self, fixed, options, on_metrics=None, names=('model', 'dataset')):
        """Returns the flags, with those of model and dataset in `names`, and the request.Objects."""
        check_not_forked()
        tf_config.refuse(os.environ, 'a Python program')
        for name in options:
            if name in names_with(Trait.COMMAND_LINE):
                raise UsageError(f'{name} is an option of trainer.py only')
            if name in fixed or name in self._flags:
                raise UsageError(f'{name} is not an option here: it is given otherwise')
        own = {name: value for name, value in self._flags.items() if name in (*names, 'data_dir', 'output_dir')}
        values = {**own, **{name: _to_python(value) for name, value in {**fixed, **options}.items()}}
        for name in {'hparams', 'override_hparams'} & values.keys():
            value = values[name]
            if not isinstance(value, (str, Mapping)) or not all(isinstance(key, str) for key in value):
                raise UsageError(f'{name} must be a dict of names and values, or text, not {describe(value)}')
        hparams = {}
        if isinstance(values.get('hparams'), Mapping):
            hparams = {name: _to_python(value) for name, value in values.pop('hparams').items()}
        if isinstance(values.get('override_hparams'), Mapping):
            values['override_hparams'] = ','.join(
                f'{name}={value if isinstance(value, str) else dumps(_to_python(value), default=show)}'
                for name, value in values['override_hparams'].items()
            )
        on_metrics = on_metrics and _unchanged(on_metrics)
        return flags.from_values(values), request.Objects(**self._objects, hparams=hparams, on_metrics=on_metrics)


@contextlib.contextmanager
def _reported():
    """Within the block, replaces an exception with the error that names its cause and arguments, or with the module's own.

    The log names arguments, too.
    """
    logger = tf.get_logger()
    logger.addFilter(_name_arguments)
    try:
        yield
    except SystemExit as error:
        check_exit(error)
        raise
    except Exception as error:
        found = find_cause(error) or original(error)
        if isinstance(found, (UsageError, RunError)):
            found.args = tuple(to_arguments(str(text)) for text in found.args)
        if found is error:
            raise
        raise found from found.__cause__
    finally:
        logger.removeFilter(_name_arguments)


def _name_arguments(record):
    """Puts arguments in place of flags in a record of the log; a filter that keeps all."""
    record.msg, record.args = to_arguments(record.getMessage()), ()
    return True


class _OfProgram(Exception):
    """Wraps an exception of on_metrics. TensorFlow would mistake some, such as StopIteration, for the end of the data."""

    def __init__(self, error: Exception | SystemExit):
        super().__init__(error)
        self.error = error


def _unchanged(function):
    """Wraps a function so that its exceptions reach the program unchanged."""

    def call(metrics):
        try:
            function(metrics)
        except (Exception, SystemExit) as error:
            raise _OfProgram(error) from error

    return call


def _value(text):
    """Returns the value of a cell of metrics.csv."""
    try:
        return json.loads(text)
    except ValueError:  # nan and inf.
        return float(text)


def _pattern(value):
    if not isinstance(value, (str, os.PathLike)):
        raise UsageError(f'pattern is {describe(value)}, but must name files: write a table to one')
    if not os.fspath(value):
        raise UsageError('pattern is empty: give the name of a file, a folder, or a pattern such as *.png')
    return value


def _path(name, value):
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
    return absolute(_path(name, value))


def _unless_name(module):
    return None if isinstance(module, str) else module


def _name(module):
    """Returns the name of a model or dataset; for a module, the value of its flag."""
    if isinstance(module, str):
        return module
    name = getattr(module, '__name__', type(module).__name__)
    return re.sub(r'^estimator_trainer\.(models|datasets)\.(?=\w+$)', '', name)


def _to_python(value):
    """Converts NumPy numbers and arrays, tuples and paths to values of flags."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return list(value) if isinstance(value, tuple) else value
