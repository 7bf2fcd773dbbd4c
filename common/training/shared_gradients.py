"""The means of the gradients of a program's own training step over the parts of a batch.

A program may clip them, or apply them by an optimizer of its own, so it gets stand-ins for the means as soon as TensorFlow has
computed gradients: it then does with the means what it would do with the gradients of the whole batch.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import functools
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf
from tensorflow.python.eager import backprop
from tensorflow.python.framework import func_graph
from tensorflow.python.ops import gradients_util

from estimator_trainer.common.errors import UsageError, listed
from estimator_trainer.common.graphs import ancestors, changed_variables, function_bodies, search

Gradient = Any  # A tf.Tensor or tf.IndexedSlices.


class _Call(NamedTuple):
    """Gradients, some None, of the variables of these names, and the stand-ins that the program got."""

    names: list[str]
    gradients: list[Gradient | None]
    stand_ins: list[Gradient | None]


class SharedGradients:
    """Averages gradients over the towers of a process, then by a function over the processes of a cluster.

    Args:
      source: names the program in errors.
      weights: of the towers, float32 scalars with the sum 1.
      over_tasks: function of a list of gradients that returns their means over all processes.
    """

    def __init__(self, source: str, weights: Sequence[Any], over_tasks: Callable[[list[Gradient]], Sequence[Gradient]]):
        self._source, self._weights, self._over_tasks = source, weights, over_tasks
        self._calls: list[list[_Call]] = [[] for _ in weights]
        self._ops: set[tf.Operation] = set()  # Of gradients that the program has got.
        self._shared: set[tf.Operation] = set()  # Of their means.

    @contextlib.contextmanager
    def of_tower(self, number: int) -> Iterator[None]:
        """Within the block, a tower is built. In that of the first one, the program gets stand-ins for the means of all.

        Raises:
          UsageError: the program differentiates gradients, or in a branch, loop or tf.function.
        """
        with _replacing(functools.partial(self._replace, number)):
            yield

    def connect(self) -> None:
        """Makes the stand-ins the means, once all towers are built.

        Raises:
          UsageError: the towers compute different gradients.
        """
        kinds = [[(call.names, [*map(_kind, call.gradients)]) for call in calls] for calls in self._calls]
        if any(others != kinds[0] for others in kinds):
            raise UsageError(f'{self._source} must compute the same gradients each time it is called')
        for calls in zip(*self._calls):
            towers = [[gradient for gradient in call.gradients if gradient is not None] for call in calls]
            means = [_mean(parts, self._weights) for parts in zip(*towers)]
            stand_ins = [stand_in for stand_in in calls[0].stand_ins if stand_in is not None]
            for stand_in, mean in zip(stand_ins, self._over_tasks(means) if means else (), strict=True):
                _connect(stand_in, mean)

    def mean(self, values: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the mean over the towers, with a value for each."""
        return _mean(values, self._weights)

    def check(self, train_op: tf.Operation | tf.Tensor, batch: Any, parts: str) -> None:
        """Raises UsageError if a training step changes weights by other values that depend on the batch than gradients.

        Those that a SyncReplicasOptimizer changes in a thread of its own are not part of the step.

        Args:
          batch: a structure of tensors, those of this process.
          parts: names what divides the batch.
        """
        if any(op.type.endswith('ConditionalAccumulator') for op in train_op.graph.get_operations()):
            raise UsageError(
                f'{self._source} has a SyncReplicasOptimizer, which excludes {parts}: use the optimizer that it wraps'
            )
        given = {tensor.op for tensor in tf.nest.flatten(batch) if tensor is not None}
        trainable = {variable.op.name for variable in tf.trainable_variables()}
        bodies = function_bodies(train_op.graph)
        changes = [(op, trainable.intersection(changed_variables(op, bodies, ('If',)))) for op in ancestors([train_op])]
        others = sorted({name for op, names in changes if names and self._depends(op, given) for name in names})
        if others or not self._shared:
            what = f'changes {listed(others, 3)} by other values than' if others else 'has no'
            raise UsageError(f'{self._source} {what} gradients of variables, which excludes {parts}: omit it')

    def _depends(self, op, given):
        """Whether an op computes with the values of others, not only by way of means of gradients."""
        found = search([op], lambda op: () if op in self._shared else [tensor.op for tensor in op.inputs])
        return not given.isdisjoint(found)

    def _replace(self, number, targets, sources, found):
        """Returns gradients for a program in place of those found."""
        places = [place for place, source in enumerate(sources) if _is_variable(source)]
        if not places:
            return found
        self._check_place(targets)
        for place in places:
            if isinstance(found[place], tf.Tensor) and isinstance(sources[place], tf.Variable):
                found[place].set_shape(sources[place].shape)
        gradients = [found[place] for place in places]
        stand_ins = gradients if number else [_stand_in(gradient) for gradient in gradients]
        self._calls[number].append(_Call([sources[place].op.name for place in places], gradients, stand_ins))
        returned = list(found)
        for place, stand_in in zip(places, stand_ins):
            returned[place] = stand_in
        ops = {tensor.op for tensor in _tensors(stand_ins)}
        self._ops |= ops
        self._shared |= set() if number else ops
        return returned

    def _check_place(self, targets):
        graph = tf.get_default_graph()
        is_inside = isinstance(graph, func_graph.FuncGraph) or graph._get_control_flow_context() is not None
        if is_inside or not self._ops.isdisjoint(_computing(targets)):
            what = 'in a branch, loop or tf.function' if is_inside else 'of gradients of its variables'
            raise UsageError(f'{self._source} computes gradients {what}, which excludes towers and clusters')


def _computing(tensors):
    """Returns the ops that compute tensors, without those that these only wait for."""
    return search([tensor.op for tensor in tensors], lambda op: [tensor.op for tensor in op.inputs])


def _stand_in(gradient):
    """Returns a tensor, tf.IndexedSlices or None like a gradient, with any number of slices."""
    if isinstance(gradient, tf.IndexedSlices):
        values, indices = (
            tf.placeholder_with_default(each, [None, *each.shape[1:]]) for each in (gradient.values, gradient.indices)
        )
        return tf.IndexedSlices(tf.identity(values), tf.identity(indices), gradient.dense_shape)
    return None if gradient is None else tf.identity(gradient)


def _connect(stand_in, gradient):
    """Makes a stand-in another gradient, of the same kind."""
    is_sparse = isinstance(stand_in, tf.IndexedSlices)
    pairs = [(stand_in.values, gradient.values), (stand_in.indices, gradient.indices)] if is_sparse else [(stand_in, gradient)]
    for tensor, value in pairs:
        tensor.op._update_input(0, value)


def _kind(gradient):
    return None if gradient is None else isinstance(gradient, tf.IndexedSlices)


def _mean(parts, weights):
    """Returns the weighted mean of tensors or of tf.IndexedSlices; a part of weight 0 may be NaN."""
    if len(weights) == 1:
        return parts[0]
    if isinstance(parts[0], tf.IndexedSlices):
        values = [_weighted(part.values, weight) for part, weight in zip(parts, weights)]
        indices = [part.indices for part in parts]
        return tf.IndexedSlices(tf.concat(values, 0), tf.concat(indices, 0), parts[0].dense_shape)
    return tf.add_n([_weighted(part, weight) for part, weight in zip(parts, weights)])


def _weighted(value, weight):
    return tf.math.multiply_no_nan(value, tf.cast(weight, value.dtype))


def _is_variable(source):
    if isinstance(source, tf.Tensor):
        return source.dtype == tf.resource or source.dtype._is_ref_dtype
    return isinstance(source, tf.Variable) or hasattr(source, 'handle')


@contextlib.contextmanager
def _replacing(replace):
    """Within the block, TensorFlow returns `replace(targets, sources, gradients)` in place of gradients, all flat lists."""
    compute, differentiate = gradients_util._GradientsHelper, backprop.GradientTape.gradient
    is_within = False

    def once(call, targets, sources):
        nonlocal is_within
        if is_within:  # The gradient of an op that needs others.
            return call()
        is_within = True
        try:
            found = call()
        finally:
            is_within = False
        flat = replace(_tensors(targets), tf.nest.flatten(sources), tf.nest.flatten(found))
        return tf.nest.pack_sequence_as(found, flat)

    @functools.wraps(compute)
    def computed(ys, xs, *args, **kwargs):
        return once(lambda: compute(ys, xs, *args, **kwargs), ys, xs)

    @functools.wraps(differentiate)
    def differentiated(self, target, sources, *args, **kwargs):
        return once(lambda: differentiate(self, target, sources, *args, **kwargs), target, sources)

    gradients_util._GradientsHelper, backprop.GradientTape.gradient = computed, differentiated
    try:
        yield
    finally:
        gradients_util._GradientsHelper, backprop.GradientTape.gradient = compute, differentiate


def _tensors(structure):
    return [value for value in tf.nest.flatten(structure, expand_composites=True) if isinstance(value, tf.Tensor)]
