"""flags.json in an output_dir: what a resume takes over of the training: its flags, the number of tasks, replaced defaults.

Flags on which the result depends stay as the run began; the others are those of the last start.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import read_json, write_json
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import names_with
from estimator_trainer.common.storage import provenance
from estimator_trainer.common.storage.run_dir import flags_path, hparams_path
from estimator_trainer.hparams.comparison import differences

DATA_DIR = 'data_dir'  # An absolute path; that in dataset.json counts, once the run has it.
LOCAL_CLUSTER = 'local_cluster'  # The flag of the process that started the tasks; '' if none did.
PARALLELISM = 'parallelism'  # The towers and threads that were chosen, see common/runs/parallelism.py.
ASYNCHRONOUS = 'asynchronous'  # The step from which on each task of a cluster took batches of its own; null if none did.
REPLACED = 'replaced_defaults'  # Default hyper-parameters, {name: value}, in whose place the run began with other values.


def save(output_dir: str, kept: Mapping[str, Any], num_tasks: int, step: int = 0) -> None:
    """Writes the file; of a run that resumes, warns of changed flags that change its result.

    Args:
      kept: the flags of Trait.KEPT, DATA_DIR, LOCAL_CLUSTER, REPLACED and, once known, PARALLELISM and ASYNCHRONOUS, true if
        this run is.
      num_tasks: number of processes that train.
      step: from which the run resumes; 0 if it begins.
    """
    now = {**kept, ASYNCHRONOUS: bool(kept.get(ASYNCHRONOUS)) or _has_servers(kept), 'num_tasks': num_tasks}
    saved = load(output_dir) if step else {}
    began = {name: saved[name] for name in (*names_with(Trait.CHANGES_RESULT), 'num_tasks') if name in saved}
    since = asynchronous_since(saved)
    since = None if since is None or since >= step else since  # The run may have gone back.
    if ASYNCHRONOUS in saved or since is not None:
        began[ASYNCHRONOUS] = since is not None
    if changes := differences(began, now, now.keys() - began.keys()):
        tf.logging.warning('This run began otherwise: %s. Its result differs from that without these changes.', changes)
    if PARALLELISM in saved:
        began[PARALLELISM] = saved[PARALLELISM]
    if REPLACED in now:
        began[REPLACED] = {**now[REPLACED], **saved.get(REPLACED, {})}
    began[ASYNCHRONOUS] = step if since is None and now[ASYNCHRONOUS] else since
    write_json(flags_path(output_dir), {**now, **began})


def load(output_dir: str) -> dict[str, Any]:
    """Reads the file; returns {} for a run of an older version, which has none.

    Raises:
      UsageError: the file is corrupt.
    """
    path = flags_path(output_dir)
    if not tf.io.gfile.exists(path):
        return {}
    try:
        found = read_json(path)
        if not isinstance(found.get(REPLACED, {}), dict):
            raise ValueError(f'{path}: {REPLACED} must be a JSON object')
    except ValueError as error:
        raise error_of(output_dir, str(error)) from None
    return found


def are_lost(output_dir: str) -> bool:
    """Whether a run has no file of its flags."""
    return tf.io.gfile.exists(hparams_path(output_dir)) and not tf.io.gfile.exists(flags_path(output_dir))


def error_of(output_dir: str, problem: str) -> UsageError:
    """Returns the error for a file that is corrupt."""
    return UsageError(f'{problem}; restore it{origin(output_dir)}, or delete it, and give the flags of the run again')


def origin(output_dir: str) -> str:
    """Returns where else the flags of a run are, for a message; '' if that is not certain."""
    known = [start['made_by'] for start in provenance.known(output_dir).starts]
    # After a change, the file had the values of the beginning; and of a cluster, what provenance lacks.
    names = names_with(Trait.CHANGES_RESULT)
    values = [[made_by['flags'].get(name) for name in names] for made_by in known if made_by.get('flags')]
    if not values or any(made_by.get('tasks') != 1 for made_by in known) or any(one != values[-1] for one in values):
        return ''
    return f' from {provenance.place_of(output_dir, "flags")}'


def asynchronous_since(kept: Mapping[str, Any]) -> int | None:
    """Returns the step from which on time decided the order of a run's updates, by parameter servers; None if it never did.

    Args:
      kept: the content of the file; an older version wrote true or false, or nothing, in place of the step.
    """
    found = kept.get(ASYNCHRONOUS)
    if type(found) is int:
        return found
    return 0 if found or _has_servers(kept) else None


def _has_servers(kept):
    return 'ps:' in (kept.get(LOCAL_CLUSTER) or '')
