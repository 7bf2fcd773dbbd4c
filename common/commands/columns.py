"""Rows of text in aligned columns, which fit a terminal."""

from collections.abc import Sequence
import os
import sys

_GAP = '  '
_MIN_WIDTH = 16


def align(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Returns a line for each row, the first of which is the header. Columns without a cell are left out.

    Args:
      rows: cells, all of the same number; the first is a name. The widest columns are cut until the lines fit: names lose their
        middle, other cells their end.
      width: of the lines; by default, that of the terminal, unbounded if there is none.
    """
    kept = [column for column in zip(*rows) if any(column[1:])]
    columns = [[header.upper(), *cells] for header, *cells in kept]
    widths = [max(map(len, column)) for column in columns]
    width = _terminal_width() if width is None else width
    while sum(widths) + len(_GAP) * (len(widths) - 1) > width and max(widths) > _MIN_WIDTH:
        widths[widths.index(max(widths))] -= 1
    fitted = [[_fit(cell, size, column is columns[0]).ljust(size) for cell in column] for column, size in zip(columns, widths)]
    return [_GAP.join(cells)[:width].rstrip() for cells in zip(*fitted)]


def _fit(cell, size, is_name):
    """Returns a cell of at most that size."""
    if len(cell) <= size:
        return cell
    end = (size - 3) // 2 if is_name else 0
    return f'{cell[: size - 3 - end]}...{cell[len(cell) - end :]}'


def _terminal_width():
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):  # A file, a pipe, or a stream of a program.
        return sys.maxsize
