"""flags.json in an output_dir: the flags and the number of tasks with which a run began, on which its result depends."""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import read_json, write_json
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import Options, names_with
from estimator_trainer.common.storage.run_dir import flags_path
from estimator_trainer.hparams.build import differences


def save(output_dir: str, options: Options, num_tasks: int) -> None:
    """Writes the file.

    Args:
      num_tasks: number of processes that train.
    """
    write_json(flags_path(output_dir), _values(options, num_tasks))


def _values(options, num_tasks):
    return {**{name: getattr(options, name) for name in names_with(Trait.CHANGES_RESULT)}, 'num_tasks': num_tasks}


def load(output_dir: str) -> dict[str, Any]:
    """Reads the file; returns {} for a run of an older version, which has none.

    Raises:
      UsageError: the file is corrupt.
    """
    if not tf.io.gfile.exists(flags_path(output_dir)):
        return {}
    try:
        return read_json(flags_path(output_dir))
    except ValueError as error:
        raise UsageError(f'{error}; delete it, or choose another --output_dir') from None


def warn_of_changes(output_dir: str, options: Options, num_tasks: int) -> None:
    """Logs what differs from that with which the run began; arguments as for `save`."""
    began, now = load(output_dir), _values(options, num_tasks)
    if changes := differences({name: value for name, value in began.items() if name in now}, now, now.keys() - began.keys()):
        tf.logging.warning('This run began otherwise: %s. Its result differs from that without these changes.', changes)
