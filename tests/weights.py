"""What checkpoints hold, for the tests that compare them."""

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import tensorflow.compat.v1 as tf


def read_weights(path):
    """Returns {name: array} of all variables of a checkpoint, or of a directory's last one."""
    reader = tf.train.load_checkpoint(str(path))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def assert_equal(found, expected, tolerance=0.0):
    """Asserts that two sets of weights, {name: array}, are equal within an absolute tolerance."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance, err_msg=name)
