"""Notices between the tasks of a cluster: variables on the parameter servers."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.tf_config import PS

GOING_ON, CHIEF_STOPS = 0, -1


class Notices:
    """Creates the variables in the default graph. Each server initializes its own.

    Args:
      cluster: this process's addresses of all tasks; a server initializes its notice with them.

    Attributes:
      clusters: for each server a string scalar: its addresses of all tasks.
      texts: {'facts' or 'start': string scalar}, written by the chief; '' before.
      stop: int32 scalar: GOING_ON, CHIEF_STOPS, or the number of a signal received by a task.
      ends: for each server an int32 scalar: -1 until training has ended, then 0 or the number of the signal.
    """

    def __init__(self, num_servers: int, cluster: str = ''):
        self.clusters = [_variable(f'addresses_{i}', cluster, i) for i in range(num_servers)]
        self.texts = {name: _variable(name, '') for name in ('facts', 'start')}
        self.stop = _variable('stop', GOING_ON)
        self.ends = [_variable(f'end_{i}', -1, i) for i in range(num_servers)]

    def is_initialized(self) -> tf.Tensor:
        """Returns a boolean scalar."""
        variables = [*self.clusters, *self.ends, self.stop, *self.texts.values()]
        return tf.reduce_all([tf.is_variable_initialized(variable) for variable in variables])

    def of_server(self, index: int) -> list[tf.Variable]:
        """Returns the variables on a parameter server."""
        return [self.clusters[index], self.ends[index], *([self.stop, *self.texts.values()] if index == 0 else [])]


def _variable(name, initial, server=0):
    with tf.device(f'/job:{PS}/task:{server}'):  # No collection: the trainer neither initializes nor saves it.
        return tf.Variable(initial, trainable=False, collections=[], name=f'cluster/{name}', use_resource=True)
