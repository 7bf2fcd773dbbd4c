"""Graphs that would stay in memory after the training, evaluation or prediction that they were made for."""

from collections.abc import Iterator
import contextlib
from typing import Any
import weakref

from tf_estimator.mending import around

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import ops
from tensorflow_estimator.python.estimator import estimator as estimators

_optimizers: weakref.WeakSet[Any] = weakref.WeakSet()  # That have applied gradients.


@around(estimators.Estimator, '_train_model')
def _train_model(train_model, self, input_fn, hooks, saving_listeners):
    with forgetting() as hook:
        return train_model(self, input_fn, [hook, *hooks], saving_listeners)


@around(estimators.Estimator, '_actual_eval')
def _evaluate(actual_eval, self, input_fn, strategy=None, steps=None, hooks=None, checkpoint_path=None, name=None):
    with forgetting() as hook:
        return actual_eval(self, input_fn, strategy, steps, [*(hooks or ()), hook], checkpoint_path, name)


@around(estimators.Estimator, 'predict')
def _predict(predict, self, input_fn, predict_keys=None, hooks=None, checkpoint_path=None, yield_single_examples=True):
    with forgetting() as hook:
        yield from predict(self, input_fn, predict_keys, [*(hooks or ()), hook], checkpoint_path, yield_single_examples)


@around(tf.train.Optimizer, 'apply_gradients')
def _apply_gradients(apply_gradients, self, *args, **kwargs):
    with contextlib.suppress(TypeError):  # A class may have no hash.
        _optimizers.add(self)
    return apply_gradients(self, *args, **kwargs)


class _Graph(tf.train.SessionRunHook):
    """Remembers the graph of a session."""

    graph = None

    def begin(self):
        self.graph = tf.get_default_graph()


@contextlib.contextmanager
def forgetting() -> Iterator[_Graph]:
    """Yields a hook. After the block, nothing outside of its session's graph knows that graph."""
    hook, gradients = _Graph(), ops.gradient_registry._registry
    known = {*gradients}
    try:
        yield hook
    finally:
        if hook.graph:
            for optimizer in list(_optimizers):
                _forget(optimizer, hook.graph)
            if len(gradients) > len(known):
                for name in _custom_gradients(hook.graph) - known:
                    gradients.pop(name, None)


def _forget(optimizer, graph):
    for slots in optimizer._slots.values():
        for key in [key for key in slots if isinstance(key, tuple) and key[0] is graph]:
            del slots[key]
    for key in [key for key in optimizer._non_slot_dict if key[-1] is graph]:
        del optimizer._non_slot_dict[key]


def _custom_gradients(graph):
    """Returns the names under which tf.custom_gradient has registered gradients of a graph's ops, not of its functions."""
    ops_with_one = (op for op in graph.get_operations() if op.type == 'IdentityN')
    found = {attribute.s.decode() for op in ops_with_one if (attribute := op.node_def.attr.get('_gradient_op_type'))}
    return {name for name in found if name.startswith('CustomGradient-')}
