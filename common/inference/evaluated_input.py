"""The input of an evaluation: a tf.data.Dataset, or tensors of an Estimator program."""

from collections.abc import Callable, Iterator
import contextlib
from typing import Any, NamedTuple

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.console import errors_only
from estimator_trainer.common.graphs import ancestors
from estimator_trainer.common.plugins.estimator_contract import split_batch
from estimator_trainer.common.records.elements import INFINITE

# The ops that raise OutOfRangeError.
_ENDING = ('IteratorGetNext', 'QueueDequeueV2', 'QueueDequeueManyV2', 'QueueDequeueUpToV2', 'ReaderReadV2', 'ReaderReadUpToV2')


class Input(NamedTuple):
    """The next batch of an input.

    Attributes:
      features, labels: structures of tensors [batch, ...]; labels may be None.
      initializer: the op that starts the input.
      can_restart: whether it starts at the first batch each time.
      cardinality: function that makes an int64 scalar, as of tf.data.Dataset.cardinality.
    """

    features: Any
    labels: Any
    initializer: tf.Operation
    can_restart: bool
    cardinality: Callable[[], tf.Tensor]


@contextlib.contextmanager
def aside(input_fn: Callable[[], Any], seed: int) -> Iterator[tuple[tf.Graph, Input]]:
    """Yields a graph of its own, the default one in the block, with the Input of an input_fn; only errors are logged there."""
    with errors_only(), tf.Graph().as_default() as graph:
        tf.set_random_seed(seed)
        tf.train.create_global_step()
        yield graph, open_input(input_fn())


def open_input(made: Any) -> Input:
    """Returns the Input of what an input_fn has returned, in the default graph."""
    if isinstance(made, (tf2.data.Dataset, tf.data.Dataset)):
        iterator = tf.data.make_initializable_iterator(made)
        return Input(
            *split_batch(iterator.get_next()),
            iterator.initializer,
            can_restart=True,
            cardinality=lambda: tf.data.experimental.cardinality(made),
        )
    features, labels = split_batch(made)
    tensors = [tensor for tensor in tf.nest.flatten([features, labels], expand_composites=True) if tensor is not None]
    may_end = any(op.type in _ENDING for op in ancestors(tensors))
    cardinality = tf.data.experimental.UNKNOWN_CARDINALITY if may_end else INFINITE
    return Input(features, labels, tf.no_op(), can_restart=False, cardinality=lambda: tf.constant(cardinality, tf.int64))


@contextlib.contextmanager
def running_queues(session: tf.Session) -> Iterator[None]:
    """Within the block, inputs as they were before tf.data have elements; the graph of the session is the default one."""
    coordinator, threads = tf.train.Coordinator(), []
    if tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
        threads = tf.train.start_queue_runners(session, coordinator)
    try:
        yield
    finally:
        coordinator.request_stop()
        coordinator.join(threads)
