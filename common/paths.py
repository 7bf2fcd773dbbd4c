"""Paths, local or on one of TensorFlow's remote file systems."""

import os
import pathlib

from estimator_trainer.common.errors import RunError

STUDY = 'study.db'  # In the output_dir of a sweep.
FOLDS = 'folds.json'  # In that of folds.


def is_remote(path: str) -> bool:
    """Whether a path is on one of TensorFlow's remote file systems, such as gs://, which have no locks."""
    return '://' in path


def expand(path: str) -> str:
    """Returns a path that a user gives; ~ at its beginning becomes the home directory, as in a shell."""
    return os.path.expanduser(path)


def absolute(path: str) -> str:
    """Returns a path that stays valid if a program, or the next command, has another working directory."""
    return path if is_remote(path) else os.path.abspath(path)


def resolve(directory: str, name: str) -> str:
    """Returns the path of a file named relative to a directory, or by its own path."""
    return name if is_remote(name) else os.path.join(directory, name)


def real(path: str) -> str:
    """Returns the path without symbolic links, by which two paths can be compared."""
    return os.path.normpath(path) if is_remote(path) else os.path.realpath(path)


def trial_dirs(directory: pathlib.Path) -> list[pathlib.Path]:
    """Returns the output directories of a sweep's trials, and of their seeds, in the sweep's own."""
    return [*directory.glob('trial-*'), *directory.glob('trial-*/seed-*')]


def identify(directory: str) -> tuple[int, int] | None:
    """Returns the device and inode of a local directory; None if it does not exist or is remote."""
    try:
        stat = None if is_remote(directory) else os.stat(directory)
    except OSError:
        return None
    return stat and (stat.st_dev, stat.st_ino)


def check_identity(directory: str, identity: tuple[int, int] | None) -> None:
    """Raises RunError if a directory is no longer the one seen by `identify`."""
    if identify(directory) != identity:
        other = '' if os.path.isabs(directory) else ', or a module has changed the working directory'
        raise RunError(
            f'{directory}: was deleted or moved during the run{other}: move it back to resume from its last '
            'checkpoint, or rerun the command to start over'
        )
