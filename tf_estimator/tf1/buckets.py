"""tf.contrib.training: batches of examples that have gathered in queues, one for each bucket."""

import functools

import tensorflow.compat.v1 as tf


def bucket(
    tensors,
    which_bucket,
    batch_size,
    num_buckets,
    num_threads=1,
    capacity=32,
    bucket_capacities=None,
    shapes=None,
    dynamic_pad=False,
    allow_smaller_final_batch=False,
    keep_input=True,
    shared_name=None,
    name=None,
):
    """Returns the number of a bucket, and the next batch of it; QueueRunners fill the queues.

    Args:
      tensors: of one example, a list or dict; of a list of one, the batch is a tensor.
      which_bucket: int scalar, the bucket of the example.
      batch_size: int, or a list of one for each bucket.
      capacity: of the queue of batches, and of each bucket unless there are bucket_capacities.
      shapes: of an example; by default those of the tensors.
      dynamic_pad: whether examples of different shapes are padded with zeros.
      keep_input: bool scalar, whether the example is used.
    """
    keys = _keys(tensors)
    if any(isinstance(tensors[key], tf.SparseTensor) for key in keys):
        raise ValueError('buckets have no SparseTensors: tf.sparse.to_dense makes tensors of them')
    flat = [tf.convert_to_tensor(tensors[key]) for key in keys]
    has_sizes = isinstance(batch_size, (list, tuple))
    sizes = batch_size if has_sizes else [batch_size] * num_buckets
    capacities = bucket_capacities or [capacity] * num_buckets
    if not len(sizes) == len(capacities) == num_buckets:
        raise ValueError(f'{num_buckets} buckets need as many batch sizes and capacities, not {len(sizes)}, {len(capacities)}')
    types = [tensor.dtype for tensor in flat]
    shapes = [tf.TensorShape(shape) for shape in shapes or [tensor.shape for tensor in flat]]
    rows = [None if allow_smaller_final_batch or has_sizes else tf.get_static_value(batch_size)]
    make = tf.PaddingFIFOQueue if dynamic_pad else tf.FIFOQueue
    with tf.name_scope(name, 'bucket', flat):
        queues = [make(size, types, shapes) for size in capacities]
        batches = tf.PaddingFIFOQueue(
            capacity, [tf.int32, *types], [[], *(tf.TensorShape(rows).concatenate(shape) for shape in shapes)]
        )
        arrivals = tf.group(
            *(
                tf.cond(tf.equal(which_bucket, i) & keep_input, functools.partial(queue.enqueue, flat), tf.no_op)
                for i, queue in enumerate(queues)
            )
        )
        dequeue = make.dequeue_up_to if allow_smaller_final_batch else make.dequeue_many
        departures = [
            batches.enqueue([i, *tf.nest.flatten(dequeue(queue, n))]) for i, (queue, n) in enumerate(zip(queues, sizes))
        ]
        _run(batches, [arrivals] * num_threads, queues)
        _run(queues[0], departures, [batches])
        which, *found = batches.dequeue()
    return which, found[0] if len(found) == 1 and not isinstance(tensors, dict) else _like(tensors, found)


def _keys(tensors):
    return sorted(tensors) if isinstance(tensors, dict) else range(len(tensors))


def _like(tensors, values):
    """Returns values, in the order of `_keys`, as a dict or list, whatever the tensors are in."""
    return dict(zip(_keys(tensors), values)) if isinstance(tensors, dict) else values


def _run(queue, enqueue_ops, closed):
    """Adds a QueueRunner, which at the end closes these queues."""
    close, cancel = (tf.group(*(each.close(is_canceled) for each in closed)) for is_canceled in (False, True))
    ends = (tf.errors.OutOfRangeError, tf.errors.CancelledError)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, enqueue_ops, close, cancel, queue_closed_exception_types=ends))


def bucket_by_sequence_length(
    input_length,
    tensors,
    batch_size,
    bucket_boundaries,
    num_threads=1,
    capacity=32,
    bucket_capacities=None,
    shapes=None,
    *others,
    **options,
):
    """Returns the lengths, int [batch], and the next batch, of examples whose lengths are between the same boundaries.

    Args:
      input_length: int scalar, of the example.
      tensors: of one example, a list or dict.
      bucket_boundaries: increasing ints; a boundary belongs to the bucket above it.
      others, options: see bucket.
    """
    if not bucket_boundaries or [*bucket_boundaries] != sorted(set(bucket_boundaries)):
        raise ValueError(f'bucket_boundaries must increase, and not be empty: {bucket_boundaries}')
    length = tf.cast(input_length, tf.int32)
    which = tf.reduce_sum(tf.cast(length >= [*bucket_boundaries], tf.int32))
    shapes = None if shapes is None else [[], *shapes]
    sizes = (num_threads, capacity, bucket_capacities, shapes)
    example = [length, *(tensors[key] for key in _keys(tensors))]
    _, (lengths, *batch) = bucket(example, which, batch_size, len(bucket_boundaries) + 1, *sizes, *others, **options)
    return lengths, _like(tensors, batch)
