"""Sets of hyper-parameters: JSON files in this directory or named by their path."""

import os

from estimator_trainer.common.errors import UsageError

SETS_DIR = os.path.dirname(os.path.abspath(__file__))


def set_path(name: str) -> str:
    """Returns the path of a set: `name` itself if it ends with .json, else that of the file in this directory."""
    return name if name.endswith('.json') else os.path.join(SETS_DIR, f'{name}.json')


def available_sets() -> list[str]:
    """Returns the names of the sets in this directory."""
    return sorted(name[:-5] for name in os.listdir(SETS_DIR) if name.endswith('.json'))


def missing_set(name: str) -> UsageError:
    """Returns the error for a set without a file."""
    return UsageError(f'--hparams_set={name}: no file {set_path(name)}; the sets are: {", ".join(available_sets())}')
