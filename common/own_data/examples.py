"""tf.train.Examples from columns: the bytes that protobuf would write for each row, made for all rows of a block at once."""

from collections.abc import Callable, Mapping
import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

_EMPTY = pa.scalar(b'', pa.binary())


def serialize(columns: Mapping[str, Any]) -> Any:
    """Returns serialized tf.train.Examples, binary [n], as `SerializeToString(deterministic=True)` writes them.

    Args:
      columns: {name: values}: float64 [n] with NaN for a missing number, which is stored as float32; or Arrow's string [n],
        maybe dictionary-encoded, with null for a missing text. A missing value is no feature of its example.
    """
    entries = [
        _of_numbers(name, values) if isinstance(values, np.ndarray) else _of_texts(name, values)
        for name, values in sorted(columns.items(), key=lambda item: item[0].encode())
    ]
    sizes = functools.reduce(pyarrow.compute.add, map(pyarrow.compute.binary_length, entries)).dictionary_encode()
    heads = pa.array([_field(1, size, b'') if size else b'' for size in sizes.dictionary.to_pylist()], pa.binary())
    return pyarrow.compute.binary_join_element_wise(heads.take(sizes.indices), *entries, _EMPTY)


def _of_numbers(name, values):
    """Returns the entries of a map from a name to float lists."""
    full = _entry(name, 2, _message(1, bytes(4)))
    rows = np.empty([len(values), len(full)], np.uint8)
    rows[:] = np.frombuffer(full, np.uint8)
    rows[:, -4:] = values.astype('<f4').view(np.uint8).reshape(-1, 4)
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(len(full)), len(values), [None, pa.py_buffer(rows)])
    entries, missing = fixed.cast(pa.binary()), np.isnan(values)
    return pyarrow.compute.if_else(pa.array(missing), _EMPTY, entries) if missing.any() else entries


def _of_texts(name, values):
    """Returns the entries of a map from a name to lists of bytes."""
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    entries = [None if text is None else _of_text(name, text) for text in encoded.dictionary.to_pylist()]
    return pyarrow.compute.fill_null(pa.array(entries, pa.binary()).take(encoded.indices), _EMPTY)


@functools.lru_cache(1 << 17)
def _of_text(name, text):
    return _entry(name, 1, _message(1, text.encode()))


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


def select(values: Any, keep: np.ndarray, function: Callable[[str], str | None]) -> Any:
    """Applies a function to each distinct text of an Arrow array.

    Returns:
      Dictionary-encoded strings [n]; null, in the indices or in the dictionary, where it returns None, or keep is False.
    """
    encoded = values.dictionary_encode()
    found = pa.array([function(text) for text in encoded.dictionary.to_pylist()], pa.string())
    indices = encoded.indices
    if not keep.all():
        indices = pyarrow.compute.if_else(pa.array(keep), indices, pa.scalar(None, indices.type))
    return pa.DictionaryArray.from_arrays(indices, found)
