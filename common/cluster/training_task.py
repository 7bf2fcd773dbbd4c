"""The interface of a training process, and the single-process case."""

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.hparams.build import HParams

_SEED_STEP = 1000003  # A prime, so that similar seeds of different tasks do not collide.


def task_seed(seed: int, index: int) -> int:
    """Returns the seed of a task of a cluster: the tasks draw different random numbers."""
    return (seed + index * _SEED_STEP) % 2**31


class Means:
    """The loss of a step, and the means of its gradients, over all processes that share a batch.

    Attributes:
      loss: float32 scalar; over all processes after the call with the gradients, or `of_sums` if they are accumulated.
      sends_gradients: whether there are other processes, to which sparse gradients are sent in less time than dense ones.
    """

    sends_gradients = False

    def __init__(self, loss: tf.Tensor):
        self.loss = loss

    def __call__(self, gradients: Sequence[Any], merge: Callable[[Any], Any]) -> Sequence[Any]:
        """Returns the means of the gradients, tf.Tensors and tf.IndexedSlices; the tensors themselves if they are accumulated.

        Args:
          gradients: of this process's share of the batch.
          merge: function that removes duplicates from tf.IndexedSlices and returns tensors unchanged.
        """
        del merge
        return gradients

    def of_sums(self, sums: Sequence[tf.Variable], is_due: tf.Tensor) -> Callable[[], Sequence[Any]]:
        """Returns a function that returns the means of sums of several steps' dense gradients, which the call has not averaged.

        Args:
          is_due: bool scalar: whether this step needs them. Call the function in a branch of tf.cond with this condition.
        """
        del is_due
        return lambda: sums


class TrainingTask(abc.ABC):
    """A training process.

    Attributes:
      is_chief: whether this process saves, logs and evaluates.
      index: index of this process among the training processes.
      count: number of training processes.
      batch_parts: number of processes that share a batch.
      decides_alone: whether its steps are its own matter: their towers, threads and loops, or the `train` of an Estimator.
      has_scaffold: whether `scaffold` returns one in place of the model's.
      can_change_batch_size: whether a run may resume with another batch_size.
      last_step: the global step after this process's last step; 0 if unknown.
      members: names of the training processes of an elastic cluster, which records them.
    """

    is_chief = True
    index = 0
    count = 1
    batch_parts = 1
    decides_alone = False
    has_scaffold = True
    can_change_batch_size = False
    last_step = 0
    members: Sequence[str] = ()

    @property
    def full_count(self) -> int:
        """The number of training processes when none is missing."""
        return self.count

    def run_config(self, config: 'tf.estimator.RunConfig') -> 'tf.estimator.RunConfig':
        """Returns an Estimator's configuration for this task."""
        return config

    def local(self) -> contextlib.AbstractContextManager[Any]:
        """Within the block, variables are not on a parameter server."""
        return contextlib.nullcontext()

    @property
    def shares_steps(self) -> bool:
        """Whether all processes run each step together, or there is only one."""
        return self.batch_parts == self.count

    def means(self, loss: tf.Tensor, params: HParams, weight: Any = None) -> Means:
        """Returns the object that averages a step's loss, float32 scalar, and gradients over the examples of all processes.

        Args:
          weight: of this process's share of the batch, float32 scalar; None for its part of batch_size.
        """
        del params, weight
        return Means(loss)

    def whole(self, share: tf.Tensor, batch_size: int) -> tf.Tensor:
        """Returns the values of all examples of a step, [batch_size], in their order, given those of this process's share."""
        return tf.ensure_shape(share, [batch_size])

    def mean_gradients(
        self, gradients: Sequence[Any], merge: Callable[[Any], Any], params: HParams, weight: Any = None
    ) -> Sequence[Any]:
        """Returns the means of a step's gradients over the examples of all processes; arguments as of `Means` and `means`."""
        del merge, params, weight
        return gradients

    def step_hook(self, stop: StopOnSignal) -> Any:
        """Returns the hook that knows the next step that hooks see; None for MultiStepHook."""
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
        """Returns the hooks of a run, including those that start, stop and end it.

        Args:
          hooks: the others, in their order.
          step_hook: the last one that has a before_run.
          means: the result of `means`.
          periods: the chief may save and evaluate at multiples of each.
          total_steps: the step at which training ends.
          steps_per_loop: maximum steps per session call.
        """

    def scaffold(self, keep_checkpoint_max: int) -> tf.train.Scaffold | None:
        """Returns the scaffold of the session; None for the Estimator's. Call it after `hooks`."""
        del keep_checkpoint_max
        return None

    def start(self, facts: Callable[[], Mapping[str, str]]) -> bool:
        """Returns whether the chief trains; a training chief notifies the others.

        Args:
          facts: function that returns the facts to agree on, such as {'the training data': checksum}.

        Raises:
          UsageError: the tasks differ in a fact.
        """
        del facts
        return True

    def recognize(self, params: Mapping[str, Any]) -> None:
        """Tells a chief the hyper-parameters of the run; its data determine some: who returns must have the same."""
        del params

    @abc.abstractmethod
    def leave(self) -> None:
        """Ends the task's part; a chief that has not called `start` notifies the others that there is nothing to train."""

    @contextlib.contextmanager
    def naming_lost_tasks(self) -> Iterator[None]:
        """Within the block, replaces TensorFlow's error about a lost task with a RunError that names the task."""
        yield


class Alone(TrainingTask):
    """The only process: it waits for nobody."""

    decides_alone = True
    has_scaffold = False
    can_change_batch_size = True

    def hooks(self, hooks, step_hook, means, stop, periods, total_steps, steps_per_loop):
        del means, periods, total_steps, steps_per_loop
        return [*hooks, step_hook, stop]

    def leave(self):
        """See TrainingTask."""


class Rehearsal(Alone):
    """A task of a cluster, by default the chief, alone, with its share of each batch. Arguments as the attributes."""

    decides_alone = False
    can_change_batch_size = False

    def __init__(self, count: int, batch_parts: int, index: int = 0):
        self.count, self.batch_parts, self.index = count, batch_parts, index
        self.is_chief = index == 0

    def run_config(self, config):
        return config.replace(tf_random_seed=task_seed(config.tf_random_seed, self.index))

    def whole(self, share, batch_size):
        return tf.pad(share, [[0, batch_size - tf.size(share)]])  # Nobody has the others'.


ALONE = Alone()
