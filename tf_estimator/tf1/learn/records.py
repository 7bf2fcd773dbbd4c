"""Batches of the records of files."""

from typing import Any

import tensorflow.compat.v1 as tf


def _dataset_of(reader):
    """Returns the function from names of files to the Dataset that reads like a reader of TensorFlow 1."""
    with tf.Graph().as_default():
        found = reader()
        op: Any = getattr(found.reader_ref, 'op', None)
    if isinstance(found, tf.TFRecordReader):
        compression = op.get_attr('compression_type').decode()
        return lambda name: tf.data.TFRecordDataset(name, compression)
    if isinstance(found, tf.TextLineReader):
        count = op.get_attr('skip_header_lines')
        return lambda name: tf.data.TextLineDataset(name).skip(count)
    raise ValueError(f'there is no {type(found).__name__} here: use a TFRecordReader or a TextLineReader')


def read_batch_examples(
    file_pattern,
    batch_size,
    reader,
    randomize_input=True,
    num_epochs=None,
    queue_capacity=10000,
    num_threads=1,
    read_batch_size=1,
    parse_fn=None,
    name=None,
    seed=None,
):
    """Returns the next records of files, string [batch_size]; the last batch of several epochs may be smaller.

    Args:
      file_pattern: of the files' names, or a list of patterns.
      reader: function to a tf.TFRecordReader or a tf.TextLineReader.
      randomize_input: whether files and, among queue_capacity of them, records are shuffled.
      num_epochs: None for no end.
      parse_fn: function of a record to what is in the batches in its place.
    """
    files = tf.data.Dataset.list_files(file_pattern, shuffle=randomize_input, seed=seed)
    rows = files.flat_map(_dataset_of(reader))
    rows = rows.shuffle(queue_capacity, seed) if randomize_input else rows
    rows = rows.map(parse_fn) if parse_fn else rows
    batches = rows.repeat(num_epochs).batch(batch_size, drop_remainder=num_epochs is None)
    return tf.data.make_one_shot_iterator(batches).get_next(name)


def read_batch_features(
    file_pattern,
    batch_size,
    features,
    reader,
    randomize_input=True,
    num_epochs=None,
    queue_capacity=10000,
    feature_queue_capacity=100,
    reader_num_threads=1,
    num_enqueue_threads=2,
    parse_fn=None,
    name=None,
    read_batch_size=1,
):
    """Returns the features, {name: Tensor or SparseTensor}, of the tf.train.Examples that read_batch_examples returns."""
    options = dict(parse_fn=parse_fn, name=name)
    examples = read_batch_examples(file_pattern, batch_size, reader, randomize_input, num_epochs, queue_capacity, **options)
    return tf.io.parse_example(examples, features)


def read_batch_record_features(
    file_pattern,
    batch_size,
    features,
    randomize_input=True,
    num_epochs=None,
    queue_capacity=10000,
    reader_num_threads=1,
    name='dequeue_record_examples',
):
    """Like read_batch_features, of TFRecord files."""
    return read_batch_features(
        file_pattern, batch_size, features, tf.TFRecordReader, randomize_input, num_epochs, queue_capacity, name=name
    )
