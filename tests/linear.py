"""A linear model, its Estimator and its loss in NumPy, for the tests of what is built on an Estimator."""

import types

import numpy as np
import tensorflow.compat.v1 as tf

from common.training import model_fn
from common.training.options import TrainingOptions
from hparams import build

X = np.random.RandomState(0).uniform(-1, 1, [10, 2]).astype(np.float32)
Y = np.random.RandomState(1).uniform(-1, 1, 10).astype(np.float32)
CPUS = [f'/cpu:{i}' for i in range(4)]


def linear(features, labels, mode, params):
    w = tf.get_variable('w', initializer=[[1.0], [2.0]], regularizer=lambda w: params.decay * tf.reduce_sum(w**2))
    y = tf.matmul(features['x'], w)[:, 0]
    tf.summary.scalar('loss', tf.reduce_sum(y))  # Takes the name that the framework's own summary needs.
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])


def metrics(features, labels, predictions, params):
    return {
        'loss_again': tf.metrics.mean_squared_error(labels['y'], predictions['y']),
        'examples': tf.metrics.mean(tf.ones_like(labels['y'])),
    }


MODEL = types.SimpleNamespace(model=linear, eval_metrics=metrics)


def make_estimator(tmp_path, towers=0, model=MODEL, text='', **config):
    params = build.make_hparams(
        'm', {'decay': 0.0, 'train_steps': 6}, 'd', {}, '', f'batch_size=4,optimizer=sgd,learning_rate=0.1{text}'
    )
    config = tf.estimator.RunConfig(
        str(tmp_path),
        save_summary_steps=0,
        log_step_count_steps=None,
        session_config=tf.ConfigProto(device_count={'CPU': 4}),
        **config,
    )
    fn = model_fn.make_model_fn(model, CPUS[:towers], TrainingOptions(save_summary_steps=1), total_steps=6)
    return tf.estimator.Estimator(fn, config=config, params=params)


def input_fn(batch_size=4, repeat=True):
    def call():
        examples = tf.data.Dataset.from_tensor_slices(({'x': X}, {'y': Y}))
        return examples.repeat().batch(batch_size) if repeat else examples.batch(batch_size)

    return call


def loss_of(w):
    return np.square(X @ w - Y).mean()


def scalars(directory):
    found = {}
    for path in tf.io.gfile.glob(f'{directory}/events*'):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = value.simple_value if value.HasField('simple_value') else None
    return found
