"""Lines of a text file, local or remote, from any offset, and rows that know their position."""

from collections.abc import Callable, Iterable, Iterator
import dataclasses
import itertools
from typing import Any

from estimator_trainer.common import unicode_forms
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.formats.containers import open_text, reading

_BLOCK = 1 << 20
_MAX_LINE = 1 << 24
BOM = b'\xef\xbb\xbf'
_ROWS = 1000


@dataclasses.dataclass(frozen=True)
class Position:
    """Where a row begins: its byte, its line from 1 on, and the number of rows before it."""

    offset: int = 0
    line: int = 1
    row: int = 0


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a file: its content, or a RunError that describes its fault."""

    position: Position
    value: Any


def numbered(path: str, is_row: Callable[[str], Any] = lambda line: True) -> Iterator[tuple[Position, str, bool]]:
    """Yields where each line of `Lines` begins, the line, and whether it is UTF-8; of those that are rows alone."""
    lines, number = Lines(path), 0
    while True:
        offset, line_number = lines.offset, lines.number
        lines.is_utf8 = True
        line = next(lines, None)
        if line is None:
            return
        if is_row(line):
            yield Position(offset, line_number, number), line, lines.is_utf8
            number += 1


def composed(path: str, is_row: Callable[[str], Any] = lambda line: True) -> Iterator[Row]:
    """Yields the rows in NFC, without the ends of their lines; a RunError for one that is not UTF-8 or has NUL characters."""
    for position, line, is_utf8 in numbered(path, is_row):
        wrong = '' if is_utf8 else 'is not UTF-8: iconv -f CP1252 -t UTF-8 OLD > NEW converts a file of Windows'
        if '\0' in line:
            wrong = 'has NUL characters, as UTF-16 does: iconv -f UTF-16LE -t UTF-8 OLD > NEW converts it'
        if wrong:
            yield Row(position, RunError(f'{path}: line {position.line}: {wrong}'))
        else:
            yield Row(position, unicode_forms.composed(line).rstrip('\r\n'))


def in_blocks(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Yields values, such as rows, in lists of a thousand."""
    values = iter(values)
    while block := list(itertools.islice(values, _ROWS)):
        yield block


class Lines(Iterator[str]):
    """Iterates over the lines of a file, with their ends, as str, without byte order marks, as concatenated files have several.

    Attributes:
      offset: byte at which the next line begins.
      number: its number, from 1 on.
      is_utf8: whether all lines since this was last set were UTF-8; invalid bytes are replaced.

    Raises:
      UsageError: the file cannot be read, or is no text.
      RunError: a line is longer than 16 MiB, or the compression is corrupt.
    """

    def __init__(self, path: str, at: Position | None = None):
        at = at or Position()
        self.offset, self.number, self.is_utf8 = at.offset, at.line, True
        self._lines = _binary_lines(path, at)

    def __next__(self) -> str:
        line = next(self._lines)
        text = line.removeprefix(BOM)
        self.offset += len(line)
        self.number += 1
        try:
            return text.decode()
        except UnicodeDecodeError:
            self.is_utf8 = False
            return text.decode(errors='replace')


def _binary_lines(path, at):
    rest, number = b'', at.line
    with reading(path):
        with open_text(path) as file:
            file.seek(at.offset)
            while block := file.read(_BLOCK):
                parts = (rest + block).split(b'\n')
                rest = parts.pop()
                for part in parts:
                    yield part + b'\n'
                number += len(parts)
                if len(rest) > _MAX_LINE:
                    raise RunError(f'{path}: line {number} is longer than {_MAX_LINE >> 20} MiB: is this a text file?')
    if rest:
        yield rest
