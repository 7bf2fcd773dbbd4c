"""The time of a run by purpose: steps, waiting for input, logging, checkpoints and evaluations."""

from collections.abc import Callable, Iterator, Mapping
import contextlib
import time

COMPUTING, INPUT, LOGGING, CHECKPOINTS, EVALUATION = PARTS = ('computing', 'input', 'logging', 'checkpoints', 'evaluation')
_NOTABLE, _NOTABLE_MS = 0.1, 0.5  # The share of the time, and the milliseconds per step, from which on a part is worth a line.
_FEWEST_STEPS = 100  # Fewer say little.
_CURES = {
    INPUT: 'give the training more cores, or parse whole batches (parse_batch) and each record once (PARSED_ONCE) in the '
    'dataset module',
    LOGGING: 'a larger --save_summary_steps logs less often',
    CHECKPOINTS: 'a larger --save_checkpoints_steps saves less often',
}


class Times:
    """The seconds that a run has spent on each of PARTS, from its first line of the log on.

    What is in no `spent` block are steps, but for the time that these wait for input.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter):
        self._clock = clock
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._parts = [COMPUTING]
        self._first: int | None = None
        self._last, self._mark = 0, 0.0
        self._logged = dict(self._seconds)

    @contextlib.contextmanager
    def spent(self, part: str) -> Iterator[None]:
        """Counts the time of the block for a part; within another one, only for the inner one."""
        self._count()
        self._parts.append(part)
        try:
            yield
        finally:
            self._count()
            self._parts.pop()

    def log(self, step: int, waited: float) -> dict[str, float]:
        """Records how far the training is; the first call starts the clock.

        Args:
          waited: the seconds that steps have waited for input since the last call.

        Returns:
          {part: milliseconds per step} since the last call; nothing if there was no step.
        """
        self._count()
        if self._first is None:
            self._first, self._seconds = step, dict.fromkeys(PARTS, 0.0)
        else:
            self._seconds[INPUT] += waited
            self._seconds[COMPUTING] -= waited
        steps, before = step - (self._last or step), self._logged
        self._last, self._logged = step, dict(self._seconds)
        return {part: 1000 * (self._seconds[part] - before[part]) / steps for part in PARTS} if steps > 0 else {}

    def describe(self) -> list[str]:
        """Returns lines for the log: the time of a step, by what it was spent on, and the cure if much is not for computing."""
        self._count()
        steps = self._last - (self._first or 0)
        return to_text(self._seconds, steps) if self._first is not None and steps >= _FEWEST_STEPS else []

    def _count(self):
        now = self._clock()
        self._seconds[self._parts[-1]] += now - self._mark
        self._mark = now


def to_text(seconds: Mapping[str, float], steps: int) -> list[str]:
    """Returns the lines of `Times.describe` for the seconds of each part."""
    total = sum(seconds.values())
    shown = [f'{1000 * seconds[part] / steps:.3g} {part}' for part in PARTS if seconds[part] >= 0.01 * total]
    lines = [f'A step took {1000 * total / steps:.3g} ms: {", ".join(shown)}.']
    for part, cure in _CURES.items():
        if seconds[part] >= max(_NOTABLE * total, _NOTABLE_MS * steps / 1000):
            lines.append(f'{part.capitalize()} took {seconds[part] / total:.0%} of the time: {cure}.')
    return lines
