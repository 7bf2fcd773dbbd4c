"""Conversions that are run once, whose warnings are said again by each run that uses their results."""

from collections.abc import Callable, Iterator, Mapping
import contextlib
import logging
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import read_json, write, write_json
from estimator_trainer.common.own_data.splits import log_outdated
from estimator_trainer.common.records import records

Converted = tuple[Mapping[str, Any], str, Mapping[Any, Any]]


def convert_once(directory: str, source: str, convert: Callable[[], Converted]) -> None:
    """Writes what a conversion returns to a directory named by `fingerprint`, unless that has it: see `once`.

    Args:
      directory: its path.
      source: the user's path, for messages.
      convert: returns the metadata, a summary for people, and {split or splits: examples} for `records.write`.
    """

    def write_all():
        facts, summary, examples = convert()
        tf.io.gfile.makedirs(directory)
        write_json(os.path.join(directory, 'metadata.json'), facts)
        write(os.path.join(directory, 'summary.txt'), summary)
        records.write(directory, examples, fingerprint=os.path.basename(directory))
        log_outdated(directory, source)

    once(os.path.join(directory, 'warnings.json'), records.is_written(directory), write_all)


def read_metadata(directory: str) -> dict[str, Any]:
    """Returns the metadata in the directory of a conversion."""
    return records.read_facts(os.path.join(directory, 'metadata.json'))


def read_summary(directory: str) -> str:
    """Returns the summary in the directory of a conversion; '' if an older version wrote it."""
    path = os.path.join(directory, 'summary.txt')
    if not tf.io.gfile.exists(path):
        return ''
    with tf.io.gfile.GFile(path) as file:
        return file.read()


def once(path: str, is_done: bool, convert: Callable[[], None]) -> None:
    """Runs a conversion, and keeps its warnings; says them again if it is done.

    Args:
      path: of the file for the warnings, beside the result.
      is_done: whether the result exists.
      convert: the conversion.
    """
    if is_done:
        for text in _kept(path):
            tf.logging.warning('%s', text)
        return
    with _collected() as found:
        convert()
    kept = _kept(path)  # Of another process, which may have written the records meanwhile: it had more to say.
    write_json(path, {'warnings': [*kept, *(text for text in found if text not in kept)]})


def _kept(path):
    with contextlib.suppress(ValueError):  # An older version kept none.
        return read_json(path).get('warnings', [])
    return []


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
