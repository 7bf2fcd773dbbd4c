"""Data parallelism on one machine: one tower per device, each on its share of the batch."""

from collections.abc import Callable, Mapping, Sequence
import itertools
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.graphs import reachable
from estimator_trainer.common.ops.shapes import get_shape
from estimator_trainer.common.options.table import Options

# Collections that keep only the first tower's items: batch norm's updates of the shared averages, and summaries, as TensorBoard
# would show a curve per tower.
_FROM_FIRST_TOWER = (tf.GraphKeys.UPDATE_OPS, tf.GraphKeys.SUMMARIES)
# The ops of tf.summary: the first input is the tag.
_TAGGED = ('ScalarSummary', 'HistogramSummary', 'ImageSummary', 'AudioSummary', 'TensorSummaryV2')
_PENALTIES = tf.GraphKeys.REGULARIZATION_LOSSES


def make_parallel(fn: Callable, devices: Sequence[str], **tensors: Any) -> Any:
    """Calls `fn` once per device on its share of the batch, with shared variables, and concatenates the results.

    All variables are shared: those of tf.get_variable by name, those of tf.Variable and tf.keras by creation order, which
    must be the same in all towers. Regularization losses of weights count once; those of activations are averaged over the
    towers, weighted by number of examples. The batch size need not be divisible by the number of towers: the first towers
    take one more example. Gradients are computed on the devices of their ops if the optimizer is given
    `colocate_gradients_with_ops=True`. (After the guide Effective TensorFlow, chapter "Multi-GPU processing with data
    parallelism".)

    Args:
      fn: function of the keyword arguments `tensors` that returns a tensor or a structure (dicts, tuples) of tensors,
        each of shape [batch, ...]. None in the structure stays None.
      devices: such as ['/gpu:0', '/gpu:1']; if empty, `fn` is called once, without a device scope.
      **tensors: tensors of shape [batch, ...], all with the same batch size, or structures of such; None stays None.

    Returns:
      The result of `fn`, with shapes [batch, ...].

    Raises:
      UsageError: a tower creates a variable that the first does not.
      ValueError: the batch sizes differ; if they are known only at run time, tf.errors.InvalidArgumentError when run.
    """
    if not devices:
        return fn(**tensors)
    shares, sizes, may_be_empty = split(tensors, len(devices))
    outputs: list = []
    variables: list[tuple[str | None, tf.Variable]] = []
    kept: dict[str, int] = {}
    penalties: list[tuple[list, list]] = []
    start = len(tf.get_collection(_PENALTIES))
    for i, (device, share) in enumerate(zip(devices, shares)):
        with tf.device(device), tf.name_scope(f'tower_{i}') as scope:
            creator = _recording_creator(variables) if i == 0 else _reusing_creator(variables, i)
            with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE), tf.variable_creator_scope(creator):
                output = fn(**share)
            outputs.append(_cut(output, sizes[i]) if may_be_empty else output)
        if i == 0:
            _untag(tf.get_collection_ref(tf.GraphKeys.SUMMARIES), scope)
        for key in _FROM_FIRST_TOWER:
            collection = tf.get_collection_ref(key)
            kept.setdefault(key, len(collection))
            del collection[kept[key] :]
        penalties.append(_pop_penalties(start, share))
    of_activations = [activity for _, activity in penalties]
    tf.get_collection_ref(_PENALTIES).extend([*penalties[0][0], *_average(of_activations, sizes)])
    return tf.nest.map_structure(lambda *parts: None if parts[0] is None else tf.concat(parts, axis=0), *outputs)


def _untag(summaries, scope):
    """Restores the tags of summaries in a tower's name scope to those without towers."""
    outer = scope.removesuffix('/').rpartition('/')[0]
    for i, summary in enumerate(summaries):
        op = getattr(summary, 'op', None)
        if op is None or op.type not in _TAGGED or not op.name.startswith(scope):
            continue
        tag = tf.get_static_value(op.inputs[0])
        if tag is not None:
            tag = tag.item().decode().replace(scope, f'{outer}/' if outer else '')
            with tf.control_dependencies(op.control_inputs):
                inputs = [tf.constant(tag), *op.inputs[1:]]
                name = op.name.removeprefix(scope)
                summaries[i] = op.graph.create_op(op.type, inputs, [tf.string], name=name, attrs=op.node_def.attr).outputs[0]


def _cut(output, size):
    """Removes the examples outside of a share."""
    return tf.nest.map_structure(lambda part: None if part is None else part[:size], output)


def _recording_creator(variables):
    """Returns a variable creator for the first tower, which records variables that tf.get_variable does not share."""
    graph = tf.get_default_graph()
    tower = graph.get_name_scope()

    def create(next_creator, **kwargs):
        scope = graph.get_name_scope()
        if not _is_within(scope, tower):
            return next_creator(**kwargs)
        # The names are those without towers, for compatible checkpoints.
        outer = tower.rpartition('/')[0] + scope.removeprefix(tower)
        with tf.name_scope(f'{outer.strip("/")}/' if outer else None):
            variable = next_creator(**kwargs)
        variables.append((kwargs.get('name'), variable))
        return variable

    return create


def _reusing_creator(variables, number):
    """Returns a variable creator for another tower, which returns the first tower's variables."""
    graph = tf.get_default_graph()
    tower = graph.get_name_scope()
    position = itertools.count()

    def reuse(next_creator, **kwargs):
        del next_creator
        name, variable = kwargs.get('name'), None
        if _is_within(graph.get_name_scope(), tower):
            first_name, variable = next(itertools.islice(variables, next(position), None), (None, None))
        if variable is None or name != first_name or not variable.shape.is_compatible_with(shape_of(kwargs)):
            raise UsageError(
                f'tower {number} makes a variable {name or "Variable"} that the first tower does not make, or not '
                'in this order: a model must make the same variables each time it is called'
            )
        return variable

    return reuse


def _is_within(scope, tower):
    """Whether a name scope is inside a tower's; that of tf.get_variable is not."""
    return f'{scope}/'.startswith(f'{tower}/')


def shape_of(kwargs: Mapping[str, Any]) -> Any:
    """Returns the shape of the variable that a variable creator is to create; None if it is unknown before creation."""
    if kwargs.get('shape') is not None or callable(kwargs['initial_value']):
        return kwargs.get('shape')
    value = kwargs['initial_value']
    return value.shape if isinstance(value, tf.Tensor) else np.shape(value)


def _pop_penalties(start, share):
    """Removes a tower's regularization losses from the collection; returns those of weights, and those of activations."""
    collection = tf.get_collection_ref(_PENALTIES)
    added = collection[start:]
    del collection[start:]
    depend_on_share = reachable([tensor for tensor in tf.nest.flatten(share) if tensor is not None])
    return (
        [penalty for penalty in added if penalty.op not in depend_on_share],
        [penalty for penalty in added if penalty.op in depend_on_share],
    )


def _average(penalties, sizes):
    """Averages the towers' penalties, a list of scalars for each, weighted by number of examples."""
    total = tf.add_n(sizes)
    # The penalty of a tower without examples may be NaN.
    return [
        tf.add_n(
            [tf.math.multiply_no_nan(penalty, tf.cast(size / total, penalty.dtype)) for penalty, size in zip(of_towers, sizes)]
        )
        for of_towers in zip(*penalties, strict=True)
    ]


def split(tensors: Any, count: int) -> tuple[list[Any], list[tf.Tensor], bool]:
    """Splits a structure of tensors [batch, ...] and None along the batch.

    Returns:
      Lists of `count` structures and of their batch sizes, and whether some may be empty. Empty ones borrow an example of
      another share, as TensorFlow's convolutions fail without one.
    """
    flat = tf.nest.flatten(tensors)
    batch = get_shape(next(tensor for tensor in flat if tensor is not None))[0]
    sizes = [batch // count + tf.cast(i < batch % count, tf.int32) for i in range(count)]
    may_be_empty = not isinstance(batch, int) or batch < count

    def parts_of(tensor):
        if tensor is None:
            return [None] * count
        parts = tf.split(tensor, sizes, num=count)
        if not may_be_empty:
            return parts
        return [tf.concat([part, tensor[: tf.cast(tf.equal(size, 0), tf.int32)]], 0) for part, size in zip(parts, sizes)]

    shares = [tf.nest.pack_sequence_as(tensors, list(share)) for share in zip(*map(parts_of, flat))]
    return shares, sizes, may_be_empty


def tower_devices(options: Options) -> list[str]:
    """Chooses the devices of the towers.

    Args:
      options: num_gpus requests towers on GPUs 0 to num_gpus - 1; num_towers on GPUs if there are any, else on the
          CPU. num_towers of 0 or 1 means no towers.

    Returns:
      Device names for `make_parallel`.

    Raises:
      UsageError: there are too few GPUs, or num_gpus and num_towers contradict each other.
    """
    num_gpus, num_towers = options.num_gpus, options.num_towers
    if num_gpus and num_towers not in (0, 1, num_gpus):
        raise UsageError(f'--num_gpus={num_gpus} and --num_towers={num_towers} disagree: set only one of them')
    gpus = len(tf.config.list_physical_devices('GPU'))
    wanted = num_gpus or (num_towers if gpus and num_towers > 1 else 0)
    if wanted > gpus:
        given = f'--num_gpus={num_gpus}' if num_gpus else f'--num_towers={num_towers}'
        cure = '; --num_towers puts towers on the CPU' if not gpus else ''
        raise UsageError(f'{given}: this machine has {gpus} GPUs that TensorFlow can use{cure}')
    if wanted:
        return [f'/gpu:{i}' for i in range(wanted)]
    # One device: between logical ones, variables and gradients would be copied, which takes a fifth of a perceptron's step.
    return ['/cpu:0'] * num_towers if num_towers > 1 else []
