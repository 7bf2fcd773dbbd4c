"""Keys that identify examples: file and line, file and record, the example's id, or its number in the split."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import picked_batches
from estimator_trainer.common.plugins.dataset_contract import EXAMPLE_ID
from estimator_trainer.common.records.elements import iterate, opened

NUMBER = 'example'
COLUMNS = ('file', 'line', 'row', 'record', EXAMPLE_ID, NUMBER)
Place = tuple[tuple[str, str], ...]
_KEYS = (('file', 'line'), ('file', 'row'), ('file', 'record'), (EXAMPLE_ID,), (NUMBER,))


def place_of(fields: Mapping[str, Any]) -> Place:
    """Returns the (name, text) of the fields that tell an example apart from all others; () if none do."""
    for names in _KEYS:
        if all(str(fields.get(name, '')) for name in names):
            return tuple((name, str(fields[name])) for name in names)
    return ()


def labels_and_ids(source: DataSource, make: Any, name: str) -> tuple[np.ndarray, list[str]]:
    """Returns the class of each of some records, int64 [n], and its example_id, [] if it has none.

    Args:
      make: function that returns the records.
      name: what needs them, for messages.

    Raises:
      UsageError: the labels are no classes.
    """

    def pick(features, labels):
        label = labels.get('label')
        rank = 1 if source.parses_batches() else 0
        if not isinstance(label, tf.Tensor) or not label.dtype.is_integer or label.shape.rank != rank:
            raise UsageError(f'{name}: --dataset={source.params.dataset} has no label of classes named label: omit it')
        return {'label': label, **{key: features[key] for key in (EXAMPLE_ID,) if key in features}}

    labels, ids = [np.zeros(0, np.int64)], []
    with opened(lambda: picked_batches(source, make(), pick)) as (session, batches):
        for _, picked in iterate(session, batches):
            labels.append(picked['label'].astype(np.int64))
            ids += picked.get(EXAMPLE_ID, np.zeros(0)).tolist()
    return np.concatenate(labels), [value.decode(errors='replace') if isinstance(value, bytes) else str(value) for value in ids]
