"""tf.contrib.data: what tf.data.experimental lacks."""

import tensorflow.compat.v1 as tf


def batch_and_drop_remainder(batch_size):
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(batch_size, padded_shapes, padding_values=None):
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)


def sliding_window_batch(window_size, stride=None, window_shift=None, window_stride=1):
    """Batches each window of elements, of which the next begins `window_shift` elements later; only full ones.

    Args:
      stride: the former name of window_shift, which is 1 by default.
      window_stride: the distance of a window's elements.
    """
    if stride is not None and window_shift is not None:
        raise ValueError('Cannot specify both `stride` and `window_shift`')
    shift = next((given for given in (stride, window_shift) if given is not None), 1)

    def apply(dataset):
        def batched(*windows):
            element = windows if isinstance(dataset.element_spec, tuple) else windows[0]
            return tf.data.Dataset.zip(tf.nest.map_structure(lambda window: window.batch(window_size), element))

        return dataset.window(window_size, shift, window_stride, drop_remainder=True).flat_map(batched)

    return apply


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
