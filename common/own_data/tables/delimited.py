"""Files of rows of cells, such as CSV: with a header, separated by commas, semicolons, tabs or bars; quoted by "."""

from collections.abc import Collection, Iterator, Sequence
import csv
import itertools
import re
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, show
from estimator_trainer.common.formats.containers import open_text, reading
from estimator_trainer.common.own_data.lines import BOM, Lines, Position, Row
from estimator_trainer.common.own_data.tables.blocks import LINE, Block, are_rows, check_distinct, from_rows
from estimator_trainer.common.own_data.tables.numbers import to_number
from estimator_trainer.common.unicode_forms import in_forms_of

_DELIMITERS = (',', ';', '\t', '|')
_CHUNK = 1 << 21
_MAX_CELL = 1 << 22
_MAX_LINE = 1 << 24  # Longer ones are reported by `Lines`.
_SPACES = tuple(bytes([code]) for code in b' \t\v\f\x1c\x1d\x1e\x1f')
_HEADER_LINES, _SAMPLE = 100, 20
_BREAK = re.compile(r'\s*[\r\n]\s*')
_SEP = re.compile(r'sep=(.)\s*')  # As Excel writes and reads it.


class Delimited:
    """A file of rows of cells, UTF-8, or UTF-16 with a byte order mark, maybe compressed with GZIP.

    Spaces around cells, blank lines, and empty cells after the last column are ignored. Chunks of regular lines are read by
    Arrow; all others, such as those with cells of several lines or with wrong rows, by Python's csv, which knows what is wrong
    with a row.

    Args:
      path: of the file.
      named: names of columns that the user gave: a first line of numbers names the columns if it contains them.

    Attributes: see `blocks.Table`.

    Raises:
      UsageError: the file cannot be read.
      RunError: there is no valid header.
    """

    unit = LINE
    numbers: Collection[str] = ()
    delimiter: str

    def __init__(self, path: str, named: Collection[str] = ()):
        self.path = path
        lines = Lines(path)
        first = next((line for line in lines if line.strip()), '')
        if '\0' in first:
            raise RunError(f'{path}: line 1 contains NUL characters, as UTF-16 does: save the file as UTF-8')
        given = _SEP.fullmatch(first)
        self.delimiter = given[1] if given else _find_delimiter(*_head(first, lines))
        if not given:
            lines = Lines(path)
        header = next(self._read(lines, 0), None)
        if header is None:
            raise RunError(f'{path}: is empty: the first line must name the columns')
        if isinstance(header.value, RunError):
            raise header.value
        self._names = header.value
        known = in_forms_of(self._names, named)
        self.header: list[str] = [name if name in named else _BREAK.sub(' ', name) for name in known]
        self._start = Position(lines.offset, lines.number)
        self._check_header(first, named)

    def _check_header(self, first, named):
        names = [name for name in self.header if name]
        are_numbers = [to_number(name) is not None for name in names]
        if len(names) < 2 and not {*named} & {*names}:
            raise RunError(
                f'{self.path}: line 1 must name the columns, between commas, semicolons, tabs or bars, but contains '
                f'{show(first.strip())}: remove lines above the names'
            )
        if all(are_numbers) and not {*named} & {*names}:
            shown = self.delimiter.join(self.header[:5])
            if names != [str(i) for i in range(len(names))]:
                raise RunError(f'{self.path}: line 1 must name the columns, but contains {shown}')
            tf.logging.warning('%s: line 1, %s, is taken for names of columns, as pandas writes them.', self.path, shown)
        cure = 'rename one' + (', or, if these are values, add a line with the names above' if any(are_numbers) else '')
        check_distinct(self.path, names, 'line 1', cure)

    def blocks(self) -> Iterator[Block]:
        """Yields the rows after the header."""
        at = self._start
        with reading(self.path):
            chunks = _Chunks(self.path, at, _CHUNK * min(1 + len(self.header) // 500, 3))  # Each column of a block takes time.
            following: Any = None  # The row at which csv stopped, and those after it.
            while chunk := chunks.at(at.offset):
                block = self._regular(at, chunk)
                if block:
                    count = len(block)
                    at = Position(at.offset + len(chunk), at.line + count, at.row + count)
                else:
                    block, at, following = self._irregular(at, len(chunk), following)
                if len(block):
                    yield block

    def _regular(self, at, chunk):
        """Returns a chunk's rows as Arrow reads them; None unless csv would read the same."""
        has_quotes, has_returns = b'"' in chunk, b'\r' in chunk
        if b'\0' in chunk or len(chunk) > _MAX_LINE or has_returns and re.search(rb'\r(?!\n)', chunk):
            return None
        if chunk.startswith(BOM) or b'\n' + BOM in chunk:
            return None
        if has_quotes and not self._are_quotes_regular(chunk):
            return None
        names = [str(i) for i in range(len(self.header))]
        try:
            table = pyarrow.csv.read_csv(
                pa.py_buffer(chunk),
                pyarrow.csv.ReadOptions(use_threads=False, block_size=len(chunk) + 1, column_names=names),
                pyarrow.csv.ParseOptions(delimiter=self.delimiter),
                pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != chunk.count(b'\n') + (not chunk.endswith(b'\n')):  # Blank lines.
            return None
        columns = [column.combine_chunks() for column in table.columns]
        if not chunk.isascii() or any(space in chunk for space in _SPACES):  # Faster than a pattern.
            columns = [pyarrow.compute.utf8_trim_whitespace(column) for column in columns]
        return None if are_rows(columns, self._names).any() else Block(at, columns)

    def _are_quotes_regular(self, chunk):
        """Whether quotes enclose whole cells, each on one line, so that all readers agree."""
        data, by = np.frombuffer(chunk, np.uint8), ord(self.delimiter)
        places = np.flatnonzero(data == ord('"'))
        opening, closing = places[::2], places[1::2]
        breaks = np.flatnonzero(data == ord('\n'))
        if (
            len(opening) == len(closing)
            and np.isin(data[opening - 1], (by, ord('\n')))[opening > 0].all()
            and np.isin(data[np.minimum(closing + 1, len(data) - 1)], (by, ord('\n'), ord('\r'), ord('"'))).all()
            and (closing[:-1] + 1 < opening[1:]).all()  # Doubled quotes.
            and (np.searchsorted(breaks, opening) == np.searchsorted(breaks, closing)).all()
        ):
            return True
        delimiter = re.escape(self.delimiter.encode())
        cells = re.findall(rb'(?:^|%s)("(?:[^"\n]|"")*")(?=%s|\r?$)' % (delimiter, delimiter), chunk, re.MULTILINE)
        return sum(cell.count(b'"') for cell in cells) == len(places)

    def _irregular(self, at, size, following):
        """Returns the rows that begin in `size` bytes from a position, as csv reads them, the next position, and what follows.

        It goes on with `following`, if that is there: to seek in a compressed file is to read it from its beginning.
        """
        first, rest = following or (None, iter(()))
        if first is None or first.position != at:
            first, rest = None, self._read(Lines(self.path, at), at.row, len(self.header))
        rows: list[Row] = []
        for row in itertools.chain(filter(None, [first]), rest):
            if row.position.offset >= at.offset + size:
                return from_rows(at, rows, len(self.header)), row.position, (row, rest)
            rows.append(row)
        return from_rows(at, rows, len(self.header)), Position(sys.maxsize), None

    def _read(self, lines, number, width=None):
        reader = self._reader(lines)
        while True:
            position = Position(lines.offset, lines.number, number)
            lines.is_utf8 = True
            cells, wrong = [], ''
            try:
                cells = [cell.strip() for cell in next(reader)]
            except StopIteration:
                return
            except csv.Error as error:
                wrong = _explain(error)
            if not wrong and cells in ([], ['']):
                continue
            if width and len(cells) > width and not any(cells[width:]):  # The header lacks a delimiter at its end.
                del cells[width:]
            if not wrong and not lines.is_utf8:
                wrong = f'is not UTF-8: convert the file, as with: iconv -f CP1252 -t UTF-8 {self.path} > utf8.csv'
            if not wrong and width not in (None, len(cells)):
                wrong = f'{len(cells)} cells, but the header has {width}'
            if not wrong and width and cells == self._names and len({*cells}) > 1:
                wrong = 'repeats the names of the columns: remove it'
            if wrong and lines.number > position.line + 1:  # An unclosed quote must not hide the next rows.
                lines = Lines(self.path, position)
                next(lines)
                reader = self._reader(lines)
            yield Row(position, RunError(f'{self.path}: line {position.line}: {wrong}') if wrong else cells)
            number += 1

    def _reader(self, lines):
        csv.field_size_limit(_MAX_CELL)
        return csv.reader(lines, delimiter=self.delimiter, skipinitialspace=True, strict=True)


class _Chunks:
    """Complete lines of a file, in chunks of about `size` bytes, from increasing offsets."""

    def __init__(self, path: str, start: Position, size: int):
        self._size = size
        self._file: Any = open_text(path)
        self._file.seek(start.offset)
        self._offset, self._data = start.offset, b''

    def at(self, offset: int) -> bytes:
        """Returns lines from an offset on; b'' at the end of the file."""
        while self._offset + len(self._data) < offset:
            self._offset += len(self._data)
            self._data = self._file.read(self._size)
            if not self._data:
                return b''
        data, self._offset = self._data[offset - self._offset :], offset
        while len(data) < self._size or b'\n' not in data:
            more = self._file.read(self._size)
            data += more
            if not more or len(data) > _MAX_LINE:
                break
        self._data = data
        return data[: data.rfind(b'\n') + 1] or data


def _head(first: str, lines: Iterator[str]) -> tuple[str, Sequence[str]]:
    """Returns the names of the columns, which may have several lines if they are quoted, and some lines after them."""
    header, following = first, [*itertools.islice(lines, _HEADER_LINES)]
    while header.count('"') % 2 and following:
        header += following.pop(0)
    return (first if header.count('"') % 2 else header), following[:_SAMPLE]


def _find_delimiter(header, following):
    """Returns the delimiter that occurs as often in most of the following lines as in the header, or else most often in this.

    Names, such as "Revenue (EUR, net)", may contain others; of equals, it is not the comma, which may be that of decimals.
    """
    bare, rows = _bare(header), [*map(_bare, following)]
    fits = {by: sum(not _counts(bare, by).isdisjoint(_counts(row, by)) for row in rows) for by in _DELIMITERS if by in bare}
    return max(reversed(fits), key=lambda by: (fits[by], bare.count(by)), default=',')


def _bare(line):
    """Returns a line without what is in quotes."""
    return ''.join(line.split('"')[::2]).rstrip('\r\n')


def _counts(line, delimiter):
    """Returns how often a delimiter occurs in a line, with and without those at its end."""
    return {line.count(delimiter), line.rstrip(delimiter).count(delimiter)}


def _explain(error):
    text = str(error)
    if 'field larger' in text:
        return f'a cell is longer than {_MAX_CELL >> 20} MiB: is a quote missing?'
    if text == 'unexpected end of data':
        return 'a quoted cell does not end: is a quote missing?'
    if 'new-line character' in text:
        cure = r"tr '\r' '\n' < OLD > NEW makes line feeds of them"
        return f'contains a carriage return outside of quotes: lines must end with LF or CR LF: {cure}'
    return f'{text}: a quote within a quoted cell must be doubled'
