"""A deadline for the other tasks in each step."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.task import Task


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
