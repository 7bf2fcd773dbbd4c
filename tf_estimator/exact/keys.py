"""The keys of random ops in a training graph: what an op draws is a function of its seeds and of a key.

In the graph itself, a key is a number that each run of the session feeds. In a function of a dataset, it belongs to the
element; in a loop, to the iteration; in another function, to the call.
"""

from collections.abc import Iterator
import contextlib
import itertools
from typing import Any
import zlib

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import func_graph, ops
from tensorflow.python.ops import control_flow_ops, control_flow_v2_func_graphs, gen_random_ops, gen_stateless_random_ops

_draw = gen_random_ops.random_uniform_int  # Before this package replaces it.
_SPEC = tf.TensorSpec([], tf.int64)
_traced: list[ops.Graph] = []  # Outer graphs of the functions of datasets that are being traced, the innermost last.
_trials: list[list[None]] = []


def begin(graph: tf.Graph) -> None:
    """Marks a graph as one for training."""
    graph._exact_root = True


def set_default(graph: tf.Graph, number: tf.Tensor) -> None:
    """Makes `number`, a scalar int64 tensor, the key of runs of a session that do not feed it."""
    with graph.as_default(), graph.name_scope('exact/'):
        graph._exact_key = tf.placeholder_with_default(number, [], 'key')


def is_in_training(graph: Any) -> bool:
    """Whether a graph, or the one around a function's, is one for training."""
    while isinstance(graph, func_graph.FuncGraph):
        graph = graph.outer_graph
    return hasattr(graph, '_exact_root')


def fed_key(graph: tf.Graph) -> tf.Tensor | None:
    """Returns the scalar int64 tensor that runs of a session feed, or None if no op depends on it."""
    return getattr(graph, '_exact_key', None)


def current() -> tf.Tensor | None:
    """Returns a key for an op in the default graph, a scalar int64 tensor, or None if there is none for it."""
    graph = ops.get_default_graph()
    if not is_in_training(graph):
        return None
    key = _function_key(graph) if isinstance(graph, func_graph.FuncGraph) else _root_key(graph)
    context = graph._get_control_flow_context()
    while key is not None and context is not None:
        if isinstance(context, control_flow_ops.WhileContext):
            iteration = _iteration(graph, context)
            key = None if iteration is None else fold(key, iteration)
        context = context.outer_context
    return key


def fold(key: tf.Tensor, number: Any) -> tf.Tensor:
    """Returns the key of part `number` of what has a key."""
    seed = tf.stack([key, tf.cast(number, tf.int64)])
    return gen_stateless_random_ops.stateless_random_uniform_full_int(tf.zeros([0], tf.int32), seed, tf.int64)


def _root_key(graph):
    """A key that is drawn unless it is fed: for initial values of variables, and for the threads of queues."""
    if not hasattr(graph, '_exact_key'):
        with contextlib.ExitStack() as stack:
            for context in (
                graph.as_default(),
                graph.control_dependencies(None),
                graph.name_scope('exact/'),
                tf.device('/cpu:0'),
            ):
                stack.enter_context(context)
            stack.enter_context(graph.colocate_with(None, ignore_existing=True))
            low, high = tf.constant(0, tf.int64), tf.constant(1 << 62, tf.int64)
            drawn = _draw(tf.zeros([0], tf.int32), low, high, seed=graph.seed or 0, seed2=zlib.crc32(b'exact'))
            graph._exact_key = tf.placeholder_with_default(drawn, [], 'key')
    return graph._exact_key


def _iteration(graph, context):
    """The number of the current iteration of a while loop of TensorFlow 1; None in its condition."""
    if not hasattr(context, '_exact_iteration'):
        if context.pivot is None:
            return None
        with graph.control_dependencies(None):
            graph._set_control_flow_context(context.outer_context)
            context._exact_iteration = context.AddForwardLoopCounter(None)[1].op.inputs[0]  # Not of the next one.
    return context._exact_iteration


def _function_key(graph):
    if hasattr(graph, '_exact_key'):
        return graph._exact_key
    if is_of_dataset(graph):
        for trial in _trials:
            trial.append(None)
        return None
    if isinstance(graph, control_flow_v2_func_graphs.ControlFlowFuncGraph):
        with graph.outer_graph.as_default():
            key = current()
        is_loop = not isinstance(graph, control_flow_v2_func_graphs.CondBranchFuncGraph)
        with graph.as_default(), graph.control_dependencies(None):
            graph._exact_key = fold(key, graph.inputs[0]) if is_loop and key is not None else key
    else:
        graph._exact_key = _capture_at_call(graph)
    return graph._exact_key


def _capture_at_call(graph):
    """A placeholder in a function's graph whose value each call computes; capture_call_time_value needs TensorFlow 2."""
    with graph.as_default(), graph.control_dependencies(None):
        placeholder = tf.placeholder(tf.int64, [], 'key')

    def key_of_call():
        key, caller = current(), ops.get_default_graph()
        return [tf.random.uniform([], 0, 1 << 62, tf.int64) if key is None else fold(key, next_number(caller))]

    setattr(key_of_call, 'output_spec', _SPEC)  # noqa: B010 - functions have none for mypy.
    graph._function_captures.add_or_replace(
        key=key_of_call, external=key_of_call, internal=placeholder, tracetype=_SPEC, is_by_ref=True
    )
    return placeholder


def next_number(graph: Any) -> int:
    """Counts what a graph has: its calls of functions, its random ops and its functions with any."""
    if not hasattr(graph, '_exact_count'):
        graph._exact_count = itertools.count()
    return next(graph._exact_count)


def path(graph: Any) -> tuple[int, ...]:
    """Returns numbers that tell a function's graph from all others of its training."""
    if not isinstance(graph, func_graph.FuncGraph):
        return ()
    if not hasattr(graph, '_exact_path'):
        graph._exact_path = (*path(graph.outer_graph), next_number(graph.outer_graph))
    return graph._exact_path


def is_of_dataset(graph: Any) -> bool:
    """Whether a function's graph is that of a dataset's function."""
    if not hasattr(graph, '_exact_is_of_dataset'):
        graph._exact_is_of_dataset = any(graph.outer_graph is each for each in _traced)
    return graph._exact_is_of_dataset


@contextlib.contextmanager
def tracing_dataset() -> Iterator[None]:
    """Within the block, functions of the default graph are a dataset's."""
    _traced.append(ops.get_default_graph())
    try:
        yield
    finally:
        _traced.pop()


@contextlib.contextmanager
def trial() -> Iterator[list[None]]:
    """Yields a list that is no longer empty once a random op in a dataset's function has found no key."""
    found: list[None] = []
    _trials.append(found)
    try:
        yield found
    finally:
        _trials.pop()


def set_element_key(graph: Any, key: tf.Tensor) -> None:
    """Sets the key of the element for which the function of a dataset is called, unless the function around it has none."""
    outer = graph.outer_graph
    while isinstance(outer, func_graph.FuncGraph) and not is_of_dataset(outer):
        outer = outer.outer_graph
    graph._exact_is_of_dataset = True
    if not isinstance(outer, func_graph.FuncGraph):
        graph._exact_key = key
        return
    outer_key = _function_key(outer)
    if outer_key is not None:
        graph._exact_key = fold(key, outer_key)
