"""The interface of a process that trains, and the process that trains alone."""

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.stop import StopOnSignal


class Means:
    """The loss of a step, and the means of its gradients, over all processes that share a batch.

    Attributes:
      loss: float32 scalar; that of all processes once the gradients were given.
    """

    def __init__(self, loss: tf.Tensor):
        self.loss = loss

    def __call__(self, gradients: Sequence[Any], merge: Callable[[Any], Any]) -> Sequence[Any]:
        """Returns the means of the gradients, tf.Tensors and tf.IndexedSlices.

        Args:
          gradients: of this process's share of the batch.
          merge: returns tf.IndexedSlices without duplicates, which come of several processes, and a tensor as it is.
        """
        del merge
        return gradients


class TrainingTask(abc.ABC):
    """A process that trains.

    Attributes:
      is_chief: whether this process saves, logs and evaluates.
      index: this process's place among those that train.
      count: how many train.
      batch_parts: how many processes share a batch.
      can_change_batch_size: whether a run may resume with another batch_size.
      last_step: the global step after this process's last step; 0 if it is not known.
    """

    is_chief = True
    index = 0
    count = 1
    batch_parts = 1
    can_change_batch_size = False
    last_step = 0

    def run_config(self, config: 'tf.estimator.RunConfig') -> 'tf.estimator.RunConfig':
        """Returns the configuration of an Estimator, for this task."""
        return config

    def local(self) -> contextlib.AbstractContextManager[Any]:
        """Within the block, variables are not on a parameter server."""
        return contextlib.nullcontext()

    def means(self, loss: tf.Tensor) -> Means:
        """Returns what averages the loss, float32 scalar, and the gradients of a step over the processes."""
        return Means(loss)

    def step_hook(self, stop: StopOnSignal) -> Any:
        """Returns the hook that knows the next step that hooks see; None: MultiStepHook is used."""
        del stop
        return None

    @abc.abstractmethod
    def hooks(
        self,
        hooks: Sequence[tf.train.SessionRunHook],
        step_hook: Any,
        means: Any,
        stop: StopOnSignal,
        periods: Sequence[int],
        total_steps: int,
        steps_per_loop: int,
    ) -> list[tf.train.SessionRunHook]:
        """Returns the hooks of a training, with those that start, stop and end it.

        Args:
          hooks: the others, in their order.
          step_hook: the last one that has a before_run.
          means: what `means` returned.
          periods: the chief may save and evaluate at the multiples of each.
          total_steps: the step at which the training ends.
          steps_per_loop: steps of a session call, at most.
        """

    def scaffold(self, keep_checkpoint_max: int) -> tf.train.Scaffold | None:
        """Returns the scaffold of the session; None for the Estimator's. To be called after `hooks`."""
        del keep_checkpoint_max
        return None

    def start(self, facts: Callable[[], Mapping[str, str]]) -> bool:
        """Returns whether the chief trains, which it has then told the others.

        Args:
          facts: returns what the tasks must agree on, such as {'the training data': checksum}.

        Raises:
          UsageError: the tasks differ in it.
        """
        del facts
        return True

    @abc.abstractmethod
    def leave(self) -> None:
        """To be called at the end: a chief that has not called `start` tells the others that there is nothing to train."""

    @contextlib.contextmanager
    def naming_lost_tasks(self) -> Iterator[None]:
        """Within the block, a TensorFlow error of another task's loss is replaced with a RunError that names the task."""
        yield


class Alone(TrainingTask):
    """The only process: it waits for nobody."""

    can_change_batch_size = True

    def hooks(self, hooks, step_hook, means, stop, periods, total_steps, steps_per_loop):
        del means, periods, total_steps, steps_per_loop
        return [*hooks, step_hook, stop]

    def leave(self):
        """See TrainingTask."""


ALONE = Alone()
