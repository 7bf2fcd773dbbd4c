"""manifest.verified.json in a directory: the state of files when verified, to verify them only once."""

from collections.abc import Mapping
import contextlib
import json
import os
from typing import Any
import zlib

import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import read_json, stamp, write_json
from estimator_trainer.common.paths import is_remote, resolve

_NAME = 'manifest.verified.json'


def state(path: str, item: Mapping[str, Any]) -> list[int] | None:
    """Returns the size of a file, the time of its last change, its inode, and a checksum of its entry in the manifest.

    None if the file is missing.
    """
    entry = zlib.crc32(json.dumps(item, sort_keys=True).encode())
    try:
        return [*stamp(path), entry]
    except (OSError, tf.errors.OpError):
        return None


def load(directory: str) -> dict[str, Any]:
    """Returns {path: its `state` when verified}; empty for a remote directory, which has no such file."""
    path = os.path.join(directory, _NAME)
    if is_remote(path) or not os.path.exists(path):
        return {}
    try:
        return {resolve(directory, name): state for name, state in read_json(path).items()}
    except ValueError:
        return {}


def add(directory: str, states: Mapping[str, Any]) -> None:
    """Records {path: state} of files; does nothing if the directory is remote or cannot be written."""
    _save(directory, {**load(directory), **states})


def forget(directory: str, path: str) -> None:
    """Removes a file's record."""
    states = load(directory)
    if states.pop(path, None):
        _save(directory, states)


def _save(directory, states):
    if not is_remote(directory):
        with contextlib.suppress(OSError, tf.errors.OpError):
            write_json(os.path.join(directory, _NAME), {_name(directory, path): states[path] for path in sorted(states)})


def _name(directory, path):
    return path.removeprefix(os.path.join(directory, ''))
