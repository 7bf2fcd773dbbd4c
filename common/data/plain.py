"""Keeps AutoGraph from converting functions."""

import tensorflow.compat.v1 as tf

# For functions of tensors that have no `if` or `for` over tensors: to convert one takes 40 ms, and nearly half a second in all
# before a run starts.
plain = tf.autograph.experimental.do_not_convert
