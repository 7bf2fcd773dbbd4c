"""Batches of examples of similar length, which need less padding."""

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from hparams.build import HParams

# Number of batches whose examples are sorted together: enough for similar lengths, few enough for a random order.
WINDOW = 50


def first_position(params: HParams) -> tf.Tensor:
    """Returns the position in the training's stream of examples, int64, from which `group_by_length` has to be given them."""
    step = tf.cast(tf.train.get_or_create_global_step(), tf.int64)
    return step // WINDOW * WINDOW * params.batch_size


def group_by_length(examples: tf.data.Dataset, params: HParams) -> tf.data.Dataset:
    """Batches examples of variable size: those of 50 batches are sorted by size, cut into batches, and these are shuffled.

    tf.data's own bucket_by_sequence_length fills its buckets at the pace of the data, so that a training could resume only by
    reading all of the epoch again. Here the batches of a window depend on nothing before it.

    Args:
      examples: infinitely many, from `first_position` on.
      params: hyper-parameters.

    Returns:
      Batches of batch_size examples, from the global step on, each padded to its largest.
    """
    size = WINDOW * params.batch_size
    step = tf.cast(tf.train.get_or_create_global_step(), tf.int64)
    specs = tf.nest.flatten(examples.element_spec)

    def with_shapes(*example):
        tensors = tf.nest.flatten(example)
        return tuple(tensors), tuple(tf.shape(tensor) for tensor in tensors)

    def cut(number, window):
        tensors, shapes = window
        lengths = tf.add_n([tf.reduce_prod(s, 1) for s, spec in zip(shapes, specs) if not spec.shape.is_fully_defined()])
        rows = tf.reshape(tf.argsort(lengths, stable=True), [WINDOW, params.batch_size])
        rows = tf2.random.experimental.stateless_shuffle(rows, tf.stack([params.seed, number]))
        seen = tf.where(tf.equal(number, step // WINDOW), step % WINDOW, tf.zeros_like(step))

        def gather(rows):
            batch = []
            for tensor, shape, spec in zip(tensors, shapes, specs):
                largest = tf.concat([[params.batch_size], tf.reduce_max(tf.gather(shape, rows), 0)], 0)
                values = tf.slice(tf.gather(tensor, rows), tf.zeros_like(largest), largest)
                batch.append(tf.ensure_shape(values, [params.batch_size, *spec.shape]))
            return tf.nest.pack_sequence_as(examples.element_spec, batch)

        return tf.data.Dataset.from_tensor_slices(rows).skip(seen).map(gather)

    windows = examples.map(with_shapes).padded_batch(size, drop_remainder=True)
    return tf.data.Dataset.zip((tf.data.Dataset.range(step // WINDOW, 2**62), windows)).flat_map(
        lambda number, window: cut(number, window)
    )
