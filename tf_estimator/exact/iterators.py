"""The iterators that an input_fn makes, and the saving of their state."""

from typing import Any

from tf_estimator.mending import around

import tensorflow.compat.v1 as tf
from tensorflow.python.data.ops import dataset_ops, iterator_ops
from tensorflow.python.framework import ops


def mend() -> None:
    around(iterator_ops.Iterator, '__init__')(_record)
    around(dataset_ops.DatasetV1, '_make_one_shot_iterator')(_make_savable)


def begin(graph: tf.Graph) -> None:
    """Records the iterators of a graph from now on."""
    graph._exact_iterators = []


def _record(init, self, *args, **kwargs):
    init(self, *args, **kwargs)
    graph = ops.get_default_graph()
    if hasattr(graph, '_exact_iterators'):
        graph._exact_iterators.append(self)


def _make_savable(make_one_shot_iterator, self):
    """When training, makes an iterator with an initializer: one-shot iterators hide their dataset in a function."""
    if not hasattr(ops.get_default_graph(), '_exact_iterators'):
        return make_one_shot_iterator(self)
    iterator = self._make_initializable_iterator()
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    iterator._exact_is_one_shot = True
    return iterator


class Iterators:
    """Saves and restores the state of all iterators of a graph, which is not yet finalized."""

    def __init__(self, graph: Any) -> None:
        self._iterators = graph._exact_iterators
        # Functions without state are taken for stateful ones if they contain a random dataset or a shuffle; see inexact.py.
        policy = 'ignore'
        savables = [tf.data.experimental.make_saveable_from_iterator(each, policy) for each in self._iterators]
        self._saver = tf.train.Saver(savables) if savables else None
        # The program initializes its other iterators itself, before this.
        self._one_shot = [each.initializer for each in self._iterators if hasattr(each, '_exact_is_one_shot')]

    def __bool__(self) -> bool:
        return self._saver is not None

    def initialize(self, session: tf.Session) -> None:
        """Initializes what a program expects to be initialized by itself; a local_init_op of its own may not have."""
        session.run(self._one_shot)

    def restart(self, session: tf.Session) -> None:
        """Initializes the iterators again, after a restore has failed."""
        session.run([each.initializer for each in self._iterators if each._initializer is not None])

    def save(self, session: tf.Session, path: str) -> None:
        """Saves the state as the checkpoint files PATH.*; raises tf.errors.OpError if that cannot be."""
        assert self._saver
        self._saver.save(session, path, write_meta_graph=False, write_state=False)

    def restore(self, session: tf.Session, path: str) -> None:
        """Restores what `save` saved; raises tf.errors.OpError or ValueError if that cannot be."""
        assert self._saver
        self._saver.restore(session, path)
