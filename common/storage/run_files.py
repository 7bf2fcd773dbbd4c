"""The files that the trainer writes into an output_dir, and their deletion for --overwrite; all others are the user's."""

from collections.abc import Iterator
import contextlib
import os
import re
import shutil

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import names_in
from estimator_trainer.common.paths import is_remote
from estimator_trainer.common.storage.checkpoints import has_checkpoint
from estimator_trainer.common.storage.run_dir import hparams_path

_CHECKPOINT = r'model\.ckpt-(\d+)\.(meta|index|data-\d+-of-\d+)'
_EVENTS = r'events\.out\.tfevents\..+'
# Regular expressions of a subdirectory, '' is the output_dir itself, and of names in it; those with / at the end are of whole
# directories. Locks stay, as another process may hold one; `checkpoints.recover` deletes temporary files.
_WRITTEN = (
    ('', r'rollback\.json'),  # Of a roll-back that was interrupted; without checkpoints, it could not be finished.
    ('', _CHECKPOINT),
    ('', r'checkpoint|graph\.pbtxt|predictions\.jsonl|data_summary\.txt|report\.html|results\.json|status\.json|tasks\.jsonl'),
    ('', rf'margins\.f16|suspects\.html|duplicates\.csv|{_EVENTS}'),
    ('eval(_.+)?', rf'{_EVENTS}|projector_config\.pbtxt|embedding(_labels)?\.tsv|embedding_images\.png'),
    ('input_state', r'\d+\.input\..+'),
    ('loggers', r'.+\.json'),
    ('abandoned', r'\d+/'),
    ('cluster', r'(chief|worker|ps|evaluator)-\d+\.log'),
    ('export', r'(\d+(-onnx|-tflite)?|temp-\d+)/'),
    ('plugins/profile', r'\d{4}(_\d\d){5}/'),
    ('best', _CHECKPOINT),
    # The last ones tell an interrupted deletion from a directory without a run.
    ('best', r'best\.json'),
    ('', r'metrics\.csv'),
    ('', r'flags\.json|dataset\.json'),
    ('', r'hparams\.json'),
)


def is_run(output_dir: str) -> bool:
    """Whether the directory has a run of the trainer, or what an interrupted deletion has left of one.

    Raises:
      UsageError: it has checkpoints, but no hparams.json, which the trainer writes before any.
    """
    if tf.io.gfile.exists(hparams_path(output_dir)):
        return True
    if has_checkpoint(output_dir):
        raise UsageError(
            f'--overwrite: --output_dir={output_dir} has checkpoints but no hparams.json, so they may be those of another '
            'program: choose another directory'
        )
    return False


def delete(output_dir: str) -> None:
    """Deletes the files of a run, and the subdirectories that are then empty.

    For the only process that trains there. If it is interrupted, the same call continues. The oldest checkpoint goes first: as
    long as one is left, the run could still resume.
    """
    subdirectories = [*_subdirectories(output_dir)]
    for directory, pattern in _WRITTEN:
        for name in ('', *subdirectories):
            if re.fullmatch(directory, name):
                _delete_matching(os.path.join(output_dir, name), pattern)
    for name in sorted(subdirectories, reverse=True):  # Those within others first.
        _remove_if_empty(os.path.join(output_dir, name))


def _subdirectories(output_dir: str) -> Iterator[str]:
    """Yields the paths, relative to output_dir, of the subdirectories in which the trainer may have written.

    Leaves out those that are output_dirs of other runs.
    """
    for name in (*names_in(output_dir), 'plugins/profile'):
        path = os.path.join(output_dir, name)
        if tf.io.gfile.isdir(path) and not tf.io.gfile.exists(hparams_path(path)):
            yield name


def _delete_matching(directory, pattern):
    is_tree = pattern.endswith('/')
    found = [name for name in names_in(directory) if re.fullmatch(pattern.removesuffix('/'), name)]
    for name in sorted(found, key=_step):
        path = os.path.join(directory, name)
        if tf.io.gfile.isdir(path) == is_tree:
            with contextlib.suppress(tf.errors.NotFoundError, FileNotFoundError):
                (_delete_tree if is_tree else tf.io.gfile.remove)(path)


def _delete_tree(path):
    """Deletes a directory, but of links only themselves: TensorFlow would delete what they lead to."""
    if is_remote(path):
        tf.io.gfile.rmtree(path)
    elif os.path.islink(path):
        os.remove(path)
    else:
        shutil.rmtree(path)


def _step(name):
    """Sorts checkpoints by their steps, and other names as they are."""
    match = re.fullmatch(_CHECKPOINT, name)
    return (int(match[1]) if match else 0), name


def _remove_if_empty(directory):
    if not is_remote(directory):
        with contextlib.suppress(OSError):
            os.rmdir(directory)
    elif tf.io.gfile.isdir(directory) and not tf.io.gfile.listdir(directory):
        tf.io.gfile.rmtree(directory)
