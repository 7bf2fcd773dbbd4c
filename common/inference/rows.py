"""Rows of a Python program, of many forms, as the batch of raw inputs that a dataset module's `from_raw` takes."""

from collections.abc import Callable, Mapping, Sequence
import datetime
import numbers
import os
import types
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import describe, listed, show
from estimator_trainer.common.formats import images
from estimator_trainer.common.formats.encoded import PICTURE
from estimator_trainer.common.inference import pictures
from estimator_trainer.common.inference.arrays import cast, encode, joined, to_array
from estimator_trainer.common.tags import TOKENS
from estimator_trainer.common.unicode_forms import in_forms_of, under_names_of

Specs = Mapping[str, tf.TensorSpec]
Read = Callable[[Any], Any]
_LISTED = 20  # Names in a message.
_LARGE = 3e38  # A float32 may be slightly larger.
_NO_NUMBERS = (np.datetime64, np.timedelta64, np.complexfloating)  # Though float() counts units of time, or drops a part.
_NO_READERS: Mapping[str, Read] = types.MappingProxyType({})


class Batch(dict[str, np.ndarray]):
    """The arrays of the inputs, and `fields`, {name: array [batch, ...]}, which tell what the examples are of."""

    def __init__(self, arrays: Mapping[str, np.ndarray], fields: Mapping[str, np.ndarray]):
        super().__init__(arrays)
        self.fields = fields


def make_batch(inputs: Any, specs: Specs, readers: Mapping[str, Read] = _NO_READERS) -> tuple[dict[str, np.ndarray], bool]:
    """Converts rows to arrays.

    Args:
      inputs: a table with named columns (of pandas, polars or pyarrow), a dict of columns or of a single row, a list of dicts,
        an array or nested list [batch, columns], or a single row [columns]; if there is one input, also its values alone. An
        input of sentences, `tags.TOKENS`, may have lists of tokens. Columns with other names are left out; accents in names may
        be composed or apart. None, NaN and '' are missing.
      specs: {name: tf.TensorSpec [batch, ...]} of the raw inputs; the columns of an array have their order.
      readers: {column: function from a text, or a picture file, in it to its raw input}, as the dataset reads its files.

    Returns:
      {name: array [batch, ...]}, and whether it is of a single row.

    Raises:
      ValueError: a column is missing, or a value is of the wrong type.
    """
    columns, is_single = _columns(inputs, specs)
    found = {name: _convert(name, columns[name], spec, readers.get(name)) for name, spec in specs.items()}
    if len(sizes := {len(value) for value in found.values()}) > 1:
        raise ValueError(f'the inputs {listed(specs, _LISTED)} have batches of different sizes: {sorted(sizes)}')
    return found, is_single


def batch_maker(specs: Specs, readers: Mapping[str, Read] = _NO_READERS) -> Callable[[Any], tuple[dict[str, np.ndarray], bool]]:
    """Returns `make_batch` for these specs and readers, which is faster for a dict of one row of Python's numbers and texts."""
    columns = [(name, spec.dtype == tf.string, readers.get(name)) for name, spec in specs.items()]
    can_be_plain = all(
        spec.dtype in (tf.string, tf.float32) and spec.shape.rank == 1 and spec.name != PICTURE for spec in specs.values()
    )

    def make(inputs):
        row = _plain_row(inputs, columns) if can_be_plain and type(inputs) is dict else None
        return (row, True) if row is not None else make_batch(inputs, specs, readers)

    return make


def _plain_row(row, columns):
    """Returns the batch of a row, or None if a value is not a str, or a float or an int, that its column takes as it is."""
    batch = {}
    for name, is_text, read in columns:
        value = row.get(name)
        if is_text and type(value) is str:
            text = read(value) if read else value
            try:
                batch[name] = np.array([text.encode()], object)
            except UnicodeEncodeError:
                return None
        elif not is_text and type(value) in (float, int) and (-_LARGE < value < _LARGE or value != value):
            batch[name] = np.array([value], np.float32)
        else:
            return None
    return batch


def _columns(inputs, specs):
    """Returns {name: values}, and whether the rows are a single one."""
    is_row = hasattr(inputs, 'to_dict') and hasattr(inputs, 'keys') and not hasattr(inputs, 'columns')
    if is_row and {*specs} <= {*in_forms_of(map(str, inputs.keys()), specs)}:
        inputs = {str(name): value for name, value in inputs.to_dict().items()}  # A row of a table of pandas.
    if isinstance(inputs, Mapping):
        inputs = under_names_of(inputs, specs)
        _check_names(inputs, specs, 'the dict')
        are_single = [_is_single(inputs[name], spec) for name, spec in specs.items()]
        if any(are_single) and not all(are_single):
            raise ValueError(f'the inputs {listed(specs, _LISTED)} must be all columns or all of one row')
        return {name: [inputs[name]] if all(are_single) else inputs[name] for name in specs}, all(are_single)
    if (names := _names_of(inputs)) is not None:
        by_name = under_names_of({str(name): name for name in names}, specs)
        _check_names(by_name, specs, 'the table')
        to_array = {name: _array if spec.dtype == tf.string else np.asarray for name, spec in specs.items()}
        return {name: to_array[name](inputs[by_name[name]]) for name in specs}, False
    if isinstance(inputs, (list, tuple)) and inputs and all(isinstance(row, Mapping) for row in inputs):
        rows = [under_names_of(row, specs) for row in inputs]
        for number, row in enumerate(rows):
            _check_names(row, specs, f'row {number}')
        return {name: [row[name] for row in rows] for name in specs}, False
    return _columns_of_array(inputs, specs)


def _array(column, dtype=None):
    """Returns a column as an array; integers, some of them missing, of which Arrow and polars make floats, as objects."""
    array, kind = np.asarray(column, dtype), getattr(column, 'type', None) or getattr(column, 'dtype', '')
    if 'int' in str(kind).lower() and np.asarray(column).dtype.kind == 'f':
        to_list = getattr(column, 'to_pylist', None) or column.to_list
        return np.array(to_list(), object)
    return array


def _names_of(table):
    """Returns the names of the columns of a table, or None."""
    names = getattr(table, 'column_names', None) or getattr(table, 'columns', None)
    return names if names is not None and hasattr(table, '__getitem__') else None


def _check_names(names, specs, what):
    missing = [name for name in specs if name not in names]
    if missing:
        given = listed([*map(str, names)], _LISTED) or 'none'
        raise ValueError(
            f'the inputs are {listed(specs, _LISTED)}, but {what} has no {listed(missing, _LISTED)}; given: {given}'
        )


def _is_single(value, spec):
    """Whether a value is that of one row, rather than a column."""
    if spec.name == TOKENS:
        return isinstance(value, (str, bytes))
    if spec.name == PICTURE:
        is_array = isinstance(value, np.ndarray)
        is_column = isinstance(pictures.listed(value), (list, tuple))
        return not is_column and not (is_array and (value.dtype == object or value.ndim > 3))
    try:
        is_text, rank = isinstance(value, (str, bytes, os.PathLike)), spec.shape.rank
        return is_text or rank is not None and np.ndim(value) == rank - 1
    except ValueError:  # A column with lists of different lengths.
        return False


def _columns_of_array(inputs, specs):
    (first, spec), *others = specs.items()
    if not others and (
        spec.name == PICTURE or (spec.name == TOKENS and np.iterable(inputs)) or isinstance(inputs, (str, bytes))
    ):
        is_single = _is_single(inputs, spec)
        return {first: [inputs] if is_single else inputs}, is_single
    array = inputs if isinstance(inputs, np.ndarray) else _to_array(inputs, specs)
    if not others and array.ndim in (spec.shape.rank - 1, spec.shape.rank):
        is_single = array.ndim < spec.shape.rank
        return {first: array[None] if is_single else array}, is_single
    names, scalar = listed(specs, _LISTED), all(spec.shape.rank == 1 for spec in specs.values())
    if not scalar or array.ndim not in (1, 2):
        raise ValueError(f'the inputs are {names}: give a dict of them, not {describe(inputs)}')
    if array.shape[-1] != len(specs):
        raise ValueError(f'an array must have a column for each of the inputs, {names}, but has {array.shape[-1]} columns')
    rows = np.atleast_2d(array)
    return {name: rows[:, i] for i, name in enumerate(specs)}, array.ndim == 1


def _to_array(inputs, specs):
    try:
        array = np.asarray(inputs)
        are_numbers = array.dtype.kind in 'biuf' and all(spec.dtype != tf.string for spec in specs.values())
        if are_numbers and not (array.dtype.kind == 'f' and any(spec.dtype.is_integer for spec in specs.values())):
            return array
        # Without a change of a row's numbers to text, of True to 1.0, or of an integer beside floats.
        return np.asarray(inputs, object)
    except ValueError:  # Lists of different lengths.
        raise ValueError(f'the inputs are {listed(specs, _LISTED)}: the rows of {describe(inputs)} differ in length') from None


def _convert(name, values, spec, read):
    """Returns values of a column as an array [batch, ...] of the type of its spec."""
    if np.ma.is_masked(values):
        raise ValueError(f'the input {name} has masked values: fill them, or leave their examples out')
    if spec.name == PICTURE:
        return _objects([_content(name, number, value, read) for number, value in enumerate(pictures.listed(values))])
    if spec.dtype == tf.string and spec.shape.rank != 1:
        return cast(name, spec, values)
    if spec.dtype == tf.string:
        items = map(joined, values) if spec.name == TOKENS else _items(values)
        texts = [_text(name, value) for value in items]
        texts = [read(text if isinstance(text, str) else text.decode(errors='replace')) for text in texts] if read else texts
        return encode(name, _objects(texts))
    array = _numbers(name, values, spec)
    if spec.dtype.is_floating and spec.shape.rank == 1 and array.dtype.kind not in 'biuf':
        array = np.array([_number(name, value, read) for value in _items(values)], np.float64)
    if spec.shape.rank and array.ndim == spec.shape.rank + 1 and array.shape[-1] == 1:  # A column as [batch, 1].
        array = array[..., 0]
    array = cast(name, spec, array)
    if array.dtype.kind == 'f' and np.isinf(array).any():
        raise ValueError(f'the input {name} has an infinite number; None, NaN and "" are missing')
    return array


def _numbers(name, values, spec):
    """Returns a column as an array; if it has lists of numbers, as a DataFrame has them, None in them is NaN."""
    are_lists = spec.shape.rank != 1
    try:
        array = to_array(values, spec.dtype)
        if array.dtype == object and spec.shape.rank and are_lists:
            array = np.array([*array], np.float64 if spec.dtype.is_floating else None)
        return array
    except (TypeError, ValueError):
        each = 'lists of numbers, all of one length' if are_lists else 'one number in each row'
        raise ValueError(f'the input {name} must have {each}') from None


def _items(values):
    """Returns the values of a column, [batch] or [batch, 1], as a list of Python's or NumPy's scalars."""
    array = values if isinstance(values, np.ndarray) else _array(values, object)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _objects(values: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _is_missing(value):
    try:
        return value is None or bool(value != value)  # NaN, and NaT.
    except (TypeError, ValueError):  # NA of pandas; an array.
        return not isinstance(value, np.ndarray)


def _number(name, value, read):
    if _is_missing(value):
        return np.nan
    text: Any = value.decode(errors='replace') if isinstance(value, bytes) else value
    try:
        if isinstance(text, str) and read:
            return read(text)
        if isinstance(text, str) and '_' not in text:  # Python reads 1_0 as 10.
            return float(text.strip() or 'nan')
        if isinstance(text, (numbers.Number, np.generic)) and not isinstance(text, _NO_NUMBERS):
            return float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        pass
    except OverflowError:
        raise ValueError(f'the input {name}: {show(value)} is too large for float32') from None
    raise ValueError(f'the input {name}: {show(value)} is not a number; None, NaN and "" are missing')


def _text(name, value):
    """Returns a category or a text: numbers as a table has them."""
    if isinstance(value, (str, bytes)):
        return value
    if _is_missing(value):
        return ''
    if isinstance(value, np.datetime64):
        return str(value).replace('T', ' ')  # As Arrow writes it.
    if isinstance(value, numbers.Real) and not isinstance(value, (bool, np.timedelta64)):
        if isinstance(value, numbers.Integral) or float(value).is_integer():
            return str(int(value))  # type: ignore[call-overload]
    if isinstance(value, (numbers.Number, np.generic, datetime.date)) and not isinstance(value, np.timedelta64):
        return str(value)
    raise ValueError(f'the input {name} must be text, not {show(value)}')


def _content(name, number, value, read):
    """Returns a picture as the content of an image file."""
    try:
        if read:
            return read(value if isinstance(value, bytes) else pictures.to_file(value))
        return pictures.to_plain_file(value)
    except (pictures.PictureError, images.ImageError) as error:
        raise ValueError(f'the input {name}: {pictures.named(number, value)} {error}') from None
