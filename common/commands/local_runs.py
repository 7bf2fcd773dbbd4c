"""The runs that a pattern of directories names. Does not import TensorFlow."""

import os
import pathlib
import re

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.paths import FOLDS, STUDY, is_remote, trial_dirs


def find_runs(pattern: str) -> list[str]:
    """Returns the directories of runs, sorted; of a sweep, those of its trials, of folds, those of each.

    Raises:
      UsageError: there is none, or this user may not read it.
    """
    if is_remote(pattern):
        raise UsageError(f'{pattern}: is remote: mount it as a directory, and give that')
    path = pathlib.Path(pattern)
    root = pathlib.Path(path.anchor)
    found = root.glob(str(path.relative_to(root))) if re.search(r'[*?[]', pattern) else [path]
    try:
        runs = sorted({str(run) for path in found for run in [path, *_trials(path)] if _is_run(run)})
    except ValueError:  # Of older versions of Python.
        raise UsageError(f'{pattern}: ** stands for whole folders, as in output/**: separate it by /') from None
    if not runs:
        _check_access(path)
        raise UsageError(
            f"{pattern}: there is no run: give the --output_dir of one, or --runs='output/**' for all below output"
        )
    return runs


def _check_access(path):
    """Raises UsageError if this user may not read a directory."""
    try:
        os.stat(path / 'status.json')
    except PermissionError as error:
        raise UsageError(f'{path}: {error.strerror}: this user may not read it: use the user who trains') from None
    except OSError:  # No such file, which the caller reports.
        pass


def _trials(path):
    """Returns what may be the runs of a sweep, or of folds, in a directory."""
    trials = trial_dirs(path) if _has(path, STUDY) else []
    return [*trials, *path.glob('fold_*')] if _has(path, FOLDS) else trials


def _is_run(path):
    return _has(path, 'status.json', 'hparams.json')


def _has(path, *names):
    try:
        return any((path / name).is_file() for name in names)
    except OSError:  # A directory of another user.
        return False
