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

from collections.abc import Callable, Mapping, Sequence
import contextlib
import functools
import threading
import types
import typing
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np

from estimator_trainer.common.commands import compare as comparison
from estimator_trainer.common.commands import find_batch_size as batch_size
from estimator_trainer.common.commands import replay, request, saved_run
from estimator_trainer.common.commands import verify as verification
from estimator_trainer.common.commands.program import (
    Settings,
    check_importable,
    check_pattern,
    in_files,
    read_predictions,
    to_path,
)
from estimator_trainer.common.commands.report import naming_arguments
from estimator_trainer.common.errors import RunError, UsageError, describe
from estimator_trainer.common.inference.predictor import Predictor
from estimator_trainer.common.inference.suspects import read as read_suspects
from estimator_trainer.common.report import page
from estimator_trainer.common.report.compared import as_dicts
from estimator_trainer.common.report.page import Shown, ShownPath
from estimator_trainer.common.runs import chosen_checkpoint, saved_flags
from estimator_trainer.common.runs.decision import predictor_of
from estimator_trainer.common.runs.report import mistakes_page, overview
from estimator_trainer.common.storage import checkpoints
from estimator_trainer.common.storage.history import History, read_history
from estimator_trainer.common.storage.metrics import read_evaluations

__all__ = ['Predictor', 'Run', 'RunError', 'UsageError', 'compare', 'find_batch_size', 'find_learning_rate', 'load', 'train']


def train(
    model: Any,
    dataset: Any,
    output_dir: str | None = None,
    *,
    hparams: Mapping[str, Any] | str = types.MappingProxyType({}),
    on_metrics: Callable[[dict[str, Any]], None] | None = None,
    target: str | Sequence[str] = '',
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
      target: the column of a DataFrame to predict, if it is not named target or label; or a list of several.
      **options: the flags of trainer.py, such as train_steps=1000 or data_dir='data'; schedule='train' does not evaluate.

    Raises:
      UsageError: an argument, a module or a hyper-parameter is wrong, or the output_dir has a run with others.
      RunError: files are missing or corrupt, memory or disk space is insufficient, or training fails.
    """
    _check_training(options, on_metrics)
    dataset, data_dir, hparams = in_files(dataset, hparams, options, target)
    run = Run(output_dir, model, dataset, data_dir)
    run._execute({'hparams': hparams}, options, on_metrics)
    return run


def find_learning_rate(
    model: Any,
    dataset: Any,
    output_dir: str | None = None,
    *,
    hparams: Mapping[str, Any] | str = types.MappingProxyType({}),
    target: str | Sequence[str] = '',
    **options: Any,
) -> dict[str, Any]:
    """Trains new weights with a rising learning rate, as --schedule=find_learning_rate does; a run in output_dir stays.

    Args:
      model, dataset, output_dir, hparams, target, **options: as for `train`; train_steps is the number of steps, else 200.

    Returns:
      learning_rate, a tenth of least_loss_at, the rate at which the smoothed loss was the least; steps; the paths of the curve:
      table, and chart if the package jinja2 is installed.

    Raises:
      UsageError, RunError: the model has its own training step, the loss does not fall, or as for `train`.
    """
    dataset, data_dir, hparams = in_files(dataset, hparams, options, target)
    return Run(output_dir, model, dataset, data_dir)._execute({'schedule': 'find_learning_rate', 'hparams': hparams}, options)


def find_batch_size(
    model: Any,
    dataset: Any,
    output_dir: str | None = None,
    *,
    hparams: Mapping[str, Any] | str = types.MappingProxyType({}),
    target: str | Sequence[str] = '',
    **options: Any,
) -> dict[str, Any]:
    """Trains a few steps with batches of several sizes, each in a process of its own, as --schedule=find_batch_size does.

    Args:
      model: the name of a model, or a module, which the processes import.
      dataset: likewise; or a DataFrame or a table of Arrow, as for `train`.
      output_dir, hparams, target, **options: as for `train`.

    Returns:
      batch_size, the fastest; largest, the largest predicted to fit into memory; and sizes, a dict for each: batch_size,
      examples/sec and memory, the peak in bytes, or error.

    Raises:
      UsageError, RunError: not even the smallest batch fits, or as for `train`.
    """
    dataset, data_dir, hparams = in_files(dataset, hparams, options, target)
    check_importable(model, dataset, 'size')
    settings = Settings(output_dir, model, dataset, data_dir)
    with settings.asking({'schedule': 'find_batch_size', 'hparams': hparams}, options) as (FLAGS, objects, stop):
        return batch_size.run(FLAGS, stop, objects)


def compare(runs: str, best_metric: str | None = None) -> list[dict[str, Any]]:
    """Returns a dict for each run, the best first, as --schedule=compare prints them.

    Its items: run, its name below the directory of all; output_dir; state; step, the last one; metrics, {name: number}, those
    that all runs have, of the first split in eval_splits; metrics_step, the step that they are of: that of the best evaluation;
    settings, {name: value}, hyper-parameters and flags in which the runs differ. What is unknown is None or missing.

    Args:
      runs: a pattern of output_dirs, such as 'output/mnist/*', or the output_dir of a sweep.
      best_metric: what is compared, such as 'accuracy:max'; by default as in the runs, if that is the same in all.

    Raises:
      UsageError: there is no such run, or best_metric is malformed.
    """
    with naming_arguments():
        return as_dicts(comparison.compare(to_path('runs', runs), best_metric)[1])


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
    output_dir = to_path('output_dir', output_dir)
    with naming_arguments():
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
        self._settings = Settings(output_dir, model, dataset, data_dir)
        self.output_dir = self._settings.output_dir
        self._predictor: Predictor | None = None
        self._lock = threading.Lock()

    def __repr__(self):
        return f'Run({self.output_dir!r})'

    def _repr_html_(self):
        """Returns what a notebook shows: the state, the latest metrics and the curves; None for the text of `repr`."""
        if not page.is_installed():
            return None
        with contextlib.suppress(UsageError, RunError):  # It may have been deleted since.
            return self._shown(most=2)._repr_html_()
        return None

    def plot(self) -> Shown:
        """Returns the curves of all metrics, of the learning rate and of the speed, which a notebook shows.

        Raises:
          UsageError, RunError: the package jinja2 is missing, or there is no run any more.
        """
        page.check_installed('run.plot()')
        with naming_arguments():
            return self._shown(tiles=[])

    def mistakes(self, count: int = 24, split: str | None = None, checkpoint: str | None = None) -> Shown:
        """Returns the examples of a split with the largest losses, which a notebook shows, with labels and predictions.

        Args:
          count: how many, at most.
          split: by default the one that the run has evaluated.
          checkpoint: as for `evaluate`.

        Raises:
          UsageError, RunError: jinja2 is missing, or as for `evaluate`.
        """
        page.check_installed('run.mistakes()')
        if count < 1:
            raise UsageError(f'count={count} must be at least 1')
        with self._opened({'schedule': 'report', 'predict_split': split, 'checkpoint': checkpoint}) as experiment:
            return Shown(mistakes_page(experiment, count), f'{self!r}: the worst mistakes')

    def _shown(self, most=None, **changed):
        checkpoints.require_checkpoint(self.output_dir)
        found = saved_run.settings(self.output_dir)
        parts = overview(self.output_dir, found.get('model', ''), found.get('dataset', ''))
        parts['curves'] = parts['curves'][:most]
        return Shown(page.render(parts | changed, 'notebook.html.jinja'), f'{self!r}: {parts["state"][0]}, {parts["steps"]}')

    @property
    def metrics(self) -> dict[str, Any]:
        """The latest evaluation: {'global_step': int, split: {metric: value}}; {} if there is none.

        If the run had best_metric or early_stopping_patience, 'best' is the same of the best checkpoint.
        """
        evaluations = read_evaluations(self.output_dir)
        latest = evaluations[-1] if evaluations else {}
        return chosen_checkpoint.with_best(latest, self.output_dir, saved_flags.load(self.output_dir))

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
        _check_training(options, on_metrics)
        if options.get('overwrite'):
            raise UsageError(
                'overwrite is not an option here: train(..., overwrite=True) starts over, with other settings, too'
            )
        with naming_arguments():
            checkpoints.require_checkpoint(self.output_dir)
        # By its directory alone, as a command without model and dataset, so that its own schedule counts, too.
        fixed = {'model': None, 'dataset': None, 'train_steps': steps, 'num_epochs': num_epochs}
        self._execute(fixed, options, on_metrics)
        return self

    def evaluate(self, split: str = 'eval', checkpoint: str | None = None, **options: Any) -> dict[str, Any]:
        """Evaluates a split, and returns {metric: value}, with 'global_step'.

        Args:
          split: of the dataset.
          checkpoint: latest, best, or the path of a checkpoint; by default best, if the run had best_metric or
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
        check_pattern(pattern)
        result = self._execute({'schedule': 'evaluate', 'input': pattern, 'checkpoint': checkpoint}, options)
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
          RunError: a run with other hyper-parameters or data has begun in the output_dir.
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
            return checkpoints.use_checkpoint(self.output_dir, which, functools.partial(predictor_of, experiment, which))[0]

    def predict_split(self, split: str = 'eval', checkpoint: str | None = None, **options: Any) -> list[dict[str, Any]]:
        """Predicts all examples of a split, in its order.

        Args:
          split: of the dataset.
          checkpoint: as for `evaluate`.
          **options: flags of trainer.py, such as visualize='predictions.png'; predictions='FILE.jsonl' keeps what is returned.

        Returns:
          A dict per example: its split, its place there, its id and label, if known, and its predictions; 'label_name' and
          'class_name', if the classes have names. A predicted mask is 'mask', uint8 [height, width], or, with predictions=FILE,
          the path of its file.

        Raises:
          UsageError, RunError: as for `evaluate`.
        """
        return read_predictions(self._execute, {'predict_split': split, 'checkpoint': checkpoint}, options)

    def predict_files(self, pattern: str, checkpoint: str | None = None, **options: Any) -> list[dict[str, Any]]:
        """Predicts files of the dataset's kind, such as '*.png'; see `predict_split`. A bad example has an 'error'."""
        check_pattern(pattern)
        return read_predictions(self._execute, {'input': pattern, 'checkpoint': checkpoint}, options)

    @typing.overload
    def export(self, checkpoint: str | None = ..., format: str = ..., quantize: str | None = ..., **options: Any) -> str: ...

    @typing.overload
    def export(
        self, checkpoint: str | None = ..., *, format: list[str], quantize: str | None = ..., **options: Any
    ) -> dict[str, str]: ...

    def export(
        self,
        checkpoint: str | None = None,
        format: str | list[str] = 'saved_model',
        quantize: str | None = None,
        **options: Any,
    ) -> str | dict[str, str]:
        """Exports the model below output_dir/export, after comparing it with the checkpoint.

        Args:
          checkpoint, **options: as for `evaluate`.
          format: 'saved_model', 'onnx' or 'tflite', or a list of them; see docs/export.md.
          quantize: 'int8' or 'float16', of the ONNX and TFLite files.

        Returns:
          The directory of a SavedModel, or the path of a file; {format: path} if `format` is a list.

        Raises:
          UsageError, RunError: the model cannot be exported, loses more than the tolerance, or as for `evaluate`.
        """
        formats = [format] if isinstance(format, str) else list(format)
        fixed = {'schedule': 'export', 'checkpoint': checkpoint, 'format': formats, 'quantize': quantize}
        found = self._execute(fixed, options)
        paths = {name: found['export' if name == 'saved_model' else name] for name in formats}
        return paths[format] if isinstance(format, str) else paths

    def report(self, split: str | None = None, checkpoint: str | None = None) -> str:
        """Writes output_dir/report.html, and returns its path, as which a notebook shows it; requires the package jinja2.

        It has the curves, the metrics, the predictions of a split with the worst mistakes, and what matters for them.

        Args:
          split: by default the one that the run has evaluated.
          checkpoint: as for `evaluate`.

        Raises:
          UsageError, RunError: jinja2 is missing, or as for `evaluate`.
        """
        found = self._execute({'schedule': 'report', 'predict_split': split, 'checkpoint': checkpoint}, {})
        return ShownPath(found['report'])

    def verify(self, intervals: int | str = 3, export: str = '') -> dict[str, Any]:
        """Trains intervals between kept checkpoints again, and compares the weights, as --schedule=verify does.

        Args:
          intervals: how many, chosen at random; or 'all'.
          export: the directory of an export of this run, to verify in place of the checkpoints.

        Returns:
          run, last_line: digests of lines of provenance.jsonl; lines: their number; checkpoints: the steps of those that are as
          recorded; and intervals, a dict for each: steps, text and largest_difference. Of an export, step and text.

        Raises:
          UsageError: there is no record, or too few checkpoints are kept.
          RunError: the record was changed; or a checkpoint, a result of training again, or the export differs.
        """
        fixed = {'schedule': 'verify', 'intervals': str(intervals), 'export': export and to_path('export', export)}
        with self._settings.asking(fixed) as (FLAGS, objects, stop):
            return verification.run(FLAGS, stop, objects)

    def seen(self, step: int | str | None = None, record: str | None = None) -> dict[str, Any]:
        """Counts the training records that steps used, by epoch and class, or lists the steps that used one; trains nothing.

        Args:
          step: up to which to count; or the first step and the last one, such as '1200:1234'; by default all of the run.
          record: a text such as 'rows.csv:17', 'cats/1.jpg' or 'train:17', as for --record.

        Returns:
          global_step, the last one; examples, the number of uses; records, the number of records used at least once, and
          unseen, that of the others; classes, {name: examples}; epochs, a list of {'epoch', 'examples', 'classes'}. With
          record: its name, 'record'; its 'place'; 'steps', the steps that used it; and the 'epochs' of these.

        Raises:
          UsageError, RunError: there is no such step or record, or the order of the records is unknown.
        """
        given = {'step': None if step is None else str(step), 'record': record}
        return self._execute({'schedule': 'seen', **given}, {})

    def replay(self, step: int | str, directory: str | None = None) -> dict[str, Any]:
        """Computes a step again, as --schedule=replay does, and looks at it; the run's own directory is only read.

        Args:
          step: its number, or 'FIRST:LAST' of several.
          directory: where replay.html, replay.jsonl and summaries go; by default beside the run's, with -replay at its end.

        Returns:
          step, that with the largest loss, or the first NaN or infinity; its loss; from_step, that of the checkpoint;
          compared_losses, the number of losses that the run has logged on the way, and first_difference, the first step whose
          loss is another, or None; not_finite, where the first NaN or infinity arises, or None; culprits, the names of the
          examples that made it; the examples with the largest losses; the paths lines, page and pictures.

        Raises:
          UsageError, RunError: the run has not come to the step, has no checkpoint before it, or its data is gone.
        """
        fixed = {'schedule': 'replay', 'step': str(step), 'replay_dir': directory}
        with self._settings.asking(fixed) as (FLAGS, objects, stop):
            return replay.run(FLAGS, stop, objects)

    def suspects(self, top: int | None = None, checkpoint: str | None = None) -> list[dict[str, Any]]:
        """Lists the training examples that are probably labeled wrongly, the most suspicious first; writes suspects.csv, too.

        The run must have been trained with record_margins=True. See docs/suspects.md.

        Args:
          top: how many; by default all whose score is negative.
          checkpoint: as for `evaluate`, of the predictions.

        Returns:
          A dict per example, a row of suspects.csv: where it is, 'label', 'predicted', 'probability_of_label' and 'score'.

        Raises:
          UsageError, RunError: there are no margins, or as for `evaluate`.
        """
        found = self._execute({'schedule': 'suspects', 'top': top, 'checkpoint': checkpoint}, {})
        return read_suspects(found['suspects'])

    def _execute(self, fixed, options, on_metrics=None):
        try:
            with self._settings.asking(fixed, options, on_metrics and _unchanged(on_metrics)) as (FLAGS, objects, stop):
                return request.run(FLAGS, stop, None, objects)
        except _OfProgram as error:
            raise error.error from None

    @contextlib.contextmanager
    def _opened(self, fixed):
        with self._settings.asking(fixed) as (FLAGS, objects, stop), request.opened(FLAGS, objects, stop) as experiment:
            yield experiment


def _check_training(options, on_metrics):
    """Raises UsageError if what is given to `train` is not for training."""
    if options.get('folds'):
        raise UsageError(f'folds={options["folds"]}: train() trains one run: call train_folds()')
    if on_metrics is not None and not callable(on_metrics):
        raise UsageError(f'on_metrics must be a function of a dict, not {describe(on_metrics)}')
    if (schedule := options.get('schedule')) not in (None, 'train_and_evaluate', 'train'):
        raise UsageError(f'schedule={schedule}: train() has train_and_evaluate and train')


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
