"""What checkpoints hold, for the tests that compare them."""

import tf_estimator  # noqa: F401 - before TensorFlow

import tensorflow.compat.v1 as tf


def read_weights(path):
    """Returns {name: array} of all variables of a checkpoint, or of a directory's last one."""
    reader = tf.train.load_checkpoint(str(path))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
