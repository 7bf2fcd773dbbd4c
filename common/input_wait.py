"""How long a training waits for its input."""

import tensorflow.compat.v1 as tf


def measure_wait(inputs):
    """Measures from when a step begins to when its batch is there.

    Args:
      inputs: the step's batch, a tensor or a structure of tensors.

    Returns:
      float64 scalar variable, the seconds summed up over the steps, which is of METRIC_VARIABLES, and the op that adds a
      step's.
    """
    with tf.name_scope('input_wait'):
        waited = tf.get_variable('input_wait', [], tf.float64, tf.zeros_initializer(), trainable=False,
                                 collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES])
        begun = tf.timestamp()
        with tf.control_dependencies([begun, *tf.nest.flatten(inputs, expand_composites=True)]):
            return waited, tf.assign_add(waited, tf.timestamp() - begun).op
