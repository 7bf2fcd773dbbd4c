"""Random ops whose state is not in a checkpoint."""

import types

import pytest
import tensorflow.compat.v1 as tf

from common.ops.dropout import dropout
from tests.linear import X, Y, linear, make_estimator


def warnings_of(tmp_path, caplog, model=linear, image=lambda x: x, text=''):
    def parse(x, y):
        return {'x': image(x)}, {'y': y}

    def input_fn():
        return tf.data.Dataset.from_tensor_slices((X, Y)).map(parse).repeat().batch(4)

    make_estimator(tmp_path, 0, types.SimpleNamespace(model=model), text).train(input_fn, max_steps=1)
    return [record.getMessage() for record in caplog.records if 'after a restart' in record.getMessage()]


def test_a_model_without_stateful_random_ops_is_not_warned_of(tmp_path, caplog):
    def model(features, labels, mode, params):
        tf.get_variable('random', [3], initializer=tf.random_normal_initializer())
        return linear({'x': dropout(features['x'], 0.5, True)}, labels, mode, params)

    assert warnings_of(tmp_path, caplog, model) == []


@pytest.mark.parametrize('seed', [None, 3])
def test_a_stateful_random_op_in_a_model_is_named(tmp_path, caplog, seed):
    def model(features, labels, mode, params):
        return linear({'x': tf.nn.dropout(features['x'], rate=0.5, seed=seed)}, labels, mode, params)

    (message,) = warnings_of(tmp_path, caplog, model)
    assert message == (
        'model/dropout/random_uniform/RandomUniform (RandomUniform) in the model draws other numbers after a restart: '
        'use tf.random.stateless_* with a seed of common.ops.step_seed.step_seed.'
    )


def test_a_stateful_random_op_in_a_parser_is_named(tmp_path, caplog):
    (message,) = warnings_of(tmp_path, caplog, image=lambda x: x * tf.random.uniform([], name='brightness'))
    assert message == (
        'brightness/RandomUniform (RandomUniform) in the input pipeline draws other numbers after a restart: '
        'use tf.random.stateless_* with a seed of common.data.example_seed.example_seed.'
    )
