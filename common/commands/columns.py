"""Rows of text in aligned columns, which fit a terminal."""

from collections.abc import Mapping, Sequence
import os
import sys
import textwrap
from typing import Any

_GAP = '  '
_MIN_WIDTH = 16
_NOTE: dict[str, Any] = {'initial_indent': '    ', 'subsequent_indent': '    '}


def align(rows: Sequence[Sequence[str]], width: int = sys.maxsize) -> list[str]:
    """Returns a line for each row, the first of which is the header. Columns without a cell are left out.

    Args:
      rows: cells, all of the same number; the first is a name, the last a text. The wider of these two columns is cut until the
        lines fit: names lose their middle, texts their end. If that is not enough, the texts are left out.
      width: of the lines.
    """
    kept = [column for column in zip(*rows) if any(column[1:])]
    columns = [[header.upper(), *cells] for header, *cells in kept]
    widths = [max(map(len, column)) for column in columns]
    if len(columns) > 1 and _sum([min(widths[0], _MIN_WIDTH), *widths[1:-1], min(widths[-1], _MIN_WIDTH)]) > width:
        del columns[-1], widths[-1]
    while _sum(widths) > width and max(widths[0], widths[-1]) > _MIN_WIDTH:
        widths[0 if widths[0] >= widths[-1] else -1] -= 1
    fitted = [[_fit(cell, size, column is columns[0]).ljust(size) for cell in column] for column, size in zip(columns, widths)]
    return [_GAP.join(cells)[:width].rstrip() for cells in zip(*fitted)]


def _sum(widths):
    """Returns the width of lines with such columns."""
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _fit(cell, size, is_name):
    """Returns a cell of at most that size."""
    if len(cell) <= size:
        return cell
    end = (size - 3) // 2 if is_name else 0
    return f'{cell[: size - 3 - end]}...{cell[len(cell) - end :]}'


def with_notes(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Returns lines as `align` does for rows whose last cells are notes; notes are below their lines if they do not fit."""
    lines = align(rows)
    if max(map(len, lines)) <= width:
        return lines
    texts = [align([row[:-1] for row in rows], width), ['', *(row[-1] for row in rows[1:])]]
    return [text for line, note in zip(*texts) for text in (line, *textwrap.wrap(note, width, **_NOTE))]


def in_blocks(rows: Sequence[Sequence[str]], width: int, marks: Mapping[tuple[int, int], tuple[str, str]]) -> list[str]:
    """Returns the lines of a table of which nothing is cut: columns that do not fit are below, after the first column again.

    Args:
      rows: cells, all of the same number; the first row is the header. Columns without a cell are left out.
      marks: what surrounds the cell of a row and a column, and has no width.
    """
    sizes = [max(map(len, column)) for column in zip(*rows)]
    blocks = [[0]]
    for column in range(1, len(sizes)):
        if any(row[column] for row in rows[1:]):
            if len(blocks[-1]) > 1 and _sum([sizes[one] for one in (*blocks[-1], column)]) > width:
                blocks.append([0])
            blocks[-1].append(column)
    shown = [[name.upper() for name in rows[0]], *rows[1:]]
    lines: list[str] = []
    for block in blocks:
        lines += [''] * bool(lines)
        for number, row in enumerate(shown):
            cells = [_marked(row[column], sizes[column], marks.get((number, column), ('', ''))) for column in block]
            lines.append(_GAP.join(cells).rstrip())
    return lines


def _marked(cell, size, around):
    return cell.join(around) + ' ' * (size - len(cell))


def terminal_width() -> int:
    """Returns the width of the terminal that shows stdout; unbounded for a file or a pipe."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or sys.maxsize  # 0 is unknown.
    except (OSError, ValueError):  # A file, a pipe, or a stream of a program.
        return sys.maxsize
