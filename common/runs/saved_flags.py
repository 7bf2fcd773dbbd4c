"""flags.json in an output_dir: the flags of its training, which a resume takes over, and the number of tasks.

Those on which the result depends stay as the run began; the others are those of the last start.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import read_json, write_json
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import Options, names_with
from estimator_trainer.common.storage.run_dir import flags_path
from estimator_trainer.hparams.build import differences


def save(output_dir: str, options: Options, num_tasks: int) -> None:
    """Writes the file for a run that begins.

    Args:
      num_tasks: number of processes that train.
    """
    write_json(flags_path(output_dir), _values(options, num_tasks))


def update(output_dir: str, options: Options, num_tasks: int) -> None:
    """Writes the file for a run that resumes; logs which flags differ from those with which it began, if the result depends on
    them. Arguments as for `save`.
    """
    now, saved = _values(options, num_tasks), load(output_dir)
    began = {name: saved[name] for name in (*names_with(Trait.CHANGES_RESULT), 'num_tasks') if name in saved}
    if changes := differences(began, now, now.keys() - began.keys()):
        tf.logging.warning('This run began otherwise: %s. Its result differs from that without these changes.', changes)
    write_json(flags_path(output_dir), {**now, **began})


def _values(options, num_tasks):
    return {**{name: getattr(options, name) for name in names_with(Trait.KEPT)}, 'num_tasks': num_tasks}


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
