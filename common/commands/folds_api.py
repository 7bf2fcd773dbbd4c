"""Python API of folds, equivalent to trainer.py --folds.

from estimator_trainer import train_folds

folds = train_folds('mlp', 'table', hparams={'table_file': 'rows.csv'}, folds=5, jobs=2, output_dir='output/x')
folds.metrics['eval']['accuracy']['mean']
folds.predict(rows)
"""

from collections.abc import Mapping, Sequence
import threading
import types
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np

from estimator_trainer.common.commands import api, trainer
from estimator_trainer.common.commands import flags as command_flags
from estimator_trainer.common.commands import folds as commands
from estimator_trainer.common.commands.program import (
    Settings,
    check_importable,
    check_pattern,
    in_files,
    read_predictions,
    to_path,
)
from estimator_trainer.common.commands.report import naming_arguments
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.inference.ensemble import average
from estimator_trainer.common.inference.suspects import read as read_suspects
from estimator_trainer.common.stop import StopInProgram
from estimator_trainer.common.sweep import fold_table
from estimator_trainer.common.sweep import folds as state
from estimator_trainer.common.targets import with_key


def train_folds(
    model: Any,
    dataset: Any,
    output_dir: str | None = None,
    *,
    folds: int = 5,
    jobs: int = 1,
    hparams: Mapping[str, Any] | str = types.MappingProxyType({}),
    target: str | Sequence[str] = '',
    **options: Any,
) -> 'Folds':
    """Trains a run on each of several folds of the training data, each in a process of its own; or resumes those that are left.

    Ctrl-C stops the runs, each after saving a checkpoint, and raises KeyboardInterrupt; the same call resumes them.

    Args:
      model: the name of a model, or a module, which the processes import.
      dataset: likewise; or a DataFrame or a table of Arrow, as for `train`.
      output_dir: below which the runs are, as fold_1, fold_2 ...; by default output/DATASET/MODEL; must be local.
      folds: the number of parts of the training data.
      jobs: number of runs in parallel.
      hparams: of all runs, {name: value}, or text as for --hparams.
      target: the column of a DataFrame to predict, if it is not named target or label; or a list of several.
      **options: the flags of trainer.py, such as train_steps=1000.

    Raises:
      UsageError: an argument is wrong, the data cannot be divided, or the output_dir has a run or other folds.
      RunError: a fold fails.
    """
    dataset, data_dir, hparams = in_files(dataset, hparams, options, target)
    check_importable(model, dataset, 'fold')
    if not folds:
        raise UsageError('folds=0 divides nothing: give 2 or more, or call train()')
    settings = Settings(output_dir, model, dataset, data_dir)
    with settings.asking({'hparams': hparams, 'folds': folds, 'jobs': jobs}, options) as (FLAGS, objects, stop):
        trainer.check_command(FLAGS)
        commands.run(FLAGS, stop, objects.hparams)
    return Folds(settings.output_dir)


def load_folds(output_dir: str) -> 'Folds':
    """Returns the folds in an output_dir, trained to the end.

    Raises:
      UsageError: there are none.
      RunError: one has not finished.
    """
    return Folds(to_path('output_dir', output_dir))


class Folds:
    """Folds in their output_dir, as returned by `train_folds` and `load_folds`.

    Attributes:
      output_dir: their directory.
      runs: the `Run` of each.
      results: a dict for each: fold, output_dir, global_step, and {metric: value} of each split; of the best checkpoint if the
        training had best_metric or early_stopping_patience.
      metrics: {split: {metric: {'mean': float, 'std': float or None, 'folds': int}}}; std is that of a sample, with n - 1, and
        folds how many have a number.
    """

    def __init__(self, output_dir: str):
        self.output_dir = output_dir
        with naming_arguments():
            found = state.load(output_dir)
            if not found:
                raise UsageError(f'{output_dir}: has no folds')
            self._count = found[state.COUNT]
            commands.check_finished(output_dir, self._count)
            self.results = commands.read_results(output_dir, self._count)
        self.metrics = fold_table.summarize(self.results)
        self._predictors: list[api.Predictor] | None = None
        self._lock = threading.Lock()
        self.runs = [api.load(path) for path in state.directories(output_dir, self._count)]

    def __repr__(self):
        return f'Folds({self.output_dir!r})'

    def predict(self, inputs: Any) -> dict[str, np.ndarray]:
        """Returns the mean predictions of all folds; arguments, result and errors as for `Run.predict`.

        A class is that of the mean probabilities.

        Raises:
          RunError: the folds have learned different classes, or predict what cannot be averaged.
        """
        with self._lock:
            if self._predictors is None:
                self._predictors = [run.predictor() for run in self.runs]
        first, *others = self._predictors
        if any(other.class_names != first.class_names for other in others):
            raise RunError('the folds have different classes, so that their predictions have no average: use one of .runs')
        batch, is_single = first.to_batch(inputs)
        members = [first.predict_batch(batch), *(other.predict_batch(other.to_batch(inputs)[0]) for other in others)]
        named = {with_key('class_name', key) for key in first.class_names}
        averaged = average([{name: value for name, value in found.items() if name not in named} for found in members])
        found = first.with_names(averaged)
        return {name: array[0] for name, array in found.items()} if is_single else found

    def predict_files(self, pattern: str, checkpoint: str | None = None, **options: Any) -> list[dict[str, Any]]:
        """Returns the mean predictions for files of the dataset's kind; the rest is as for `Run.predict_files`."""
        check_pattern(pattern)
        return read_predictions(self._execute, {'input': pattern, 'checkpoint': checkpoint}, options)

    def predict_split(self, split: str = 'eval', checkpoint: str | None = None, **options: Any) -> list[dict[str, Any]]:
        """Returns the predictions of a split: each example of eval by the fold that evaluates it, others by the mean of all.

        Arguments, result and errors as for `Run.predict_split`.
        """
        return read_predictions(self._execute, {'predict_split': split, 'checkpoint': checkpoint}, options)

    def export(self, checkpoint: str | None = None, **options: Any) -> str:
        """Exports a SavedModel with all models, which gives their mean predictions, and returns its directory.

        Arguments and errors as for `Run.export`.
        """
        return self._execute({'schedule': 'export', 'checkpoint': checkpoint}, options)['export']

    def suspects(self, top: int | None = None, checkpoint: str | None = None) -> list[dict[str, Any]]:
        """Lists the training examples that are probably labeled wrongly, by the fold that has not trained on each.

        Arguments, result and errors as for `Run.suspects`; no margins are needed.
        """
        return read_suspects(self._execute({'schedule': 'suspects', 'top': top, 'checkpoint': checkpoint}, {})['suspects'])

    def _execute(self, fixed, options):
        with naming_arguments(), StopInProgram() as stop:
            FLAGS = command_flags.from_values({'output_dir': self.output_dir, **fixed, **options})
            return commands.run_together(FLAGS, self.output_dir, self._count, stop)
