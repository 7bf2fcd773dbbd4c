"""Hooks and the scaffold that the tasks of all clusters have."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.task import Task, TrainerTask


class StepDeadline(tf.train.SessionRunHook):
    """Ends the process if a session call waits for another task beyond the timeout. It must be the first hook.

    Args:
      steps: maximum per session call.
    """

    def __init__(self, task: Task, steps: int):
        self._task = task
        self._steps = steps

    def after_create_session(self, session, coord):
        self._task.set_deadline(0)

    def before_run(self, run_context):
        self._task.set_deadline(self._steps)

    def after_run(self, run_context, run_values):
        self._task.complete_step()


class OneSession(tf.train.Scaffold):
    """Refuses to create a second session. After losing a task, a MonitoredSession would create one unknown to the others.

    Args:
      local_init_op: see tf.train.Scaffold.
    """

    def __init__(self, task: TrainerTask, local_init_op: tf.Operation | None = None):
        super().__init__(local_init_op=local_init_op)
        self.task = task
        self._is_used = False

    def finalize(self):
        if self._is_used:
            raise self.task.loss()
        self._is_used = True
        return super().finalize()
