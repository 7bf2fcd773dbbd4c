"""Files of rows of cells, such as CSV: UTF-8, with a header, separated by commas, semicolons, tabs or bars; quoted by "."""

from collections.abc import Iterator
import csv

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.own_data.cells import to_number
from estimator_trainer.common.own_data.lines import Lines, Position, Row

_DELIMITERS = (',', ';', '\t', '|')


class Table:
    """A file of rows of cells. Spaces around cells and blank lines are ignored.

    Attributes:
      path: of the file.
      header: the names of the columns; '' for a column without a name.
      names: the non-empty ones.

    Raises:
      UsageError: the file cannot be read.
      RunError: there is no valid header.
    """

    def __init__(self, path: str):
        self.path = path
        first = next((line for line in Lines(path) if line.strip()), '')
        self._delimiter = _find_delimiter(first)
        lines = Lines(path)
        header = next(self._read(lines, 0), None)
        if header is None:
            raise RunError(f'{path}: is empty: the first line must name the columns')
        if isinstance(header.value, RunError):
            raise header.value
        self.header: list[str] = header.value
        self.names = [name for name in self.header if name]
        self._start = Position(lines.offset, lines.number)
        self._check_header()

    def _check_header(self):
        if any('\0' in name for name in self.names):
            raise RunError(f'{self.path}: line 1 contains NUL characters, as UTF-16 does: save the file as UTF-8')
        twice = next((name for name in self.names if self.names.count(name) > 1), None)
        if twice:
            raise RunError(f'{self.path}: line 1 names two columns {twice}: rename one')
        if all(to_number(name) is not None for name in self.names):
            raise RunError(f'{self.path}: line 1 must name the columns, but contains {self._delimiter.join(self.header[:5])}')

    def rows(self, at: Position | None = None) -> Iterator[Row]:
        """Yields the rows after the header, or from a position on; the value of a row is a list of cells."""
        at = at or self._start
        return self._read(Lines(self.path, at), at.row, len(self.header))

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
            if not wrong and not lines.is_utf8:
                wrong = 'is not UTF-8'
            if not wrong and width not in (None, len(cells)):
                wrong = f'{len(cells)} cells, but the header has {width}'
            if wrong and lines.number > position.line + 1:  # An unclosed quote must not hide the next rows.
                lines = Lines(self.path, position)
                next(lines)
                reader = self._reader(lines)
            yield Row(position, RunError(f'{self.path}: line {position.line}: {wrong}') if wrong else cells)
            number += 1

    def _reader(self, lines):
        return csv.reader(lines, delimiter=self._delimiter, skipinitialspace=True, strict=True)


def _find_delimiter(header):
    """Returns the delimiter that occurs most often in the first line, outside of quotes."""
    bare = ''.join(header.split('"')[::2])
    return max(_DELIMITERS, key=bare.count)


def _explain(error):
    text = str(error)
    if 'field larger' in text:
        return f'a cell is longer than {csv.field_size_limit()} characters: is a quote missing?'
    if text == 'unexpected end of data':
        return 'a quoted cell does not end: is a quote missing?'
    if 'new-line character' in text:
        return 'contains a carriage return outside of quotes: lines must end with LF or CR LF'
    return f'{text}: a quote within a quoted cell must be doubled'
