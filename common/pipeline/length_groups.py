"""Batches of examples of similar length, to reduce padding."""

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.graphs import plain
from estimator_trainer.common.pipeline.share import Share
from estimator_trainer.hparams.build import HParams

# Number of batches whose examples are sorted together: enough for similar lengths, few enough for a random order.
WINDOW = 50


def first_position(params: HParams) -> tf.Tensor:
    """Returns the position in the stream of training examples, int64, at which the input of `group_by_length` must begin."""
    return _step() // WINDOW * WINDOW * params.batch_size


def group_by_length(examples: tf.data.Dataset, params: HParams, share: Share) -> tf.data.Dataset:
    """Batches examples of variable size: sorts those of 50 batches by size, cuts them into batches, and shuffles these.

    tf.data's own bucket_by_sequence_length fills its buckets at the pace of the data, so a resumed run would have to reread the
    epoch. Here the batches of a window depend on nothing before it.

    Args:
      examples: infinitely many, from `first_position` on.
      share: the part of each batch to return.

    Returns:
      Batches of batch_size examples, or shares of them, from the global step on, each padded with zeros,
      or empty strings, to its largest.
    """
    step = _step()
    flat_specs = tf.nest.flatten(examples.element_spec)
    variable = [i for i, spec in enumerate(flat_specs) if not spec.shape.is_fully_defined()]

    @plain
    def flatten(*example):
        tensors = tf.nest.flatten(example)
        return tuple(tensors), tf.add_n([tf.size(tensors[i]) for i in variable])

    @plain
    def cut(number, window):
        tensors, sizes = window
        rows = tf.reshape(tf.argsort(sizes, stable=True), [WINDOW, params.batch_size])
        rows = tf2.random.experimental.stateless_shuffle(rows, tf.stack([params.seed, number]))
        seen = tf.where(tf.equal(number, step // WINDOW), step % WINDOW, tf.zeros_like(step))

        @plain
        def gather(rows):
            batch = []
            for tensor, spec in zip(tensors, flat_specs):
                values = tf.gather(tensor, share.of(rows, 0, 0, params.batch_size))
                values = values.to_tensor() if isinstance(values, tf.RaggedTensor) else values
                batch.append(tf.ensure_shape(values, [share.size(params.batch_size), *spec.shape]))
            return tf.nest.pack_sequence_as(examples.element_spec, batch)

        return tf.data.Dataset.from_tensor_slices(rows).skip(seen).map(gather)

    # Ragged, so that one long example does not enlarge the whole window.
    windows = examples.map(flatten).apply(
        tf.data.experimental.dense_to_ragged_batch(WINDOW * params.batch_size, drop_remainder=True)
    )
    return tf.data.Dataset.zip((tf.data.Dataset.range(step // WINDOW, 2**62), windows)).flat_map(cut)


def _step():
    return tf.cast(tf.train.get_or_create_global_step(), tf.int64)
