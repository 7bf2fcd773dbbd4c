"""Predictions and warm starts with weights that nobody has trained."""

import types
import weakref

from tf_estimator.graphs import reached
from tf_estimator.mending import around
from tf_estimator.traps.log import warn

import tensorflow.compat.v1 as tf
from tensorflow.python.training import checkpoint_utils, warm_starting_util
from tensorflow_estimator.python.estimator import estimator as estimators

# Of the graphs of predictions: whether the model sets its weights, and whether it has hooks.
_facts: weakref.WeakKeyDictionary[tf.Graph, tuple[bool, bool]] = weakref.WeakKeyDictionary()
_SETTING = {'Assign', 'AssignVariableOp', 'RestoreV2'}  # Types of ops.


class _NeedsWeights(tf.train.SessionRunHook):
    """Raises ValueError if a model without a checkpoint has random weights, and nothing sets them.

    Hooks of the program may do that out of sight: then it warns.
    """

    def __init__(self, model_dir, has_hooks):
        self._model_dir, self._has_hooks = model_dir, has_hooks

    def after_create_session(self, session, coord):
        sets_weights, has_hooks = _facts[session.graph]
        with session.graph.as_default():
            variables = tf.trainable_variables()
        if sets_weights or not any(map(_is_random, variables)):
            return
        if self._has_hooks or has_hooks:
            warn('%s has no checkpoint: predictions are random, unless a hook sets the weights.', self._model_dir)
            return
        raise ValueError(f'{self._model_dir} has no checkpoint: its predictions would be random. Train first, or mend the path')


def _is_random(variable):
    """Whether the initial value of a variable depends on a random op."""
    return any('Random' in op.type or 'Normal' in op.type for op in reached([variable.initializer]))


@around(estimators.Estimator, 'predict')
def _predict(predict, self, input_fn, predict_keys=None, hooks=None, checkpoint_path=None, yield_single_examples=True):
    if not checkpoint_path and not tf.train.latest_checkpoint(self.model_dir):
        hooks = [*(hooks or ()), _NeedsWeights(self.model_dir, bool(hooks))]
    yield from predict(self, input_fn, predict_keys, hooks, checkpoint_path, yield_single_examples)


@around(estimators.Estimator, '_call_model_fn')
def _call_model_fn(call_model_fn, self, features, labels, mode, config):
    spec = call_model_fn(self, features, labels, mode, config)
    if mode == tf.estimator.ModeKeys.PREDICT:
        graph, scaffold = tf.get_default_graph(), spec.scaffold
        own = (scaffold.init_fn, scaffold.init_op, scaffold.local_init_op, scaffold.init_feed_dict)
        initializers = {variable.initializer for variable in [*tf.global_variables(), *tf.local_variables()]}
        sets = any(op.type in _SETTING and op not in initializers for op in graph.get_operations())
        _facts[graph] = sets or any(each is not None for each in own), bool(spec.prediction_hooks)
    return spec


def _init_from_checkpoint(checkpoint, variables):
    """Initializes the variables that a checkpoint lacks, and names them: {name in the checkpoint: variable}."""
    there = tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
    names = {name: value if isinstance(value, list) else [value] for name, value in variables.items() if name not in there}
    new = [name for name, parts in names.items() if name == warm_starting_util._infer_var_name(parts)]  # Not renamed.
    if 0 < len(new) < len(variables):  # If it lacks all, it is of another model, which TensorFlow reports.
        warn('%s lacks %s: their initializers are used.', checkpoint, ', '.join(sorted(new)))
        variables = {name: value for name, value in variables.items() if name not in new}
    checkpoint_utils.init_from_checkpoint(checkpoint, variables)


# Warm starts alone: what else calls the function means all its variables.
warm_starting_util.checkpoint_utils = types.SimpleNamespace(
    **{**vars(checkpoint_utils), 'init_from_checkpoint': _init_from_checkpoint}
)
