"""Random numbers that a parser draws are those of the example's place in the training."""

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from common.data.example_seed import example_seed
from common.errors import UsageError
from tests.data.pipelines import ModeKeys, batches, numbers


def parse(mode, params, record):
    first, second = (tf.random.stateless_uniform([], example_seed()) for _ in range(2))
    image = tf2.image.stateless_random_flip_left_right(tf.reshape(tf.range(6), [1, 6, 1]), example_seed())
    branch = tf.cond(record < 4, lambda: tf.random.stateless_uniform([], example_seed()), lambda: -1.0)
    return {'x': record, 'first': first, 'second': second, 'flipped': image[0, 0, 0], 'branch': branch}, {}


def parse_batch(mode, params, records):
    return {'x': records, 'first': tf.random.stateless_uniform(tf.shape(records), example_seed())}, {}


def draw(steps, function=parse, **options):
    """Returns {feature: values} of so many batches of 4 of the numbers 0 to 7."""
    found = batches(numbers(8, **{function.__name__: function}), steps, **options)
    return {name: np.concatenate([features[name] for features, _ in found]).tolist() for name in found[0][0]}


@pytest.mark.parametrize('function', [parse, parse_batch])
@pytest.mark.parametrize('cache', [True, False])
def test_every_example_draws_anew_in_each_epoch_and_a_resumed_training_draws_the_same(function, cache):
    whole = draw(9, function, cache=cache)
    assert len(set(whole['first'])) == 36
    assert draw(6, function, start=3, cache=cache) == {name: values[12:] for name, values in whole.items()}


def test_what_is_drawn_follows_from_the_seed_and_from_the_call_which_is_in_the_parser_alone():
    drawn = draw(4)
    assert not {*drawn['first']} & {*draw(4, seed=2)['first']} and not {*drawn['first']} & {*drawn['second']}
    assert {*drawn['flipped']} == {0, 5}
    assert all((value == -1) == (number >= 4) for number, value in zip(drawn['x'], drawn['branch'], strict=True))
    assert not {*drawn['branch']} & {*drawn['first']}
    assert draw(None, mode=ModeKeys.EVAL) == draw(None, mode=ModeKeys.EVAL)
    with tf.Graph().as_default(), pytest.raises(UsageError, match='in parse.. and parse_batch.. only'):
        example_seed()
