"""Functions of datasets draw random numbers of their element, and datasets keep their order."""

from collections.abc import Callable
import functools
import inspect
from typing import Any
import warnings

from tf_estimator.exact import keys
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
        dataset.__init__ = _map(dataset.__init__)
    filter_op._filter = _keep(filter_op._filter)
    take_while_op._take_while = _keep(take_while_op._take_while)
    scan_op._scan = _scan(scan_op._scan)
    wrapper = structured_function.StructuredFunctionWrapper
    wrapper.__init__ = _trace(wrapper.__init__)
    dataset_ops.DatasetV2._apply_debug_options = _in_order(dataset_ops.DatasetV2._apply_debug_options)


def _trace(init):
    @functools.wraps(init)
    def traced(self, *args, **kwargs):
        with keys.tracing_dataset():
            init(self, *args, **kwargs)

    return traced


def _in_order(apply_options):
    """Makes the dataset of an iterator keep its order, whatever its options say."""

    @functools.wraps(apply_options)
    def ordered(self):
        dataset = apply_options(self)
        if not keys.is_in_training(ops.get_default_graph()):
            return dataset
        options = tf.data.Options()
        options.deterministic = True
        return dataset.with_options(options)

    return ordered


def _map(init):
    signature = inspect.signature(init)

    @functools.wraps(init)
    def mapped(self, input_dataset, map_func, *args, **kwargs):
        if not keys.is_in_training(ops.get_default_graph()):
            init(self, input_dataset, map_func, *args, **kwargs)
            return
        bound = signature.bind(self, input_dataset, map_func, *args, **kwargs)
        _keep_order(bound.arguments)
        rest = {name: value for name, value in bound.arguments.items() if name not in ('self', 'input_dataset', 'map_func')}
        with keys.trial() as found:
            init(self, input_dataset, map_func, **rest)
        if found:
            init(self, _with_keys(input_dataset), _of_pair(map_func), **rest)

    return mapped


def _keep_order(arguments):
    for name, value in (('deterministic', True), ('sloppy', False)):
        if arguments.get(name) is (not value):
            arguments[name] = value
            _warn_of_order()


@functools.cache  # Once.
def _warn_of_order():
    warn('With --exact, datasets keep their order: deterministic=False and sloppy=True are ignored.')


def _keep(transformation):
    """Keeps elements by a predicate."""

    @functools.wraps(transformation)
    def kept(input_dataset, predicate, name=None):
        with keys.trial() as found:
            dataset = transformation(input_dataset, predicate, name=name)
        if not found:
            return dataset
        return transformation(_with_keys(input_dataset), _of_pair(predicate), name=name).map(lambda element, key: element)

    return kept


def _scan(scan):
    @functools.wraps(scan)
    def scanned(input_dataset, initial_state, scan_func, *args, **kwargs):
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

    return scanned


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
