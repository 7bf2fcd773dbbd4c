"""Reproducible random numbers in a dataset module's parser."""

import itertools
import weakref
import zlib

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError

# {graph that calls a parser: (seed, position, count of the calls of example_seed)}
_positions: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


@tf.autograph.experimental.do_not_convert
def example_seed() -> tf.Tensor:
    """Returns a seed for stateless random ops in `parse` or `parse_batch`.

    It is a function of the hyper-parameter seed and of the example's position: the number of examples before it in training,
    over all epochs, or in the evaluated split. So each epoch draws other numbers, and a resumed or repeated run draws the same
    ones. Each call in a parser returns a different seed. In `parse_batch`, one seed serves the whole batch, from the position
    of its first example.

        image = tf.image.stateless_random_flip_left_right(image, example_seed())

    Returns:
      int64 [2].

    Raises:
      UsageError: called elsewhere, or the module has PARSED_ONCE.
    """
    graph = tf.get_default_graph()
    while graph not in _positions:
        graph = getattr(graph, 'outer_graph', None)  # A branch of tf.cond is a separate graph.
        if graph is None:
            raise UsageError('example_seed() can be called in parse() and parse_batch() only, and not with PARSED_ONCE')
    seed, position, calls = _positions[graph]
    return tf.stack([tf.constant(zlib.crc32(f'{seed} {next(calls)}'.encode()), tf.int64), position])


@tf.autograph.experimental.do_not_convert
def set_position(seed: int, position: tf.Tensor) -> None:
    """Makes `example_seed` return seeds for a position, an int64 scalar, in the current graph."""
    _positions[tf.get_default_graph()] = (seed, position, itertools.count())
