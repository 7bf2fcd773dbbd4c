"""The search for a batch size: trials of growing sizes, until memory, time or speed end it."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from estimator_trainer.common.memory import to_text

FIRST = 8
SHARE = 0.8  # Of the available memory, that a run may take.
_BETTER = 1.05  # Less of a gain is none.
_IDLE = 2  # Sizes without a gain in a row, after which larger ones are not tried.


class Trial(NamedTuple):
    """What a size has: the seconds of a step and the peak of memory in bytes; or why it has none."""

    size: int
    seconds: float = 0.0
    peak: int = 0
    error: str = ''

    @property
    def speed(self) -> float:
        """Examples per second."""
        return self.size / self.seconds if self.seconds else 0.0


def search(try_size: Callable[[int], Trial], memory: float, most: int, has_time: Callable[[], bool]) -> list[Trial]:
    """Tries sizes, each twice the one before, and returns what they have.

    Ends at a size that fails, that is predicted to take more than SHARE of the memory, or after some that are no faster.

    Args:
      memory: available bytes.
      most: the largest size, the number of examples.
      has_time: whether to try another one.
    """
    found: list[Trial] = []
    size, idle = FIRST, 0
    while size <= most and idle < _IDLE and (not found or has_time()):
        if (needed := predict(found, size)) > SHARE * memory:
            found.append(Trial(size, error=f'not tried: it would take about {to_text(needed)}'))
            break
        best = max((trial.speed for trial in found), default=0.0)
        found.append(try_size(size))
        if found[-1].error:
            break
        idle = 0 if found[-1].speed > _BETTER * best else idle + 1
        size *= 2
    return found


def predict(found: Sequence[Trial], size: int) -> float:
    """Returns the predicted peak of a size, linear in the size, from the two largest; 0 if it is unknown."""
    measured = [trial for trial in found if not trial.error]
    if len(measured) < 2:
        return 0
    first, last = measured[-2:]
    return last.peak + max(last.peak - first.peak, 0) / (last.size - first.size) * (size - last.size)


def largest(found: Sequence[Trial], memory: float, most: int) -> int:
    """Returns the largest size, FIRST times a power of two, that is predicted to fit into SHARE of the memory, at most `most`.

    A size that failed does not fit.
    """
    measured = [trial for trial in found if not trial.error]
    size = measured[-1].size
    if len(measured) < 2:  # By which nothing can be predicted.
        return size
    failed = min((trial.size for trial in found if trial.error), default=most + 1)
    while 2 * size <= most and 2 * size < failed and predict(found, 2 * size) <= SHARE * memory:
        size *= 2
    return size


def to_lines(found: Sequence[Trial]) -> list[str]:
    """Returns the lines of a table."""
    lines = [f'{"batch_size":>10}  {"examples/sec":>12}  {"ms/step":>8}  memory']
    for trial in found:
        if trial.error:
            lines.append(f'{trial.size:>10}  {trial.error}')
        else:
            lines.append(f'{trial.size:>10}  {trial.speed:>12,.0f}  {1000 * trial.seconds:>8.1f}  {to_text(trial.peak)}')
    return lines


def to_json(trial: Trial) -> Mapping[str, float | str]:
    """Returns a trial as JSON."""
    if trial.error:
        return {'batch_size': trial.size, 'error': trial.error}
    return {'batch_size': trial.size, 'examples/sec': float(f'{trial.speed:.4g}'), 'memory': trial.peak}
