"""Random numbers drawn in a parser."""

import types

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from common.data.example_seed import example_seed
from common.errors import UsageError
from tests.data.test_input_pipeline import ModeKeys, batches


def parse(mode, params, record):
    first, second = (tf.random.stateless_uniform([], example_seed()) for _ in range(2))
    return {'x': record, 'first': first, 'second': second}, {'y': record}


def parse_batch(mode, params, records):
    return {'x': records, 'first': tf.random.stateless_uniform(tf.shape(records), example_seed())}, {'y': records}


def draws(count, start=0, function=parse, mode=ModeKeys.TRAIN, **changes):
    """Returns [(example, its draw)] of so many training steps."""
    module = types.SimpleNamespace(read=lambda *_: tf.data.Dataset.range(8), **{function.__name__: function})
    found = batches(module, count, mode, start, **changes)
    return [pair for features, _ in found for pair in zip(features['x'].tolist(), features['first'].tolist())]


@pytest.mark.parametrize('function', [parse, parse_batch])
@pytest.mark.parametrize('changes', [{}, {'cache': False}])
def test_a_resumed_training_draws_what_the_uninterrupted_one_draws(function, changes):
    whole = draws(9, function=function, **changes)
    assert whole[12:] == draws(6, 3, function, **changes)
    assert whole == draws(9, function=function, **changes)


@pytest.mark.parametrize('function', [parse, parse_batch])
def test_every_example_draws_anew_in_each_epoch(function):
    numbers = [number for _, number in draws(8, function=function)]
    assert len(set(numbers)) == 32


def test_another_seed_draws_other_numbers():
    assert not {number for _, number in draws(4)} & {number for _, number in draws(4, seed=2)}


def test_an_evaluation_draws_the_same_each_time():
    assert draws(None, mode=ModeKeys.EVAL) == draws(None, mode=ModeKeys.EVAL)


def test_two_calls_in_a_parser_draw_different_numbers():
    module = types.SimpleNamespace(read=lambda *_: tf.data.Dataset.range(8), parse=parse)
    ((features, _), *_) = batches(module, 1)
    assert not np.any(features['first'] == features['second'])


def test_the_stateless_ops_of_tf_image_take_the_seed():
    def parse(mode, params, record):
        image = tf.reshape(tf.range(6, dtype=tf.float32), [1, 6, 1])
        image = tf2.image.stateless_random_flip_left_right(image, example_seed())
        return {'x': record, 'first': image[0, 0, 0]}, {'y': record}

    assert {number for _, number in draws(16, function=parse)} == {0, 5}


def test_a_branch_of_a_parser_may_draw():
    def parse(mode, params, record):
        drawn = tf.cond(record < 4, lambda: tf.random.stateless_uniform([], example_seed()), lambda: -1.0)
        return {'x': record, 'first': drawn}, {'y': record}

    assert all((number == -1) == (example >= 4) for example, number in draws(4, function=parse))


def test_elsewhere_it_says_where_it_can_be_called():
    with tf.Graph().as_default(), pytest.raises(UsageError, match='in parse.. and parse_batch.. only'):
        example_seed()
