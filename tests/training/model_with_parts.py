"""A model module with its own optimizer, learning rate, hooks and named losses, for tests.cluster.tiny_data."""

import tensorflow.compat.v1 as tf


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
    """Returns a hook that logs the steps that it sees, and stops after one of them."""
    hook, steps = tf.train.SessionRunHook(), []

    def after_run(context, values):
        steps.append(int(context.session.run(tf.train.get_global_step(context.session.graph))))
        if steps[-1] == params.last_step:
            context.request_stop()

    hook.after_run = after_run
    hook.end = lambda session: tf.logging.info('The hook of %s has seen %s.', mode, steps)
    return [hook]
