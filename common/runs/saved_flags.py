"""flags.json in an output_dir: the flags that a run's result depends on, with the values with which it began."""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import read_json, write_json
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import Options, names_with
from estimator_trainer.common.storage.run_dir import flags_path
from estimator_trainer.hparams.build import differences


def save(output_dir: str, options: Options) -> None:
    """Writes the file."""
    write_json(flags_path(output_dir), {name: getattr(options, name) for name in names_with(Trait.CHANGES_RESULT)})


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


def warn_of_changes(output_dir: str, options: Options) -> None:
    """Logs the flags that differ from those with which the run began."""
    began = load(output_dir)
    now = {name: getattr(options, name) for name in began if hasattr(options, name)}
    if changes := differences({name: began[name] for name in now}, now):
        tf.logging.warning('This run began with other flags: %s. Its result differs from that without these changes.', changes)
