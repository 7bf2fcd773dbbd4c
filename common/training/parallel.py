"""Data parallelism on one machine: one tower a device, each on its share of the batch."""

import itertools

import numpy as np
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.ops.shape import get_shape
from common.training.graphs import reachable

# What the towers add once each, though once is enough: batch norm's updates of the shared averages, and summaries, which
# would draw a curve for each tower.
_ONCE = (tf.GraphKeys.UPDATE_OPS, tf.GraphKeys.SUMMARIES)
_PENALTIES = tf.GraphKeys.REGULARIZATION_LOSSES


def make_parallel(fn, devices, **tensors):
    """Calls `fn` once a device on its share of the batch, with shared variables, and concatenates what comes back.

    Variables are shared whatever makes them: tf.get_variable by their names, tf.Variable and tf.keras by their order, in
    which all towers must make the same. Penalties on weights count once, those on activations are averaged over the
    towers, by their numbers of examples. The batch need not divide evenly: the first towers take one example more.
    Gradients are placed with the ops that they belong to if the optimizer is told `colocate_gradients_with_ops=True`.
    (After the guide Effective TensorFlow, chapter "Multi-GPU processing with data parallelism".)

    Args:
      fn: function of the keyword arguments `tensors`, which returns a tensor or a structure (dicts, tuples) of tensors,
        each of shape [batch, ...]. None in the structure stays None.
      devices: list of str such as ['/gpu:0', '/gpu:1']; empty calls `fn` as it is, on no device of its own.
      **tensors: tensors of shape [batch, ...] with one and the same batch, or structures of such; None stays None.

    Returns:
      What `fn` returned, with shapes [batch, ...].

    Raises:
      UsageError: a tower makes a variable that the first does not.
      ValueError: the batches differ; tf.errors.InvalidArgumentError when run, where they are known only then.
    """
    if not devices:
        return fn(**tensors)
    shares, sizes = _split(tensors, len(devices))
    outputs, variables, kept, penalties = [], [], {}, []
    begin = len(tf.get_collection(_PENALTIES))
    for i, (device, share) in enumerate(zip(devices, shares)):
        with tf.device(device), tf.name_scope(f'tower_{i}'):
            sharing = _make_creator(variables) if i == 0 else _reuse_creator(variables, i)
            with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE), tf.variable_creator_scope(sharing):
                outputs.append(fn(**share))
        for key in _ONCE:
            collection = tf.get_collection_ref(key)
            kept.setdefault(key, len(collection))
            del collection[kept[key] :]
        penalties.append(_take_penalties(begin, share))
    tf.get_collection_ref(_PENALTIES).extend([*penalties[0][0], *_average([of for _, of in penalties], sizes)])
    return tf.nest.map_structure(lambda *parts: None if parts[0] is None else tf.concat(parts, axis=0), *outputs)


def _make_creator(variables):
    """Returns a variable creator for the first tower, which lists those that tf.get_variable does not share."""
    graph = tf.get_default_graph()
    tower = graph.get_name_scope()

    def create(next_creator, **kwargs):
        scope = graph.get_name_scope()
        if not _is_within(scope, tower):
            return next_creator(**kwargs)
        # Named as without towers, so that checkpoints are the same.
        outer = tower.rpartition('/')[0] + scope.removeprefix(tower)
        with tf.name_scope(f'{outer.strip("/")}/' if outer else None):
            variable = next_creator(**kwargs)
        variables.append((kwargs.get('name'), variable))
        return variable

    return create


def _reuse_creator(variables, number):
    """Returns a variable creator for another tower, which gives it those of the first."""
    graph = tf.get_default_graph()
    tower = graph.get_name_scope()
    position = itertools.count()

    def reuse(next_creator, **kwargs):
        del next_creator
        name, variable = kwargs.get('name'), None
        if _is_within(graph.get_name_scope(), tower):
            first_name, variable = next(itertools.islice(variables, next(position), None), (None, None))
        if variable is None or name != first_name or not variable.shape.is_compatible_with(_shape(kwargs)):
            raise UsageError(
                f'tower {number} makes a variable {name or "Variable"} which the first tower does not make, or not '
                'in this order: a model must make the same variables each time it is called'
            )
        return variable

    return reuse


def _is_within(scope, tower):
    """Whether a name scope is one of a tower; tf.get_variable leaves it."""
    return f'{scope}/'.startswith(f'{tower}/')


def _shape(kwargs):
    """Returns the shape that a variable is to have; None where only making it would tell."""
    if kwargs.get('shape') is not None or callable(kwargs['initial_value']):
        return kwargs.get('shape')
    value = kwargs['initial_value']
    return value.shape if isinstance(value, tf.Tensor) else np.shape(value)


def _take_penalties(begin, share):
    """Takes what a tower has added to the penalties; returns those on weights, and those that depend on its share."""
    collection = tf.get_collection_ref(_PENALTIES)
    added = collection[begin:]
    del collection[begin:]
    of_share = reachable([tensor for tensor in tf.nest.flatten(share) if tensor is not None])
    return (
        [penalty for penalty in added if penalty.op not in of_share],
        [penalty for penalty in added if penalty.op in of_share],
    )


def _average(penalties, sizes):
    """Averages the towers' penalties, a list of scalars for each, by the numbers of their examples."""
    total = tf.add_n(sizes)
    # A tower without examples may have a penalty that is no number.
    return [
        tf.add_n(
            [tf.math.multiply_no_nan(penalty, tf.cast(size / total, penalty.dtype)) for penalty, size in zip(of_towers, sizes)]
        )
        for of_towers in zip(*penalties, strict=True)
    ]


def _split(tensors, count):
    """Splits the first dimension of each tensor of a structure; returns lists of `count` structures, and of their sizes."""
    flat = tf.nest.flatten(tensors)
    batch = get_shape(next(tensor for tensor in flat if tensor is not None))[0]
    sizes = [batch // count + tf.cast(i < batch % count, tf.int32) for i in range(count)]
    split = [[None] * count if tensor is None else tf.split(tensor, sizes, num=count) for tensor in flat]
    return [tf.nest.pack_sequence_as(tensors, list(share)) for share in zip(*split)], sizes


def tower_devices(options):
    """Chooses the devices of the towers.

    Args:
      options: TrainingOptions. num_gpus asks for towers on GPUs 0 to num_gpus - 1; num_towers for towers on GPUs if there are
        any, else on logical CPU devices, 1 being no towers.

    Returns:
      List of device names for `make_parallel`; `common.training.session_config.make_session_config` makes the logical ones.

    Raises:
      UsageError: there are fewer GPUs, or both are given and differ.
    """
    num_gpus, num_towers = options.num_gpus, options.num_towers
    if num_gpus and num_towers not in (1, num_gpus):
        raise UsageError(f'--num_gpus={num_gpus} and --num_towers={num_towers} disagree: set only one of them')
    gpus = len(tf.config.list_physical_devices('GPU'))
    wanted = num_gpus or (num_towers if gpus and num_towers > 1 else 0)
    if wanted > gpus:
        raise UsageError(
            f'--num_gpus={num_gpus}: this machine has {gpus} GPUs that TensorFlow can use; --num_towers puts '
            'towers on CPU devices where there are none'
            if num_gpus
            else f'--num_towers={num_towers}: this machine has {gpus} GPUs that TensorFlow can use'
        )
    if wanted:
        return [f'/gpu:{i}' for i in range(wanted)]
    return [f'/cpu:{i}' for i in range(num_towers)] if num_towers > 1 else []
