"""The data that runs share, by which their metrics are comparable."""

from collections.abc import Mapping

from estimator_trainer.common.errors import UsageError
from estimator_trainer.hparams.comparison import changed


def check(path: str, old: Mapping[str, str], new: Mapping[str, str], cure: str) -> None:
    """Raises UsageError if a split has changed.

    Args:
      path: of the file that has the old checksums.
      old, new: {split: checksum}, as far as it is known.
      cure: further words on what to do.
    """
    if splits := changed(old, new):
        raise UsageError(
            f'{path}: the data of {" and ".join(splits)} has changed since the first of these runs, or is converted '
            f'differently by other versions of packages: the runs would not be comparable: restore it, {cure}'
        )
