"""Keeping TensorFlow's log lines to those that say something."""

import contextlib

import tensorflow.compat.v1 as tf


@contextlib.contextmanager
def quiet():
    """In its block TensorFlow logs warnings and errors only."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel('WARNING')
    try:
        yield
    finally:
        logger.setLevel(level)
