"""Estimators with a `train` of their own, such as adanet's, which trains others in its directory, one after another."""

from collections.abc import Callable, Iterator
import contextlib
import copy
import threading
from typing import Any, Never

from tf_estimator.exact import candidates

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator.tpu.tpu_estimator import TPUEstimator

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.graphs import plain
from estimator_trainer.common.plugins.estimator_contract import ModelFunction, wrap_model_fn

_Estimator = tf.estimator.Estimator
_TRAINS = (_Estimator.train, TPUEstimator.train)
_AT = threading.Lock()  # `at` replaces a method for all threads, such as those of a server.


def has_own_train(estimator: Any) -> bool:
    """Whether an Estimator's class has a `train` of its own, which builds graphs that only it knows."""
    return isinstance(estimator, OwnTrain) or type(estimator).train not in _TRAINS


class OwnTrain:
    """What the trainer uses of an Estimator with a `train` of its own: there is a graph for each checkpoint, not for all.

    Args:
      source: names the Estimator in errors.
      wrap: see `wrap_model_fn`; for the Estimators that the given one trains in its directory, or predicts with.
      seeded: makes a block in which each of them is trained, so that its initial weights do not depend on earlier ones.
      program_batch: function from a training batch, (features, labels), to that of the program; None if they are the same.
    """

    def __init__(
        self,
        estimator: tf.estimator.Estimator,
        source: str,
        wrap: Callable[[ModelFunction], ModelFunction],
        seeded: Callable[[], contextlib.AbstractContextManager[None]],
        program_batch: Callable[..., tuple[Any, Any]] | None = None,
    ):
        self._estimator, self._source, self._wrap, self._seeded = estimator, source, wrap, seeded
        self._program_batch = program_batch
        self.config, self.model_dir, self.latest_checkpoint = estimator.config, estimator.model_dir, estimator.latest_checkpoint

    @property
    def model_fn(self) -> Never:
        """Is none, which refuses what needs one graph for all checkpoints."""
        self.refuse()

    def refuse(self) -> Never:
        """Raises UsageError, for a command that cannot do without the graph of a step."""
        raise UsageError(f'{self._source} has a train() of its own, which excludes this command: its steps have many graphs')

    def train(self, input_fn: Callable[..., Any], *arguments: Any) -> None:
        """Trains as `Estimator.train` does, with the same arguments."""

        def program_input_fn(params=None):  # The Estimator may call it outside of a model_fn, too.
            made = input_fn(params)
            return made.map(plain(self._program_batch)) if self._program_batch else made

        with _replaced('train', self._train_one):
            self._estimator.train(program_input_fn, *arguments)

    def _train_one(self, train, estimator, *arguments, **options):
        if estimator.model_dir == self.model_dir:
            candidates.train_again(self.model_dir)
            estimator = wrap_model_fn(estimator, self._wrap)
        with self._seeded():
            return train(estimator, *arguments, **options)

    def at(self, checkpoint: str | None) -> tf.estimator.Estimator:
        """Returns the Estimator with which the given one predicts from a checkpoint; without one, the given one."""
        found = [self._estimator]
        if checkpoint:
            with _AT, _replaced('predict', lambda predict, estimator, *arguments, **options: found.append(estimator)):
                self._estimator.predict(lambda: None, checkpoint_path=checkpoint)
        return wrap_model_fn(found[-1], self._wrap)

    def wrapped(self, wrap: Callable[[ModelFunction], ModelFunction]) -> 'OwnTrain':
        """Returns a copy, of whose Estimators each has another model_fn; see `wrap_model_fn`."""
        found = copy.copy(self)
        found._wrap = lambda model_fn: wrap(self._wrap(model_fn))
        return found


@contextlib.contextmanager
def _replaced(name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Within the block, Estimator's method of this name calls a function with the method before its arguments."""
    method = getattr(_Estimator, name)
    setattr(_Estimator, name, lambda *arguments, **options: function(method, *arguments, **options))
    try:
        yield
    finally:
        setattr(_Estimator, name, method)
