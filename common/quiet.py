"""Suppresses TensorFlow's log messages of level INFO."""

from collections.abc import Iterator
import contextlib

import tensorflow.compat.v1 as tf


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Within the block, TensorFlow logs only warnings and errors."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel('WARNING')
    try:
        yield
    finally:
        logger.setLevel(level)
