"""The proof of a run: whether its checkpoints are those that provenance.jsonl records, and how those of a rerun differ."""

from collections.abc import Sequence
import random
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, and_more
from estimator_trainer.common.replay.run_copy import checkpoint_steps, require_checkpoint
from estimator_trainer.common.runs.recorder import input_digest
from estimator_trainer.common.storage import provenance
from estimator_trainer.common.storage.best_checkpoint import find_best
from estimator_trainer.common.storage.provenance import Record
from estimator_trainer.common.storage.restore import open_checkpoint
from estimator_trainer.common.training.exact_program import FOLDER

TOLERANCE = 1e-3  # Of the largest value of a variable, where sums may be rounded otherwise.
_SHOWN = 3


class Difference(NamedTuple):
    """A tensor that is not the same in two checkpoints.

    Attributes:
      largest: the largest absolute difference of its values; infinity if the tensors cannot be subtracted.
      relative: this, as a part of the largest absolute value; infinity for numbers that are not rounded, such as integers.
    """

    name: str
    largest: float
    relative: float


def read_record(output_dir: str) -> tuple[list[dict[str, Any]], Record]:
    """Returns the lines of a run's provenance.jsonl, after checking the chain, and what they say.

    Raises:
      UsageError: there is no run, or it is older than this file.
      RunError: the chain is broken.
    """
    require_checkpoint(output_dir)
    entries = provenance.read(output_dir)
    if not entries:
        raise UsageError(
            f'{provenance.path_of(output_dir)}: is missing: the run is of an older version, which did not record how it was '
            'made, or the file was deleted; a run that resumes records what follows'
        )
    return entries, provenance.record_of(entries)


def checkpoint_paths(output_dir: str) -> list[str]:
    """Returns the paths, without suffix, of the kept checkpoints, and of the best one."""
    best = find_best(output_dir)
    return [*dict.fromkeys([*checkpoint_steps(output_dir).values(), *([best] if best else [])])]


def kept(output_dir: str, paths: Sequence[str], record: Record) -> dict[int, str]:
    """Returns {step: path without suffix} of the recorded checkpoints that are kept, after comparing their digests.

    Leaves out those that the run has left behind, such as damaged ones.

    Args:
      paths: those of `checkpoint_paths`, before the record was read, to which a process that trains there adds.

    Raises:
      RunError: one is not what was recorded, or has no line.
    """
    begun = record.starts[0]['step']
    for path in sorted(paths, key=_step):
        step = _step(path)
        if step < begun:
            tf.logging.warning('%s: is older than the record, which begins at step %d.', path, begun)
        elif step in record.left:
            tf.logging.warning('%s: is not verified: the run has gone back to an earlier step since.', path)
        elif step not in record.checkpoints:
            raise RunError(
                f'{path}: has no line in {provenance.path_of(output_dir)}: the file was added, or the line removed; or the run '
                'has not written the line yet, or was killed before it did: resuming it writes the line'
            )
        elif provenance.tensors_digest(path) != record.checkpoints[step]['tensors']:
            raise RunError(f'{path}: is not the checkpoint that was recorded: its tensors have another digest')
        elif (now := input_digest(output_dir, step)) and now != record.checkpoints[step].get('input', now):
            raise RunError(f'{path}: the state of its input, in {output_dir}/{FOLDER}, is not that which was recorded')
    found = {_step(path): path for path in reversed(paths) if _step(path) >= begun and _step(path) not in record.left}
    return dict(sorted(found.items()))


def _step(path):
    return int(path.rpartition('-')[2])


def intervals(steps: Sequence[int], from_start: bool) -> list[tuple[int, int]]:
    """Returns the intervals between kept checkpoints, and that from the initialization, if the run can be started again."""
    points = sorted({*steps, *([0] if from_start else [])})
    return [*zip(points, points[1:])]


def choose(found: Sequence[tuple[int, int]], count: int | None) -> list[tuple[int, int]]:
    """Returns a number of intervals, all for None, by random numbers that nobody knows before."""
    if count is None or count >= len(found):
        return [*found]
    return sorted(random.SystemRandom().sample(found, count))


def compare(recorded: str, again: str, only_first: bool = False) -> list[Difference]:
    """Returns the tensors that differ in two checkpoints, by a bit or more, the largest relative difference first.

    Args:
      only_first: whether the second may have others than the first.
    """
    first, second = open_checkpoint(recorded), open_checkpoint(again)
    names = [{*reader.get_variable_to_shape_map()} for reader in (first, second)]
    alone = names[0] - names[1] if only_first else names[0] ^ names[1]
    found = [Difference(name, np.inf, np.inf) for name in alone]
    for name in names[0] & names[1]:
        values = [np.asarray(reader.get_tensor(name)) for reader in (first, second)]
        found += [] if _are_equal(*values) else [_difference(name, *values)]
    return sorted(found, key=lambda item: (-item.relative, item.name))


def _are_equal(first, second):
    """Whether two arrays have the same bits."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return bool((first == second).all()) if first.dtype == object else first.tobytes() == second.tobytes()


def _difference(name, first, second):
    """Returns the Difference of two tensors that are not equal."""
    if first.dtype != second.dtype or first.shape != second.shape or first.dtype == object:
        return Difference(name, np.inf, np.inf)
    values = [value.astype(np.float64) for value in (first, second)]
    largest, scale = (float(np.abs(value).max()) for value in (values[0] - values[1], values[0]))
    if not np.isfinite(largest):  # A NaN is as far from each number.
        return Difference(name, np.inf, np.inf)
    is_rounded = scale and tf.as_dtype(first.dtype).is_floating
    return Difference(name, largest, largest / scale if is_rounded else np.inf)


def describe(differences: Sequence[Difference]) -> str:
    """Returns the names of tensors that differ, with how much each does at most."""
    return and_more([f'{item.name} by {item.largest:.3g}' for item in differences], _SHOWN)
