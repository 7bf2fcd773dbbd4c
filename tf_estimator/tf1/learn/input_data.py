"""Tables, parsed requests and feature columns."""

import collections
import csv

import numpy as np
import tensorflow.compat.v1 as tf

InputFnOps = collections.namedtuple('InputFnOps', ['features', 'labels', 'default_inputs'])
Dataset = collections.namedtuple('Dataset', ['data', 'target'])


def load_csv_with_header(filename, target_dtype, features_dtype, target_column=-1):
    """Returns the Dataset of a CSV file, whose first line has the number of rows and of features."""
    with tf.io.gfile.GFile(filename) as file:
        rows = list(csv.reader(file))
    count, width = int(rows[0][0]), int(rows[0][1])
    found = _split_columns(rows[1:], target_dtype, features_dtype, target_column)
    if found.data.shape != (count, width):
        raise ValueError(f'{filename}: its first line says {count} rows of {width} features, but it has {found.data.shape}')
    return found


def load_csv_without_header(filename, target_dtype, features_dtype, target_column=-1):
    with tf.io.gfile.GFile(filename) as file:
        return _split_columns(list(csv.reader(file)), target_dtype, features_dtype, target_column)


def _split_columns(rows, target_dtype, features_dtype, target_column):
    target = np.asarray([row.pop(target_column) for row in rows], target_dtype)
    return Dataset(np.asarray(rows, features_dtype), target)


def numpy_input_fn(x, y=None, batch_size=128, num_epochs=1, shuffle=True, queue_capacity=1000, num_threads=1):
    """Like tf.estimator.inputs', but shuffles unless it is told not to."""
    return tf.estimator.inputs.numpy_input_fn(x, y, batch_size, num_epochs, shuffle, queue_capacity, num_threads)


def pandas_input_fn(
    x, y=None, batch_size=128, num_epochs=1, shuffle=True, queue_capacity=1000, num_threads=1, target_column='target'
):
    """Like tf.estimator.inputs', but shuffles unless it is told not to."""
    return tf.estimator.inputs.pandas_input_fn(
        x, y, batch_size, num_epochs, shuffle, queue_capacity, num_threads, target_column
    )


def build_parsing_serving_input_fn(feature_spec, default_batch_size=None):
    """Returns a function to InputFnOps of serialized tf.train.Examples."""

    def input_fn():
        examples = tf.placeholder(tf.string, [default_batch_size], 'input_example_tensor')
        return InputFnOps(tf.io.parse_example(examples, feature_spec), None, {'examples': examples})

    return input_fn


def build_default_serving_input_fn(features, default_batch_size=None):
    """Returns a function to InputFnOps of placeholders like the features, {name: tensor}, with this batch size."""
    specs = {name: (tensor.dtype, [default_batch_size, *tensor.shape[1:]], tensor.op.name) for name, tensor in features.items()}

    def input_fn():
        placeholders = {name: tf.placeholder(*spec) for name, spec in specs.items()}
        return InputFnOps(placeholders, None, placeholders)

    return input_fn


def infer_real_valued_columns_from_input(x):
    """Returns the column of an array of numbers, [rows, size]."""
    return [tf.feature_column.numeric_column('', x.shape[1:])]
