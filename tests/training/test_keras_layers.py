"""tf.keras layers and models within a model module, compared with Keras's own training."""

import threading
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tf_keras

from common.errors import UsageError
from common.training import model_fn, parallel
from common.training.keras_layers import collect_keras_layers
from common.training.options import TrainingOptions
from hparams import build
from tests.linear import CPUS, X, Y, input_fn
from tests.shared import read_weights

pytestmark = pytest.mark.slow

KERNEL = np.random.RandomState(2).normal(size=[2, 3]).astype(np.float32)
L2 = tf.keras.regularizers.l2
BATCHES = [np.arange(4 * i, 4 * i + 4) % 10 for i in range(6)]


def hidden(**changes):
    return tf.keras.layers.Dense(
        3,
        'tanh',
        kernel_initializer=tf.constant_initializer(KERNEL),
        **{'kernel_regularizer': L2(0.1), 'activity_regularizer': L2(0.2), **changes},
    )


def output():
    return tf.keras.layers.Dense(1, kernel_initializer='ones')


def batch_norm():
    return tf.keras.layers.BatchNormalization(momentum=0.5)


def sequential():
    return tf.keras.Sequential([hidden(), batch_norm(), output()])


def functional():
    inputs = tf.keras.Input([2])
    return tf.keras.Model(inputs, output()(batch_norm()(hidden()(inputs))))


def subclassed():
    class Network(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden, self.norm, self.out = hidden(), batch_norm(), output()

        def call(self, inputs, training=None):
            return self.out(self.norm(self.hidden(inputs), training=training))

    return Network()


def single_layers():
    layers = [hidden(), batch_norm(), output()]

    def call(net):
        for layer in layers:
            net = layer(net)
        return net

    return call


def without_batch_norm():
    return tf.keras.Sequential([hidden(), output()])


def module(make):
    def model(features, labels, mode, params):
        y = make()(features['x'])[:, 0]
        return {'y': y}, None if labels is None else tf.square(y - labels['y'])

    return types.SimpleNamespace(model=model)


def train(directory, make, max_steps=6, first_step=0, towers=0, text='', **options):
    """Trains and returns {variable: array}, without the name scope of the model."""
    params = build.make_hparams('m', {}, 'd', {}, '', f'batch_size=4,optimizer=sgd,learning_rate=0.1{text}')
    config = tf.estimator.RunConfig(
        str(directory),
        save_summary_steps=0,
        log_step_count_steps=None,
        tf_random_seed=1,
        session_config=tf.ConfigProto(device_count={'CPU': 4}),
    )
    fn = model_fn.make_model_fn(module(make), CPUS[:towers], TrainingOptions(**options), total_steps=max_steps)
    estimator = tf.estimator.Estimator(fn, config=config, params=params)
    estimator.train(lambda: input_fn()().skip(first_step), max_steps=max_steps)
    return {name.removeprefix('model/'): value for name, value in read_weights(directory).items() if name != 'global_step'}


def train_by_keras(network, batches=BATCHES):
    """Returns {variable: array}, as `train` does."""
    network.compile(tf.keras.optimizers.legacy.SGD(0.1), 'mse')
    for batch in batches:
        network.train_on_batch(X[batch], Y[batch])
    return [variable.numpy() for variable in network.variables]


def assert_same(found, expected, rtol=1e-5):
    """Compares {name: array} with a list of arrays, whose order Keras decides."""
    found = [found[name] for name in sorted(found)]
    assert len(found) == len(expected)
    for values in expected:
        assert any(values.shape == other.shape and np.allclose(values, other, rtol=rtol, atol=1e-6) for other in found), (
            values,
            found,
        )


@pytest.mark.parametrize('make', [sequential, functional, subclassed, single_layers])
def test_a_network_of_keras_layers_is_trained_as_by_keras(tmp_path, make):
    expected = train_by_keras(sequential())
    found = train(tmp_path, make)
    assert len(found) == 8
    assert_same(found, expected)
    (variance,) = (value for name, value in found.items() if 'moving_variance' in name)
    assert (variance < 0.9).all()


def test_penalties_are_averaged_over_towers_and_weights_are_shared(tmp_path):
    expected = train_by_keras(without_batch_norm())
    for towers in (2, 3, 4):
        found = train(tmp_path / str(towers), without_batch_norm, towers=towers)
        assert found.keys() == train(tmp_path / '0', without_batch_norm).keys()
        assert_same(found, expected)


@pytest.mark.parametrize('make', [sequential, functional, subclassed, single_layers])
def test_batch_norm_takes_its_averages_from_the_first_tower(tmp_path, make):
    found = train(tmp_path / '2', make, towers=2, max_steps=1)
    assert found.keys() == train(tmp_path / '0', make, max_steps=1).keys()
    (mean,) = (value for name, value in found.items() if 'moving_mean' in name)
    np.testing.assert_allclose(mean, 0.5 * np.tanh(X[:2] @ KERNEL).mean(0), rtol=1e-5)


@pytest.mark.parametrize(
    'options',
    [
        {},
        {'steps_per_loop': 3},
        {'towers': 2},
        {'text': ',ema_decay=0.9'},
        {'towers': 2, 'steps_per_loop': 2, 'text': ',gradient_accumulation_steps=2,ema_decay=0.9'},
    ],
)
def test_a_resumed_training_has_the_same_bits(tmp_path, options):
    whole = train(tmp_path / 'whole', sequential, **options)
    train(tmp_path / 'parts', sequential, max_steps=3, **options)
    parts = train(tmp_path / 'parts', sequential, first_step=3, **options)
    assert whole.keys() == parts.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(value, parts[name], name)


def test_loops_have_the_bits_of_single_steps(tmp_path):
    one_by_one, in_loops = (train(tmp_path / str(steps), sequential, steps_per_loop=steps) for steps in (1, 3))
    for name, value in one_by_one.items():
        np.testing.assert_array_equal(value, in_loops[name], name)


def test_accumulated_gradients_are_those_of_a_larger_batch(tmp_path):
    expected = train_by_keras(without_batch_norm(), [np.concatenate(BATCHES[i : i + 2]) for i in (0, 2, 4)])
    found = train(tmp_path, without_batch_norm, text=',gradient_accumulation_steps=2')
    assert_same({name: value for name, value in found.items() if 'accumulated' not in name}, expected)


def test_averages_are_kept_of_keras_weights(tmp_path):
    found = train(tmp_path, without_batch_norm, text=',ema_decay=0.9', max_steps=1)
    kernel, average = (
        next(value for name, value in found.items() if name.endswith(end))
        for end in ('dense/kernel', 'dense/kernel/ExponentialMovingAverage')
    )
    np.testing.assert_allclose(average, 0.1 * KERNEL + 0.9 * kernel, rtol=1e-5)  # The decay begins with 1 / 10.


def test_layers_that_are_not_trainable_stay_as_they_are(tmp_path):
    def frozen():
        base = tf.keras.Sequential([hidden(), batch_norm()])
        base.build([None, 2])
        base.trainable = False
        return tf.keras.Sequential([base, output()])

    found = train(tmp_path, frozen)
    expected = train_by_keras(frozen())
    assert_same(found, expected)
    assert sum((value == KERNEL).all() for value in found.values() if value.shape == KERNEL.shape) == 1


@pytest.mark.parametrize('mode, is_dropped', [('train', True), ('eval', False), ('infer', False)])
def test_dropout_knows_whether_it_is_training(mode, is_dropped):
    def model(features, labels, mode, params):
        y = tf.keras.layers.Dropout(0.5)(features['x'])
        return {'y': y}, None if labels is None else tf.reduce_sum(y, 1) * tf.get_variable('w', [])

    params = build.make_hparams('m', {}, 'd', {}, '', '')
    fn = model_fn.make_model_fn(types.SimpleNamespace(model=model), [], TrainingOptions(), total_steps=1)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.create_global_step()
        spec = fn({'x': tf.ones([100, 10])}, None if mode == 'infer' else {}, mode, params, tf.estimator.RunConfig('x'))
        session.run(tf.global_variables_initializer())
        assert (session.run(spec.predictions['y']) == 0).any() == is_dropped


def test_what_a_layer_adds_to_the_loss_is_added(tmp_path):
    class Penalized(tf.keras.layers.Layer):
        def call(self, inputs):
            self.add_loss(3 * tf.reduce_mean(tf.square(inputs)))
            return inputs

    def make():
        return tf.keras.Sequential([output(), Penalized()])

    assert_same(train(tmp_path / '0', make), train_by_keras(make()))
    assert_same(train(tmp_path / '2', make, towers=2), train_by_keras(make()))


class Counting(tf.keras.layers.Layer):
    """Penalizes its weights, and counts its calls, in `call`."""

    def build(self, shape):
        self.w = self.add_weight('w', [shape[-1], 1], initializer='ones')
        self.count = self.add_weight('count', [], initializer='zeros', trainable=False)

    def call(self, inputs):
        self.add_loss(0.3 * tf.reduce_sum(tf.square(self.w)))
        if not tf.executing_eagerly_outside_functions():
            self.add_update(tf.assign_add(self.count, 1.0))
        else:
            self.count.assign_add(1.0)
        return tf.matmul(inputs, self.w)


def counting_functional():
    inputs = tf.keras.Input([2])
    return tf.keras.Model(inputs, Counting()(inputs))


@pytest.mark.parametrize('make', [counting_functional, lambda: tf.keras.Sequential([tf.keras.Input([2]), Counting()])])
def test_what_a_call_adds_counts_once_although_models_are_built_by_a_call(tmp_path, make):
    assert_same(train(tmp_path, make), train_by_keras(make()))


def test_a_penalty_of_a_layer_that_is_built_but_not_called_counts(tmp_path):
    class Tied(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = hidden(activity_regularizer=None)
            self.dense.build([None, 2])
            self.out = output()

        def call(self, inputs):
            return self.out(tf.matmul(inputs, self.dense.kernel))

    found = train(tmp_path, Tied)
    assert_same(
        {name: value for name, value in found.items() if 'bias' not in name or 'dense_1' in name or value.any()},
        [value for value in train_by_keras(Tied()) if value.shape != (3,)],
    )


def test_a_layer_of_mixed_precision_that_is_not_trainable_stays_as_it_is(tmp_path):
    def make():
        return tf.keras.Sequential(
            [
                hidden(dtype='mixed_bfloat16', trainable=False),
                tf.keras.layers.Lambda(lambda x: tf.cast(x, tf.float32)),
                output(),
            ]
        )

    assert sum((value == KERNEL).all() for value in train(tmp_path, make).values() if value.shape == KERNEL.shape) == 1


def test_batch_norm_that_is_called_twice_moves_its_averages_twice_in_order(tmp_path):
    def make():
        norm, out = batch_norm(), output()
        return lambda x: out(norm(x) + norm(3 * x + 1))

    for i in range(3):
        (mean,) = (value for name, value in train(tmp_path / str(i), make, max_steps=1).items() if 'moving_mean' in name)
        first = X[:4].mean(0)
        np.testing.assert_allclose(mean, 0.5 * 0.5 * first + 0.5 * (3 * first + 1), rtol=1e-5)


OUTSIDE = hidden()


class Assigning(tf.keras.layers.Layer):
    def build(self, shape):
        self.count = self.add_weight('count', [], initializer='zeros', trainable=False)

    def call(self, inputs):
        self.count.assign_add(1.0)
        return inputs


class Awaited(Assigning):
    def call(self, inputs):
        with tf.control_dependencies([self.count.assign_add(1.0)]):
            return tf.identity(inputs)


@pytest.mark.parametrize(
    'make, message',
    [
        (lambda: lambda x: output()(OUTSIDE(x)), r'the layer \S+ was created outside of model\(\): create it inside'),
        (
            lambda: tf.keras.Sequential([tf.keras.layers.Dense(3, weights=[KERNEL, np.zeros(3)]), output()]),
            'the layer dense is given weights within model.*: give them by --warm_start_from',
        ),
        (
            lambda: tf.keras.Sequential([Assigning(), output()]),
            r'the layer sequential assigns to a variable \(.*assigning/.*\), which nothing in the graph',
        ),
        (
            lambda: lambda x: output()(tf.cond(tf.reduce_sum(x) > 0, lambda: hidden()(x), lambda: x @ KERNEL)),
            'the layer dense adds losses or updates within a loop, tf.cond or tf.function',
        ),
    ],
)
def test_what_a_graph_cannot_make_right_is_refused(tmp_path, make, message):
    with pytest.raises(UsageError, match=message):
        train(tmp_path, make)


def test_an_assignment_that_the_outputs_wait_for_is_made(tmp_path):
    found = train(tmp_path, lambda: tf.keras.Sequential([Awaited(), output()]))
    assert [value for name, value in found.items() if 'count' in name] == [6]


def test_a_layer_that_is_called_twice_has_its_penalty_once(tmp_path):
    def make():
        inputs = tf.keras.Input([2])
        layer = hidden(activity_regularizer=None)
        return tf.keras.Model(inputs, output()(layer(inputs) + layer(2 * inputs)))

    assert_same(train(tmp_path, make), train_by_keras(make()))


@pytest.mark.parametrize('towers', [0, 2, 4])
def test_variables_that_are_made_without_get_variable_are_shared(tmp_path, towers):
    def make():
        v, w = tf.Variable([[1.0], [2.0]], name='v'), tf.Variable(lambda: tf.ones([2, 1]), name='v')
        return lambda x: tf.matmul(x, v) + tf.matmul(x, w)

    found = train(tmp_path, make, towers=towers)
    assert found.keys() == {'v', 'v_1'}
    v = np.array([[1.0], [2.0]])
    w = np.ones([2, 1])
    for batch in BATCHES:
        x = X[batch].astype(np.float64)
        gradient = 2 * x.T @ (x @ (v + w) - Y[batch][:, None]) / 4
        v, w = v - 0.1 * gradient, w - 0.1 * gradient
    np.testing.assert_allclose(found['v'], v, rtol=1e-5)
    np.testing.assert_allclose(found['v_1'], w, rtol=1e-5)


@pytest.mark.parametrize(
    'make_variable',
    [
        lambda i: tf.get_variable(f'v{i}', []),
        lambda i: [tf.Variable(1.0) for _ in range(i)][0],
        lambda i: tf.Variable(tf.ones([i])),
        lambda i: tf.Variable(1.0, name=f'v{i}'),
        lambda i: tf.keras.layers.Dense(i).build([None, i]),
    ],
)
def test_a_variable_that_only_a_later_tower_makes_is_refused(make_variable):
    calls = []

    def tower(x):
        calls.append(x)
        make_variable(len(calls))
        return x

    with (
        tf.Graph().as_default(),
        pytest.raises(UsageError, match='tower 1 makes a variable .* that the first tower does not make'),
    ):
        parallel.make_parallel(tower, CPUS[:2], x=tf.ones([4]))


def test_layers_of_keras_3_are_refused(tmp_path):
    keras = pytest.importorskip('keras', minversion='3')
    with pytest.raises(UsageError, match='the layer dense is a Keras 3 layer'):
        train(tmp_path, lambda: keras.layers.Dense(1, name='dense'))


@pytest.mark.skipif(tf_keras.layers.Layer is tf.keras.layers.Layer, reason='tf_keras is tf.keras here')
def test_layers_of_tf_keras_are_refused_where_it_is_another_keras(tmp_path):
    with pytest.raises(UsageError, match='the layer dense is of the package tf_keras, which is not tf.keras'):
        train(tmp_path, lambda: tf_keras.layers.Dense(1, name='dense'))


MODEL = """
import tensorflow.compat.v1 as tf

def get_params():
    return {}

def model(features, labels, mode, params):
    layers = tf.keras.layers
    inputs = tf.keras.Input([1])
    net = layers.BatchNormalization()(layers.Dense(4, 'relu')(inputs))
    y = tf.keras.Model(inputs, layers.Dense(1)(net))(features['x'][:, None])[:, 0]
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])
"""


def test_a_keras_model_trained_in_towers_is_evaluated_predicted_and_exported_without(run, tmp_path, monkeypatch):
    (tmp_path / 'mine').mkdir()
    (tmp_path / 'mine' / 'keras_net.py').write_text(MODEL)
    monkeypatch.syspath_prepend(tmp_path)
    flags = ('--model=mine.keras_net', '--dataset=polynomial')
    code, trained, _ = run(*flags, '--num_towers=2', '--train_steps=20')
    assert code == 0
    code, evaluated, _ = run(*flags, '--schedule=evaluate', '--train_steps=20')
    assert code == 0
    assert evaluated['eval']['loss'] == pytest.approx(trained['eval']['loss'], rel=1e-5)
    assert run(*flags, '--schedule=predict', '--train_steps=20')[0] == 0
    assert run(*flags, '--schedule=export', '--train_steps=20')[0] == 0


def test_graphs_that_threads_build_at_once_leave_keras_as_it_was():
    before = {owner: dict(vars(owner)) for owner in (*tf.layers.Layer.__mro__, tf.keras.Model)}
    second_is_in, first_is_out = threading.Event(), threading.Event()
    penalties = {}

    def build(name, entered, goes_on, left):
        with tf.Graph().as_default():
            with collect_keras_layers(is_training=True):
                entered.set()
                assert goes_on.wait(60)
                hidden()(tf.ones([1, 2]))
            penalties[name] = len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))
        left.set()

    first_is_in = threading.Event()
    first = threading.Thread(target=build, args=['first', first_is_in, second_is_in, first_is_out])
    second = threading.Thread(target=build, args=['second', second_is_in, first_is_out, threading.Event()])
    first.start()
    assert first_is_in.wait(60)
    tf.keras.layers.Dense(1)(tf.ones([1, 2]))  # Neither thread's concern.
    second.start()
    first.join()
    second.join()
    assert penalties == {'first': 2, 'second': 2}
    assert {owner: dict(vars(owner)) for owner in before} == before


@pytest.mark.parametrize('is_called', [True, False])
def test_a_program_s_own_keras_models_work_after_a_model_that_fails(is_called, tmp_path):
    own = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer='ones')])
    with pytest.raises(ZeroDivisionError), tf.Graph().as_default(), collect_keras_layers(is_training=True):
        layer = tf.keras.layers.Dense(1)
        if is_called:
            tf.keras.Sequential([layer])(tf.ones([1, 2]))
        1 / 0  # noqa: B018
    assert own.predict(np.ones([1, 2]), verbose=0) == 2
    own.save(str(tmp_path / 'saved'), save_format='tf')


@pytest.mark.parametrize('kind', ['sequential', 'functional'])
def test_layers_that_augment_do_so_in_training_only(kind):
    images = np.random.RandomState(0).uniform(size=[4, 8, 8, 1]).astype(np.float32)

    def outputs(is_training):
        with tf.Graph().as_default(), tf.Session() as session:
            with collect_keras_layers(is_training):
                rotation = tf.compat.v2.keras.layers.RandomRotation(0.5)
                if kind == 'sequential':
                    network = tf.keras.Sequential([rotation])
                else:
                    inputs = tf.keras.Input([8, 8, 1])
                    network = tf.keras.Model(inputs, rotation(inputs))
                result = network(tf.constant(images))
            session.run(tf.global_variables_initializer())
            return session.run(result), session.run(result)

    for evaluated in outputs(is_training=False):
        np.testing.assert_array_equal(evaluated, images)
    first, second = outputs(is_training=True)
    assert (first != images).any() and (first != second).any()
