"""The file metrics.csv: rows with 'global_step', 'split' and metrics, which are read, replaced, removed and appended.

The rows of evaluations are written with the whole file, atomically. Those of the training, which may be 100,000, are appended;
their `mode` is 'train', and empty in the others.
"""

from collections.abc import Callable, Iterable, Mapping
import csv
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.files import last_line, to_csv, write, write_from
from estimator_trainer.common.locks import taking_turns
from estimator_trainer.common.storage.abandoned import keep_copy
from estimator_trainer.common.storage.metrics_table import MODE, OF_TRAINING, metrics_path, parse

_MAX_HEADER = 1 << 16  # Bytes.


def read_rows(output_dir: str) -> list[dict[str, str]]:
    """Returns all rows as text. A last line that a killed process or a full disk has cut is none.

    Raises:
      RunError: the file is corrupt.
    """
    path = metrics_path(output_dir)
    if not tf.io.gfile.exists(path):
        return []
    with tf.io.gfile.GFile(path, 'rb') as file:
        content = file.read()
    try:
        return parse(_whole_lines(content))
    except ValueError as error:
        raise RunError(f'{path}: {error}: delete it') from None


def _whole_lines(content):
    """Returns a file's content without its last line, if that is the beginning of a row of the training."""
    lines, newline, last = content.rpartition(b'\n')
    columns, cells = (line.decode(errors='replace').split(',') for line in (lines.partition(b'\n')[0], last))
    mode = columns.index(MODE) if MODE in columns else -1
    is_appended = mode >= 0 and (len(cells) <= mode + 1 or cells[mode] == OF_TRAINING[MODE])
    return lines + newline if is_appended else content


def write_rows(output_dir: str, rows: Iterable[Mapping[str, Any]], columns: Iterable[str] = ()) -> None:
    """Writes rows, ordered by step; the file has their columns, and those given.

    For the process that holds the lock of `taking_turns`.
    """
    rows = sorted(rows, key=lambda row: int(row['global_step']))
    names = [*dict.fromkeys(['global_step', 'split', *columns, *(key for row in rows for key in row)])]
    write(metrics_path(output_dir), _lines(names, [dict(zip(names, names)), *rows]))


def _lines(columns, rows):
    return to_csv([row.get(name) for name in columns] for row in rows)


def remove_rows(output_dir: str, is_removed: Callable[[dict[str, str]], bool], folder: str = '') -> None:
    """Removes rows from the file.

    Args:
      folder: to which the whole file is copied before, unless that has it; '' for none.

    Raises:
      RunError: the file is corrupt.
    """
    with taking_turns(metrics_path(output_dir)):
        rows = read_rows(output_dir)
        kept = [row for row in rows if not is_removed(row)]
        if len(kept) < len(rows):
            if folder:
                keep_copy(metrics_path(output_dir), folder)
            write_rows(output_dir, kept, rows[0])


def append_training_row(output_dir: str, row: Mapping[str, Any]) -> None:
    """Appends a row of the training, by a single write of its line; rewrites the file only if it lacks a column.

    Args:
      output_dir: a local directory.
      row: with 'global_step' and 'split'.

    Raises:
      RunError: the file is corrupt.
      OSError: it cannot be written.
    """
    path, row = metrics_path(output_dir), {'global_step': row['global_step'], 'split': row['split'], **OF_TRAINING, **row}
    with taking_turns(path):
        if not _append(path, row):
            write_rows(output_dir, [*read_rows(output_dir), row])


def _append(path, row):
    """Appends a row; returns False if the file is missing or corrupt, or lacks a column."""
    if not os.path.exists(path):
        return False
    with open(path, 'r+b', buffering=0) as file:
        header, newline, _ = file.read(_MAX_HEADER).partition(b'\n')
        columns = next(csv.reader([header.decode(errors='replace')]), [])
        if not newline or not row.keys() <= {*columns}:
            return False
        # Without the line that a killed process or a full disk has cut.
        write_from(file, path, last_line(file)[1], _lines(columns, [row]).encode())
    return True
