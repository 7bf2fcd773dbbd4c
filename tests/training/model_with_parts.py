"""A model module with an optimizer, a learning rate, hooks and named losses of its own, for tests.cluster.tiny_data."""

import tensorflow.compat.v1 as tf


class LogSteps(tf.train.SessionRunHook):
    """Logs the steps that it sees, and stops after one of them."""

    def __init__(self, mode, last_step):
        self._mode = mode
        self._last_step = last_step

    def begin(self):
        self._global_step = tf.train.get_global_step()
        self._steps = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._global_step)

    def after_run(self, run_context, run_values):
        self._steps.append(int(run_context.session.run(self._global_step)))
        if self._steps[-1] == self._last_step:
            run_context.request_stop()

    def end(self, session):
        tf.logging.info('The hook of %s has seen %s.', self._mode, self._steps)


def get_params():
    return {'last_step': 0}


def model(features, labels, mode, params):
    hidden = tf.layers.dense(features['x'], 4, tf.nn.tanh, name='hidden')
    y = tf.layers.dense(hidden, 1, name='output')[:, 0]
    if labels is None:
        return {'y': y}, None
    return {'y': y}, {'square': tf.square(y - labels['y']), 'absolute': tf.abs(y - labels['y']) / 10}


def optimizer(rate, params):
    return tf.train.AdadeltaOptimizer(rate, rho=0.9)


def learning_rate(step, total_steps, params):
    return params.learning_rate * (1 - step / total_steps / 2)


def hooks(mode, params):
    return [LogSteps(mode, params.last_step)]
