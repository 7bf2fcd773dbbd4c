"""Graphs that are kept for further calls: what they are made of, and whether their results depend on their inputs alone."""

import os
import sys
from typing import Any

from tf_estimator.graphs import CALLING, TABLE_OPS, functions_of, reached
from tf_estimator.traps import memory
from tf_estimator.traps.reads import UnknownError
from tf_estimator.traps.state import State

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import op_def_registry, tensor_util

# Types of stateful ops that change nothing, and read only variables and tables that a checkpoint or constants have set.
READING = {
    *('VarHandleOp', 'ReadVariableOp', 'ResourceGather', 'ResourceGatherNd', 'VarIsInitializedOp', 'VariableV2', 'Assert'),
    *TABLE_OPS,
}
# The settings of libraries that their functions read, by modules.
_SETTINGS = {
    'tf_slim.ops.arg_scope': ('_ARGSTACK',),
    **{
        f'{package}.src.{name}': attributes
        for package in ('keras', 'tf_keras')
        for name, attributes in (
            ('backend_config', ('_EPSILON', '_FLOATX', '_IMAGE_DATA_FORMAT')),
            ('backend.config', ('_EPSILON', '_FLOATX', '_IMAGE_DATA_FORMAT')),
            ('mixed_precision.policy', ('_global_policy',)),
            ('saving.object_registration', ('_GLOBAL_CUSTOM_OBJECTS',)),
        )
    },
}


class Situation:
    """What a call depends on but for its input, and the model that is kept for it."""

    model: Any = None
    is_refused = False

    def __init__(self, facts: Any):
        self.facts = facts


class Kept:
    """What an Estimator keeps: the situation of its last call. Copies keep nothing."""

    _last = Situation(None)

    def __reduce__(self):
        return Kept, ()

    def again(self, facts: Any) -> Situation | None:
        """Returns the situation if it is that of the last call, and a model may be kept for it; otherwise notes it.

        A call that runs meanwhile, in a thread or an input_fn, has a situation of its own.
        """
        last = self._last
        if last.facts is not None and last.facts == facts:
            return None if last.is_refused else last
        self._last = Situation(facts)
        return None  # A model that is not used again is not kept.


def situation(estimator: Any, *more: Any) -> Any:
    """Returns what a model depends on, to compare it; None if it cannot be told."""
    try:
        return os.getpid(), State(estimator._model_fn, estimator._params, estimator._config, _settings(), *more)
    except (UnknownError, ValueError, TypeError, RecursionError):  # A cell of a closure may be empty.
        return None


def _settings():
    """Returns the settings of libraries that are imported."""
    modules = [(vars(module), names) for path, names in _SETTINGS.items() if (module := sys.modules.get(path))]
    return [values.get(name) for values, names in modules for name in names]


def flatten(values: Any) -> list[Any]:
    return tf.nest.flatten(values, expand_composites=True)


def signature(values: Any) -> Any:
    """Returns the structure of tensors, their dtypes, static shapes and values; None unless all are tensors that can be fed."""
    flat = flatten(values)
    if not flat or not all(isinstance(each, tf.Tensor) and each.graph.is_feedable(each) for each in flat):
        return None
    if any(each.dtype in (tf.variant, tf.resource) for each in flat):
        return None
    kinds = tf.nest.map_structure(lambda each: '' if isinstance(each, tf.Tensor) else tf.type_spec_from_value(each), values)
    return repr(kinds), [(each.dtype, str(each.shape), _known(each)) for each in flat]  # A dict's order counts.


def _known(tensor):
    """Returns what a model_fn can read of a tensor's value."""
    return repr(np.asarray(tensor_util.constant_value(tensor, partial=True)).tolist())


def is_simple_input(graph: tf.Graph, values: Any) -> bool:
    """Whether values come from datasets alone, and nothing else of their graph, which has a global step, is of use."""
    with graph.as_default():
        has_variables = len(tf.global_variables()) > 1 or tf.local_variables()
    keys = {key for key in graph.get_all_collection_keys() if graph.get_collection_ref(key)}
    harmless = {
        'variables',
        'global_step',
        'cond_context',
        'while_context',
        'table_initializer',
        'iterators',
        'saveable_objects',
    }
    return not has_variables and keys <= harmless and any(op.type == 'IteratorGetNext' for op in reached(flatten(values)))


def only_reads(graph: tf.Graph, ops: Any) -> bool:
    """Whether ops of a graph have no state but what READING reads; functions that they call are looked into."""
    functions = {each.signature.name: each for each in graph.as_graph_def().library.function}
    waiting, seen = [op.node_def for op in ops], {''}
    while waiting:
        node = waiting.pop()
        definition = op_def_registry.get(node.op)
        if node.op not in CALLING | READING and (definition is None or definition.is_stateful):
            return False
        for name in {*functions_of(node)} - seen:
            seen.add(name)
            if name not in functions:
                return False
            waiting += functions[name].node_def
    return True


def runs_python(graph: tf.Graph) -> bool:
    """Whether a graph has Python functions, which may have a state of their own."""
    nodes = [each.node_def for each in graph.as_graph_def().library.function]
    types = {op.type for op in graph.get_operations()} | {node.op for each in nodes for node in each}
    return any('PyFunc' in each for each in types)


def starts_alike(graph: tf.Graph, scaffold: Any) -> bool:
    """Whether sessions of the graph start alike from a checkpoint, without code of the program or threads."""
    own = (scaffold.init_fn, scaffold.init_op, scaffold.local_init_op, scaffold.init_feed_dict) if scaffold else ()
    return not any(each is not None for each in own) and not graph.get_collection(tf.GraphKeys.QUEUE_RUNNERS)


class Input:
    """The features and labels of an input_fn in the default graph, and, once started, its values, for a graph that is fed.

    Attributes:
      values: nested tensors [features] or [features, labels].
      hooks: of the input_fn.
      ops: of the input_fn.
      signature, is_simple: of the values; see `signature` and `is_simple_input`.
    """

    def __init__(self, estimator, input_fn, mode):
        self._estimator, self._mode, self._graph = estimator, mode, tf.get_default_graph()
        tf.set_random_seed(estimator._config.tf_random_seed)
        estimator._create_and_assert_global_step(self._graph)
        before = {*self._graph.get_operations()}
        if mode == tf.estimator.ModeKeys.PREDICT:
            features, self.hooks = estimator._get_features_from_input_fn(input_fn, mode)
            self._given = features, None
        else:
            *self._given, self.hooks = estimator._get_features_and_labels_from_input_fn(input_fn, mode)
        self.values = [*self._given[:1], *(each for each in self._given[1:] if each is not None)]
        self.ops = {*self._graph.get_operations()} - before
        self.signature = signature(self.values)
        self.is_simple = self.signature is not None and is_simple_input(self._graph, self.values)

    def kept_model(self, keep):
        """Returns the model of a Situation if it takes the input; None if it does not."""
        return keep.model if self.is_simple and keep.model and keep.model.signature == self.signature else None

    def call_model_fn(self):
        with memory.forgetting() as forgetting:
            forgetting.graph = self._graph
            return self._estimator._call_model_fn(*self._given, self._mode, self._estimator.config)

    def start(self):
        for hook in self.hooks:
            hook.begin()
        tables = tf.tables_initializer()
        self._flat = flatten(self.values)
        self._session = tf.Session(graph=self._graph, config=self._estimator._session_config)
        self._session.run(tables)
        for hook in self.hooks:
            hook.after_create_session(self._session, None)

    def next(self):
        """Returns the next values; raises tf.errors.OutOfRangeError at the end."""
        return self._session.run(self._flat)

    def close(self):
        self._session.close()
