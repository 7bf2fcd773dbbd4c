"""The towers of a program's own training step: its model_fn is called once per device, with shared variables."""

import collections
from collections.abc import Callable, Iterator, Sequence
import contextlib
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import variable_scope

from estimator_trainer.common.errors import UsageError, listed
from estimator_trainer.common.graphs import ancestors, changed_variables, function_bodies
from estimator_trainer.common.plugins.traceback_filter import in_a_line
from estimator_trainer.common.training.parallel import shape_of, split
from estimator_trainer.common.training.shared_gradients import SharedGradients

_KEYS = tf.GraphKeys
# Collections to which all towers add; of the others, each tower sees its own items only.
_COMMON = {
    _KEYS.LOCAL_RESOURCES,
    _KEYS.QUEUE_RUNNERS,
    _KEYS.RESOURCES,
    _KEYS.SAVEABLE_OBJECTS,
    _KEYS.TABLE_INITIALIZERS,
}
_CALLS = ('If', 'Case', 'While', 'PartitionedCall', 'StatefulPartitionedCall')
_PASSING = ('NoOp', 'Identity')  # What waits for one waits for all that it needs.
_STORES = (variable_scope._VARSTORE_KEY, variable_scope._VARSCOPESTORE_KEY)


class _Made(NamedTuple):
    """A variable of the first tower: the name that it was asked for, and the collections that have it."""

    name: str | None
    variable: tf.Variable
    collections: list[str]


def check_divisible(source: str, tensors: Any, parts: str) -> None:
    """Raises UsageError if a batch, a structure of tensors, cannot be divided, as each must be a tensor [batch, ...].

    Args:
      source: names who makes it.
      parts: names what divides it.
    """
    for tensor in tf.nest.flatten(tensors):
        if tensor is not None and not (isinstance(tensor, tf.Tensor) and tensor.shape.rank != 0):
            kind = 'a scalar' if isinstance(tensor, tf.Tensor) else f'a {type(tensor).__name__}'
            raise UsageError(f'{source}: {kind} in a batch excludes {parts}: omit it, or make dense tensors [batch, ...]')


def build(
    source: str,
    call: Callable[..., tf.estimator.EstimatorSpec],
    devices: Sequence[str],
    batch: tuple[Any, Any],
    over_tasks: Callable[[list[Any]], Sequence[Any]],
) -> tuple[tf.estimator.EstimatorSpec, SharedGradients, list[tf.Operation]]:
    """Builds a training step of towers, each with its share of the batch.

    Each tower builds a whole step. That of the first one is run, with the means of the gradients of all towers: names of
    tensors and variables, summaries, hooks, and changes of other variables, such as of the averages of batch norm, are those of
    this tower. The others compute only a loss and gradients.

    Args:
      source: names the program in errors.
      call: function of (features, labels).
      devices: of the towers; none for one tower without a device.
      batch: features and labels, structures of tensors [batch, ...] or None.
      over_tasks: see SharedGradients.

    Returns:
      The spec of the first tower, with the mean of the losses; its gradients; and the ops of this tower.

    Raises:
      UsageError: a tower makes other variables, or computes other gradients, than the first, or its loss needs changes of
        variables.
    """
    graph = tf.get_default_graph()
    start = len(graph.get_operations())
    if not devices:
        gradients = SharedGradients(source, [1.0], over_tasks)
        with gradients.of_tower(0):
            spec = call(*batch)
        ops = graph.get_operations()[start:]
        gradients.connect()
        return spec, gradients, ops
    shares, sizes, _ = split(batch, len(devices))
    total = tf.cast(tf.add_n(sizes), tf.float32)
    gradients = SharedGradients(source, [tf.cast(size, tf.float32) / total for size in sizes], over_tasks)
    variables: list[_Made] = []
    before = {name: items for name, items in _own_collections().items() if name not in _STORES}
    specs, towers, first = [], [], None
    for number, (device, share) in enumerate(zip(devices, shares)):
        scope = tf.name_scope(f'tower_{number}') if number else contextlib.nullcontext()
        start = len(graph.get_operations())
        with tf.device(device), scope, _sharing(source, variables, number), gradients.of_tower(number):
            specs.append(call(*share))
        towers.append(graph.get_operations()[start:])
        first = first or _own_collections()
        _reset(before)
    _reset(first)
    bodies = function_bodies(graph)
    of_first = {place: op for op, place in _changes(towers[0], bodies).items()}
    for ops in towers[1:]:
        _replace_changes(ops, _changes(ops, bodies), of_first)
    gradients.connect()
    spec = specs[0]._replace(loss=gradients.mean([spec.loss for spec in specs]))
    _check_changes(source, spec, {op for ops in towers[1:] for op in ops}, bodies)
    return spec, gradients, towers[0]


def _own_collections():
    """Returns {name: items} of the collections of a tower, as they are before it."""
    names = {*tf.get_default_graph().get_all_collection_keys(), *_STORES} - _COMMON
    return {name: tf.get_collection(name) for name in names}


def _reset(kept):
    """Makes the collections of a tower these."""
    for name in _own_collections():
        tf.get_collection_ref(name)[:] = kept.get(name, ())


def _replace_changes(ops, own, of_first):
    """Makes the ops of a tower wait for the first tower's changes of variables in place of its own, so that these do not run.

    Args:
      ops: of the tower.
      own: its changes, {op: place}.
      of_first: those of the first tower, {place: op}.
    """
    tower = {*ops}

    def instead(waiting, op):
        if op in own:
            other = of_first.get(own[op])
            return [] if other is None or waiting._get_control_flow_context() is not None else [other]
        if op not in tower or op.type not in _PASSING:
            return [op]
        needed = [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
        waited = [each for other in needed for each in instead(waiting, other)]
        return [op] if waited == needed else waited

    for op in ops:
        controls = op.control_inputs
        waited = [each for control in controls for each in instead(op, control)]
        if waited != [*controls]:
            op._remove_all_control_inputs()
            op._add_control_inputs(list(dict.fromkeys(waited)))


def _changes(ops, bodies):
    """Returns {op: place} of those that change variables: of the first tower and others, the same change has the same place.

    Those that set a new variable precede others, so that places count from the end.
    """
    places: dict[tf.Operation, Any] = {}
    counts: collections.Counter = collections.Counter()
    for op in reversed(ops):
        if changed := changed_variables(op, bodies, _CALLS):
            counts[op.type, changed] += 1
            places[op] = op.type, changed, counts[op.type, changed]
    return places


def _check_changes(source, spec, ops, bodies):
    """Raises UsageError if a step needs changes of variables among ops, those of all towers but the first."""
    names = {
        name for op in ancestors([spec.train_op, spec.loss]) if op in ops for name in changed_variables(op, bodies, _CALLS)
    }
    if names:
        raise UsageError(
            f'{source} computes its loss by a branch, loop or function that changes one of {listed(sorted(names), 3)}, which '
            'excludes towers: omit --num_towers and --num_gpus'
        )


@contextlib.contextmanager
def _sharing(source, variables, number) -> Iterator[None]:
    """Within the block, the first tower makes variables, and another one gets them, in the same order.

    An optimizer that is made once makes variables of its own, which are not trainable, for the first tower only.
    """
    waiting = list(reversed(variables)) if number else []

    def create(next_creator, **kwargs):
        name = kwargs.get('name')
        if not number:
            variable = next_creator(**kwargs)
            variables.append(_Made(name, variable, _collections_of(variable)))
            return variable
        skip_to(lambda made: made.name == name and made.variable.shape.is_compatible_with(shape_of(kwargs)))
        if not waiting:
            raise UsageError(_other_variables(source, f'{name or "Variable"} is new in tower {number}'))
        return add(waiting.pop())

    def skip_to(is_meant):
        while waiting and not is_meant(waiting[-1]):
            if waiting[-1].variable.trainable:
                raise UsageError(_other_variables(source, f'tower {number} makes no {waiting[-1].variable.op.name}'))
            add(waiting.pop())

    def add(made):
        tf.get_default_graph().add_to_collections(made.collections, made.variable)
        return made.variable

    try:
        with tf.variable_creator_scope(create):
            yield
    except UsageError:
        raise
    except Exception as error:
        if not number:
            raise
        raise UsageError(_other_variables(source, f'tower {number} raises {in_a_line(error)}')) from error
    skip_to(lambda made: False)


def _collections_of(variable):
    """Returns the names of the collections with a new variable."""
    return [name for name, items in _own_collections().items() if items and items[-1] is variable]


def _other_variables(source, reason):
    return f'{source} must make the same variables, and its layers, each time it is called: {reason}, which excludes towers'
