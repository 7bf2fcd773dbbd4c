"""The sweeps that share a study: one, or the tasks of a job array, which take turns with it."""

from collections.abc import Iterator
import contextlib
import dataclasses
import os

import optuna
from optuna.trial import FrozenTrial, TrialState

from estimator_trainer.common import locks
from estimator_trainer.common.paths import STUDY

_TASK = 'array_task'  # Attribute of a trial: the task that runs it.


@dataclasses.dataclass(frozen=True)
class Sharing:
    """A sweep's part in a study.

    Attributes:
      directory: of the study.
      task: the number of this task of a job array, which has only its own trials; '' for a sweep that has all.
    """

    directory: str
    task: str = ''

    @contextlib.contextmanager
    def lock(self) -> Iterator[list[int]]:
        """Locks the directory against other sweeps, but not against other tasks of an array; yields the file descriptors.

        A child process that inherits these holds the locks as long as it lives: so do the runs of a killed sweep.

        Raises:
          RunError: on entering the context, if another process holds the lock.
        """
        names = ['study.lock', f'study-{self.task}.lock'] if self.task else ['study.lock']
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(self._locked(name, is_shared=name != names[-1])) for name in names]

    def _locked(self, name, is_shared):
        return locks.lock(
            os.path.join(self.directory, name),
            lambda holder: (
                f'--output_dir={self.directory}: another sweep, or one of its runs, is active there: wait for it, or choose '
                'another'
            ),
            is_shared,
        )

    def turn(self) -> contextlib.AbstractContextManager:
        """Within the block, no other task changes the number of trials, or writes the results."""
        return locks.taking_turns(os.path.join(self.directory, STUDY)) if self.task else contextlib.nullcontext()

    def claim(self, trial: optuna.Trial) -> None:
        """Records that this task runs a trial; within a turn."""
        if self.task:
            trial.set_user_attr(_TASK, self.task)

    def interrupted(self, study: optuna.Study) -> list[FrozenTrial]:
        """Returns the trials that nobody runs, for this sweep to resume; before its first one, within a turn."""
        left = study.get_trials(states=[TrialState.RUNNING])
        return [trial for trial in left if not self.task or trial.user_attrs.get(_TASK, self.task) == self.task]
