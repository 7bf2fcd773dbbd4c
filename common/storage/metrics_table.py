"""The content of metrics.csv, as rows and as evaluations. Does not import TensorFlow."""

from collections.abc import Iterable, Mapping
import csv
import io
import json
import os
from typing import Any

MODE = 'mode'  # The column.
OF_TRAINING = {MODE: 'train'}
_NOT_METRICS = ('global_step', 'split', MODE)
STEP_LOSS = 'step_loss'  # The column with the loss of that step alone, with all digits, by which a replay is compared.


def metrics_path(output_dir: str) -> str:
    return os.path.join(output_dir, 'metrics.csv')


def is_of_training(row: Mapping[str, Any]) -> bool:
    """Whether a row is of the training, not of an evaluation."""
    return OF_TRAINING.items() <= row.items()


def parse(content: bytes) -> list[dict[str, str]]:
    """Returns the rows of a file as text; raises ValueError if it is corrupt, or its last line is incomplete."""
    try:
        text = content.decode()
        rows = list(csv.DictReader(io.StringIO(text)))
    except (ValueError, csv.Error):
        text, rows = '', [{}]
    is_cut = not text.endswith('\n') or any(None in (*row, *row.values()) for row in rows)
    if is_cut or not all((row.get('global_step') or '').isdecimal() and row.get('split') for row in rows):
        raise ValueError('is not a table of metrics')
    for row in filter(is_of_training, rows):
        _values(row, float)
    return rows


def read(output_dir: str) -> list[dict[str, str]]:
    """Returns the rows of a local directory's file, as text; [] if there is none. A line that is being written is none.

    Raises:
      ValueError: the file is corrupt.
      OSError: it cannot be read.
    """
    path = metrics_path(output_dir)
    if not os.path.isfile(path):  # Reading a pipe would wait.
        return []
    with open(path, 'rb') as file:
        content = file.read()
    return parse(content[: content.rfind(b'\n') + 1])


def evaluations(rows: Iterable[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Returns the evaluations among rows, {'global_step': int, split: {metric: value}}, in their order.

    Raises:
      ValueError: a value is neither JSON nor a number.
    """
    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        if not is_of_training(row):
            step = int(row['global_step'])
            found.setdefault(step, {'global_step': step})[row['split']] = _values(row, _value)
    return list(found.values())


def _values(row, convert):
    """Returns {metric: value} of a row; raises ValueError if one cannot be converted."""
    found = {}
    for name, text in row.items():
        if text and name not in _NOT_METRICS:
            try:
                found[name] = convert(text)
            except ValueError:
                raise ValueError(
                    f'{name} of {row["split"]} at step {row["global_step"]} is not a number: {text[:20]}'
                ) from None
    return found


def _value(text):
    try:
        return json.loads(text)
    except ValueError:  # nan and inf.
        return float(text)
