"""The losses of a run, watched: what jumps, or is not finite, is named with the command that shows its step again."""

from collections.abc import Iterator
import contextlib
import shlex

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.storage.history import first_loss

TIMES = 10  # The running mean: what is higher is a jump.
_OVER = 2  # Times the running mean: a jump is over below.
_STEPS = 100  # Over which the mean runs.
_FIRST_STEPS = 20  # Whose losses make the first mean.
_MOST = 10  # Jumps that are named: those of small batches never end.
_SMALL = 0.1  # Of the first loss: what is smaller is no jump, as batches of a trained model differ by large factors.


class NotFinite(RunError):
    """The loss of a step, or a variable after it, is NaN or infinite.

    Attributes:
      step: of the loss, or one after which the variable is, perhaps since an earlier one.
    """

    def __init__(self, text: str, step: int):
        super().__init__(text)
        self.step = step


def replay_of(step: int, output_dir: str) -> str:
    """Returns the flags that show a step again."""
    return f'--schedule=replay --step={step} --output_dir={shlex.quote(output_dir)}'


@contextlib.contextmanager
def offering_replay(output_dir: str) -> Iterator[None]:
    """Within the block, the log names the command that shows the step at which a run ends because of a NaN or infinity."""
    try:
        yield
    except NotFinite as error:
        tf.logging.warning('%s shows the step, or names the earlier one that began it.', replay_of(error.step, output_dir))
        raise


class LossWatch:
    """Warns once of each jump of the loss to TIMES its running mean, of absolute values, as a loss may be negative.

    Args:
      output_dir: of the run, whose first loss metrics.csv has if it resumes.
    """

    def __init__(self, output_dir: str):
        self._output_dir = output_dir

    def begin(self, step: int) -> None:
        """Begins at a global step."""
        self._first = abs(first_loss(self._output_dir) or 0.0) if step else 0.0
        self._mean, self._count, self._is_high, self._jumps = 0.0, 0, False, 0

    def see(self, step: int, highest: float, mean: float | None = None, count: int = 1) -> None:
        """Takes the loss of a step; or the highest of several steps, with its step, and the mean of all absolute values."""
        mean, running = abs(highest) if mean is None else mean, self._mean
        if self._count >= _FIRST_STEPS:
            self._first = self._first or running
            if not self._is_high and highest >= TIMES * running > 0 and highest >= _SMALL * self._first:
                self._is_high = True
                self._warn(step, highest)
            elif mean < _OVER * running:
                self._is_high = False
        self._count += count
        self._mean += (mean - running) * min(count / min(self._count, _STEPS), 1)

    def _warn(self, step, loss):
        self._jumps += 1
        if self._jumps <= _MOST:
            tf.logging.warning(
                'The loss jumped to %.4g in step %d; its running mean was %.4g. %s shows the step.%s',
                *(loss, step, self._mean, replay_of(step, self._output_dir)),
                ' Further jumps are not named.' if self._jumps == _MOST else '',
            )
