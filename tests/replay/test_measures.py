"""Facts about tensors, compared with NumPy's; the layers of a graph."""

import contextlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.replay.measures import Measure, find_origin, layers, measure, measures_of, to_measure

VALUES = np.array([[0, 3, -4], [np.nan, np.inf, 0]], np.float32)


@pytest.mark.parametrize(
    'values, expected',
    [
        (VALUES, Measure(5, 4, 1 / 3, 1, 1, 6)),
        (np.array([3e38, 3e38], np.float32), Measure(3e38 * 2**0.5, 3e38, 0, 0, 0, 2)),
        (np.zeros([0], np.float32), Measure(0, 0, 0, 0, 0, 0)),
    ],
)
def test_a_tensor_and_an_array_have_the_same_measure(session, values, expected):
    found = to_measure(session.run(measures_of(tf.constant(values))))
    assert found == pytest.approx(expected, rel=1e-6) and measure(values) == pytest.approx(expected, rel=1e-6)


def test_layers_are_what_leaves_a_scope_and_depends_on_the_features(session):
    x = tf.placeholder(tf.float32, [None, 3])
    with tf.name_scope('model'):
        with tf.name_scope('dense'):
            net = tf.nn.bias_add(tf.matmul(x, tf.ones([3, 2])), tf.ones([2]))
        with tf.control_dependencies([tf.raw_ops.Assert(condition=tf.reduce_all(x > 0), data=[x])]):  # It has no output.
            net = tf.nn.relu(net) + tf.random.stateless_uniform(tf.shape(net), [1, 2])
    loss = tf.reduce_mean(net)
    assert [tensor.op.name for tensor in layers([x], loss)] == ['model/dense/BiasAdd', 'model/Relu', 'model/add']


def test_the_origin_of_a_nan_is_the_op_the_input_or_the_variable_that_has_it_first(session):
    x = tf.placeholder(tf.float32, [None])
    w = tf.get_variable('w', initializer=1.0, use_resource=True)
    masked = tf.where(x > 5, tf.log(-x), x)
    root = tf.sqrt(x - 2, name='root')
    result = tf.reduce_sum(masked + w * root)

    def origin(values, weight=1.0):
        w.load(weight, session)
        found = find_origin(session, {x: values}, [result], {x.name: 'the input x'})
        return found and tuple(found[:2])

    session.run(tf.global_variables_initializer())
    assert origin([3.0, 4.0]) is None
    assert origin([3.0, 1.0]) == ('root', 'Sqrt')
    assert origin([3.0, np.inf]) == ('the input x', 'input')
    assert origin([3.0], np.nan) == ('w', 'variable')


def test_of_a_gradient_the_line_is_that_of_the_op_whose_gradient_it_is(session):
    x, w = tf.placeholder(tf.float32, [1]), tf.get_variable('w', initializer=1.0)
    with contextlib.suppress(ZeroDivisionError):
        root = tf.sqrt(x * w)
    results = tf.gradients(root, [w])
    session.run(tf.global_variables_initializer())
    found = find_origin(session, {x: [0.0]}, results, {})
    assert found.op.startswith('gradients/Sqrt_grad') and found.line.startswith(f'{__file__}:')


@pytest.fixture
def old_control_flow():
    is_new = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    yield
    if is_new:
        tf.enable_control_flow_v2()


def test_loops_and_branches_of_tensorflow_1_are_looked_at_from_outside(old_control_flow, session):
    x = tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable('w', initializer=1.0, use_resource=True)
    branch = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.log(x * w), lambda: x * w, name='branch')
    _, loop = tf.while_loop(lambda i, value: i < 2, lambda i, value: (i + 1, tf.sqrt(value * w)), [0, x], name='loop')
    results = [tf.reduce_sum(branch + loop)]
    results += tf.gradients(results, [w])
    session.run(tf.global_variables_initializer())

    def origin(*values):
        found = find_origin(session, {x: np.float32(values)[:, None]}, results, {})
        return found and (found.op.partition('/')[0], found.type)

    assert origin(1, 2) is None
    assert origin(1, 0) == ('branch', 'Merge')
    assert origin(-1, -2) == ('loop', 'Exit')
    assert len(session.run(layers([x], results[0]), {x: [[1.0]]})) > 0
