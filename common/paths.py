"""Paths, local or on one of TensorFlow's remote file systems."""

import os
import pathlib

from estimator_trainer.common.errors import RunError, UsageError

STUDY = 'study.db'  # In the output_dir of a sweep.
FOLDS = 'folds.json'  # In that of folds.


def is_remote(path: str) -> bool:
    """Whether a path is on one of TensorFlow's remote file systems, such as gs://, which have no locks."""
    return '://' in path


def expand(path: str) -> str:
    """Returns a path that a user gives; ~ at its beginning becomes the home directory, as in a shell."""
    return os.path.expanduser(path)


def absolute(path: str) -> str:
    """Returns a path that stays valid if a program, or the next command, has another working directory.

    Raises:
      UsageError: the path is relative, and the current directory was deleted.
    """
    try:
        return path if is_remote(path) else os.path.abspath(path)
    except FileNotFoundError:
        raise UsageError(unreachable(path)) from None


def unreachable(path: str) -> str:
    """Returns why a local path leads nowhere, and the cure, if that is a link or the current directory; '' if not."""
    if is_remote(path):
        return ''
    for part in map(str, (pathlib.Path(path), *pathlib.Path(path).parents)):
        if os.path.islink(part) and not os.path.exists(part):
            return f'{part} is a link to {os.readlink(part)}, which does not exist: create or mount that'
    try:
        os.path.abspath(path)
    except FileNotFoundError:
        return 'the current directory was deleted: change to another one'
    return ''


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
    found = identify(directory)
    if found != identity:
        other = '' if os.path.isabs(directory) else ', or a module has changed the working directory'
        # If TensorFlow was saving, it has made the directory again, in which one that is moved back would end up.
        first = 'move away what is there now; then ' if found else ''
        raise RunError(
            f'{directory}: was deleted or moved during the run{other}: {first}move it back to resume from its last '
            'checkpoint, or rerun the command to start over'
        )
