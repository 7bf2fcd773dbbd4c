"""Data parallelism on one machine: one tower a device, each on its share of the batch."""

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.ops.shape import get_shape

# What the towers add once each, though once is enough: batch norm's updates of the shared averages, summaries, which would
# draw a curve for each tower, and penalties on the shared weights.
_ONCE = (tf.GraphKeys.UPDATE_OPS, tf.GraphKeys.SUMMARIES, tf.GraphKeys.REGULARIZATION_LOSSES)


def make_parallel(fn, devices, **tensors):
    """Calls `fn` once a device on its share of the batch, with shared variables, and concatenates what comes back.

    The batch need not divide evenly: the first towers take one example more. Gradients are placed with the ops that
    they belong to if the optimizer is told `colocate_gradients_with_ops=True`. (After the guide Effective TensorFlow,
    chapter "Multi-GPU processing with data parallelism".)

    Args:
      fn: function of the keyword arguments `tensors`, which returns a tensor or a structure (dicts, tuples) of tensors,
        each of shape [batch, ...]. None in the structure stays None.
      devices: list of str such as ['/gpu:0', '/gpu:1']; empty calls `fn` as it is, on no device of its own.
      **tensors: tensors of shape [batch, ...] with one and the same batch, or structures of such; None stays None.

    Returns:
      What `fn` returned, with shapes [batch, ...].

    Raises:
      ValueError: the batches differ; tf.errors.InvalidArgumentError when run, where they are known only then.
    """
    if not devices:
        return fn(**tensors)
    shares = _split(tensors, len(devices))
    outputs = []
    kept = {}
    for i, (device, share) in enumerate(zip(devices, shares)):
        with tf.device(device), tf.name_scope(f'tower_{i}'):
            with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
                outputs.append(fn(**share))
        for key in _ONCE:
            collection = tf.get_collection_ref(key)
            kept.setdefault(key, len(collection))
            del collection[kept[key]:]
    return tf.nest.map_structure(lambda *parts: None if parts[0] is None else tf.concat(parts, axis=0), *outputs)


def _split(tensors, count):
    """Splits the first dimension of each tensor of a structure; returns a list of `count` structures."""
    flat = tf.nest.flatten(tensors)
    batch = get_shape(next(tensor for tensor in flat if tensor is not None))[0]
    sizes = [batch // count + tf.cast(i < batch % count, tf.int32) for i in range(count)]
    split = [[None] * count if tensor is None else tf.split(tensor, sizes, num=count) for tensor in flat]
    return [tf.nest.pack_sequence_as(tensors, list(share)) for share in zip(*split)]


def tower_devices(num_gpus, num_towers):
    """Chooses the devices of the towers.

    Args:
      num_gpus: int, towers on GPUs 0 to num_gpus - 1; 0 leaves the choice to num_towers.
      num_towers: int, towers on GPUs if there are any, else on logical CPU devices; 1 is no towers.

    Returns:
      List of device names for `make_parallel`; `common.session_config.make_session_config` makes the logical ones.

    Raises:
      UsageError: there are fewer GPUs, or both are given and differ.
    """
    if num_gpus and num_towers not in (1, num_gpus):
        raise UsageError(f'--num_gpus={num_gpus} and --num_towers={num_towers} disagree: give one of them')
    gpus = len(tf.config.list_physical_devices('GPU'))
    wanted = num_gpus or (num_towers if gpus and num_towers > 1 else 0)
    if wanted > gpus:
        raise UsageError(f'--num_gpus={num_gpus}: this machine has {gpus} GPUs that TensorFlow can use; --num_towers puts '
                         'towers on CPU devices where there are none' if num_gpus else
                         f'--num_towers={num_towers}: this machine has {gpus} GPUs that TensorFlow can use')
    if wanted:
        return [f'/gpu:{i}' for i in range(wanted)]
    return [f'/cpu:{i}' for i in range(num_towers)] if num_towers > 1 else []
