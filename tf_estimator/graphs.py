"""Dependencies of the tensors of a graph, and the functions that its ops call."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import tensorflow.compat.v1 as tf

# Stateful ops that only read: their tables never change, once constants or a checkpoint have set them.
TABLE_OPS = ('HashTableV2', 'LookupTableFindV2', 'LookupTableSizeV2')

# Ops of functions and control flow, which do what the ops in their functions do.
CALLING = {
    'Case',
    'If',
    'PartitionedCall',
    'StatefulPartitionedCall',
    'StatelessCase',
    'StatelessIf',
    'StatelessWhile',
    'While',
}


def reached(starts: Iterable[tf.Tensor | tf.Operation], ends: Collection[tf.Tensor] = ()) -> set[Any]:
    """Returns the ops that tensors or ops depend on, with these ops; it does not look beyond the tensors `ends`."""
    names = {end.name for end in ends}
    waiting = [getattr(each, 'op', each) for each in starts if each.name not in names]
    seen: set[Any] = set()
    while waiting:
        op = waiting.pop()
        if op not in seen:
            seen.add(op)
            waiting += [*(each.op for each in op.inputs if each.name not in names), *op.control_inputs]
    return seen


def functions_of(node: tf.NodeDef) -> Iterator[str]:
    """Yields the names of the functions in the attributes of a node, such as the branches of a condition."""
    for value in node.attr.values():
        yield from (function.name for function in ([value.func] if value.HasField('func') else value.list.func))


def body_of(graph: tf.Graph, name: str) -> tf.Graph | None:
    """Returns the graph of a function; None if there is no such function, or it came with an imported graph."""
    return getattr(graph._get_function(name), 'graph', None)
