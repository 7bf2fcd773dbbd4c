"""The trials of a study: each is a run per seed, in a process of its own; several run in parallel."""

from collections import deque
from collections.abc import Callable, Generator
import dataclasses
import errno
import os
import statistics
import time

import optuna
from optuna.trial import FrozenTrial, TrialState

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.paths import STUDY
from estimator_trainer.common.processes import was_stopped
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage.objective import Objective
from estimator_trainer.common.sweep import sampling
from estimator_trainer.common.sweep.sharing import Sharing
from estimator_trainer.common.sweep.starts import Process, stop_all
from estimator_trainer.common.sweep.study import reporting_storage_errors
from estimator_trainer.common.sweep.trials import TrialRunner

_POLL_SECONDS = 0.02
_NO_SPACE = [os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT)]
ERROR, VALUES, SECONDS = 'error', 'values', 'seconds'  # Attributes of a trial: the last two are of all its runs.
_IS_PRUNED = 'is_pruned'  # Of a trial to be pruned, set before its run ends.


@dataclasses.dataclass
class _Started:
    """A trial that has begun, with the number of evaluations already reported to the study."""

    trial: optuna.Trial
    num_reported: int
    is_pruned: bool = False
    error: str = ''


@dataclasses.dataclass
class _Run:
    """A process of a trial, with one of its seeds."""

    of: _Started
    index: int  # Of the seed.
    process: Process

    def __post_init__(self):
        self._start = time.monotonic()

    def add_seconds(self) -> None:
        """Adds the time of this run, which has ended, to its trial's."""
        before = self.of.trial.user_attrs.get(SECONDS, 0)
        self.of.trial.set_user_attr(SECONDS, before + time.monotonic() - self._start)


def run_trials(
    study: optuna.Study,
    make_sampler: Callable[[int], optuna.samplers.BaseSampler],
    space: sampling.Space,
    objective: Objective,
    num_trials: int,
    jobs: int,
    trial_runner: TrialRunner,
    stop: StopOnSignal,
    sharing: Sharing,
) -> Generator[FrozenTrial, None, None]:
    """Runs trials until the study has num_trials, or all points of its space; first resumes those of an interrupted sweep.

    A trial runs with its first seed, by whose evaluations it may be pruned, and then with the others. On any exit, stops all
    runs, each after saving a checkpoint.

    Args:
      study: from `open_study`.
      make_sampler: makes the sampler of a trial, from its number, so that a stop does not change what the next ones draw.
      objective: determines a run's value, that of its best evaluation; a trial's is the mean of its runs.
      num_trials: total, including those of earlier sweeps.
      jobs: number of runs in parallel.
      trial_runner: any object with the methods `start`, `read`, `has_result` and `explain`, and num_seeds.
      stop: its signal ends the process.
      sharing: other sweeps may run trials of the study at the same time.

    Yields:
      Each finished trial: complete or pruned; with a user attribute `error` if it failed.

    Raises:
      RunError: another process has stopped a run, the disk is full, or accessing the study's file fails.
    """
    running: list[_Run] = []
    finished: list[FrozenTrial] = []
    with reporting_storage_errors(os.path.join(sharing.directory, STUDY)), stop.defer_signals():
        with sharing.turn():
            waiting = deque(_stopped_runs(study, space, trial_runner.num_seeds, sharing))
        new = _new_trials(study, make_sampler, space, num_trials, sharing)
        try:
            while True:
                while len(running) < jobs and (following := waiting.popleft() if waiting else next(new, None)):
                    started, index = following
                    running.append(_Run(started, index, trial_runner.start(started.trial, index)))
                while finished:  # Only now, so that no core waits for what the caller does.
                    yield finished.pop(0)
                if not running:
                    return
                time.sleep(_POLL_SECONDS)
                stop.exit_if_received()
                for run in _poll(running, trial_runner):
                    running.remove(run)
                    waiting.extend(_follow_up(run, objective, trial_runner))
                    if run.of.error:
                        waiting = deque(item for item in waiting if item[0] is not run.of)
                    if not any(of is run.of for of in (*(other.of for other in running), *(of for of, _ in waiting))):
                        finished.append(_finish(study, run.of))
        finally:
            stop_all([run.process for run in running])
            for run in running:
                run.add_seconds()


def _stopped_runs(study, space, num_seeds, sharing):
    """Yields the runs of interrupted trials, to resume or start them, each as (_Started, index of its seed)."""
    for frozen in sharing.interrupted(study):
        if frozen.params.keys() != space.keys():  # Interrupted before all its values were sampled.
            study.tell(frozen.number, state=TrialState.FAIL)
            continue
        if frozen.user_attrs.get(_IS_PRUNED):
            study.tell(frozen.number, state=TrialState.PRUNED)
            continue
        trial = optuna.Trial(study, frozen._trial_id)  # pylint: disable=protected-access; there is no public name.
        sharing.claim(trial)
        left = [index for index in range(num_seeds) if str(index) not in frozen.user_attrs.get(VALUES, {})]
        started = _Started(trial, len(frozen.intermediate_values))
        # The others follow the first; if none is left, the last one ends again at once, and with it the trial.
        for index in [0] if 0 in left else left or [num_seeds - 1]:
            yield started, index


def _new_trials(study, make_sampler, space, num_trials, sharing):
    """Yields the first run of each new trial until the study has num_trials, or its space has no more points."""
    while True:
        with sharing.turn():
            if len(sampling.tried(study)) >= num_trials or not sampling.num_left(study, space):
                return
            study.sampler = make_sampler(len(study.get_trials(deepcopy=False)))
            trial = study.ask(space)
            sharing.claim(trial)
        yield _Started(trial, 0), 0


def _poll(running, trial_runner):
    """Reports new evaluations to the study; returns the runs that have ended."""
    ended = []
    for run in running:
        has_ended = run.process.poll() is not None  # Before reading, so that nothing is written afterwards.
        if run.index == 0:
            _report(run, trial_runner.read(run.of.trial, run.index))
        if has_ended:
            ended.append(run)
    return ended


def _report(run, values):
    """Reports new evaluations of a trial's first run, and stops it if the trial is to be pruned."""
    started = run.of
    new = values[started.num_reported :]
    for value in new:  # Counted in evaluations, as steps are not comparable if the space changes the batch size.
        started.num_reported += 1
        started.trial.report(value, started.num_reported)
    if new and run.process.poll() is None and started.trial.should_prune():
        started.is_pruned = True
        started.trial.set_user_attr(_IS_PRUNED, True)
        run.process.terminate()


def _follow_up(run, objective, trial_runner):
    """Records the value or the failure of a run that has ended; returns the runs of its trial that follow."""
    run.add_seconds()
    trial, code = run.of.trial, run.process.returncode
    best = objective.best(trial_runner.read(trial, run.index))
    if run.of.is_pruned:
        return []
    if was_stopped(code):
        raise RunError(f'trial {trial.number} was interrupted: rerun the command to resume')
    if code:
        run.of.error = trial_runner.explain(trial, run.index, code)
        if any(text in run.of.error for text in _NO_SPACE):  # No fault of its values: it resumes once there is space.
            raise RunError(f'trial {trial.number}: {run.of.error}')
    elif not trial_runner.has_result(trial, run.index):  # As by os._exit(0) of a library.
        run.of.error = 'its process ended before its training, with exit code 0'
    elif best is None:
        run.of.error = f'{objective.metric} was never a number'
    if run.of.error:
        return []
    trial.set_user_attr(VALUES, {**trial.user_attrs.get(VALUES, {}), str(run.index): best})
    return [(run.of, index) for index in range(1, trial_runner.num_seeds)] if run.index == 0 else []


def _finish(study, started):
    trial = started.trial
    if started.error:
        trial.set_user_attr(ERROR, started.error)
    if started.error or started.is_pruned:
        # Not FAIL, which the sampler ignores: the cause is mostly the hyper-parameters, as when the loss diverges.
        return study.tell(trial, state=TrialState.PRUNED)
    return study.tell(trial, statistics.fmean(trial.user_attrs[VALUES].values()))
