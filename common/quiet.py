"""Suppresses TensorFlow's log messages of level INFO."""

from collections.abc import Iterator
import contextlib
import logging
import threading

import tensorflow.compat.v1 as tf


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Within the block, TensorFlow logs only this thread's warnings and errors."""
    thread = threading.get_ident()

    def is_kept(record):
        return record.levelno >= logging.WARNING or record.thread != thread

    logger = tf.get_logger()
    logger.addFilter(is_kept)
    try:
        yield
    finally:
        logger.removeFilter(is_kept)
