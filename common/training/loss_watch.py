"""The losses of a training, watched: what jumps, or is not finite, is named with the command that shows its step again."""

from collections.abc import Iterator, Sequence
import contextlib

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.storage.history import first_loss

TIMES = 10  # The running mean: what is higher is a jump.
_OVER = 2  # Times the running mean: a jump is over below.
_STEPS = 100  # Over which the mean runs.
_FIRST_STEPS = 20  # Whose losses make the first mean.
_SMALL = 0.1  # Of the first loss: what is smaller is no jump, as batches of a trained model differ by large factors.


class NotFinite(RunError):
    """The loss of a step, or a variable after it, is NaN or infinite.

    Attributes:
      step: of the loss, or the one after which the variable is.
    """

    def __init__(self, text: str, step: int):
        super().__init__(text)
        self.step = step


def replay_of(step: int, output_dir: str) -> str:
    """Returns the flags that show a step again."""
    return f'--schedule=replay --step={step} --output_dir={output_dir}'


@contextlib.contextmanager
def offering_replay(output_dir: str) -> Iterator[None]:
    """Within the block, the log names the command that shows the step at which a training ends because of a NaN or infinity."""
    try:
        yield
    except NotFinite as error:
        tf.logging.warning('%s shows what happened in step %d.', replay_of(error.step, output_dir), error.step)
        raise


class LossWatch:
    """Warns once of each jump of the loss to TIMES its running mean.

    Args:
      output_dir: of the run, whose first loss metrics.csv has if it resumes.
    """

    def __init__(self, output_dir: str):
        self._output_dir = output_dir

    def begin(self, step: int) -> None:
        """Begins at a global step."""
        self._first = first_loss(self._output_dir) if step else None
        self._mean, self._count, self._is_high = 0.0, 0, False

    def see(self, last_step: int, losses: Sequence[float]) -> None:
        """Takes the losses of consecutive steps up to the last one."""
        for step, loss in enumerate(losses, last_step - len(losses) + 1):
            mean = self._mean
            if self._count >= _FIRST_STEPS:
                self._first = self._first or mean
                if not self._is_high and loss >= TIMES * mean > 0 and loss >= _SMALL * self._first:
                    self._is_high = True
                    tf.logging.warning(
                        'The loss jumped to %.4g in step %d; its running mean was %.4g. %s shows the step.',
                        *(loss, step, mean, replay_of(step, self._output_dir)),
                    )
                elif loss < _OVER * mean:
                    self._is_high = False
            self._count += 1
            self._mean = mean + (loss - mean) / min(self._count, _STEPS)
