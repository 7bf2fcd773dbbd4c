"""The servers of a cluster's tasks: they take the whole session_config, and parameter servers end with the training."""

import contextlib
import socket
import sys
import time

from tf_estimator.mending import around
from tf_estimator.traps.log import warn

import tensorflow.compat.v1 as tf
from tensorflow.python.training import server_lib
from tensorflow_estimator.python.estimator import estimator as estimators
from tensorflow_estimator.python.estimator import training

_POLL_SECONDS = 1


@around(training._TrainingExecutor, '_start_std_server')
def _start_server(start, self, config):
    is_whole = config.cluster_spec and config.master and config.task_type and config.task_id is not None
    if not is_whole or config.session_config is None:
        return start(self, config)
    options = tf.ConfigProto()
    options.CopyFrom(config.session_config)
    del options.device_filters[:]  # They are for sessions.
    tf.logging.info('Start Tensorflow server.')
    server = server_lib.Server(
        config.cluster_spec,
        job_name=config.task_type,
        task_index=config.task_id,
        config=options,
        protocol=config.protocol,
        start=False,
    )
    server.start()
    return server


@around(training._TrainingExecutor, '_start_distributed_training')
def _start_training(start, self, *args, **kwargs):
    """Says that tasks without parameter servers do not share variables, unless the program places them itself."""
    config = self._estimator.config
    is_placed = config.device_fn is not None or config.train_distribute is not None
    if config.num_worker_replicas > 1 and not config.num_ps_replicas and not is_placed:
        warn(
            'TF_CONFIG has %d tasks that train, but no parameter server to share their variables: the chief trains '
            'alone, and the others wait. Add a task ps, or give '
            'RunConfig(train_distribute=tf.distribute.experimental.MultiWorkerMirroredStrategy()).',
            config.num_worker_replicas,
        )
    return start(self, *args, **kwargs)


@around(estimators.Estimator, 'train')
def _train(train, self, *args, **kwargs):
    """Tells the parameter servers when the training of this task has ended."""
    result = train(self, *args, **kwargs)
    config = self.config
    if config.master and config.cluster_spec and config.num_ps_replicas:
        _tell(config)
    return result


def _queue(index):
    """Returns the queue on a parameter server, in which tasks put their names when they have ended."""
    with tf.device(f'/job:ps/task:{index}'):
        return tf.FIFOQueue(-1, tf.string, [], shared_name='tf_estimator_ended')


def _tell(config):
    name = f'/job:{config.task_type}/task:{config.task_id}'
    reached = [index for index, address in _addresses(config, 'ps').items() if _is_up(address)]
    if not reached:
        return
    options = tf.ConfigProto(device_filters=[name, *(f'/job:ps/task:{index}' for index in reached)])
    with tf.Graph().as_default(), tf.Session(config.master, config=options) as session:
        session.run([_queue(index).enqueue(name) for index in reached])


@around(training._TrainingExecutor, 'run_ps')
def _serve(unused_run_ps, self):
    """Runs a parameter server until all tasks that train have ended, and their processes, too; then exits."""
    config = self._estimator.config
    server = self._start_std_server(config)
    jobs = {*training._TRAINER_JOBS} & {*config.cluster_spec.jobs}
    trainers = {f'/job:{job}/task:{index}': each for job in jobs for index, each in _addresses(config, job).items()}
    options = tf.ConfigProto(device_filters=[f'/job:ps/task:{config.task_id}'])
    with tf.Graph().as_default(), tf.Session(server.target, config=options) as session:
        queue = _queue(config.task_id)
        size, get = queue.size(), queue.dequeue()
        ended: set[str] = set()
        while ended != trainers.keys():
            time.sleep(_POLL_SECONDS)
            ended |= {session.run(get).decode() for _ in range(session.run(size))}
    while any(map(_is_up, trainers.values())):  # The program may train again.
        time.sleep(_POLL_SECONDS)
    tf.logging.info('All tasks have ended their training: so does this parameter server.')
    sys.exit()  # The rest of the program has never run in a parameter server.


def _addresses(config, job):
    cluster = config.cluster_spec
    return {index: cluster.task_address(job, index) for index in cluster.task_indices(job)}


def _is_up(address):
    host, _, port = address.rpartition(':')
    with contextlib.suppress(OSError), socket.create_connection((host.strip('[]'), int(port)), timeout=10):
        return True
    return False
