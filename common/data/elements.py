"""What a tf.data.Dataset consists of, as arrays."""

import contextlib

import tensorflow.compat.v1 as tf

INFINITE = tf.data.experimental.INFINITE_CARDINALITY


def elements(make_dataset):
    """Yields the elements of a tf.data.Dataset, in a graph and a session of its own; none where it is known to have no end.

    Args:
      make_dataset: function without arguments that returns it.
    """
    with opened(make_dataset) as (session, dataset):
        if cardinality(session, dataset) != INFINITE:
            yield from iterate(session, dataset)


@contextlib.contextmanager
def opened(make_dataset):
    """Gives a tf.Session of a graph of its own, and the tf.data.Dataset that a function without arguments makes in it."""
    with tf.Graph().as_default() as graph:
        dataset = make_dataset()
        start = tf.tables_initializer()  # Which it may look things up in.
    with contextlib.closing(tf.Session(graph=graph)) as session:
        session.run(start)
        yield session, dataset


def cardinality(session, dataset):
    """Returns how many elements a tf.data.Dataset says that it has, an int; see `tf.data.Dataset.cardinality`."""
    with session.graph.as_default():
        return int(session.run(dataset.cardinality()))


def iterate(session, dataset):
    """Yields the elements of a tf.data.Dataset of the session's graph."""
    with session.graph.as_default():
        iterator = tf.data.make_initializable_iterator(dataset)
        element = iterator.get_next()
    session.run(iterator.initializer)
    with contextlib.suppress(tf.errors.OutOfRangeError):
        while True:
            yield session.run(element)
