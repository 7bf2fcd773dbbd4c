"""tf.keras layers and models within a model module: what they keep to themselves goes where tf.layers puts it."""

import contextlib
import functools
import sys
import warnings

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.training.graphs import ancestors, reachable

# pylint: disable=protected-access; the public `losses` and `updates` of a model have those of its layers again.


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
      UsageError: a layer cannot be trained in this graph: it is of Keras 3, was made outside of the block, is called within
        a loop or a function while it keeps losses or updates, assigns to variables where nothing would wait for it, or is
        given weights, which the training would overwrite.
    """
    collector = _Collector()
    graph_layer = tf.layers.Layer.__bases__[0]  # Of all tf.keras layers made in a graph; TensorFlow's API has no name for it.
    with contextlib.ExitStack() as scopes:
        scopes.enter_context(_learning_phase(is_training))
        scopes.enter_context(_replaced(graph_layer, '__call__', collector.call))
        scopes.enter_context(_replaced(graph_layer.__bases__[0], '__call__', _refuse_foreign))
        for owner, name in ((graph_layer, 'set_weights'), (tf.keras.Model, 'load_weights')):
            scopes.enter_context(
                _replaced(
                    owner,
                    name,
                    _refuse(
                        'is given weights within model(), which the training would overwrite: give them by --warm_start_from'
                    ),
                )
            )
        keras = sys.modules.get('keras')
        if keras is not None and keras.__version__.startswith('3.'):
            scopes.enter_context(
                _replaced(
                    keras.layers.Layer,
                    '__call__',
                    _refuse('is of Keras 3, which cannot be trained in a graph: use tf.keras, which is Keras 2 here'),
                )
            )
        yield
    collector.collect()


class _Collector:
    """Watches the calls of layers."""

    def __init__(self):
        self._layers = {}
        self._symbolic = []  # Whether each of the calls under way makes a model of keras.Input, and nothing of the network.
        self._dropped = set()

    def call(self, original, layer, *args, **kwargs):
        """Calls a layer."""
        if isinstance(layer, tf.layers.Layer):  # It sees to all of this itself.
            return original(layer, *args, **kwargs)
        if not hasattr(layer, '_originally_built_as_v1'):
            _refuse_foreign(original, layer)
        self._layers.update((id(part), part) for part in layer._flatten_layers())
        self._symbolic.append(
            self._symbolic[-1]
            if self._symbolic
            else any(hasattr(value, '_keras_history') for value in tf.nest.flatten((args, kwargs)))
        )
        graph = tf.get_default_graph()
        before = len(graph.get_operations()), {id(item) for item in _kept(layer)}
        # Where a layer is called twice, the averages of the first call are those that the second one moves on.
        earlier = self._of_network([op for op in layer._updates if op.graph is graph])
        try:
            with tf.control_dependencies(earlier):
                outputs = original(layer, *args, **kwargs)
        finally:
            is_symbolic = self._symbolic.pop()
        if is_symbolic:
            self._dropped.update({id(item) for item in _kept(layer)} - before[1])
        self._layers.update((id(part), part) for part in layer._flatten_layers())  # It may have made some now.
        if not self._symbolic:
            self._check_assignments(layer, graph.get_operations()[before[0] :], outputs)
        return outputs

    def _check_assignments(self, layer, ops, outputs):
        """Raises UsageError if a call has made an assignment that would never run."""
        known = {op for part in self._layers.values() for op in part._updates}
        known |= {variable.initializer for variable in (*tf.global_variables(), *tf.local_variables())}
        assignments = [op for op in ops if op.type.startswith('Assign') and op not in known]
        if assignments:
            awaited = ancestors(tensor.op for tensor in tf.nest.flatten(outputs, expand_composites=True))
            for op in assignments:
                if op not in awaited:
                    raise UsageError(
                        f'the layer {layer.name} assigns to a variable ({op.name}), which nothing in the graph '
                        'depends on: use tf.control_dependencies, or pass the op to add_update()'
                    )

    def collect(self):
        """Adds what the layers keep to the collections."""
        layers = list(self._layers.values())
        self._check(layers)
        updates = [op for layer in layers if layer.trainable or layer.stateful for op in layer._updates]
        losses = [loss for layer in layers for loss in layer._losses]
        penalties = [penalty() for layer in layers for penalty in layer._callable_losses]
        for key, added in ((tf.GraphKeys.UPDATE_OPS, updates), (tf.GraphKeys.REGULARIZATION_LOSSES, losses + penalties)):
            collection = tf.get_collection_ref(key)
            known = {id(item) for item in collection}
            collection += [_as_float32(item) for item in self._of_network(added) if id(item) not in known]
        # By name, as layers of mixed precision wrap their variables.
        frozen = {variable.name for layer in layers if not layer.trainable for variable in layer.variables}
        trainable = tf.get_collection_ref(tf.GraphKeys.TRAINABLE_VARIABLES)
        trainable[:] = [variable for variable in trainable if variable.name not in frozen]

    def _of_network(self, items):
        """Returns those losses and updates that are not of calls that only make a model."""
        items = [item for item in items if item is not None and id(item) not in self._dropped]
        if not items:
            return []
        # Models are also made by calls with placeholders, as their `build` does.
        placeholders = [op for op in tf.get_default_graph().get_operations() if op.type == 'Placeholder']
        dropped = reachable([tensor for op in placeholders for tensor in op.outputs])
        return [item for item in items if getattr(item, 'op', item) not in dropped]

    def _check(self, layers):
        graph = tf.get_default_graph()
        for layer in layers:
            if any(item.graph is not graph for item in _kept(layer)):
                raise UsageError(
                    f'the layer {layer.name} adds losses or updates within a loop, tf.cond or tf.function, '
                    'where they cannot be collected: call it outside'
                )


def _as_float32(item):
    """Returns a penalty in the type of the loss, whatever the layer's; an update as it is."""
    return tf.cast(item, tf.float32) if isinstance(item, tf.Tensor) and item.dtype.is_floating else item


def _kept(layer):
    return [*layer._losses, *layer._updates]


def _refuse(reason):
    def refuse(unused_original, layer, *unused_args, **unused_kwargs):
        raise UsageError(f'the layer {layer.name} {reason}')

    return refuse


_refuse_foreign = _refuse('was made outside of model(): make it within, as each graph has layers of its own')


@contextlib.contextmanager
def _learning_phase(is_training):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # It is deprecated, and says so.
        with tf.keras.backend.learning_phase_scope(int(is_training)):
            yield


@contextlib.contextmanager
def _replaced(owner, name, function):
    """In its block, a method of a class calls a function of the method and of its arguments in its place."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def replacement(*args, **kwargs):
        return function(original, *args, **kwargs)

    own = vars(owner).get(name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)
