"""The server through which a process exchanges tensors with the other tasks of its cluster."""

from collections.abc import Callable
import os
import sys
import traceback

import tensorflow.compat.v1 as tf

from common.cluster.tf_config import ClusterConfig
from common.errors import RunError, message

_started: list[tf.train.Server] = []  # They do not end before the process does.


def start_server(config: ClusterConfig, session_config: tf.ConfigProto) -> str:
    """Starts the server of this process's task, and returns its address for tf.Session.

    Raises:
      RunError: the port is in use.
    """
    os.environ.setdefault('GRPC_FAIL_FAST', 'true')  # By default a call to a lost task waits for it to come back.
    jobs = {job: config.addresses[job] for job in dict.fromkeys(job for job, _ in config.members)}
    try:
        server = tf.train.Server(tf.train.ClusterSpec(jobs), config.job, config.index, config=session_config)
    except tf.errors.OpError as error:
        port = config.addresses[config.job][config.index].rpartition(':')[2]
        raise RunError(
            f'{config.source}: {config.name} cannot listen on port {port}: end the process that uses it, or choose another '
            f'port ({message(error)})'
        ) from None
    _started.append(server)
    return server.target


def exit_process(code: int) -> None:
    """Ends the process; after a training in a cluster at once, as TensorFlow's threads may still wait for other tasks."""
    if _started:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run_and_exit(main: Callable[[], int]) -> None:
    """Ends the process with the exit code that a function returns, or with which it calls sys.exit."""
    try:
        code = main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except Exception:
        traceback.print_exc()
        code = 1
    exit_process(code)
