"""TensorBoard's event files of a run, and their part up to a step."""

from collections.abc import Iterator
import contextlib
import functools
import os
import re
import struct

from google.protobuf.message import DecodeError
import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import names_in
from estimator_trainer.common.storage.abandoned import keep_copy
from estimator_trainer.common.storage.run_dir import hparams_path

_HEADER, _CHECKSUM = struct.Struct('<Q4x'), 4  # The length of a record, and the bytes of a checksum.


def events_dir(output_dir: str, split: str) -> str:
    """Returns the directory for the events of a split's evaluations."""
    return os.path.join(output_dir, 'eval' if split == 'eval' else f'eval_{split}')


def flush(writer: tf.summary.FileWriter) -> None:
    """Writes the events of a writer to its file; a warning, once, says if there is none: TensorFlow drops them."""
    writer.flush()
    with contextlib.suppress(tf.errors.OpError):  # A storage that fails for a moment.
        if not tf.io.gfile.exists(writer.event_writer._ev_writer.FileName()):
            _warn_of_lost(writer.get_logdir())


@functools.cache
def _warn_of_lost(directory):
    tf.logging.warning(
        '%s: the event file cannot be written, or was deleted, so TensorBoard lacks these curves: check its permissions.',
        directory,
    )


def abandon(output_dir: str, step: int, folder: str) -> None:
    """Drops the events later than a step, after copying the whole files to a folder, unless that has them.

    TensorBoard itself discards later events where a run starts again, but not those of evaluations, nor, with its fast
    loader, those of tags that do not come again.
    """
    for subdirectory in ('', *_of_evaluations(output_dir)):
        directory, target = os.path.join(output_dir, subdirectory), os.path.join(folder, subdirectory)
        for path in (os.path.join(directory, name) for name in names_in(directory) if 'tfevents' in name):
            if any(found > step for found, _ in _events(path)):
                keep_copy(path, target)
                _cut(path, step, os.path.join(folder, 'cut.part'))


def read_scalars(output_dir: str, prefix: str) -> list[tuple[int, dict[str, float]]]:
    """Returns (step, {name: value}) for each line of the training's log, ordered by step: its scalars with this prefix.

    The names are without the prefix. Of a step that a run has repeated, the last line counts.
    """
    found: dict[int, dict[str, float]] = {}
    paths = (os.path.join(output_dir, name) for name in names_in(output_dir) if 'tfevents' in name)
    for path in sorted(paths):  # By the time in the names.
        for step, record in _events(path):
            values = tf.Event.FromString(record[_HEADER.size : -_CHECKSUM]).summary.value
            scalars = {value.tag: value.simple_value for value in values if value.HasField('simple_value')}
            if scalars:
                found.setdefault(step, {}).update(scalars)
    return [
        (step, {tag.removeprefix(prefix): value for tag, value in scalars.items() if tag.startswith(prefix)})
        for step, scalars in sorted(found.items())
    ]


def _of_evaluations(output_dir):
    """Returns the names of the directories of `events_dir`; leaves out those that are output_dirs of other runs."""
    names = [name for name in names_in(output_dir) if re.fullmatch('eval(_.+)?', name)]
    return [name for name in names if not tf.io.gfile.exists(hparams_path(os.path.join(output_dir, name)))]


def _cut(path, step, part):
    """Replaces an event file by its events up to a step; `part` is a temporary path, whose name is not that of events."""
    with tf.io.gfile.GFile(part, 'wb') as file:
        for found, record in _events(path):
            if found <= step:
                file.write(record)
    tf.io.gfile.rename(part, path, overwrite=True)


def _events(path: str) -> Iterator[tuple[int, bytes]]:
    """Yields (step, record) of the events in a file, up to where a killed process has left it."""
    left = tf.io.gfile.stat(path).length
    with tf.io.gfile.GFile(path, 'rb') as file:
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            size = _HEADER.unpack(header)[0] + _CHECKSUM
            left -= _HEADER.size + size
            if left < 0:
                return
            content = file.read(size)
            try:
                yield tf.Event.FromString(content[:-_CHECKSUM]).step, header + content
            except DecodeError:
                return
