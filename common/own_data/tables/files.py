"""Tables in files of any format: delimited text, Parquet, Arrow and JSON Lines, all read as texts."""

import collections
from collections.abc import Collection, Iterator
import contextlib
import itertools
import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.ipc
import pyarrow.parquet
import tensorflow.compat.v1 as tf

from estimator_trainer.common import json_text
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.formats import containers
from estimator_trainer.common.own_data.lines import Lines, Position, Row, in_blocks, numbered
from estimator_trainer.common.own_data.tables.blocks import LINE, ROW, Block, Table, check_distinct, from_rows
from estimator_trainer.common.own_data.tables.delimited import Delimited
from estimator_trainer.common.own_data.values import of_float
from estimator_trainer.common.paths import is_remote
from estimator_trainer.common.unicode_forms import in_forms_of

SUFFIXES = ('.csv', '.tsv', '.parquet', '.feather', '.arrow', '.jsonl', '.ndjson')
_BATCH = 20000
_SAMPLE = 1000  # Lines of JSON, whose keys are the columns.
_HALF = re.compile(r'\\u[dD][89a-fA-F]')
_NO_ROWS = {  # What a text is by its first line, and the cure.
    re.compile(
        r'\s*\[\s*(\{.*)?$', re.DOTALL
    ): 'is one JSON array: write an object per line, as with: jq -c .[] FILE > rows.jsonl',
    re.compile(r'\s*<(!doctype|html|table|\?xml)\b', re.IGNORECASE): 'is a page of HTML or XML: save the table in it as CSV',
}


def open_table(path: str, named: Collection[str] = ()) -> Table:
    """Opens a table by the content of its file.

    Args:
      path: of the file.
      named: names of columns that the user gave; accents in them may be composed or apart.

    Raises:
      UsageError: the file cannot be read, or is of another format.
      RunError: it has no columns.
    """
    with containers.reading(path):
        kind = containers.format_of(containers.head_of(path))
        if kind in (containers.PARQUET, containers.ARROW, containers.ARROW_STREAM):
            return _Columnar(path, kind, named)
        first = next((line for line in Lines(path) if line.strip()), '')
    if wrong := next((wrong for start, wrong in _NO_ROWS.items() if start.match(first)), None):
        raise RunError(f'{path}: {wrong}')
    return _JsonLines(path, named) if first.lstrip().startswith('{') else Delimited(path, named)


class _Columnar:
    """A Parquet or Arrow (Feather) file; see `blocks.Table`."""

    unit = ROW

    def __init__(self, path: str, kind: str, named: Collection[str]):
        self.path = path
        self._kind = kind
        with self._reading():
            schema = self._open().schema_arrow if kind == containers.PARQUET else self._open().schema
        check_distinct(path, in_forms_of(schema.names, named))
        ignored = {
            **_textless_in(schema),
            # Files count them in units of their own. A model of a former version may have learned one.
            'durations: write how many seconds they are': [
                field.name for field in schema if pa.types.is_duration(field.type) and field.name not in named
            ],
        }
        for why, names in ignored.items():
            if names:
                tf.logging.warning('%s: the columns %s are ignored: they are %s.', path, ', '.join(names), why)
        self._names = [field.name for field in schema if field.name not in itertools.chain(*ignored.values())]
        self.header = in_forms_of(self._names, named)
        self.numbers: Collection[str] = frozenset(in_forms_of(_numbers_in(schema), named))
        if not self.header:
            raise RunError(f'{path}: has no columns')

    def blocks(self) -> Iterator[Block]:
        """Yields all rows."""
        number = 0
        with self._reading():
            for batch in self._batches():
                first = Position(number, number + 1, number)
                yield Block(first, [_texts(self.path, name, batch.column(name)) for name in self._names])
                number += batch.num_rows

    def _open(self):
        if is_remote(self.path):  # Arrow seeks, for which a remote file is too slow.
            with tf.io.gfile.GFile(self.path, 'rb') as remote:
                file = pa.BufferReader(remote.read())
        else:
            file = pa.OSFile(self.path)
        if self._kind == containers.PARQUET:
            return pyarrow.parquet.ParquetFile(file)
        return pa.ipc.open_file(file) if self._kind == containers.ARROW else pa.ipc.open_stream(file)

    def _batches(self):
        opened = self._open()
        if self._kind == containers.PARQUET:
            batches = opened.iter_batches(_BATCH, columns=self._names)
        elif self._kind == containers.ARROW:
            batches = map(opened.get_batch, range(opened.num_record_batches))
        else:
            batches = iter(opened)
        for batch in batches:
            for begin in range(0, batch.num_rows, _BATCH):
                yield batch.slice(begin, _BATCH)

    @contextlib.contextmanager
    def _reading(self):
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise RunError(f'{self.path}: is corrupt: {" ".join(str(error).split())}: restore it') from None


class _Rows:
    """Rows in memory; see `blocks.Table`."""

    path, unit = 'the rows', ROW

    def __init__(self, table: pa.Table, named: Collection[str]):
        table = table.rename_columns(in_forms_of(table.column_names, named))
        check_distinct(self.path, table.column_names, 'the table')
        textless = {*itertools.chain(*_textless_in(table.schema).values())}
        self.header, self.numbers = [name for name in table.column_names if name not in textless], _numbers_in(table.schema)
        self._columns = [_texts(self.path, name, table[name].combine_chunks()) for name in self.header]

    def blocks(self) -> Iterator[Block]:
        """Yields all rows."""
        yield Block(Position(), self._columns)


def open_rows(rows: Any, named: Collection[str] = ()) -> Table | None:
    """Returns rows of a program as a table: a DataFrame, a table of Arrow, a dict of columns, a list of dicts.

    Args:
      named: names of columns, which may be in the other form of Unicode there.

    Returns:
      None if it is none of these.

    Raises:
      RunError: Arrow has no type for a column, or two have one name.
    """
    try:
        if hasattr(rows, 'iloc') and hasattr(rows, 'columns'):
            return _Rows(pa.Table.from_pandas(rows.rename(columns=str), preserve_index=False), named)
        if isinstance(rows, pa.Table) or hasattr(rows, '__arrow_c_stream__'):
            return _Rows(pa.table(rows), named)
        if isinstance(rows, dict) and rows:
            # Names that become equal are refused.
            return _Rows(pa.table([_to_array(*item) for item in rows.items()], [*map(str, rows)]), named)
        if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
            names = dict.fromkeys(itertools.chain(*rows))  # Table.from_pylist takes those of the first row alone.
            return _Rows(
                pa.table([_to_array(name, [row.get(name) for row in rows]) for name in names], [*map(str, names)]), named
            )
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise RunError(f'the rows cannot be read: {" ".join(str(error).split())}') from None
    return None


def _to_array(name, values):
    """Returns a column of a program; texts of spaces alone are missing beside numbers, as they are in files."""
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        rest = [None if isinstance(value, str) and not value.strip() else value for value in values]
        if rest == [*values]:
            raise RunError(f'the rows cannot be read: column {name}: {" ".join(str(error).split())}') from None
    return _to_array(name, rest)


def _textless_in(schema):
    """Returns {why: names} of the columns whose values cannot be written as texts."""
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    others = [field.name for field in schema if field.name not in nested and not _has_texts(field.type)]
    return {'nested': nested, 'of a type that has no texts, as UUIDs': others}


def _has_texts(kind):
    is_textless = pa.types.is_fixed_size_binary, pa.types.is_nested
    if isinstance(kind, pa.BaseExtensionType) and any(test(kind.storage_type) for test in is_textless):
        return False
    try:
        _as_texts(pa.nulls(0, kind))
    except pa.ArrowNotImplementedError:
        return False
    return True


def _numbers_in(schema):
    """Returns the names of the columns that have numbers, whose texts are as programs write them."""
    tests = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal
    types = {field.name: field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in schema}
    return frozenset(name for name, kind in types.items() if any(test(kind) for test in tests))


def _texts(path, name, array):
    """Returns the values of a column as texts."""
    try:
        return _as_texts(array)
    except pa.ArrowInvalid as error:
        if 'UTF8' not in str(error):
            raise
        raise RunError(f'{path}: the column {name} has bytes that are no text: leave it out') from None


def _as_texts(array):
    """Returns the values of an Arrow array of any plain type as texts: '' for null, dates and times as in ISO 8601."""
    if pa.types.is_dictionary(array.type):
        return pyarrow.compute.fill_null(_as_texts(array.dictionary).take(array.indices), '')
    texts = pyarrow.compute.if_else(array, 'True', 'False') if pa.types.is_boolean(array.type) else array.cast(pa.string())
    if pa.types.is_float64(array.type):
        texts = _with_digits(array.to_numpy(zero_copy_only=False), texts)
    return pyarrow.compute.utf8_trim_whitespace(pyarrow.compute.fill_null(texts, ''))


def _with_digits(values, texts):
    """Returns the texts of numbers, float64 [n], as `values.of_float` does, where Arrow's have other exponents."""
    sizes = np.abs(values)
    are_other = (sizes >= 1e10) & (sizes < 2**63) | (sizes < 1e-4) & (sizes > 0)
    written = pa.array(map(of_float, values[are_other].tolist()), pa.string())
    return pyarrow.compute.replace_with_mask(texts, pa.array(are_other), written)


class _Fraction(str):
    """A number of JSON that is no integer, as it is written."""


class _JsonLines:
    """A file with a JSON object in each line; see `blocks.Table`.

    Its columns are the keys of the first 1,000 lines, without those that mostly have lists or objects.
    """

    unit = LINE

    def __init__(self, path: str, named: Collection[str]):
        self.path = path
        sample = [row.value for row in itertools.islice(self._rows(), _SAMPLE)]
        found = [value for value in sample if not isinstance(value, RunError)]
        if not found:
            raise sample[0] if sample else RunError(f'{path}: has no line with a JSON object')
        num_values = collections.Counter(name for value in found for name in value if value[name] is not None)
        num_nested = collections.Counter(name for value in found for name in value if isinstance(value[name], (dict, list)))
        self._ignored = {name for name, count in num_nested.items() if 2 * count > num_values[name]}
        if self._ignored:
            tf.logging.warning('%s: the columns %s are ignored: they are nested.', path, ', '.join(sorted(self._ignored)))
        self._names = [name for name in dict.fromkeys(itertools.chain(*found)) if name not in self._ignored]
        self.header = in_forms_of(self._names, named)
        check_distinct(path, self.header)
        fractions = {name for value in found for name in value if isinstance(value[name], _Fraction)}
        self.numbers: Collection[str] = frozenset(in_forms_of(fractions, named))
        if not self.header:
            raise RunError(f'{path}: has no columns')

    def blocks(self) -> Iterator[Block]:
        """Yields all rows."""
        for rows in in_blocks(self._rows()):
            yield from_rows(rows[0].position, [Row(row.position, self._cells(row)) for row in rows], len(self.header))

    def _cells(self, row):
        if isinstance(row.value, RunError):
            return row.value
        place = f'{self.path}: line {row.position.line}'
        if unknown := row.value.keys() - {*self._names} - self._ignored:
            tf.logging.warning(
                '%s: the key %s is ignored: the first %d lines lack it.', place, ', '.join(sorted(unknown)), _SAMPLE
            )
            self._ignored |= unknown
        values = [row.value.get(name) for name in self._names]
        nested = [name for name, value in zip(self.header, values) if isinstance(value, (dict, list))]
        return RunError(f'{place}: {nested[0]} is no single value') if nested else [_text(value) for value in values]

    def _rows(self):
        for position, line, is_utf8 in numbered(self.path, str.strip):
            yield Row(position, self._parsed(line, position) if is_utf8 else self._wrong(position, 'is not UTF-8'))

    def _parsed(self, line, position):
        try:
            found = json.loads(line, parse_int=str, parse_float=_Fraction, object_pairs_hook=json_text.unique)
        except json_text.Misread as error:
            return self._wrong(position, str(error))
        except (ValueError, RecursionError) as error:
            return self._wrong(position, f'is not JSON in one line, as jq -c . FILE writes it: {error}')
        if not isinstance(found, dict):
            return self._wrong(position, 'is no JSON object')
        return (
            self._wrong(position, 'has half of a character, as \\ud83d alone is')
            if _HALF.search(line) and _is_cut(found)
            else found
        )

    def _wrong(self, position, reason):
        return RunError(f'{self.path}: line {position.line}: {reason}')


def _is_cut(found):
    """Whether a text or name has an unpaired surrogate, which is no character."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _text(value: Any) -> str:
    return '' if value is None else str(value).strip()
