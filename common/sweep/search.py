"""Hyper-parameter search in an output_dir."""

from collections.abc import Callable, Mapping
import contextlib
import dataclasses
import functools
import os
import pathlib
from typing import Any

from optuna.trial import TrialState
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import to_json
from estimator_trainer.common.paths import STUDY, trial_dirs
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import run_dir
from estimator_trainer.common.sweep import forks, sampling, shared_data, table
from estimator_trainer.common.sweep.execution import ERROR, run_trials
from estimator_trainer.common.sweep.sharing import Sharing
from estimator_trainer.common.sweep.starts import starter
from estimator_trainer.common.sweep.study import CURE, open_study
from estimator_trainer.common.sweep.trials import TrialRunner


def search(
    trial_runner: TrialRunner,
    space: sampling.Space,
    sampler: str,
    setup: Mapping[str, Any],
    find_data: Callable[[], Mapping[str, str]],
    num_trials: int,
    jobs: int,
    stop: StopOnSignal,
    server: forks.Server | None,
    array_task: str = '',
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Runs the remaining trials; returns the result, and the table of all trials, see `table.make_table`.

    The result is saved in results.json, the best set in best_hparams.json, and the table in trials.csv and trials.json, which
    have the trials finished so far.

    Args:
      trial_runner: its output_dir is that of the search.
      space: from `make_space`.
      sampler: see `sampling.make_sampler`.
      setup: the setup that trials must share to be comparable, as JSON.
      find_data: returns {split or path: checksum} of the data as it is now.
      num_trials: the total number of trials, including earlier ones.
      jobs: number of runs in parallel.
      server: forks the runs; None if each is to be a new process.
      array_task: the number of this process in a job array, whose tasks share the trials; '' if there is none.

    Raises:
      UsageError: the directory cannot be used, the flags are wrong, or the data has changed since the first trial.
      RunError: the data changes while trials run, another search is running there, a dry run fails, or no trial completed.
    """
    output_dir, objective = trial_runner.output_dir, trial_runner.objective
    make_sampler = functools.partial(sampling.make_sampler, sampler, space, trial_runner.params['seed'])
    run_dir.ensure_writable(output_dir)
    if os.path.exists(run_dir.hparams_path(output_dir)):
        raise UsageError(f'--output_dir={output_dir} is the output_dir of a run: choose another')
    _check_study(output_dir)
    sharing = Sharing(output_dir, array_task)
    with sharing.lock() as descriptors:
        trial_runner = dataclasses.replace(trial_runner, start_trainer=starter([], descriptors, server))
        trial_runner.check(stop)
        data = find_data()
        with sharing.turn():
            study = open_study(output_dir, objective, setup, data)
        was_done = _is_done(study, space, num_trials)
        with contextlib.closing(
            run_trials(study, make_sampler, space, objective, num_trials, jobs, trial_runner, stop, sharing)
        ) as trials:
            for trial in trials:
                _log(trial, trial_runner)
                with sharing.turn():
                    _save(study, trial_runner)
        with sharing.turn():
            _save(study, trial_runner)
        if not was_done and (mixed := shared_data.mixed(data, find_data())):
            with sharing.turn():
                study.set_user_attr('data', {**study.user_attrs['data'], **mixed})
            raise shared_data.error_of_mixed(os.path.join(output_dir, STUDY), mixed, [CURE])
        with sharing.turn():
            result = _result(study, trial_runner)
    _log_end(study, space, was_done)
    return result, table.make_table(study, trial_runner)


def _check_study(output_dir):
    """Raises UsageError if there are trials, but not their study: those of a new one would take their directories."""
    found = sorted(trial for trial in trial_dirs(pathlib.Path(output_dir)) if (trial / 'hparams.json').exists())
    path = os.path.join(output_dir, STUDY)
    if found and not (os.path.exists(path) and os.path.getsize(path)):  # In this order, as tasks of an array begin together.
        raise UsageError(
            f'{found[0]} is of an unknown sweep, as {path} is missing or empty: restore that, or choose another --output_dir'
        )


def _is_done(study, space, num_trials):
    has_all = len(sampling.tried(study)) >= num_trials or not sampling.num_left(study, space)
    return has_all and not study.get_trials(states=[TrialState.RUNNING])


def _best_path(output_dir):
    return os.path.join(output_dir, 'best_hparams.json')


def _best(study):
    """Returns the best complete trial, or None."""
    return study.best_trial if study.get_trials(states=[TrialState.COMPLETE]) else None


def _save(study, trial_runner):
    """Writes the table of the trials so far, and the set of the best one."""
    table.save(table.make_table(study, trial_runner), trial_runner.output_dir)
    if best := _best(study):
        trial_runner.save_hparams(best, _best_path(trial_runner.output_dir))


def _result(study, trial_runner):
    """Returns the result, and saves it in results.json."""
    best, running = _best(study), study.get_trials(deepcopy=False, states=[TrialState.RUNNING])
    if running:
        tf.logging.info('Trials of other tasks that are still running: %d.', len(running))
    if not best and running:
        return {'trials': len(sampling.tried(study))}
    if not best:
        raise RunError(f'no trial completed; the last one: {sampling.tried(study)[-1].user_attrs.get(ERROR, "was pruned")}')
    found, metric = table.of_seeds(best, trial_runner), trial_runner.objective.metric
    result = {'trials': len(sampling.tried(study)), metric: to_json(found['value'])}
    if 'std' in found:
        result[f'{metric}_std'] = to_json(found['std'])
    result |= {'best': trial_runner.directory(best), 'hparams_set': _best_path(trial_runner.output_dir)}
    run_dir.save_results(trial_runner.output_dir, result)
    return result


def _log_end(study, space, was_done):
    if study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
        return
    if not sampling.num_left(study, space):
        tf.logging.info('All %d points of the space are done.', sampling.size(space))
    elif was_done:
        tf.logging.info('Nothing to do: all %d trials are complete; raise --trials to continue.', len(sampling.tried(study)))


def _log(trial, trial_runner):
    name = trial_runner.directory(trial)
    if ERROR in trial.user_attrs:
        tf.logging.warning('%s failed: %s', name, trial.user_attrs[ERROR])
        return
    found, metric, count = table.of_seeds(trial, trial_runner), trial_runner.objective.metric, len(trial.intermediate_values)
    if trial.state == TrialState.PRUNED:
        outcome = f'was pruned: {metric} = {to_json(found["value"])}'
    else:
        spread = f' \u00b1 {to_json(found["std"])} over {trial_runner.num_seeds} seeds' if found.get('std') is not None else ''
        outcome = f'completed: {metric} = {to_json(found["value"])}{spread}'
    tf.logging.info(f'{name} {outcome} after {count} evaluation{"s" if count > 1 else ""}')
