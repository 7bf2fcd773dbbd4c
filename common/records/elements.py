"""The elements of a tf.data.Dataset as NumPy arrays."""

from collections.abc import Callable, Iterator
import contextlib
from typing import Any

import tensorflow.compat.v1 as tf

INFINITE = tf.data.experimental.INFINITE_CARDINALITY


def elements(make_dataset: Callable[[], tf.data.Dataset]) -> Iterator[Any]:
    """Yields the elements of a tf.data.Dataset, in its own graph and session; none if its cardinality is infinite."""
    with opened(make_dataset) as (session, dataset):
        if cardinality(session, dataset) != INFINITE:
            yield from iterate(session, dataset)


@contextlib.contextmanager
def opened(make_dataset: Callable[[], tf.data.Dataset]) -> Iterator[tuple[tf.Session, tf.data.Dataset]]:
    """Creates a tf.data.Dataset in a new graph, and yields a session of that graph and the dataset."""
    with tf.Graph().as_default() as graph:
        dataset = make_dataset()
        init = tf.tables_initializer()  # The dataset may use lookup tables.
    with contextlib.closing(tf.Session(graph=graph)) as session:
        session.run(init)
        yield session, dataset


def cardinality(session: tf.Session, dataset: tf.data.Dataset) -> int:
    """Returns the declared number of elements of a tf.data.Dataset; see `tf.data.Dataset.cardinality`."""
    with session.graph.as_default():
        return int(session.run(dataset.cardinality()))


def iterate(session: tf.Session, dataset: tf.data.Dataset) -> Iterator[Any]:
    """Yields the elements of a tf.data.Dataset of the session's graph."""
    with session.graph.as_default():
        iterator = tf.data.make_initializable_iterator(dataset)
        element = iterator.get_next()
    session.run(iterator.initializer)
    with contextlib.suppress(tf.errors.OutOfRangeError):
        while True:
            yield session.run(element)
