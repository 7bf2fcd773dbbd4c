"""A scaffold that permits one session per task."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.task import TrainerTask


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
