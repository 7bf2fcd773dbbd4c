"""What the tensors of a graph depend on."""

from collections.abc import Collection, Iterable
from typing import Any

import tensorflow.compat.v1 as tf

# Stateful ops that only read: their tables never change, once constants or a checkpoint have set them.
TABLE_OPS = ('HashTableV2', 'LookupTableFindV2', 'LookupTableSizeV2')


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
