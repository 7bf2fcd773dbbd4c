"""tf.train.Examples from columns: the bytes that protobuf would write for each row, made for all rows of a block at once."""

from collections.abc import Callable, Mapping
import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

_EMPTY = pa.scalar(b'', pa.binary())
_MAX_TEXTS = 1 << 14


def serialize(columns: Mapping[str, Any]) -> Any:
    """Returns serialized tf.train.Examples, binary [n], as `SerializeToString(deterministic=True)` writes them.

    Args:
      columns: {name: values}: float64 [n] with NaN for a missing number, which is stored as float32; or binary [n], the entries
        of texts, from `Texts`. A missing value is no feature of its example.
    """
    entries = [
        _of_numbers(name, values) if isinstance(values, np.ndarray) else values
        for name, values in sorted(columns.items(), key=lambda item: item[0].encode())
    ]
    sizes = functools.reduce(pyarrow.compute.add, map(pyarrow.compute.binary_length, entries)).dictionary_encode()
    heads = pa.array([_field(1, size, b'') if size else b'' for size in sizes.dictionary.to_pylist()], pa.binary())
    return pyarrow.compute.binary_join_element_wise(heads.take(sizes.indices), *entries, _EMPTY)


class Texts:
    """The entries of a column of texts, which remembers those of the latest distinct cells.

    Args:
      name: of the column.
      function: from a cell to the text that is stored; None for a missing one.
    """

    def __init__(self, name: str, function: Callable[[str], str | None]):
        self._name, self._function = name, function
        self._cells, self._entries = pa.array([], pa.string()), pa.array([], pa.binary())

    def __call__(self, cells: Any) -> Any:
        """Returns the entries of cells, string [n], as binary [n]; b'' for a missing text."""
        places = pyarrow.compute.index_in(cells, self._cells)
        if places.null_count:
            self._add(cells.filter(places.is_null()).unique(), cells)
            places = pyarrow.compute.index_in(cells, self._cells)
        return self._entries.take(places)

    def _add(self, new, cells):
        if len(self._cells) + len(new) > _MAX_TEXTS:
            new = cells.unique()
            self._cells, self._entries = self._cells[:0], self._entries[:0]
        self._cells = pa.concat_arrays([self._cells, new])
        made = pa.array([self._entry(cell) for cell in new.to_pylist()], pa.binary())
        self._entries = pa.concat_arrays([self._entries, made])

    def _entry(self, cell):
        text = self._function(cell)
        return b'' if text is None else _entry(self._name, 1, _message(1, text.encode()))


def _of_numbers(name, values):
    """Returns the entries of a map from a name to float lists."""
    full = _entry(name, 2, _message(1, bytes(4)))
    rows = np.empty([len(values), len(full)], np.uint8)
    rows[:] = np.frombuffer(full, np.uint8)
    rows[:, -4:] = values.astype('<f4').view(np.uint8).reshape(-1, 4)
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(len(full)), len(values), [None, pa.py_buffer(rows)])
    entries, missing = fixed.cast(pa.binary()), np.isnan(values)
    return pyarrow.compute.if_else(pa.array(missing), _EMPTY, entries) if missing.any() else entries


def _entry(name, kind, values):
    """Returns an entry of Features.feature: the key, and the Feature with a list of this kind."""
    return _message(1, _message(1, name.encode()) + _message(2, _message(kind, values)))


def _message(number: int, content: bytes) -> bytes:
    return _field(number, len(content), content)


def _field(number: int, size: int, content: bytes) -> bytes:
    """Returns a length-delimited field of a protocol buffer (https://protobuf.dev/programming-guides/encoding)."""
    return bytes([number << 3 | 2]) + _varint(size) + content


def _varint(number: int) -> bytes:
    return bytes([number & 127 | 128]) + _varint(number >> 7) if number > 127 else bytes([number])
