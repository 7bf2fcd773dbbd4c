"""Tests the layers of networks that are trained in bfloat16."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.util import _pywrap_util_port

from estimator_trainer.common import processor
from estimator_trainer.common.ops import mixed_precision
from estimator_trainer.common.ops.layers import dense_stack

INPUTS = np.array([[1, -2, 3], [0, 1, -1]], np.float32)
WEIGHTS = np.array([[1, -1, 2, 0], [0, 1, 1, -2], [1, 0, -1, 1]], np.float32)
BIASES = np.array([0.5, -0.5, 0, 1], np.float32)


@pytest.fixture
def amx(monkeypatch):
    monkeypatch.setattr(processor, 'has_amx', lambda: True)


def _ops(graph):
    return {op.type for op in graph.get_operations()}


def _graph(precision, is_training=True, inputs=INPUTS, **kwargs):
    """Returns the graph of a layer, its inputs and outputs, the gradients of the sum of their squares, and its variables."""
    with tf.Graph().as_default() as graph, mixed_precision.training_in(precision):
        inputs = tf.placeholder_with_default(inputs, [None, *inputs.shape[1:]])
        outputs = dense_stack(inputs, [4], is_training, **kwargs)
        variables = tf.trainable_variables()
        gradients = tf.gradients(tf.reduce_sum(outputs**2), [inputs, *variables])
    return graph, inputs, outputs, gradients, variables


def _run(graph, variables, fetches):
    kernel, bias = variables
    with tf.Session(graph=graph) as session:
        session.run([kernel.initializer, bias.initializer])
        kernel.load(WEIGHTS, session)
        bias.load(BIASES, session)
        return session.run(fetches)


@pytest.mark.parametrize('values', [INPUTS, np.stack([INPUTS, 2 - INPUTS])])
def test_layer_in_bfloat16_has_the_values_and_gradients_of_numpy(amx, values):
    graph, _, outputs, gradients, variables = _graph('bfloat16', inputs=values)
    assert 'Bitcast' in _ops(graph)
    found, (of_inputs, of_kernel, of_bias) = _run(graph, variables, [outputs, gradients])
    sums = values @ WEIGHTS + BIASES
    slope = np.where(sums > 0, 2 * sums, 0)
    np.testing.assert_array_equal(found, np.maximum(sums, 0))
    np.testing.assert_array_equal(of_inputs, slope @ WEIGHTS.T)
    np.testing.assert_array_equal(of_kernel, values.reshape(-1, 3).T @ slope.reshape(-1, 4))
    np.testing.assert_array_equal(of_bias, slope.reshape(-1, 4).sum(0))


def test_gradients_of_gradients_are_those_of_numpy(amx):
    graph, inputs, _, (of_inputs, *_), variables = _graph('bfloat16')
    with graph.as_default():
        (second,) = tf.gradients(tf.reduce_sum(of_inputs), inputs)
    is_positive = INPUTS @ WEIGHTS + BIASES > 0
    expected = 2 * is_positive * WEIGHTS.sum(0) @ WEIGHTS.T
    np.testing.assert_array_equal(_run(graph, variables, second), expected)


@pytest.mark.skipif(not _pywrap_util_port.IsMklEnabled(), reason='oneDNN has the operations in bfloat16')
def test_products_of_a_layer_in_bfloat16_are_apart_from_its_bias_and_relu_in_float32(amx):
    graph, _, outputs, gradients, variables = _graph('bfloat16')
    with graph.as_default():
        fetches = [tf.reduce_sum(tensor) for tensor in (outputs, *gradients)]  # Fetched itself, a product stays in float32.
    config, options, run = tf.ConfigProto(), tf.RunOptions(output_partition_graphs=True), tf.RunMetadata()
    config.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 = 1
    with tf.Session(graph=graph, config=config) as session:
        session.run([variable.initializer for variable in variables])
        session.run(fetches, options=options, run_metadata=run)
    types = [(node.op.removeprefix('_Mkl'), node.attr['T'].type) for part in run.partition_graphs for node in part.node]
    assert not any('Fused' in op for op, _ in types)
    found = {op: {precision for own, precision in types if own == op} for op, _ in types}
    for op in ('BiasAdd', 'Relu', 'ReluGrad', 'BiasAddGrad'):
        assert found[op] == {tf.float32.as_datatype_enum}
    if processor.has_bfloat16():
        assert found['MatMul'] == {tf.bfloat16.as_datatype_enum}


@pytest.mark.parametrize(
    'precision, settings',
    [
        ('float32', {}),
        ('bfloat16', {'is_training': False}),
        ('bfloat16', {'batch_norm': True}),
        ('bfloat16', {'activation': None}),
        ('bfloat16', {'activation': tf.nn.tanh}),
    ],
)
def test_other_layers_are_as_tensorflow_makes_them(amx, precision, settings):
    assert 'Bitcast' not in _ops(_graph(precision, **settings)[0])


def test_layers_without_amx_and_after_the_context_are_as_tensorflow_makes_them(monkeypatch):
    for has_amx in (True, False):
        monkeypatch.setattr(processor, 'has_amx', lambda has_amx=has_amx: has_amx)
        with tf.Graph().as_default() as graph, mixed_precision.training_in('bfloat16'):
            dense_stack(tf.constant(INPUTS), [4], True)
        assert ('Bitcast' in _ops(graph)) == has_amx
    with tf.Graph().as_default() as graph:
        dense_stack(tf.constant(INPUTS), [4], True)
    assert 'Bitcast' not in _ops(graph)
