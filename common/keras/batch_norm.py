"""Batch norm in few steps: moving averages that soon forget their initial values."""

from collections.abc import Iterator
import contextlib
from typing import Any

import tensorflow.compat.v1 as tf

# The common base of the classes of tf.layers and tf.keras, old and new.
_BATCH_NORM = next(base for base in reversed(tf.keras.layers.BatchNormalization.__mro__) if 'BatchNorm' in base.__name__)


@contextlib.contextmanager
def early_momentum(layer: Any, step: tf.Variable | None) -> Iterator[None]:
    """Within the block, a layer of batch norm moves its averages by min(momentum, (1 + step) / (10 + step)).

    With a constant momentum of 0.99, the initial mean 0 and variance 1 would still weigh 0.37 after 100 steps; so they weigh
    1e-4 after 8. From step 890 on, it is 0.99. The step needs no variable of its own, so checkpoints are those without it.

    Args:
      layer: any layer; those of other kinds, tf.layers or tf.keras, are left as they are.
      step: int64 scalar, the global step; None, in a graph without one, leaves all layers as they are.
    """
    if step is None or not isinstance(layer, _BATCH_NORM):
        yield
        return
    momentum = layer.momentum
    with tf.name_scope('momentum'):
        done = tf.cast(step, tf.float32)
        layer.momentum = tf.minimum(momentum, (1 + done) / (10 + done))
    try:
        yield
    finally:
        layer.momentum = momentum
