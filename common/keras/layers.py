"""tf.keras layers and models in a model module, with losses and updates in the graph collections, as in tf.layers.

In a graph, Keras leaves the learning phase, losses and updates to its own training loop. So while a model is built, `_patches`
replaces the methods of Keras's private base class that create and call layers with those of a `_Collector`, for this thread
only. Each call checks that the layer belongs to this graph, and records it and its sublayers; at the end, their losses and
updates are collected, except those of symbolic calls, which only define a functional model.
"""

from collections.abc import Callable, Iterator
import concurrent.futures
import contextlib
import functools
import importlib
import sys
import threading
from typing import Any
import warnings

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.graphs import ancestors, reachable
from estimator_trainer.common.keras.batch_norm import early_momentum

_LAYERS = tf.compat.v2.keras.layers
_RANDOM_LAYERS = tuple(getattr(_LAYERS, name) for name in dir(_LAYERS) if name.startswith('Random'))  # They augment images.

# pylint: disable=protected-access; the public `losses` and `updates` of a model repeat those of its layers.


@contextlib.contextmanager
def collect_keras_layers(is_training: bool) -> Iterator[list[Any]]:
    """Within the block, tf.keras layers work in a graph like tf.layers; yields a list that collects the tf.keras models called.

    Layers that depend on the learning phase, such as dropout and batch norm, use `is_training`; batch norm, even that of
    tf.layers, moves its averages by `early_momentum`. At the end of the block, the layers' updates are in
    tf.GraphKeys.UPDATE_OPS, the losses of regularizers and of `add_loss` in tf.GraphKeys.REGULARIZATION_LOSSES, and the
    weights of layers with trainable=False no longer in tf.GraphKeys.TRAINABLE_VARIABLES.

    Raises:
      UsageError: a layer cannot be trained in this graph: it is a Keras 3 layer, was created outside of the block, adds
        losses or updates within a loop or a function, assigns to variables although nothing depends on the assignment, or
        is given weights, which training would overwrite.
    """
    collector = _Collector(is_training)
    try:
        with _patches(collector, is_training):
            yield collector.networks
        collector.collect()
    finally:
        collector.restore_classes()


@contextlib.contextmanager
def _patches(collector, is_training):
    """Within the block, creates and calls layers through the collector, and rejects untrainable ones."""
    graph_layer = tf.layers.Layer.__bases__[0]  # The base of all tf.keras layers created in a graph: not in the public API.
    given = _refuse('is given weights within model(), which training would overwrite: give them by --warm_start_from')
    patches = [
        (graph_layer, '__init__', collector.initialize),
        (graph_layer, '__call__', collector.call),
        (graph_layer.__bases__[0], '__call__', _refuse_foreign),
        (graph_layer, 'set_weights', given),
        (tf.keras.Model, 'load_weights', given),
        *((layer_class, '__call__', _refuse(reason)) for layer_class, reason in _other_layers()),
    ]
    with contextlib.ExitStack() as scopes:
        scopes.push(_enter_learning_phase(is_training))
        for patch in patches:
            scopes.enter_context(_patched(*patch))
        yield


def _other_layers():
    """Yields (base class of layers, reason to reject them) for imported Keras packages other than tf.keras."""
    keras, tf_keras = sys.modules.get('keras'), sys.modules.get('tf_keras')
    if keras is not None and keras.__version__.startswith('3.'):
        yield keras.layers.Layer, 'is a Keras 3 layer, which cannot be trained in a graph: use tf.keras, which is Keras 2 here'
    if tf_keras is not None and tf_keras.layers.Layer is not tf.keras.layers.Layer:
        reason = 'is of the package tf_keras, which is not tf.keras on TensorFlow 2.15: use tf.keras'
        yield tf_keras.layers.Layer, reason
        yield importlib.import_module('tf_keras.src.engine.base_layer_v1').Layer, reason  # Their base in a graph.


class _Collector:
    """Tracks the called layers, with their losses and updates."""

    def __init__(self, is_training):
        self.networks = []  # The models called, except those within another one.
        self._is_training = is_training
        self._layers = {}  # By id.
        self._classes = set()  # Of the layers created.
        self._is_symbolic = None  # Within a call: whether the outermost is symbolic, building a model from keras.Input.
        self._symbolic_ids = set()  # Of the losses and updates added by such calls.

    def initialize(self, original, layer, *args, **kwargs):
        """Initializes a layer."""
        if not isinstance(layer, tf.layers.Layer):
            self._classes.add(type(layer))
        original(layer, *args, **kwargs)

    def call(self, original, layer, *args, **kwargs):
        """Calls a layer."""
        graph = tf.get_default_graph()
        step = tf.train.get_global_step(_outermost(graph)) if self._is_training else None
        with early_momentum(layer, step):
            if isinstance(layer, tf.layers.Layer):  # tf.layers fill the collections themselves.
                return original(layer, *args, **kwargs)
            return self._call_keras(graph, original, layer, args, kwargs)

    def _call_keras(self, graph, original, layer, args, kwargs):
        outermost = _outermost(graph)
        if not hasattr(layer, '_originally_built_as_v1') or any(weight.graph is not outermost for weight in _weights(layer)):
            _refuse_foreign(original, layer)
        if isinstance(layer, _RANDOM_LAYERS) and all(given is None for given in (*args[1:], kwargs.get('training'))):
            # They do not know the learning phase of a graph.
            args, kwargs = args[:1], {**kwargs, 'training': self._is_training}
        self._add(layer)
        num_ops, known = len(graph.get_operations()), {id(item) for item in _losses_and_updates(layer)}
        # If a layer is called twice, the second call updates the moving averages updated by the first.
        earlier_updates = self._without_symbolic([op for op in layer._updates if op.graph is graph])
        with self._entered(layer, (args, kwargs)) as is_symbolic, tf.control_dependencies(earlier_updates):
            outputs = original(layer, *args, **kwargs)
        if is_symbolic:
            self._symbolic_ids.update({id(item) for item in _losses_and_updates(layer)} - known)
        self._add(layer)  # Again, since the call may have created sublayers.
        if self._is_symbolic is None:
            self._check_assignments(layer, graph.get_operations()[num_ops:], outputs)
        return outputs

    def _add(self, layer):
        self._layers.update((id(sublayer), sublayer) for sublayer in layer._flatten_layers())

    @contextlib.contextmanager
    def _entered(self, layer, inputs):
        """Yields whether a call is symbolic, as determined by the outermost call."""
        is_outermost = self._is_symbolic is None
        if is_outermost:
            self._is_symbolic = any(hasattr(value, '_keras_history') for value in tf.nest.flatten(inputs))
            if isinstance(layer, tf.keras.Model) and not self._is_symbolic:
                self.networks.append(layer)
        try:
            yield self._is_symbolic
        finally:
            if is_outermost:
                self._is_symbolic = None

    def _check_assignments(self, layer, ops, outputs):
        """Raises UsageError if a call has created an assignment that would never run."""
        known = {op for sublayer in self._layers.values() for op in sublayer._updates}
        known |= {variable.initializer for variable in (*tf.global_variables(), *tf.local_variables())}
        assignments = [op for op in ops if op.type.startswith('Assign') and op not in known]
        if assignments:
            dependencies = ancestors(tf.nest.flatten(outputs, expand_composites=True))
            for op in assignments:
                if op not in dependencies:
                    raise UsageError(
                        f'the layer {layer.name} assigns to a variable ({op.name}), which nothing in the graph '
                        'depends on: use tf.control_dependencies, or pass the op to add_update()'
                    )

    def collect(self):
        """Adds the layers' losses and updates to the graph collections."""
        graph, layers = tf.get_default_graph(), list(self._layers.values())
        for layer in layers:
            if any(item.graph is not graph for item in _losses_and_updates(layer)):
                raise UsageError(
                    f'the layer {layer.name} adds losses or updates within a loop, tf.cond or tf.function, '
                    'where they cannot be collected: call it outside'
                )
        updates = [op for layer in layers if layer.trainable or layer.stateful for op in layer._updates]
        losses = [loss for layer in layers for loss in layer._losses]
        penalties = [penalty() for layer in layers for penalty in layer._callable_losses]
        for key, added in ((tf.GraphKeys.UPDATE_OPS, updates), (tf.GraphKeys.REGULARIZATION_LOSSES, losses + penalties)):
            collection = tf.get_collection_ref(key)
            known = {id(item) for item in collection}
            collection += [_as_float32(item) for item in self._without_symbolic(added) if id(item) not in known]
        # By name, since mixed-precision layers wrap their variables.
        frozen = {variable.name for layer in layers if not layer.trainable for variable in layer.variables}
        trainable = tf.get_collection_ref(tf.GraphKeys.TRAINABLE_VARIABLES)
        trainable[:] = [variable for variable in trainable if variable.name not in frozen]

    def restore_classes(self):
        """Restores the bases of the layers' classes outside of graphs.

        Keras changes them when it creates an object in a graph or in eager mode, which breaks objects of the other kind.
        """
        classes: set[Any] = self._classes | {type(layer) for layer in self._layers.values()}
        with concurrent.futures.ThreadPoolExecutor(1) as pool:  # A new thread has no graph.
            pool.submit(lambda: [layer_class.__new__(layer_class) for layer_class in classes]).result()

    def _without_symbolic(self, items):
        """Returns `items` without the losses and updates of symbolic calls."""
        items = [item for item in items if item is not None and id(item) not in self._symbolic_ids]
        if not items:
            return []
        # Models are also built by calls with placeholders, as in `build`.
        placeholders = [op for op in tf.get_default_graph().get_operations() if op.type == 'Placeholder']
        symbolic = reachable([tensor for op in placeholders for tensor in op.outputs])
        return [item for item in items if getattr(item, 'op', item) not in symbolic]


def _as_float32(item):
    """Casts a loss to float32, the dtype of the total loss; returns an update unchanged."""
    return tf.cast(item, tf.float32) if isinstance(item, tf.Tensor) and item.dtype.is_floating else item


def _outermost(graph):
    """Returns the outermost graph around that of a loop or function."""
    while hasattr(graph, 'outer_graph'):
        graph = graph.outer_graph
    return graph


def _weights(layer):
    """Yields the existing weights; `layer.weights` raises an error before a model is called."""
    for sublayer in layer._flatten_layers():
        yield from sublayer._trainable_weights
        yield from sublayer._non_trainable_weights


def _losses_and_updates(layer):
    return [*layer._losses, *layer._updates]


def _refuse(reason):
    def refuse(unused_original, layer, *unused_args, **unused_kwargs):
        raise UsageError(f'the layer {layer.name} {reason}')

    return refuse


_refuse_foreign = _refuse('was created outside of model(): create it inside, as each graph needs its own layers')


def _enter_learning_phase(is_training):
    scope = tf.keras.backend.learning_phase_scope(int(is_training))
    with _lock, warnings.catch_warnings():  # All threads share the warning filters.
        warnings.simplefilter('ignore')  # learning_phase_scope is deprecated.
        scope.__enter__()
    return scope


_lock = threading.RLock()
_replaced: dict[tuple[type, str], tuple[Any, dict[int, Callable]]] = {}  # {(class, name): (its own method, {thread: function})}


@contextlib.contextmanager
def _patched(owner, name, function):
    """Within the block and this thread, replaces a method of a class with `function(original_method, *args, **kwargs)`."""
    thread = threading.get_ident()
    with _lock:
        if (owner, name) not in _replaced:
            _replaced[owner, name] = vars(owner).get(name), {}
            setattr(owner, name, _per_thread(getattr(owner, name), _replaced[owner, name][1]))
        own, functions = _replaced[owner, name]
        functions[thread] = function
    try:
        yield
    finally:
        with _lock:
            del functions[thread]
            if not functions:
                del _replaced[owner, name]
                if own is None:  # It is inherited.
                    delattr(owner, name)
                else:
                    setattr(owner, name, own)


def _per_thread(original, functions):
    @functools.wraps(original)
    def replacement(*args, **kwargs):
        function = functions.get(threading.get_ident())
        return function(original, *args, **kwargs) if function else original(*args, **kwargs)

    return replacement
