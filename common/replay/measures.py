"""Facts about the tensors of a step: how large they are, and where the first NaN or infinity arises."""

from collections.abc import Iterable, Mapping, Sequence
import os
import re
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

import estimator_trainer
from estimator_trainer.common.graphs import ancestors, search

# Ops that only pass on or arrange values.
_PASSING = ('Identity', 'Reshape', 'Cast', 'Squeeze', 'ExpandDims', 'StridedSlice', 'Split', 'SplitV', 'Pack', 'StopGradient')
_SHAPES = ('Shape', 'ShapeN', 'Size', 'Rank')
_MODEL_SCOPE = re.compile(r'(model(/tower_\d+)?)?')
_TOP = os.path.dirname(os.path.dirname(os.path.abspath(estimator_trainer.__file__)))
_FRAMEWORK = re.compile(r'[/\\](site|dist)-packages[/\\]|^<')
_PYTHON = os.path.join(os.path.dirname(os.path.abspath(os.__file__)), '')


class Measure(NamedTuple):
    """Facts about the numbers of a tensor.

    Attributes:
      norm: the root of the sum of their squares, of those that are finite.
      largest: the largest absolute value of these.
      zeros: the share of zeros, in [0, 1].
      nan, infinite: how many are NaN or infinite.
      size: how many there are.
    """

    norm: float
    largest: float
    zeros: float
    nan: int
    infinite: int
    size: int

    @property
    def is_finite(self) -> bool:
        return not (self.nan or self.infinite)


def measures_of(tensor: tf.Tensor) -> tf.Tensor:
    """Returns what `to_measure` needs of a tensor of floats, float64 [6]."""
    values = tf.reshape(tf.cast(tensor, tf.float64), [-1])
    is_finite = tf.math.is_finite(values)
    known = tf.where(is_finite, values, tf.zeros_like(values))
    largest = tf.reduce_max(tf.concat([tf.abs(known), [0.0]], 0))
    scale = tf.where(largest > 0, largest, 1.0)  # Squares of large numbers would be infinite.
    counts = [tf.equal(values, 0), tf.math.is_nan(values), tf.math.is_inf(values)]
    sums = [tf.reduce_sum(tf.cast(count, tf.float64)) for count in counts]
    size = tf.cast(tf.size(values), tf.float64)
    return tf.stack([scale * tf.sqrt(tf.reduce_sum((known / scale) ** 2)), largest, *sums, size])


def to_measure(numbers: np.ndarray) -> Measure:
    """Returns the Measure of what `measures_of` has computed."""
    norm, largest, zeros, nan, infinite, size = numbers.tolist()
    return Measure(norm, largest, zeros / size if size else 0.0, int(nan), int(infinite), int(size))


def measure(values: np.ndarray) -> Measure:
    """Returns the Measure of an array."""
    values = np.asarray(values, np.float64)
    known = values[np.isfinite(values)]
    zeros = float((values == 0).mean()) if values.size else 0.0
    nan, infinite = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    return Measure(float(np.linalg.norm(known)), float(np.abs(known).max(initial=0)), zeros, nan, infinite, values.size)


def layers(features: Iterable[tf.Tensor], loss: tf.Tensor) -> list[tf.Tensor]:
    """Returns the outputs of layers: floats [batch, ...] on the way from features to a loss, in the order of their creation.

    Those that never leave a name scope within the model's are steps of its layer, and left out; so are ops that only arrange
    values.
    """
    reached = search(
        (tensor.op for tensor in features),
        lambda op: [] if op.type in _SHAPES else [user for tensor in op.outputs for user in tensor.consumers()],
    )
    way = {*ancestors([loss])} & {*reached} - _may_be_dead(loss.graph)
    return [op.outputs[0] for op in loss.graph.get_operations() if op in way and _is_layer(op, way)]


def _is_layer(op, way):
    if op.type in _PASSING or not op.inputs or not op.outputs or not op.outputs[0].dtype.is_floating:
        return False
    if op.outputs[0].shape.rank is not None and op.outputs[0].shape.rank < 2:
        return False
    scope = os.path.dirname(op.name)
    users = [user for user in op.outputs[0].consumers() if user in way]
    return bool(_MODEL_SCOPE.fullmatch(scope)) or any(os.path.dirname(user.name) != scope for user in users)


class Origin(NamedTuple):
    """Where a NaN or infinity arises: the op, its type, and the line of a module that made it, FILE:LINE, or ''."""

    op: str
    type: str
    line: str

    def __str__(self) -> str:
        return f'{self.op} ({self.type})' + (f', made at {self.line}' if self.line else '')


def find_origin(
    session: tf.Session, feeds: Mapping[Any, Any], results: Sequence[tf.Tensor], names: Mapping[str, str]
) -> Origin | None:
    """Returns the first op, in the order of computation, with an output that is not finite although its inputs are.

    Only ops count whose NaN or infinity leads to one of a result: others may be masked on purpose.

    Args:
      feeds: the batch.
      results: such as a loss and gradients.
      names: {name of a tensor of the batch: what it is}, for values that come with the batch.

    Returns:
      The origin; a variable or an input if that is not finite itself; None if all results are finite.
    """
    order = {op: number for number, op in enumerate(session.graph.get_operations())}
    needed = ancestors(results) - _may_be_dead(session.graph)
    tensors = [tensor for op in needed for tensor in op.outputs if tensor.dtype.is_floating]
    are_finite = session.run([tf.reduce_all(tf.math.is_finite(tensor)) for tensor in tensors], feeds)
    bad = {tensor.name for tensor, is_finite in zip(tensors, are_finite) if not is_finite}
    found, pending, seen = [], [tensor for tensor in results if tensor.name in bad], set()
    while pending:
        tensor = pending.pop()
        if tensor.name not in seen:
            seen.add(tensor.name)
            causes = [] if tensor.name in names else [value for value in tensor.op.inputs if value.name in bad]
            pending += causes
            found += [] if causes else [tensor]
    if not found:
        return None
    first = min(found, key=lambda tensor: order[tensor.op])
    if first.name in names:
        return Origin(names[first.name], 'input', '')
    if first.op.type in ('ReadVariableOp', 'ResourceGather'):
        return Origin(first.op.inputs[0].op.name, 'variable', '')
    return Origin(first.op.name, first.op.type, _line(first.op))


def _may_be_dead(graph):
    """Returns the ops whose outputs may have no values, or several: those of loops and branches of TensorFlow 1."""
    found: set[tf.Operation] = set()
    for op in graph.get_operations():
        context, joins = op._get_control_flow_context(), op.type in ('Exit', 'Merge')
        if op.type == 'Exit':
            context = context and context.outer_context
        if context or op.type == 'Switch' or not joins and found & {*op.control_inputs, *(value.op for value in op.inputs)}:
            found.add(op)
    return found


def _line(op):
    """Returns the line of a user's module, or of a model of the framework, that made an op, or the one whose gradient it is.

    Returns '' if there is none.
    """
    op = op._original_op or op
    skipped = (
        _PYTHON,
        os.path.join(_TOP, 'common', ''),
        os.path.join(_TOP, 'tf_estimator', ''),
        os.path.join(_TOP, 'estimator_trainer'),
    )
    for frame in reversed(op.traceback or ()):
        if not _FRAMEWORK.search(frame.filename) and not frame.filename.startswith(skipped):
            return '' if frame.filename.endswith(('trainer.py', '__main__.py')) else f'{frame.filename}:{frame.lineno}'
    return ''
