"""Functions of datasets draw random numbers of their element, and datasets keep their order."""

from collections.abc import Callable
import functools
import inspect
from typing import Any
import warnings

from tf_estimator.exact import keys
from tf_estimator.mending import around
from tf_estimator.traps.log import warn

import tensorflow as tf
from tensorflow.python.autograph.core import ag_ctx
from tensorflow.python.autograph.impl import api as autograph
from tensorflow.python.data.experimental.ops import batching
from tensorflow.python.data.ops import (
    dataset_ops,
    filter_op,
    flat_map_op,
    interleave_op,
    map_op,
    readers,
    scan_op,
    structured_function,
    take_while_op,
)
from tensorflow.python.framework import ops

_SEED = 1  # Of the keys of elements; random ops have seeds of their own.
_MAPS = (
    map_op._MapDataset,
    map_op._ParallelMapDataset,
    flat_map_op._FlatMapDataset,
    interleave_op._InterleaveDataset,
    interleave_op._ParallelInterleaveDataset,
    batching._MapAndBatchDataset,
    readers.ParallelInterleaveDataset,
)


def mend() -> None:
    for dataset in _MAPS:
        around(dataset, '__init__')(_map)
    around(filter_op, '_filter')(_keep)
    around(take_while_op, '_take_while')(_keep)
    around(scan_op, '_scan')(_scan)
    around(structured_function.StructuredFunctionWrapper, '__init__')(_trace)
    around(dataset_ops.DatasetV2, '_apply_debug_options')(_in_order)


def _trace(init, self, *args, **kwargs):
    with keys.tracing_dataset():
        init(self, *args, **kwargs)


def _in_order(apply_options, self):
    """Makes the dataset of an iterator keep its order, whatever its options say."""
    dataset = apply_options(self)
    if not keys.is_in_training(ops.get_default_graph()):
        return dataset
    options = tf.data.Options()
    options.deterministic = True
    return dataset.with_options(options)


def _map(init, self, input_dataset, map_func, *args, **kwargs):
    if not keys.is_in_training(ops.get_default_graph()):
        init(self, input_dataset, map_func, *args, **kwargs)
        return
    rest = inspect.signature(init).bind(self, input_dataset, map_func, *args, **kwargs).arguments
    _keep_order(rest)
    for name in ('self', 'input_dataset', 'map_func'):
        del rest[name]
    with keys.trial() as found:
        init(self, input_dataset, map_func, **rest)
    if found:
        init(self, _with_keys(input_dataset), _of_pair(map_func), **rest)


def _keep_order(arguments):
    for name, value in (('deterministic', True), ('sloppy', False)):
        if arguments.get(name) is (not value):
            arguments[name] = value
            _warn_of_order()


@functools.cache  # Once.
def _warn_of_order():
    warn('With --exact, datasets keep their order: deterministic=False and sloppy=True are ignored.')


def _keep(transformation, input_dataset, predicate, name=None):
    """Keeps elements by a predicate."""
    with keys.trial() as found:
        dataset = transformation(input_dataset, predicate, name=name)
    if not found:
        return dataset
    return transformation(_with_keys(input_dataset), _of_pair(predicate), name=name).map(lambda element, key: element)


def _scan(scan, input_dataset, initial_state, scan_func, *args, **kwargs):
    with keys.trial() as found:
        dataset = scan(input_dataset, initial_state, scan_func, *args, **kwargs)
    if not found:
        return dataset
    function = _converted(scan_func)

    @autograph.do_not_convert
    def keyed(state, pair):
        keys.set_element_key(ops.get_default_graph(), pair[1])
        return function(state, pair[0])

    return scan(_with_keys(input_dataset), initial_state, keyed, *args, **kwargs)


def _with_keys(dataset: Any) -> Any:
    """Returns a dataset of pairs of an element and its key, which is another one each time that the dataset is repeated."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # Of TensorFlow 1, where repeated datasets alone draw new numbers: that is meant.
        random = tf.data.Dataset.random(_SEED, rerandomize_each_iteration=True)
    return tf.data.Dataset.zip((dataset, random))


def _of_pair(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function of an element and its key that calls `function`, whose random numbers then follow from the key."""
    converted = _converted(function)

    @autograph.do_not_convert
    def keyed(element, key):
        keys.set_element_key(ops.get_default_graph(), key)
        return converted(*element) if type(element) is tuple else converted(element)

    return keyed


def _converted(function):
    return autograph.tf_convert(function, ag_ctx.control_status_ctx())
