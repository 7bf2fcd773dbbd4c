"""tf.contrib.data: what tf.data.experimental lacks."""

import tensorflow.compat.v1 as tf


def batch_and_drop_remainder(batch_size):
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(batch_size, padded_shapes, padding_values=None):
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)


def read_batch_features(
    file_pattern,
    batch_size,
    features,
    reader=tf.data.TFRecordDataset,
    reader_args=None,
    randomize_input=True,
    num_epochs=None,
    capacity=10000,
):
    """Returns the tensors of the next batch of parsed tf.train.Examples, {name: Tensor or SparseTensor}."""
    dataset = tf.data.experimental.make_batched_features_dataset(
        file_pattern,
        batch_size,
        features,
        reader,
        reader_args=reader_args,
        num_epochs=num_epochs,
        shuffle=randomize_input,
        shuffle_buffer_size=capacity,
    )
    return tf.data.make_one_shot_iterator(dataset).get_next()
