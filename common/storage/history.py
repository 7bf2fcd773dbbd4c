"""The history of a run: what metrics.csv has of its training and of its evaluations, as columns of numbers."""

from collections.abc import Mapping, Sequence
import contextlib
import csv
import itertools
import os
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import to_json
from estimator_trainer.common.paths import is_remote
from estimator_trainer.common.storage.metrics_file import append_training_row, read_rows, remove_rows
from estimator_trainer.common.storage.metrics_table import MODE, is_of_training, metrics_path

_FIRST_ROWS = 100
Columns = dict[str, np.ndarray]


class History(NamedTuple):
    """The curves of a run, in the order of the steps.

    Attributes:
      training: {name: float64 [lines]}, and 'global_step', int64: a row for each line of the log with a loss. NaN where a line
        lacks the number.
      evaluations: {split: {name: float64 [evaluations]}}, likewise; metrics that are no scalars are left out.
    """

    training: Columns
    evaluations: dict[str, Columns]


def read_history(output_dir: str) -> History:
    """Reads metrics.csv.

    Raises:
      RunError: the file is corrupt.
    """
    training, evaluations = [], {}  # type: ignore[var-annotated]
    for row in read_rows(output_dir):
        rows = training if is_of_training(row) else evaluations.setdefault(row['split'], [])
        rows.append(row)
    return History(_columns(training), {split: _columns(rows) for split, rows in evaluations.items()})


def _columns(rows: Sequence[Mapping[str, str]]) -> Columns:
    """Returns the columns of numbers that rows have."""
    steps = np.array([int(row['global_step']) for row in rows], np.int64)
    found: Columns = {'global_step': steps}
    for name in rows[0] if rows else ():
        texts = [row[name] for row in rows]
        if name not in (*found, 'split', MODE) and any(texts):
            try:
                found[name] = np.array([float(text or 'nan') for text in texts])
            except ValueError:  # A metric that is a vector.
                continue
    return found


def first_loss(output_dir: str) -> float | None:
    """Returns the first loss that metrics.csv has of a run, or None; reads no more than the beginning of the file."""
    if is_remote(output_dir) or not os.path.isfile(metrics_path(output_dir)):
        return None
    with open(metrics_path(output_dir), encoding='utf-8', errors='replace') as file:
        rows = itertools.islice(csv.DictReader(file), _FIRST_ROWS)
        found = next((row.get('loss') for row in rows if is_of_training(row)), None)
    with contextlib.suppress(ValueError):
        return float(found or '')
    return None


def start_training(output_dir: str, step: int) -> None:
    """Removes the training's rows after the step from which it continues: its steps are repeated."""
    if is_remote(output_dir):
        tf.logging.warning(
            '%s: metrics.csv gets no rows of the training, as remote files cannot be appended to; TensorBoard has them.',
            output_dir,
        )
        return
    remove_rows(output_dir, lambda row: is_of_training(row) and int(row['global_step']) > step)


def add_training(output_dir: str, split: str, step: int, values: Mapping[str, float | str | None]) -> None:
    """Adds a row of the training to metrics.csv.

    Args:
      split: that is trained on.
      step: the global step.
      values: {name: number}; None leaves the cell empty, so that all rows have the same columns. Numbers are rounded, but for
        those given as text.

    Raises:
      RunError, OSError: the file is corrupt, or cannot be written.
    """
    if is_remote(output_dir):
        return
    numbers = {name: None if value is None else to_json(value) for name, value in values.items()}
    append_training_row(output_dir, {'global_step': step, 'split': split, **numbers})
