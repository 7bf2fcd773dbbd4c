"""Local variables that carry something from step to step, such as the state of an RNN, which no checkpoint has."""

from collections.abc import Iterable, Iterator
from typing import Any

from tf_estimator.graphs import CALLING, body_of, functions_of

import tensorflow.compat.v1 as tf

_PASSES = ('Enter', 'RefEnter', 'RefSwitch', 'Switch')  # To branches and loops of TensorFlow 1.
_READS = (
    'Identity',
    'IsVariableInitialized',
    'ReadVariableOp',
    'ResourceGather',
    'ResourceGatherNd',
    'VarIsInitializedOp',
    'VariableShape',
)


def reasons(graph: tf.Graph) -> list[str]:
    """Returns why a resumed training differs, as `inexact.reasons` does, for a graph whose step is in no loop."""
    names = ', '.join(sorted(variable.op.name for variable in _variables(graph)))
    return [f'the local variables {names}, which are in no checkpoint and begin anew'] if names else []


def _variables(graph: tf.Graph) -> list[tf.Variable]:
    """Returns the local variables that a step changes, and by whose values it changes global ones."""
    with graph.as_default():
        local, global_ = tf.local_variables(), tf.global_variables()
    changed = {variable.op: variable for variable in local if any(_changes(variable))}
    if not changed:
        return []
    waiting = [tensor for variable in global_ for op in _changes(variable) for tensor in op.inputs]
    used: set[Any] = set()
    while waiting:
        op = waiting.pop().op
        if op not in used:
            used.add(op)
            waiting += op.inputs
            if op in changed:
                waiting += [tensor for change in _changes(changed[op]) for tensor in change.inputs]
    return [variable for op, variable in changed.items() if op in used]


def _changes(variable: tf.Variable) -> Iterator[tf.Operation]:
    """Yields the ops that change a variable, or may, as branches do, but for its initializer."""
    return (op for op in _consumers(variable.op.outputs) if op is not variable.initializer)


def _consumers(tensors: Iterable[tf.Tensor]) -> Iterator[tf.Operation]:
    """Yields the ops that take the tensors of a variable, and do not only read it."""
    waiting = [*tensors]
    while waiting:
        tensor = waiting.pop()
        for op in tensor.consumers():
            if op.type in _PASSES:
                waiting += op.outputs
            elif op.type not in _READS and (op.type not in CALLING or _may_change(op, tensor)):
                yield op


def _may_change(op: tf.Operation, tensor: tf.Tensor) -> bool:
    """Whether the functions of an op, whose arguments are its last inputs, may change one: those of imported graphs may."""
    places = [i - len(op.inputs) for i, each in enumerate(op.inputs) if each.name == tensor.name]
    bodies = [body_of(op.graph, name) for name in functions_of(op.node_def)]
    return any(body is None or any(_consumers(body.inputs[place] for place in places)) for body in bodies)
