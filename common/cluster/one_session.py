"""The session of a task of a cluster, of which there is only one."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.task import TrainerTask


class OneSession(tf.train.Scaffold):
    """Refuses to make another session. A MonitoredSession replaces one that lost another task, which would not know of it.

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
