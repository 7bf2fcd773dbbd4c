"""The gRPC server of a task, for the exchange of tensors."""

import os

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.tf_config import ClusterConfig
from estimator_trainer.common.errors import RunError, message
from estimator_trainer.common.processes import keep_threads

_started: list[tf.train.Server] = []  # They live as long as the process.


def start_server(config: ClusterConfig, session_config: tf.ConfigProto) -> str:
    """Starts this task's server and returns its address for tf.Session.

    Raises:
      RunError: the port is in use.
    """
    os.environ.setdefault('GRPC_FAIL_FAST', 'true')  # By default a call to a lost task waits for its return.
    jobs = {job: config.addresses[job] for job in dict.fromkeys(job for job, _ in config.members)}
    try:
        server = tf.train.Server(tf.train.ClusterSpec(jobs), config.job, config.index, config=session_config)
    except tf.errors.OpError as error:
        raise port_in_use(config, message(error)) from None
    _started.append(server)
    keep_threads()
    return server.target


def port_in_use(config: ClusterConfig, reason: str) -> RunError:
    """Returns the error for a task that cannot listen."""
    port = config.addresses[config.job][config.index].rpartition(':')[2]
    return RunError(
        f'{config.source}: {config.name} cannot listen on port {port}: end the process that uses it, or choose another '
        f'port ({reason})'
    )
