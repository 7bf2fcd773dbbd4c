"""Random ops of a training graph become stateless: functions of their seeds and of a key (keys.py)."""

from collections.abc import Callable, Iterator
import contextlib
import functools
import random
import sys
from types import ModuleType
from typing import Any
import zlib

from tf_estimator.exact import keys, samplers
from tf_estimator.mending import around

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import func_graph, ops, random_seed
from tensorflow.python.ops import gen_candidate_sampling_ops, gen_image_ops, gen_random_ops
from tensorflow.python.ops import gen_stateless_random_ops as stateless

_MAX_SEED = 2**31 - 1


def mend() -> None:
    around(random_seed, 'get_seed')(_get_seed)
    for module, replacements in _REPLACEMENTS.items():
        for name, replacement in replacements.items():
            around(module, name)(functools.partial(_draw, replacement))


@contextlib.contextmanager
def seeding_keras(seed: int) -> Iterator[None]:
    """Within the block, seeds that Keras draws in Python follow from `seed`."""
    modules: list[Any] = [sys.modules.get(name) for name in ('tf_keras.src.backend', 'keras.src.backend')]
    generators = [module._SEED_GENERATOR for module in modules if hasattr(module, '_SEED_GENERATOR')]
    previous = [getattr(each, 'generator', None) for each in generators]
    for each in generators:
        each.generator = random.Random(seed)
    try:
        yield
    finally:
        for each, generator in zip(generators, previous):
            each.generator = generator


def _get_seed(get_seed, op_seed):
    """Gives random ops without a seed different ones in each function: TensorFlow counts from 0 in each."""
    graph = ops.get_default_graph()
    if op_seed is None and isinstance(graph, func_graph.FuncGraph) and keys.is_in_training(graph):
        op_seed = zlib.crc32(repr((keys.path(graph), keys.next_number(graph))).encode()) % _MAX_SEED
    return get_seed(op_seed)


def _draw(replacement, op, *args, seed=0, seed2=0, name=None, **kwargs):
    key = keys.current() if replacement is not samplers.fixed_unigram or samplers.draws_by_key(**kwargs) else None
    if key is None:
        return op(*args, seed=seed, seed2=seed2, name=name, **kwargs)
    with tf.name_scope(name, op.__name__):
        pair = tf.stack([key, tf.constant(((seed or 0) << 31) + (seed2 or 0), tf.int64)])
        return replacement(*args, seed=pair, **kwargs)


def _uniform(shape, dtype, seed):
    return stateless.stateless_random_uniform(shape, seed, dtype)


def _uniform_int(shape, minval, maxval, seed):
    return stateless.stateless_random_uniform_int(shape, seed, minval, maxval)


def _normal(shape, dtype, seed):
    return stateless.stateless_random_normal(shape, seed, dtype)


def _truncated_normal(shape, dtype, seed):
    return stateless.stateless_truncated_normal(shape, seed, dtype)


def _multinomial(logits, num_samples, seed, output_dtype=tf.int64):
    return stateless.stateless_multinomial(logits, num_samples, seed, output_dtype)


def _gamma(shape, alpha, seed):
    return stateless.stateless_random_gamma_v2(_with_shape_of(shape, alpha), seed, alpha)


def _poisson(shape, rate, seed, dtype=tf.int64):
    return stateless.stateless_random_poisson(_with_shape_of(shape, rate), seed, rate, dtype)


def _with_shape_of(shape, parameter):
    """The shape of `shape` samples for each value of a parameter."""
    return tf.concat([tf.cast(shape, tf.int32), tf.shape(parameter)], 0)


def _shuffle(value, seed):
    value = tf.convert_to_tensor(value)
    return tf.gather(value, tf.random.experimental.stateless_shuffle(tf.range(tf.shape(value)[0]), seed))  # With a gradient.


def _bounding_box(image_size, bounding_boxes, seed, min_object_covered=0.1, **kwargs):
    return gen_image_ops.stateless_sample_distorted_bounding_box(
        image_size, bounding_boxes, min_object_covered, seed=seed, **kwargs
    )


def _bounding_box_v2(image_size, bounding_boxes, min_object_covered, seed, **kwargs):
    return _bounding_box(image_size, bounding_boxes, seed, min_object_covered, **kwargs)


def _parameterized(shape, means, stdevs, minvals, maxvals, seed):
    ones = tf.ones([tf.size(shape) - 1], tf.int32)  # Each value of a parameter is that of a row.
    parameters = [
        tf.broadcast_to(tf.reshape(value, tf.concat([[-1], ones], 0)), shape) for value in (means, stdevs, minvals, maxvals)
    ]
    return stateless.stateless_parameterized_truncated_normal(shape, seed, *parameters)


_REPLACEMENTS: dict[ModuleType, dict[str, Callable[..., Any]]] = {
    gen_random_ops: {
        'random_uniform': _uniform,
        'random_uniform_int': _uniform_int,
        'random_standard_normal': _normal,
        'truncated_normal': _truncated_normal,
        'multinomial': _multinomial,
        'random_gamma': _gamma,
        'random_poisson_v2': _poisson,
        'random_shuffle': _shuffle,
        'parameterized_truncated_normal': _parameterized,
    },
    gen_candidate_sampling_ops: {
        'uniform_candidate_sampler': samplers.uniform,
        'log_uniform_candidate_sampler': samplers.log_uniform,
        'fixed_unigram_candidate_sampler': samplers.fixed_unigram,
    },
    gen_image_ops: {
        'sample_distorted_bounding_box': _bounding_box,
        'sample_distorted_bounding_box_v2': _bounding_box_v2,
    },
}
