"""Runs side by side: a table on stdout, and a page with their curves. Does not import TensorFlow."""

import contextlib
import os
import sys
import uuid

from estimator_trainer.common.commands import status
from estimator_trainer.common.commands.columns import in_blocks, terminal_width
from estimator_trainer.common.commands.command import print_output
from estimator_trainer.common.commands.local_runs import find_runs
from estimator_trainer.common.errors import RunError, in_one_line
from estimator_trainer.common.report import compared
from estimator_trainer.common.report.compared import Comparison, Table

_BOLD = ('\x1b[1m', '\x1b[0m')


def show(pattern: str, best_metric: str | None) -> None:
    """Prints a table of runs, the best first, and writes compare.html into the directory that they are all in.

    Args:
      pattern: see `find_runs`.
      best_metric: the objective, such as accuracy:max; None for that of the runs.

    Raises:
      UsageError: there is no such run, or best_metric is malformed.
      RunError: the page cannot be written.
    """
    directory, found = compare(pattern, best_metric)
    table = compared.as_table(found)
    is_plain = not sys.stdout.isatty() or os.environ.get('TERM') == 'dumb'
    marks = {} if is_plain else {(row + 1, column): _BOLD for row, column in table.best}
    lines = in_blocks([table.columns, *table.rows], terminal_width(), marks)
    print_output('\n'.join([*lines, '', *found.notes]))
    path = os.path.join(directory, 'compare.html')
    print_output(in_one_line(_write_page(path, directory, found, table)))


def compare(pattern: str, best_metric: str | None) -> tuple[str, Comparison]:
    """Returns the directory that the runs are all in, and their comparison; see `show`."""
    found = find_runs(pattern)
    directory = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in found])
    if not os.path.isabs(pattern):
        directory = os.path.relpath(directory)
    return directory, compared.compare([_read(path, os.path.relpath(path, directory)) for path in found], best_metric)


def _read(path, name):
    found, _ = status.read(path)
    state, step = (status.state_of(found)[0], found['global_step']) if found else ('unknown', None)
    return compared.read_run(name, path, str(state), status.last_checkpoint(path) if step is None else step)


def _write_page(path: str, directory: str, found: Comparison, table: Table) -> str:
    """Writes the page, and returns a line about it."""
    from estimator_trainer.common.report import (
        compared_curves,
        compared_settings,
        page,
        parallel,
    )  # After the table: they take a quarter of a second.

    if not page.is_installed():
        return f'No page with the curves: it {page.NEEDS}'
    charts, omitted = compared_curves.draw(found)
    drawn = min(len(found.runs), compared_curves.MAX_RUNS)
    parts = {
        'directory': directory,
        'table': table,
        'notes': found.notes,
        'settings': compared_settings.draw(found),
        'lines_height': parallel.HEIGHT,
        'curves': charts,
        'omitted': omitted,
        'drawn': drawn,
    }
    _write(path, page.render(parts, 'compare.html.jinja'))
    return f'With curves: {path}'


def _write(path, text):
    part = f'{path}.{uuid.uuid4()}.part'  # A run in this directory deletes those of `files.atomic_path`.
    try:
        with open(part, 'w', encoding='utf-8') as file:
            file.write(text)
        os.replace(part, path)
    except OSError as error:
        raise RunError(f'{path}: cannot be written: {error.strerror}') from None
    finally:
        with contextlib.suppress(OSError):
            os.remove(part)
