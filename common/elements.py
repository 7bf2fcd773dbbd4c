"""What a tf.data.Dataset consists of, as arrays."""

import contextlib

import tensorflow.compat.v1 as tf

INFINITE = tf.data.experimental.INFINITE_CARDINALITY


def elements(make_dataset):
    """Yields the elements of a tf.data.Dataset, in a graph and a session of its own; none where it is known to have no end.

    Args:
      make_dataset: function without arguments that returns it.
    """
    with _session(make_dataset) as (session, dataset):
        with session.graph.as_default():
            size = dataset.cardinality()
            iterator = tf.data.make_initializable_iterator(dataset)
            element = iterator.get_next()
        if session.run(size) == INFINITE:
            return
        session.run(iterator.initializer)
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                yield session.run(element)


def cardinality(make_dataset):
    """Returns how many elements a tf.data.Dataset says that it has, an int; see `tf.data.Dataset.cardinality`."""
    with _session(make_dataset) as (session, dataset), session.graph.as_default():
        return int(session.run(dataset.cardinality()))


@contextlib.contextmanager
def _session(make_dataset):
    with tf.Graph().as_default() as graph:
        dataset = make_dataset()
        start = tf.tables_initializer()  # Which it may look things up in.
    with contextlib.closing(tf.Session(graph=graph)) as session:
        session.run(start)
        yield session, dataset
