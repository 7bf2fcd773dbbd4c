"""Searching TensorFlow graphs."""

from collections.abc import Iterable

import tensorflow.compat.v1 as tf


def reachable(tensors: Iterable[tf.Tensor]) -> set[tf.Operation]:
    """Returns the ops that produce `tensors`, and all ops that consume them, directly or indirectly.

    Ops inside functions are not included.
    """
    found = set()
    pending = [tensor.op for tensor in tensors]
    while pending:
        op = pending.pop()
        if op not in found:
            found.add(op)
            pending += [consumer for tensor in op.outputs for consumer in tensor.consumers()]
    return found


def ancestors(fetches: Iterable[tf.Operation | tf.Tensor]) -> set[tf.Operation]:
    """Returns all ops that must run to compute fetches, those of the fetches included. Ops inside functions are not."""
    found = set()
    pending = [getattr(fetch, 'op', fetch) for fetch in fetches]
    while pending:
        op = pending.pop()
        if op not in found:
            found.add(op)
            pending += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
    return found


def random_op(definition: tf.GraphDef) -> tuple[str, str] | None:
    """Finds a seeded random op whose kernel holds the generator's state.

    Args:
      definition: a graph; the functions that its nodes call are searched, too.

    Returns:
      (name, type) of the op, or None if there is none.
    """
    functions = {function.signature.name: function.node_def for function in definition.library.function}
    pending = list(definition.node)
    while pending:
        node = pending.pop()
        if _is_stateful_random(node):
            return node.name, node.op
        for name in _called_functions(node):
            pending += functions.pop(name, [])
    return None


def _is_stateful_random(node):
    if 'seed2' not in node.attr or not (node.attr['seed'].i or node.attr['seed2'].i):
        return False  # Without a seed it is not reproducible anyway.
    return not (node.op.startswith('CudnnRNN') and not node.attr['dropout'].f)


def _called_functions(node):
    """Yields the names of the functions that a node calls."""
    yield node.op
    for value in node.attr.values():
        yield from (function.name for function in (value.func, *value.list.func))
