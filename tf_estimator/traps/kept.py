"""Graphs that are kept for further calls: what they are made of, and whether their results depend on their inputs alone."""

import os
import sys
from typing import Any

from tf_estimator.traps.reads import UnknownError
from tf_estimator.traps.state import State

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import op_def_registry, tensor_util

# Types of stateful ops that change nothing, and read only variables and tables that a checkpoint or constants have set.
READING = {
    *('VarHandleOp', 'ReadVariableOp', 'ResourceGather', 'ResourceGatherNd', 'VarIsInitializedOp', 'VariableV2', 'Assert'),
    *('HashTableV2', 'LookupTableFindV2', 'LookupTableSizeV2'),
}
# Of functions and control flow, which count as stateful if anything in them does: it is looked at.
_CALLING = {
    'StatefulPartitionedCall',
    'PartitionedCall',
    'If',
    'While',
    'Case',
    'StatelessIf',
    'StatelessWhile',
    'StatelessCase',
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

    def __deepcopy__(self, memo):
        return Kept()

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


def is_simple_input(graph: tf.Graph, features: Any) -> bool:
    """Whether features come from datasets alone, and nothing else of their graph, which has a global step, is of use."""
    with graph.as_default():
        has_variables = len(tf.global_variables()) > 1 or tf.local_variables()
    keys = {key for key in graph.get_all_collection_keys() if graph.get_collection_ref(key)} - {
        'variables',
        'global_step',
        'cond_context',
        'while_context',
    }
    types = {op.type for op in reached(flatten(features), [])}
    return not has_variables and keys <= {'table_initializer', 'iterators', 'saveable_objects'} and 'IteratorGetNext' in types


def reached(tensors: list[Any], ends: list[Any]) -> set[Any]:
    """Returns the ops that tensors or ops depend on; it does not look beyond the tensors `ends`."""
    names = {end.name for end in ends}
    waiting = [getattr(each, 'op', each) for each in tensors if each.name not in names]
    seen: set[tf.Operation] = set()
    while waiting:
        op = waiting.pop()
        if op not in seen:
            seen.add(op)
            waiting += [*(each.op for each in op.inputs if each.name not in names), *op.control_inputs]
    return seen


def only_reads(graph: tf.Graph, ops: Any) -> bool:
    """Whether ops of a graph have no state but what READING reads."""
    functions = {each.signature.name: each for each in graph.as_graph_def().library.function}
    waiting, seen = [op.node_def for op in ops], {''}
    while waiting:
        node = waiting.pop()
        definition = op_def_registry.get(node.op)
        if node.op not in _CALLING | READING and (definition is None or definition.is_stateful):
            return False
        for name in {each.func.name for each in node.attr.values() if each.HasField('func')} - seen:
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
    """An input_fn's graph with its session, which yields values for the inputs of another graph."""

    def __init__(self, graph, values, hooks, config):
        self._flat = flatten(values)
        with graph.as_default():
            for hook in hooks:
                hook.begin()
            tables = tf.tables_initializer()
        self._session = tf.Session(graph=graph, config=config)
        self._session.run(tables)
        for hook in hooks:
            hook.after_create_session(self._session, None)

    def next(self):
        """Returns the next values; raises tf.errors.OutOfRangeError at the end."""
        return self._session.run(self._flat)

    def close(self):
        self._session.close()
