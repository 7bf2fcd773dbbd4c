"""Python API of hyper-parameter search, equivalent to sweep.py.

from estimator_trainer import sweep

found = sweep({'learning_rate': [0.001, 0.01]}, model='alexnet', dataset='mnist', num_epochs=1, output_dir='output/x')
found.best['hparams'], found.best['value']
found.frame()
"""

from collections.abc import Mapping, Sequence
import contextlib
import json
import os
import types
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

from estimator_trainer.common.commands import flags
from estimator_trainer.common.commands.program import Settings, check_importable, in_files, to_python
from estimator_trainer.common.commands.sweep import SweepOptions, check_trial_flags, load_request, trials_server
from estimator_trainer.common.errors import RunError, UsageError, describe, show
from estimator_trainer.common.files import dumps


def sweep(
    space: Mapping[str, Any] | str | os.PathLike,
    model: Any,
    dataset: Any,
    output_dir: str | None = None,
    *,
    sampler: str = 'tpe',
    trials: int | None = None,
    seeds: int = 1,
    jobs: int = 1,
    hparams: Mapping[str, Any] | str = types.MappingProxyType({}),
    target: str | Sequence[str] = '',
    **options: Any,
) -> 'Sweep':
    """Searches hyper-parameters, or resumes the search in the output_dir; each trial is a run in a process of its own.

    Ctrl-C stops the runs, each after saving a checkpoint, and raises KeyboardInterrupt; the same call resumes them.

    Args:
      space: for each hyper-parameter a list of choices, or a range such as {'low': 1e-4, 'high': 0.1, 'log': True}; or the path
        of a JSON file with them.
      model: the name of a model, or a module, which the processes import.
      dataset: likewise; or a DataFrame or a table of Arrow, as for `train`.
      output_dir: by default output/DATASET/MODEL_sweep; must be local.
      sampler, trials, seeds, jobs: the flags of sweep.py.
      hparams: of all trials, {name: value}, or text as for --hparams.
      target: the column of a DataFrame to predict, if it is not named target or label; or a list of several.
      **options: the flags of trainer.py, such as train_steps=1000 or best_metric='accuracy:max', the objective.

    Raises:
      UsageError: an argument is wrong, or the output_dir belongs to another search.
      RunError: Optuna is not installed, another search is running there, or no trial completed.
    """
    dataset, data_dir, hparams = in_files(dataset, hparams, options, target)
    check_importable(model, dataset, 'trial')
    settings = Settings(output_dir, model, dataset, data_dir, flags.SWEEP_DIR)
    server = trials_server()
    with server or contextlib.nullcontext(), settings.asking({'hparams': hparams}, options) as (FLAGS, objects, stop):
        flags.define(FLAGS, SweepOptions)
        for name, value in (('sampler', sampler), ('trials', trials), ('seeds', seeds), ('jobs', jobs)):
            flags.set_value(FLAGS, name, to_python(value))
        check_trial_flags(FLAGS)
        request = load_request()
        if isinstance(space, (str, os.PathLike)):
            values, origin = request.read_space(os.fspath(space)), f'space={space}'
        else:
            values, origin = _values(space), 'space'
        result, table = request.run(FLAGS, stop, server, values, origin, objects.hparams)
    return Sweep(settings.output_dir, result, table)


def _values(space):
    """Returns a space as its JSON file would have it."""
    if not isinstance(space, Mapping):
        raise UsageError(f'space must be a dict of names and values, or the path of a JSON file, not {describe(space)}')
    return json.loads(dumps({**space}, default=lambda value: _known(to_python(value))))


def _known(value):
    if not isinstance(value, (bool, int, float, str, list)):
        raise UsageError(f'space: {show(value)} is no value of a hyper-parameter')
    return value


class Sweep:
    """A finished search.

    Attributes:
      output_dir: its directory, to be passed to TensorBoard.
      trials: a dict for each trial: number, state ('complete', 'pruned' or 'failed'), value, hparams, seconds, output_dir and
        error; with several seeds also std and values. The same as trials.json.
      best: that of the best complete trial; None if other tasks of a job array still run the first ones.
        `load(best['output_dir'])` opens its run, if there is one seed.
    """

    def __init__(self, output_dir: str, result: Mapping[str, Any], table: list[dict[str, Any]]):
        self.output_dir, self.trials = output_dir, table
        self.best = next((row for row in table if row['output_dir'] == result.get('best')), None)

    def __repr__(self):
        return f'Sweep({self.output_dir!r})'

    def frame(self) -> Any:
        """Returns the trials as a DataFrame of pandas, with the columns of trials.csv.

        Raises:
          RunError: pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise RunError(f'{error.name} is not installed: pip install pandas, or read .trials, a list of dicts') from None
        from estimator_trainer.common.sweep.table import flat

        return pandas.DataFrame([flat(row) for row in self.trials])
