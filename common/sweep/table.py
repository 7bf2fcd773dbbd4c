"""The table of a sweep's trials, in trials.csv and trials.json."""

from collections.abc import Mapping
import math
import os
import statistics
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from estimator_trainer.common.files import write_csv, write_json
from estimator_trainer.common.sweep.execution import ERROR, SECONDS, VALUES
from estimator_trainer.common.sweep.trials import TrialRunner


def make_table(study: optuna.Study, trial_runner: TrialRunner) -> list[dict[str, Any]]:
    """Returns a dict for each finished trial, in the order of their numbers.

    Its items: number; state, which is complete, pruned or failed; value, the objective's best one, or its mean over the seeds,
    None if the trial failed; hparams, the hyper-parameters of the space; seconds, of all its runs; output_dir, its directory;
    error, the cause of a failure. With several seeds also std, the sample standard deviation over them, None unless the trial
    is complete; and values, {seed: value}, None for a seed without one.
    """
    finished = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE, TrialState.PRUNED])
    return [_row(trial, trial_runner) for trial in finished]


def save(table: list[dict[str, Any]], output_dir: str) -> None:
    """Writes the table to trials.json and trials.csv."""
    write_json(os.path.join(output_dir, 'trials.json'), table)
    rows = [flat(row) for row in table]
    columns = dict.fromkeys(name for row in rows for name in row)
    write_csv(os.path.join(output_dir, 'trials.csv'), [columns, *([row.get(name) for name in columns] for row in rows)])


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row with a column for each seed, seed_SEED, and for each hyper-parameter, by its name.

    The latter is hparams.NAME for a hyper-parameter with the name of another column.
    """
    columns = {name: row[name] for name in ('number', 'state', 'value', 'std') if name in row}
    columns |= {f'seed_{seed}': value for seed, value in row.get('values', {}).items()}
    rest = {name: row[name] for name in ('seconds', 'output_dir', 'error')}
    names = {*columns, *rest}
    hparams = {f'hparams.{name}' if name in names else name: value for name, value in row['hparams'].items()}
    return {**columns, **hparams, **rest}


def _row(trial, trial_runner):
    error = trial.user_attrs.get(ERROR)
    return {
        'number': trial.number,
        'state': 'failed' if error else trial.state.name.lower(),
        **of_seeds(trial, trial_runner),
        'hparams': trial_runner.chosen(trial),
        'seconds': round(trial.user_attrs.get(SECONDS, trial.duration.total_seconds()), 3),
        'output_dir': trial_runner.directory(trial),
        'error': error,
    }


def of_seeds(trial: FrozenTrial, trial_runner: TrialRunner) -> dict[str, Any]:
    """Returns the value of a finished trial, with several seeds also std and values; see `make_table`."""
    is_complete, value = trial.state == TrialState.COMPLETE, None
    if ERROR not in trial.user_attrs:
        value = trial.value if is_complete else trial_runner.objective.best(trial.intermediate_values.values())
    if trial_runner.num_seeds == 1:
        return {'value': value}
    found = trial.user_attrs.get(VALUES, {})
    values = {str(trial_runner.seed(index)): found.get(str(index)) for index in range(trial_runner.num_seeds)}
    is_spread = is_complete and all(map(math.isfinite, found.values()))
    return {'value': value, 'std': statistics.stdev(found.values()) if is_spread else None, 'values': values}
