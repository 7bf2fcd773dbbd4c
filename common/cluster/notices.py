"""Notices between the tasks of a cluster with parameter servers: variables on the servers."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.tf_config import PS

GOING_ON, CHIEF_STOPS = 0, -1


class Notices:
    """Makes the variables in the default graph. Each server initializes its own.

    Args:
      cluster: the addresses of all tasks as this process knows them; those of a server are what it initializes.

    Attributes:
      clusters: for each server a string scalar: the addresses as it knows them.
      texts: {'facts' or 'start': string scalar}, which the chief writes; '' before.
      stop: int32 scalar: GOING_ON, CHIEF_STOPS, or the number of a signal that a task has received.
      ends: for each server an int32 scalar: -1 until the training has ended, then 0 or the number of the signal.
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
    with tf.device(f'/job:{PS}/task:{server}'):  # No collection: the training neither initializes nor saves it.
        return tf.Variable(initial, trainable=False, collections=[], name=f'cluster/{name}', use_resource=True)
