"""The data that runs share, by which their metrics are comparable."""

from collections.abc import Mapping
import os
from typing import Any

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import sha256_of
from estimator_trainer.common.paths import expand
from estimator_trainer.hparams.comparison import changed
from estimator_trainer.hparams.merge import is_path


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


def check(path: str, old: Mapping[str, str], new: Mapping[str, str], cure: str) -> None:
    """Raises UsageError if a split, or a file, has changed.

    Args:
      path: of the file that has the old checksums.
      old, new: {split or path: checksum}, as far as it is known.
      cure: further words on what to do.
    """
    if names := changed(old, new):
        raise UsageError(
            f'{path}: the data of {" and ".join(names)} has changed since the first of these runs, or is converted '
            f'differently by other versions of packages: the runs would not be comparable: restore it, {cure}'
        )
