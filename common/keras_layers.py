"""tf.keras layers and models within a model module: what they keep to themselves goes where tf.layers puts it."""

import contextlib
import sys
import warnings

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.graphs import reachable


@contextlib.contextmanager
def collect_keras_layers(is_training):
    """In its block, tf.keras layers do in a graph what they do in Keras's own training, as tf.layers do.

    Layers that are not told whether they are training, such as dropout and batch norm, know it. At the end of the block,
    their updates are in tf.GraphKeys.UPDATE_OPS, the penalties of their regularizers and what they were given by `add_loss`
    in tf.GraphKeys.REGULARIZATION_LOSSES, and the weights of layers with trainable=False no longer in
    tf.GraphKeys.TRAINABLE_VARIABLES.

    Args:
      is_training: bool.

    Raises:
      UsageError: a layer of Keras 3 is called, whose updates and penalties a graph cannot have.
    """
    layers = {}
    base = tf.layers.Layer.__bases__[0]  # Of all tf.keras layers in a graph; it has no name in TensorFlow's API.

    def call(layer, *args, **kwargs):
        layers[id(layer)] = layer
        return original(layer, *args, **kwargs)

    original = base.__call__
    with _learning_phase(is_training), _replaced(base, call), _without_keras_3():
        yield
    _collect([layer for layer in layers.values() if not isinstance(layer, tf.layers.Layer)])


def _collect(layers):
    """Adds what layers keep to the collections, but for what belongs to the symbolic inputs that models are made with."""
    # pylint: disable=protected-access; the public `losses` and `updates` of a model have those of its layers again.
    graph = tf.get_default_graph()
    symbolic = reachable([tensor for op in graph.get_operations() if op.type == 'Placeholder' for tensor in op.outputs])
    updates = [op for layer in layers if layer.trainable or layer.stateful for op in layer._updates]
    losses = [loss for layer in layers for loss in layer._losses]
    penalties = [penalty() for layer in layers for penalty in layer._callable_losses]
    for key, added in ((tf.GraphKeys.UPDATE_OPS, [op for op in updates if op not in symbolic]),
                       (tf.GraphKeys.REGULARIZATION_LOSSES, [loss for loss in losses if loss.op not in symbolic] + penalties)):
        collection = tf.get_collection_ref(key)
        known = {id(item) for item in collection}
        collection += [item for item in added if item is not None and id(item) not in known]
    frozen = {id(variable) for layer in layers if not layer.trainable for variable in layer.variables}
    trainable = tf.get_collection_ref(tf.GraphKeys.TRAINABLE_VARIABLES)
    trainable[:] = [variable for variable in trainable if id(variable) not in frozen]


@contextlib.contextmanager
def _learning_phase(is_training):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # It is deprecated, and says so.
        with tf.keras.backend.learning_phase_scope(int(is_training)):
            yield


@contextlib.contextmanager
def _replaced(cls, call):
    """In its block the instances of a class, or of one that does not override it, are called by another function."""
    original = cls.__call__
    cls.__call__ = call
    try:
        yield
    finally:
        cls.__call__ = original


def _without_keras_3():
    keras = sys.modules.get('keras')
    if keras is None or not keras.__version__.startswith('3.'):
        return contextlib.nullcontext()

    def refuse(layer, *unused_args, **unused_kwargs):
        raise UsageError(f'the layer {layer.name} is of Keras 3, which cannot be trained in a graph: use tf.keras, which is '
                         'Keras 2 here')

    return _replaced(keras.layers.Layer, refuse)
