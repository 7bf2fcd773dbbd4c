"""A linear model, its Estimator and its loss in NumPy, for tests with an Estimator."""

import contextlib
import types

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.layers import dropout
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.training import model_fn
from estimator_trainer.common.training.multi_step import repeat_step
from estimator_trainer.common.training.training import Training
from estimator_trainer.hparams import build
from tests.shared import assert_equal

X = np.random.RandomState(0).uniform(-1, 1, [10, 2]).astype(np.float32)
Y = np.random.RandomState(1).uniform(-1, 1, 10).astype(np.float32)
CPUS = [f'/cpu:{i}' for i in range(4)]


def linear(features, labels, mode, params):
    w = tf.get_variable('w', initializer=[[1.0], [2.0]], regularizer=lambda w: params.decay * tf.reduce_sum(w**2))
    y = tf.matmul(features['x'], w)[:, 0]
    tf.summary.scalar('loss', tf.reduce_sum(y))  # Takes the name that the framework's own summary needs.
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])


def metrics(features, labels, predictions, params):
    loss = tf.metrics.mean_squared_error(labels['y'], predictions['y'])
    return {'loss_again': loss, 'examples': tf.metrics.mean(tf.ones_like(labels['y']))}


MODEL = types.SimpleNamespace(model=linear, eval_metrics=metrics)


def deep(features, labels, mode, params):
    net = tf.layers.dense(features['x'], 4, tf.nn.relu)
    net = tf.layers.batch_normalization(dropout(net, 0.3, is_training=True), training=True)
    _, net = tf.while_loop(lambda i, _: i < 3, lambda i, net: (i + 1, tf.tanh(2 * net)), [0, net])
    y = tf.layers.dense(net, 1)[:, 0]
    return {'y': y}, tf.square(y - labels['y'])


def make_estimator(tmp_path, towers=0, model=MODEL, text='', options=None, optimizer='sgd', **config):
    """The model is a module, or its function `model`."""
    text = f'batch_size=4,optimizer={optimizer},learning_rate=0.1{text}'
    params = build.make_hparams('m', {'decay': 0.0, 'train_steps': 6}, 'd', {}, '', text)
    session_config = tf.ConfigProto(device_count={'CPU': 4})
    settings = {'save_summary_steps': 0, 'log_step_count_steps': None, 'session_config': session_config, **config}
    config = tf.estimator.RunConfig(str(tmp_path), **settings)
    model = types.SimpleNamespace(model=model) if callable(model) else model
    fn = model_fn.ModelFn(model, CPUS[:towers], Training(options or Options(save_summary_steps=1), total_steps=6))
    return tf.estimator.Estimator(fn, config=config, params=params)


def input_fn(repeat=True):
    return lambda: tf.data.Dataset.from_tensor_slices(({'x': X}, {'y': Y})).repeat(None if repeat else 1).batch(4)


@contextlib.contextmanager
def in_session(estimator, batches=None):
    """Yields a plain session with initialized variables, and the train_op: half the time of the Estimator's own."""
    with tf.Graph().as_default(), tf.Session(config=estimator.config.session_config) as session:
        tf.set_random_seed(1)
        tf.train.create_global_step()
        batch = tf.data.make_one_shot_iterator((batches or input_fn())()).get_next()
        train_op = estimator.model_fn(*batch, tf.estimator.ModeKeys.TRAIN, estimator.config).train_op
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        yield session, train_op


def train_in_session(estimator, steps, batches=None):
    """Trains without the Estimator's hooks; returns the weights, {name: array}, and the scalars of each step's summaries."""
    with in_session(estimator, batches) as (session, train_op):
        curves = tf.summary.merge_all()
        found = [tf.Summary.FromString(session.run([curves, train_op])[0]) for _ in range(steps)]
        return variables(session), [{value.tag: value.simple_value for value in summary.value} for summary in found]


def check_loop(estimator, batches=None):
    """Asserts that resuming in a loop has the bits of single steps; returns the variables before and after."""
    batches, found = batches or input_fn(), []
    with in_session(estimator, batches) as (session, train_op):
        for _ in range(7):
            session.run(train_op)
            found.append(variables(session))
    with in_session(estimator, lambda: batches().skip(2)) as (session, train_op):
        for variable in tf.global_variables():
            variable.load(found[1][variable.op.name], session)
        loss = tf.zeros([])
        assert session.run(repeat_step(tf.group(train_op, loss), tf.constant(5), loss)[:2]) == (5, 0)
        assert_equal(variables(session), found[6])
    return found[1], found[6]


def variables(session):
    """Returns the values of all variables, {name: array}."""
    return session.run({variable.op.name: variable for variable in tf.global_variables()})


def loss_of(w):
    return np.square(X @ w - Y).mean()


def gradient(w, step):
    """Returns the gradient of the loss of a training step, the first of which is 0."""
    rows = np.arange(4 * step, 4 * step + 4) % 10
    return 2 * X[rows].T @ (X[rows] @ w - Y[rows]) / 4


def scalars(directory):
    found = {}
    for path in tf.io.gfile.glob(f'{directory}/events*'):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = value.simple_value if value.HasField('simple_value') else None
    return found
