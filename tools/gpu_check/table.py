"""From checks to lines of a table, whatever becomes of their runs."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses

import numpy as np

from tools.gpu_check.checks import START, Check, Outcome, Run

HEADER = ('check', 'difference', 'at most', 'speed', 'compared', 'result')
_REFUSALS = ('requires a GPU', 'needs a GPU')


class Failure(Exception):
    """A run failed; the message is a line."""


class Absent(Exception):
    """A run is impossible here; the message says why."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the table; is_right unless its check has failed."""

    cells: Sequence[str]
    is_right: bool = True


def difference(
    found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], start: Mapping[str, np.ndarray] | None = None
) -> float:
    """Returns the largest difference of two sets of arrays, as a share of the largest change from `start`, or from 0.

    NaN if a value is not finite.

    Raises:
      Failure: they have other names or shapes, or nothing has changed.
    """
    shapes, others = ({name: value.shape for name, value in arrays.items()} for arrays in (found, expected))
    if shapes != others:
        names = ', '.join(sorted(name for name in {*shapes, *others} if shapes.get(name) != others.get(name)))
        raise Failure(f'other variables, or other shapes: {names}')
    change = max((float(np.max(np.abs(expected[name] - (start[name] if start else 0)))) for name in expected), default=0.0)
    if not change:
        raise Failure('no variable has changed')
    return float(np.max([np.max(np.abs(found[name] - expected[name])) for name in expected])) / change


def make_row(check: Check, gpus: int, execute: Callable[[Run], Outcome]) -> Row:
    """Runs a check.

    Args:
      gpus: how many are used; 0 for the CPU.
      execute: function that raises Failure or Absent.
    """
    if reason := _lack(check, gpus):
        return Row((check.name, *[''] * 4, f'not run: {reason}'))
    try:
        return _compare(check, execute)
    except Absent as absence:
        return Row((check.name, *[''] * 4, f'not run: {absence}'))
    except Failure as failure:
        if not gpus and any(text in str(failure) for text in _REFUSALS):
            return Row((check.name, *[''] * 4, f'not run: {str(failure).partition(";")[0]}'))
        return Row((check.name, *[''] * 4, f'FAILED: {failure}'), is_right=False)


def _lack(check, gpus):
    """Returns what this machine lacks for a check, or ''."""
    if check.for_gpus and not gpus:
        return 'needs GPUs'
    return f'needs {check.devices} GPUs, this machine has {gpus}' if gpus and gpus < check.devices else ''


def _compare(check, execute):
    outcome = execute(check.run)
    speed = f'{outcome.speed:,.3g} {outcome.unit}' if outcome.unit == 'GB/s' else f'{outcome.speed:,.0f} {outcome.unit}'
    speed = speed if outcome.speed else ''
    if check.tolerance is None:
        return Row((check.name, '', '', speed, _beside(outcome, check.against, execute), 'measured'))
    start = execute(START).arrays if check.run.program == 'weights' else None
    found = difference(outcome.arrays, execute(check.against).arrays, start)
    is_right = found <= check.tolerance
    return Row((check.name, f'{found:.1e}', f'{check.tolerance:g}', speed, '', 'right' if is_right else 'DIFFERS'), is_right)


def _beside(outcome, other, execute):
    """Compares a speed with PyTorch's, whose failure is none of a check."""
    try:
        return f'{outcome.speed / execute(other).speed:.2f} of PyTorch'
    except (Absent, Failure) as error:
        return f'PyTorch: {error}'


def markdown(facts: Mapping[str, str], rows: Sequence[Row]) -> str:
    """Returns the facts about the machine and the table as Markdown."""
    lines = [HEADER, ['---'] * len(HEADER), *([cell.replace('|', '\\|') for cell in row.cells] for row in rows)]
    table = '\n'.join(f'| {" | ".join(line)} |' for line in lines)
    return '\n'.join(f'- {name}: {value}' for name, value in facts.items()) + f'\n\n{table}\n'
