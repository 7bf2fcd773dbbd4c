"""The folders and the files in a directory, without those that systems and tools put there."""

import collections
from collections.abc import Collection, Iterator
import os

from estimator_trainer.common.foreign_files import is_foreign

LOST = ' that cannot be read'  # Ends the kinds of broken links, and of what is no file.


def folders_of(
    directory: str, ignored: collections.Counter[str] | None = None, where: str = ' outside of classes'
) -> list[str]:
    """Returns the names of the folders in a directory, sorted; counts other files in `ignored`, with `where` they are."""
    folders = []
    for entry in _entries(directory):
        if is_foreign(entry.name) or not entry.is_dir():
            _count(ignored, entry.name, where)
        else:
            folders.append(entry.name)
    return folders


def files_of(
    directory: str,
    suffixes: Collection[str],
    ignored: collections.Counter[str] | None = None,
    lost: list[str] | None = None,
) -> Iterator[tuple[str, os.stat_result]]:
    """Yields (path, stat) of the files in a directory and in nested ones; counts others, by their kind, in `ignored`.

    Args:
      lost: gets the paths of broken links, and of what is no file, with these suffixes, which are then not counted.

    Raises:
      OSError: a directory cannot be read.
    """
    pending, seen = [directory], set()
    while pending:
        directory = pending.pop()
        stat = os.stat(directory)
        if (stat.st_dev, stat.st_ino) in seen:
            continue  # A link to a folder that contains it.
        seen.add((stat.st_dev, stat.st_ino))
        for entry in _entries(directory):
            if not is_foreign(entry.name) and entry.is_dir():
                pending.append(entry.path)
            elif not is_foreign(entry.name) and _suffix(entry.name) in suffixes and entry.is_file():
                yield entry.path, entry.stat()
            elif entry.is_file() or entry.is_dir():
                _count(ignored, entry.name)
            elif lost is not None and not is_foreign(entry.name) and _suffix(entry.name) in suffixes:
                lost.append(entry.path)
            else:
                _count(ignored, entry.name, LOST)


def _entries(directory):
    with os.scandir(directory) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _count(ignored, name, where=''):
    if ignored is not None:
        if is_foreign(name):
            ignored['hidden' if name.startswith('.') else name.strip()] += 1
        else:
            ignored[(_suffix(name) or 'without a suffix') + where] += 1


def _suffix(name):
    return os.path.splitext(name)[1].lower()
