"""Conversions that are run once, whose warnings are said again by each run that uses their results."""

from collections.abc import Callable, Iterator
import contextlib
import logging

import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import read_json, write_json


def once(path: str, is_done: bool, convert: Callable[[], None]) -> None:
    """Runs a conversion, and keeps its warnings; says them again if it is done.

    Args:
      path: of the file for the warnings, beside the result.
      is_done: whether the result exists.
      convert: the conversion.
    """
    if not is_done:
        with _collected() as warnings:
            convert()
        write_json(path, {'warnings': warnings})
        return
    with contextlib.suppress(ValueError):  # An older version kept none.
        for text in read_json(path).get('warnings', ()):
            tf.logging.warning('%s', text)


@contextlib.contextmanager
def _collected() -> Iterator[list[str]]:
    """Yields a list that gets the texts of the warnings within the block."""
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    tf.get_logger().addHandler(handler)
    try:
        yield found
    finally:
        tf.get_logger().removeHandler(handler)


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Within the block, nothing is logged: what it finds may not be used."""
    verbosity = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.FATAL)
    try:
        yield
    finally:
        tf.logging.set_verbosity(verbosity)
