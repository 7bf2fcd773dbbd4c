"""The status of runs as a table, from the files in their output_dirs. Does not import TensorFlow."""

from collections.abc import Mapping
import datetime
import math
import os
import re
import socket
import sys
import time
from typing import Any, NamedTuple

from estimator_trainer.common.commands.columns import terminal_width, with_notes
from estimator_trainer.common.commands.command import print_output
from estimator_trainer.common.commands.local_runs import find_runs
from estimator_trainer.common.errors import UsageError, in_one_line
from estimator_trainer.common.storage import metrics_table, status
from estimator_trainer.common.storage.status import State

_SILENT_SECONDS = 600  # Longer than most evaluations.
_REFRESH_SECONDS = 2
_CLEAR = '\x1b[H\x1b[J'
_MAX_METRICS = 2
_KILLED = 'killed?'


class Row(NamedTuple):
    """A line of the table; the names are those of its columns."""

    run: str
    state: str
    step: str = ''
    speed: str = ''
    left: str = ''
    loss: str = ''
    updated: str = ''
    evaluation: str = ''
    note: str = ''


def show(pattern: str, is_watched: bool = False) -> None:
    """Prints a table of the runs, a line for each.

    Args:
      pattern: the output_dir of a run, or a pattern with * and ? of such directories, and ** for any folders.
      is_watched: whether to print it again and again, on a terminal.

    Raises:
      UsageError: there is no such run, or no terminal to watch it on.
    """
    if is_watched and not sys.stdout.isatty():
        raise UsageError('--watch needs a terminal: leave it out where the output goes to a file or a program')
    while True:
        table = '\n'.join(with_notes([Row._fields, *map(describe, find_runs(pattern))], terminal_width()))
        print_output(f'{_CLEAR}{table}' if is_watched else table)
        if not is_watched:
            return
        time.sleep(_REFRESH_SECONDS)


def describe(directory: str) -> Row:
    """Returns the line of a run."""
    run = in_one_line(directory)
    found, problem = read(directory)
    if not found:
        return Row(run, 'unknown', _of(last_checkpoint(directory), None), note=problem)
    state, note = state_of(found)
    if state == _KILLED and (step := last_checkpoint(directory)) is not None:
        note += f'; resumes from step {step:,}'
    return Row(
        run,
        state,
        _of(found['global_step'], found['train_steps']),
        f'{found["examples/sec"]:,.0f} ex/s' if found['examples/sec'] and state == found['state'] else '',
        _duration(found['seconds_left']) if found['seconds_left'] is not None and state == found['state'] else '',
        _number((found['training'] or {}).get('loss', '')),
        f'{_duration(_age(found))} ago',
        _evaluation(found['evaluation'] or _last_evaluation(directory)),
        note,
    )


def read(directory: str) -> tuple[dict[str, Any] | None, str]:
    """Returns the status of a run and ''; or None, and why there is none."""
    try:
        with open(status.status_path(directory), encoding='utf-8') as file:
            return status.parse(file.read()), ''
    except FileNotFoundError:
        return None, 'no status.json: not yet begun, or of an older version'
    except (OSError, ValueError) as error:
        return None, in_one_line(f'status.json cannot be read: {error}')


def last_checkpoint(directory: str) -> int | None:
    """Returns the step in the name of the last checkpoint, or None."""
    try:
        names = os.listdir(directory)
    except OSError:
        return None
    steps = [int(match[1]) for match in (re.fullmatch(r'model\.ckpt-(\d+)\.index', name) for name in names) if match]
    return max(steps, default=None)


def state_of(found: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the state as it is now, and a note."""
    state, resumed = found['state'], found['resumed'] or 0
    if state in status.LIVING:
        return _living(found)
    if state == State.STOPPED:
        return state, f'by {found["reason"]}'
    if state == State.FAILED:
        return state, in_one_line(found['reason'] or '')
    is_early = None not in (found['global_step'], found['train_steps']) and found['global_step'] < found['train_steps']
    notes = ['before its last step'] * is_early + [f'resumed {_times(resumed)}'] * bool(resumed)
    return state, ', '.join(notes)


def _living(found):
    """Returns the state, and a note, of a process that lived when it wrote the status."""
    process, age = f'process {found["pid"]}', _age(found)
    is_gone, silence = status.is_gone(found), f'no news for {_duration(age)}'
    if is_gone:
        return _KILLED, f'{process} is gone while {found["state"]}'
    if is_gone is None and age > _SILENT_SECONDS:
        return _KILLED, f'{silence} of {process} on {found["host"]}, while {found["state"]}'
    notes = [silence] * (age > _SILENT_SECONDS) + [f'on {found["host"]}'] * (found['host'] != socket.gethostname())
    notes += [f'resumed {_times(found["resumed"])}'] * bool(found['resumed'])
    return found['state'], ', '.join(notes)


def _age(found):
    updated = datetime.datetime.fromisoformat(found['updated'])
    return max((status.now() - updated).total_seconds(), 0)


def _of(step, steps):
    if step is None:
        return ''
    return f'{step:,} of {steps:,}' if steps else f'{step:,}'


def _last_evaluation(directory):
    """Returns the last evaluation in metrics.csv, such as that of a process which only evaluates; {} if there is none."""
    try:
        found = metrics_table.evaluations(metrics_table.read(directory))
    except (OSError, ValueError):
        return {}
    return max(found, key=lambda evaluation: evaluation['global_step'], default={})


def _evaluation(result):
    """Returns the first metrics of the first split, the loss before others."""
    split = next((metrics for name, metrics in result.items() if name != 'global_step' and isinstance(metrics, dict)), {})
    names = sorted(split, key=lambda name: name != 'loss')
    numbers = [f'{name}={_number(split[name])}' for name in names if isinstance(split[name], (int, float, str))]
    return in_one_line(' '.join(numbers[:_MAX_METRICS]))


def _number(value):
    return f'{value:.4g}' if isinstance(value, (int, float)) and math.isfinite(value) else in_one_line(str(value))


def _times(count: int) -> str:
    return 'once' if count == 1 else 'twice' if count == 2 else f'{count} times'


def _duration(seconds: float) -> str:
    """Returns a duration in its largest unit, such as '42 s', '5 min', '3 h' or '2 days'."""
    for size, unit in ((86400, 'days'), (3600, 'h'), (60, 'min')):
        if seconds >= 2 * size:
            return f'{seconds / size:.0f} {unit}'
    return f'{seconds:.0f} s'
