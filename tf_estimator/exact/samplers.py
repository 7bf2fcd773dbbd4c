"""The candidate samplers of sampled losses, as functions of a seed."""

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import gen_candidate_sampling_ops as ops
from tensorflow.python.ops import gen_stateless_random_ops as stateless

Draw = Callable[[tf.Tensor], tf.Tensor]  # Of float64 numbers in [0, 1), classes, int64.
_Chance = Callable[[tf.Tensor], tf.Tensor]  # Of int64 classes, the probabilities, float64.


def uniform(true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, seed: tf.Tensor) -> Any:
    def draw(numbers):
        return tf.cast(numbers * range_max, tf.int64)

    def chance(classes):
        return tf.fill(tf.shape(classes), tf.constant(1 / range_max, tf.float64))

    return _sample(true_classes, num_sampled, unique, range_max, seed, draw, chance)


def log_uniform(true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, seed: tf.Tensor) -> Any:
    scale = tf.math.log1p(tf.constant(range_max, tf.float64))

    def draw(numbers):
        return tf.minimum(tf.cast(tf.exp(numbers * scale), tf.int64) - 1, range_max - 1)

    def chance(classes):
        return tf.math.log1p(1 / tf.cast(classes + 1, tf.float64)) / scale

    return _sample(true_classes, num_sampled, unique, range_max, seed, draw, chance)


def fixed_unigram(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: tf.Tensor,
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    unigrams: Any = (),
    **of_all: Any,
) -> Any:
    del of_all  # A file has no unigrams here, and shards are other ranges: see `draws_by_key`.
    weights = tf.pow(tf.constant([*unigrams], tf.float64), distortion)
    weights = tf.concat([tf.zeros([num_reserved_ids], tf.float64), weights], 0)
    chances = weights / tf.reduce_sum(weights)
    ends = tf.cumsum(chances)

    def draw(numbers):
        return tf.minimum(tf.searchsorted(ends, numbers, side='right', out_type=tf.int64), range_max - 1)

    return _sample(true_classes, num_sampled, unique, range_max, seed, draw, lambda classes: tf.gather(chances, classes))


def draws_by_key(vocab_file: str = '', num_shards: int = 1, **unused: Any) -> bool:
    """Whether `fixed_unigram` can replace the op of these arguments."""
    return not vocab_file and num_shards == 1


def _sample(
    true_classes: Any, num_sampled: int, unique: bool, range_max: int, seed: tf.Tensor, draw: Draw, chance: _Chance
) -> Any:
    """Returns what the ops return: sampled classes, int64 [num_sampled], and how often the true ones, and they, are expected.

    Raises:
      ValueError: there are fewer different classes than wanted.
    """
    if unique and num_sampled > range_max:
        raise ValueError(f'num_sampled={num_sampled} different classes are more than range_max={range_max}')

    def block(number):
        key = stateless.stateless_random_uniform_full_int(tf.constant([2]), seed + tf.stack([number, 0]), tf.int64)
        return draw(stateless.stateless_random_uniform([2 * num_sampled if unique else num_sampled], key, tf.float64))

    zero = tf.zeros([], tf.int64)
    classes, tries = block(zero), tf.constant(num_sampled, tf.float64)
    if unique:
        _, classes = tf.while_loop(
            lambda number, drawn: tf.size(tf.unique(drawn).y) < num_sampled,
            lambda number, drawn: (number + 1, tf.concat([drawn, block(number)], 0)),
            [zero + 1, classes],
            [zero.shape, tf.TensorShape([None])],
            back_prop=False,
        )
        different, places = tf.unique(classes, tf.int64)
        tries = tf.cast(tf.argmax(tf.equal(places, num_sampled - 1)) + 1, tf.float64)  # Until the last one.
        classes = tf.reshape(different[:num_sampled], [num_sampled])

    def expected(which):  # As the ops compute it.
        chances = chance(which)
        of_tries = -tf.math.expm1(tries * tf.math.log1p(-chances))
        return tf.cast(tf.where(tries > num_sampled, of_tries, chances * num_sampled), tf.float32)

    true_classes = tf.cast(true_classes, tf.int64)
    return ops._LogUniformCandidateSamplerOutput(classes, expected(true_classes), expected(classes))
