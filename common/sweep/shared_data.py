"""The data that runs share, by which their metrics are comparable."""

from collections.abc import Iterable, Mapping, Sequence
import os
from typing import Any

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import sha256_of
from estimator_trainer.common.paths import expand
from estimator_trainer.hparams.comparison import changed
from estimator_trainer.hparams.merge import is_path

_MIXED = ''  # In place of the checksum of what changed while runs trained, so that no command continues them.


def of_files(params: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, str]:
    """Returns {path: checksum} of the local files of which the data's own checksums do not tell.

    These are word vectors, lists of excluded records, and those among the choices of a space, such as schemas.

    Args:
      params: hyper-parameters.
      values: of the space, as in JSON; {} if there is none.
    """
    choices = [value for name, of_name in values.items() if is_path(name) and isinstance(of_name, list) for value in of_name]
    paths = {
        expand(path) for path in (params.get('embeddings'), params.get('exclude'), *choices) if path and isinstance(path, str)
    }
    return {path: sha256_of(path) for path in sorted(paths) if os.path.isfile(path)}


def check(path: str, old: Mapping[str, str], new: Mapping[str, str], cures: Sequence[str]) -> None:
    """Raises UsageError if a split, or a file, has changed.

    Args:
      path: of the file that has the old checksums.
      old, new: {split or path: checksum}, as far as it is known.
      cures: what to do, other than to restore the data.
    """
    names = changed(old, new)
    if any(old[name] == _MIXED for name in names):
        raise UsageError(_of_mixed(path, names, cures))
    if names:
        raise UsageError(
            f'{path}: the data of {" and ".join(names)} has changed since the first of these runs, or is converted '
            f'differently by other versions of packages: the runs would not be comparable: {_either("restore it", *cures)}'
        )


def mixed(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Returns what to save in place of the checksums of data that changed while runs trained; {} if none did."""
    return dict.fromkeys(changed(old, new), _MIXED)


def error_of_mixed(path: str, names: Iterable[str], cures: Sequence[str]) -> RunError:
    """Returns the error for data that changed while runs trained."""
    return RunError(_of_mixed(path, names, cures))


def _of_mixed(path, names, cures):
    return f'{path}: the data of {" and ".join(names)} changed while these runs trained, on both: {_either(*cures)}'


def _either(*cures):
    *others, last = cures
    return f'{", ".join(others)}, or {last}' if others else last
