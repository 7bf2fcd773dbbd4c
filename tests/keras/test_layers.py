"""tf.keras layers and models in a model module, compared with Keras's own training."""

import functools
import re
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.keras.layers import collect_keras_layers
from tests.linear import X, Y, check_loop, make_estimator, train_in_session, variables
from tests.shared import refused

KERNEL = np.random.RandomState(2).normal(size=[2, 3]).astype(np.float32)
L2 = tf.keras.regularizers.l2
Dropout, RandomRotation = tf.keras.layers.Dropout, tf.compat.v2.keras.layers.RandomRotation
output = functools.partial(tf.keras.layers.Dense, 1, kernel_initializer='ones')
# With a momentum that the first step already has.
batch_norm = functools.partial(tf.keras.layers.BatchNormalization, momentum=0.1)


def hidden(**changes):
    settings = {'kernel_regularizer': L2(0.1), 'activity_regularizer': L2(0.2), **changes}
    return tf.keras.layers.Dense(3, 'tanh', kernel_initializer=tf.constant_initializer(KERNEL), **settings)


def sequential():
    return tf.keras.Sequential([hidden(), batch_norm(), output()])


def functional():
    inputs = tf.keras.Input([2])
    return tf.keras.Model(inputs, output()(batch_norm()(hidden()(inputs))))


class Subclassed(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.norm, self.out = hidden(), batch_norm(), output()

    def call(self, inputs, training=None):
        return self.out(self.norm(self.hidden(inputs), training=training))


def single_layers():
    layers = [hidden(), batch_norm(), output()]
    return lambda net: layers[2](layers[1](layers[0](net)))


def estimator_of(make, towers=0, text=''):
    def model(features, labels, mode, params):
        y = make()(features['x'])[:, 0]
        return {'y': y}, None if labels is None else tf.square(y - labels['y'])

    return make_estimator('/nowhere', towers, model, text)


def train(make, steps=6, towers=0):
    found, _ = train_in_session(estimator_of(make, towers), steps)
    return {name: value for name, value in found.items() if name != 'global_step'}


def train_by_keras(network):
    network.compile(tf.keras.optimizers.legacy.SGD(0.1), 'mse')
    for i in range(6):
        batch = np.arange(4 * i, 4 * i + 4) % 10
        network.train_on_batch(X[batch], Y[batch])
    return [variable.numpy() for variable in network.variables]


def assert_same(found, expected):
    """Compares {name: array} with a list of arrays in Keras's order."""
    assert len(found) == len(expected)
    for array in expected:
        same = (array.shape == other.shape and np.allclose(array, other, rtol=1e-5, atol=1e-6) for other in found.values())
        assert any(same), (array, found)


def the(part, found):
    """Returns the value whose name has this part."""
    (value,) = (value for name, value in found.items() if part in name)
    return value


@pytest.mark.parametrize('make', [sequential, functional, Subclassed, single_layers])
def test_a_network_of_keras_layers_is_trained_as_by_keras(make):
    found = train(make)
    assert len(found) == 8
    assert_same(found, train_by_keras(sequential()))
    in_towers = train(make, 1, towers=2)
    assert in_towers.keys() == found.keys()
    expected = 0.9 * np.tanh(X[:2] @ KERNEL).mean(0)  # Of the first tower's half.
    np.testing.assert_allclose(the('moving_mean', in_towers), expected, rtol=1e-5)


def test_a_run_in_a_loop_resumes_with_the_bits_of_single_steps():
    check_loop(estimator_of(sequential, 2, ',gradient_accumulation_steps=2,ema_decay=0.9'))


def frozen():
    base = tf.keras.Sequential([hidden(), batch_norm()])
    base.build([None, 2])
    base.trainable = False
    return tf.keras.Sequential([base, output()])


def test_non_trainable_layers_do_not_change():
    found = train(frozen)
    assert [(value == KERNEL).all() for value in found.values() if value.shape == KERNEL.shape] == [True]
    assert_same(found, train_by_keras(frozen()))


@pytest.mark.parametrize('layer, is_functional', [(Dropout, False), (RandomRotation, False), (RandomRotation, True)])
@pytest.mark.parametrize('mode', ['train', 'eval', 'infer'])
def test_dropout_and_augmentation_layers_know_the_mode(session, layer, is_functional, mode):
    def make():
        last = tf.keras.layers.Dense(1, kernel_initializer=tf.constant_initializer([[1], [10]]))
        layers = [tf.keras.layers.Reshape([1, 2, 1]), layer(0.5), tf.keras.layers.Flatten(), last]
        if not is_functional:
            return tf.keras.Sequential(layers)
        inputs = tf.keras.Input([2])
        return tf.keras.Model(inputs, functools.reduce(lambda net, layer: layer(net), layers, inputs))

    estimator = estimator_of(make)
    tf.train.create_global_step()
    labels = None if mode == 'infer' else {'y': tf.ones([100])}
    spec = estimator.model_fn({'x': tf.constant([[1.0, 2.0]] * 100)}, labels, mode, estimator.config)
    session.run(tf.global_variables_initializer())
    first, second = (session.run(spec.predictions['y']) for _ in range(2))
    assert (first != 21).any() == (first != second).any() == (mode == 'train')
    assert ('model/dense/kernel' if is_functional else 'model/sequential/dense/kernel') in variables(session)  # In each mode.


@pytest.mark.parametrize(
    ('args', 'kwargs', 'modes'),
    [
        ((), {}, ['train']),
        ((None,), {}, ['train']),
        ((), {'training': None}, ['train']),
        ((False,), {}, []),
        ((), {'training': False}, []),
        ((True,), {}, ['train', 'eval']),
        ((), {'training': True}, ['train', 'eval']),
    ],
)
def test_an_augmentation_layer_is_active_as_its_call_says(args, kwargs, modes, session):
    def make():
        def network(x):
            turned = RandomRotation(0.5)(tf.reshape(x, [-1, 1, 2, 1]), *args, **kwargs)
            return output()(tf.reshape(turned, [-1, 2]))

        return network

    estimator = estimator_of(make)
    tf.train.create_global_step()
    for mode in ('train', 'eval'):
        with tf.variable_scope(mode):
            estimator.model_fn({'x': tf.ones([4, 2])}, {'y': tf.ones([4])}, mode, estimator.config)
        is_random = any('andom' in op.type for op in session.graph.get_operations() if mode in op.name)
        assert is_random == (mode in modes), mode


class Assigning(tf.keras.layers.Layer):
    def build(self, shape):
        self.w = self.add_weight('w', [shape[-1], 1], initializer='ones')
        self.count = self.add_weight('count', [], initializer='zeros', trainable=False)

    def call(self, inputs):
        with tf.control_dependencies([self.count.assign_add(1.0)][: self.name == 'awaited']):
            return tf.identity(inputs)


class Counting(Assigning):
    def call(self, inputs):
        self.add_loss(0.3 * tf.reduce_sum(tf.square(self.w)))
        if not tf.executing_eagerly_outside_functions():
            self.add_update(tf.assign_add(self.count, 1.0))
        else:
            self.count.assign_add(1.0)
        return tf.matmul(inputs, self.w)


def called_twice():
    inputs, layer = tf.keras.Input([2]), hidden(activity_regularizer=None)
    return tf.keras.Model(inputs, output()(layer(inputs) + layer(2 * inputs)))


def test_losses_and_updates_of_a_layer_count_once_and_by_the_examples_of_each_tower():
    for make, towers in (
        (lambda: tf.keras.Sequential([hidden(), output()]), 3),
        (lambda: tf.keras.Sequential([tf.keras.Input([2]), Counting()]), 0),  # It is built by a call.
        (called_twice, 0),
    ):
        assert_same(train(make, towers=towers), train_by_keras(make()))


def collect_from(make):
    with collect_keras_layers(is_training=True):
        return make()(tf.constant(X))


def collected(session, make, times=1):
    """Calls layers for training; repeatedly initializes them, updates them once and yields {variable: array}."""
    outputs = collect_from(make)
    for _ in range(times):
        session.run(tf.global_variables_initializer())
        session.run([outputs, tf.get_collection(tf.GraphKeys.UPDATE_OPS)])
        yield variables(session)


def test_batch_norm_that_is_called_twice_moves_its_averages_twice_in_order(session):
    def make():
        norm = batch_norm()
        return lambda x: norm(x) + norm(3 * x + 1)

    for found in collected(session, make, 20):
        expected = 0.1 * 0.9 * X.mean(0) + 0.9 * (3 * X.mean(0) + 1)
        np.testing.assert_allclose(the('moving_mean', found), expected, rtol=1e-5)


@pytest.mark.parametrize('make, count', [(lambda: Assigning(name='awaited'), 1), (lambda: Counting(trainable=False), 0)])
def test_an_assignment_that_the_outputs_wait_for_is_made_and_none_of_a_layer_that_is_not_trainable(session, make, count):
    assert the('/count', next(collected(session, make))) == count


def test_layers_that_cannot_work_in_a_graph_are_rejected():
    outside, of_another_graph = hidden(), hidden()
    with tf.Graph().as_default():
        of_another_graph(tf.ones([1, 2]))
    is_outside = r'\S+ was created outside of model\(\): create it inside'
    is_given_weights = 'is given weights within model.*: give them by --warm_start_from'
    for make, message in (
        (lambda: outside, is_outside),
        (lambda: lambda x: output()(outside(x)), is_outside),
        (lambda: lambda x: output()(of_another_graph(x)), is_outside),
        (lambda: tf.keras.layers.Dense(3, weights=[KERNEL, np.zeros(3)]), f'dense {is_given_weights}'),
        (lambda: tf.keras.Sequential([output()]).load_weights('weights.h5'), f'sequential {is_given_weights}'),
        (lambda: tf.keras.Sequential([Assigning(), output()]), r'sequential assigns to a variable \(.*assigning/.*\), which'),
        (lambda: lambda x: tf.cond(x[0, 0] > 0, lambda: hidden()(x), lambda: x @ KERNEL), 'dense adds losses or updates with'),
    ):
        assert re.match(f'the layer {message}', refused(collect_from, make))


@pytest.mark.parametrize('package, message', [('keras', 'a Keras 3 layer'), ('tf_keras', 'of the package tf_keras, which is')])
def test_layers_of_other_packages_are_refused(package, message):
    layers = pytest.importorskip(package, minversion='3' if package == 'keras' else '2').layers
    if layers.Layer is tf.keras.layers.Layer:
        pytest.skip('tf_keras is tf.keras here')
    assert f'the layer dense is {message}' in refused(collect_from, lambda: layers.Dense(1, name='dense'))


def test_graphs_that_threads_build_at_once_leave_keras_as_it_was():
    before = {owner: dict(vars(owner)) for owner in (*tf.layers.Layer.__mro__, tf.keras.Model)}
    is_in, goes_on, penalties = threading.Event(), threading.Event(), []

    def build(tell, wait):
        with tf.Graph().as_default():
            with collect_keras_layers(is_training=True):
                tell()
                wait(100)
                hidden()(tf.ones([1, 2]))
            penalties.append(len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)))

    other = threading.Thread(target=build, args=[is_in.set, goes_on.wait])
    other.start()
    assert is_in.wait(100)
    tf.keras.layers.Dense(1)(tf.ones([1, 2]))  # Neither graph's concern.
    build(goes_on.set, other.join)
    assert penalties == [2, 2]
    assert {owner: dict(vars(owner)) for owner in before} == before


@pytest.mark.parametrize('is_called', [True, False])
def test_a_program_s_own_keras_models_work_after_a_model_that_fails(is_called, tmp_path):
    own = tf.keras.Sequential([output()])
    with pytest.raises(ZeroDivisionError), tf.Graph().as_default(), collect_keras_layers(is_training=True):
        layer = output()
        if is_called:
            tf.keras.Sequential([layer])(tf.ones([1, 2]))
        1 / 0  # noqa: B018
    assert own.predict(np.ones([1, 2]), verbose=0) == 2
    own.save(str(tmp_path / 'saved'), save_format='tf')
