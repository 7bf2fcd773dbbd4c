"""Hyper-parameter search in an output_dir."""

from collections.abc import Mapping
import contextlib
import dataclasses
import os
from typing import Any

import optuna
from optuna.trial import TrialState
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import to_json
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import run_dir
from estimator_trainer.common.sweep.study import lock, open_study, run_trials
from estimator_trainer.common.sweep.trials import TrialRunner


def search(
    trial_runner: TrialRunner,
    space: dict[str, optuna.distributions.BaseDistribution],
    setup: Mapping[str, Any],
    num_trials: int,
    jobs: int,
    stop: StopOnSignal,
) -> dict[str, Any]:
    """Runs the remaining trials and returns the result; saves it in results.json, and the best set in best_hparams.json.

    Args:
      trial_runner: its output_dir is that of the search.
      space: from `read_space`.
      setup: the setup that trials must share to be comparable, as JSON.
      num_trials: the total number of trials, including earlier ones.
      jobs: number of trials to run in parallel.

    Raises:
      UsageError: the directory cannot be used, or the flags are wrong.
      RunError: another search is running there, a dry run fails, or no trial completed.
    """
    output_dir, objective = trial_runner.output_dir, trial_runner.objective
    run_dir.ensure_writable(output_dir)
    if os.path.exists(run_dir.hparams_path(output_dir)):
        raise UsageError(f'--output_dir={output_dir} is the output_dir of a run: choose another')
    best_path = os.path.join(output_dir, 'best_hparams.json')
    with lock(output_dir) as descriptor:
        trial_runner = dataclasses.replace(trial_runner, lock=descriptor)
        trial_runner.check(stop)
        study = open_study(output_dir, objective, trial_runner.params['seed'], setup)
        if len(study.trials) >= num_trials and not study.get_trials(states=[TrialState.RUNNING]):
            tf.logging.info('Nothing to do: all %d trials are complete; raise --trials to continue.', len(study.trials))
        with contextlib.closing(run_trials(study, space, objective, num_trials, jobs, trial_runner, stop)) as trials:
            for trial in trials:
                _log(trial, trial_runner)
                _keep_best(study, trial_runner, best_path)
        best = _keep_best(study, trial_runner, best_path)
    if not best:
        raise RunError(f'no trial completed; the last one: {study.trials[-1].user_attrs.get("error", "was pruned")}')
    result = {
        'trials': len(study.trials),
        objective.metric: to_json(best.value),
        'best': trial_runner.directory(best),
        'hparams_set': best_path,
    }
    run_dir.save_results(output_dir, result)
    return result


def _keep_best(study, trial_runner, path):
    """Writes the set of the best complete trial so far and returns the trial, or None."""
    if not study.get_trials(states=[TrialState.COMPLETE]):
        return None
    best = study.best_trial
    trial_runner.save_hparams(best, path)
    return best


def _log(trial, trial_runner):
    name = trial_runner.directory(trial)
    if 'error' in trial.user_attrs:
        tf.logging.warning('%s failed: %s', name, trial.user_attrs['error'])
        return
    values, objective = list(trial.intermediate_values.values()), trial_runner.objective
    outcome = 'completed' if trial.state == TrialState.COMPLETE else 'was pruned'
    count = f'{len(values)} evaluation{"s" if len(values) > 1 else ""}'
    tf.logging.info(f'{name} {outcome}: {objective.metric} = {to_json(objective.best(values))} after {count}')
