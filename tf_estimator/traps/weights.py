"""Predictions and warm starts with weights that nobody has trained."""

import functools
from typing import Any
import weakref

from tf_estimator.traps.log import warn

import tensorflow.compat.v1 as tf
from tensorflow.python.training import checkpoint_utils, warm_starting_util
from tensorflow_estimator.python.estimator import estimator as estimators

# Weak references to the scaffolds of predictions, as a scaffold refers to its graph.
_scaffolds: weakref.WeakKeyDictionary[tf.Graph, Any] = weakref.WeakKeyDictionary()


def mend() -> None:
    Estimator = estimators.Estimator
    Estimator.predict = _predict(Estimator.predict)
    Estimator._call_model_fn = _call_model_fn(Estimator._call_model_fn)
    warm_starting_util.checkpoint_utils = _TolerantUtils()


class _NeedsWeights(tf.train.SessionRunHook):
    """Raises ValueError if a model without a checkpoint has random weights: if it does not set them by itself."""

    def __init__(self, model_dir):
        self._model_dir = model_dir

    def after_create_session(self, session, coord):
        scaffold = _scaffolds[session.graph]()
        unused = scaffold.saver.saver_def.restore_op_name.rpartition('/')[0]  # The scope of what would restore a checkpoint.
        restored = [op.name for op in session.graph.get_operations() if op.type == 'RestoreV2']
        is_set = scaffold.init_fn or any(not name.startswith(f'{unused}/') for name in restored)
        with session.graph.as_default():
            is_random = any(map(_is_random, tf.trainable_variables()))
        if is_random and not is_set:
            raise ValueError(
                f'{self._model_dir} has no checkpoint: its predictions would be random. Train first, or mend the path'
            )


def _is_random(variable):
    """Whether the initial value of a variable depends on a random op."""
    waiting, seen = [variable.initializer], set()
    while waiting:
        op = waiting.pop()
        if op not in seen:
            seen.add(op)
            waiting += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return any('Random' in op.type or 'Normal' in op.type for op in seen)


def _predict(predict):
    @functools.wraps(predict)
    def checked(self, input_fn, predict_keys=None, hooks=None, checkpoint_path=None, yield_single_examples=True):
        if not checkpoint_path and not self.latest_checkpoint():
            hooks = [*(hooks or ()), _NeedsWeights(self.model_dir)]
        yield from predict(self, input_fn, predict_keys, hooks, checkpoint_path, yield_single_examples)

    return checked


def _call_model_fn(call_model_fn):
    @functools.wraps(call_model_fn)
    def called(self, features, labels, mode, config):
        spec = call_model_fn(self, features, labels, mode, config)
        if mode == tf.estimator.ModeKeys.PREDICT:
            _scaffolds[tf.get_default_graph()] = weakref.ref(spec.scaffold)
        return spec

    return called


class _TolerantUtils:
    """The module checkpoint_utils, but for a function."""

    def __getattr__(self, name):
        return getattr(checkpoint_utils, name)

    def init_from_checkpoint(self, checkpoint, variables):
        """Initializes the variables that a checkpoint lacks, and names them: {name in the checkpoint: variable}."""
        there = tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
        names = {name: value if isinstance(value, list) else [value] for name, value in variables.items() if name not in there}
        new = [name for name, parts in names.items() if name == warm_starting_util._infer_var_name(parts)]  # Not renamed.
        if 0 < len(new) < len(variables):  # If it lacks all, it is of another model, which TensorFlow reports.
            warn('%s lacks %s: initialized, not warm-started.', checkpoint, ', '.join(sorted(new)))
            variables = {name: value for name, value in variables.items() if name not in new}
        checkpoint_utils.init_from_checkpoint(checkpoint, variables)
