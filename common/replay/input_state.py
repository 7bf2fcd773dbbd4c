"""The state of a module's own input_fn, compared by the batches that follow it: files of the same state may differ."""

from collections.abc import Callable
from typing import Any

from tf_estimator.exact import inexact, iterators

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.evaluated_input import aside
from estimator_trainer.common.replay.recorder import flat

BATCHES = 3


def are_equal(input_fn: Callable[[], Any], seed: int, first: str, second: str) -> bool | None:
    """Returns whether the next batches after two saved states are the same, bit for bit; None if they cannot be restored.

    Args:
      input_fn: that of a run, whose iterators are recorded, see `exact_program.recorded`.
      seed: TensorFlow's.
      first, second: paths without suffix.
    """
    with aside(input_fn, seed) as (graph, batch):
        if not inexact.can_save_input(graph):
            return None
        tensors, states = flat(batch.features, batch.labels), iterators.Iterators(graph)
        if not states:  # Another version saved more than iterators.
            return None
        try:
            found = [_batches(graph, batch.initializer, tensors, states, path) for path in (first, second)]
        except (tf.errors.OpError, ValueError):
            return None
    return found[0] == found[1]


def _batches(graph, initializer, tensors, states, path):
    """Returns the shapes and bytes of the next batches, as far as the input has them."""
    found: list[Any] = []
    with tf.Session(graph=graph) as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(tf.tables_initializer())
        session.run(initializer)
        states.initialize(session)
        states.restore(session, path)
        for _ in range(BATCHES):
            try:
                arrays = [np.asarray(value) for value in session.run(tensors)]
            except tf.errors.OutOfRangeError:
                break
            found.append([(array.shape, array.tolist() if array.dtype == object else array.tobytes()) for array in arrays])
    return found
