"""Estimator's silent traps: it now says at WARNING what went unsaid, or does what the program meant."""

import functools
import logging
import types
from typing import Any
import weakref

from tf_estimator import refusals

import tensorflow.compat.v1 as tf
from tensorflow.python.training import checkpoint_utils, warm_starting_util
from tensorflow_estimator.python.estimator import early_stopping, training
from tensorflow_estimator.python.estimator import estimator as estimators
from tensorflow_estimator.python.estimator.tpu.tpu_estimator import TPUEstimator

_FORESTS = 'TensorFlow has dropped it; the package tensorflow_decision_forests has gradient boosted trees.'
_STOP = 'signal_early_stopping/STOP'
_optimizers: weakref.WeakSet[Any] = weakref.WeakSet()  # That have applied gradients.


def _mend() -> None:
    Estimator = estimators.Estimator
    Estimator.train = _train(Estimator.train)
    Estimator._train_model = _train_model(Estimator._train_model)
    Estimator._actual_eval = _evaluate(Estimator._actual_eval)
    Estimator.predict = _predict(Estimator.predict)
    tf.train.Optimizer.apply_gradients = _apply_gradients(tf.train.Optimizer.apply_gradients)
    tolerant = {**vars(checkpoint_utils), 'init_from_checkpoint': _init_from_checkpoint}
    warm_starting_util.checkpoint_utils = types.SimpleNamespace(**tolerant)
    early_stopping._get_or_create_stop_var = _make_stop_variable
    _mend_evaluations(training._NewCheckpointListenerForEvaluate)
    TPUEstimator.__init__ = _for_cpu(TPUEstimator.__init__)
    for api in (tf.compat.v2.estimator, tf.estimator):
        for name in ('BoostedTreesClassifier', 'BoostedTreesEstimator', 'BoostedTreesRegressor'):
            if not hasattr(api, name):
                setattr(api, name, refusals.unavailable(f'tf.estimator.{name}', _FORESTS))


def _warn(text, *values):
    logging.getLogger('tensorflow').warning(text, *values)


def _train(train):
    @functools.wraps(train)
    def warning(self, input_fn, hooks=None, steps=None, max_steps=None, saving_listeners=None):
        if max_steps is not None and max_steps > 0:
            directory, step = self.model_dir, estimators._load_global_step_from_checkpoint_dir(self.model_dir)
            if step >= max_steps:
                _warn('%s is at step %d: nothing is trained up to max_steps=%d. Raise it to go on.', directory, step, max_steps)
        return train(self, input_fn, hooks, steps, max_steps, saving_listeners)

    return warning


class _Watch(tf.train.SessionRunHook):
    """Says that the input has ended."""

    is_running = False
    graph = None

    def begin(self):
        self.graph, self._step = tf.get_default_graph(), tf.train.get_global_step()

    def after_create_session(self, session, coord):
        self._first = session.run(self._step)

    def before_run(self, run_context):
        self.is_running = True

    def after_run(self, run_context, run_values):
        self.is_running = False

    def end(self, session):
        step = session.run(self._step) if self.is_running else None
        if self.is_running and step == self._first:
            _warn('The training input is empty: nothing was trained.')
        elif self.is_running:
            _warn('The training input has ended at step %d, and so has the training. Dataset.repeat() goes on.', step)


def _train_model(train_model):
    @functools.wraps(train_model)
    def watched(self, input_fn, hooks, saving_listeners):
        watch = _Watch()
        try:
            return train_model(self, input_fn, [watch, *hooks], saving_listeners)
        finally:
            for optimizer in list(_optimizers) if watch.graph else ():
                _forget(optimizer, watch.graph)

    return watched


def _forget(optimizer, graph):
    """Deletes what an optimizer knows of a graph, which would stay in memory with it."""
    for slots in optimizer._slots.values():
        for key in [key for key in slots if isinstance(key, tuple) and key[0] is graph]:
            del slots[key]
    for key in [key for key in optimizer._non_slot_dict if key[-1] is graph]:
        del optimizer._non_slot_dict[key]


def _apply_gradients(apply_gradients):
    @functools.wraps(apply_gradients)
    def applied(self, *args, **kwargs):
        _optimizers.add(self)
        return apply_gradients(self, *args, **kwargs)

    return applied


class _Count(tf.train.SessionRunHook):
    """Raises ValueError for an empty evaluation, whose loss would be 0, and so the best."""

    count = 0

    def after_run(self, run_context, run_values):
        self.count += 1

    def end(self, session):
        if not self.count:
            raise ValueError('The evaluation input is empty: there is nothing to evaluate')


def _evaluate(actual_eval):
    @functools.wraps(actual_eval)
    def evaluate(self, input_fn, strategy=None, steps=None, hooks=None, checkpoint_path=None, name=None):
        return actual_eval(self, input_fn, strategy, steps, [*(hooks or ()), _Count()], checkpoint_path, name)

    return evaluate


class _NeedsWeights(tf.train.SessionRunHook):
    """Raises ValueError if a model without a checkpoint does not restore its weights by itself."""

    def __init__(self, model_dir):
        self._model_dir = model_dir

    def begin(self):
        graph = tf.get_default_graph()
        is_restored = any(op.type == 'RestoreV2' for op in graph.get_operations())  # By the model itself.
        if tf.trainable_variables() and not is_restored:
            raise ValueError(
                f'{self._model_dir} has no checkpoint: its predictions would be random. Train first, or mend the path'
            )


def _predict(predict):
    @functools.wraps(predict)
    def checked(self, input_fn, predict_keys=None, hooks=None, checkpoint_path=None, yield_single_examples=True):
        if not checkpoint_path and not self.latest_checkpoint():
            hooks = [*(hooks or ()), _NeedsWeights(self.model_dir)]
        yield from predict(self, input_fn, predict_keys, hooks, checkpoint_path, yield_single_examples)

    return checked


def _init_from_checkpoint(checkpoint, variables):
    """Initializes the variables that a checkpoint lacks, and names them: {name in the checkpoint: variable}."""
    there = tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
    names = {name: value if isinstance(value, list) else [value] for name, value in variables.items() if name not in there}
    new = [name for name, parts in names.items() if name == warm_starting_util._infer_var_name(parts)]  # Not renamed.
    if 0 < len(new) < len(variables):  # If it lacks all, it is of another model, which TensorFlow reports.
        _warn('%s lacks %s: initialized, not warm-started.', checkpoint, ', '.join(sorted(new)))
        variables = {name: value for name, value in variables.items() if name not in new}
    checkpoint_utils.init_from_checkpoint(checkpoint, variables)


def _make_stop_variable():
    """Returns early stopping's variable, which is not saved: checkpoints of before would lack it."""
    scope, name = _STOP.split('/')
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        initializer, collections = tf.zeros_initializer(), [tf.GraphKeys.LOCAL_VARIABLES]
        return tf.get_variable(name, [], tf.bool, initializer, collections=collections, trainable=False)


def _mend_evaluations(listener):
    """Exports at the end of any training, and says that early stopping misses evaluations."""
    begin, after_save, end = listener.begin, listener.after_save, listener.end

    def counting_begin(self):
        begin(self)
        self._saved = self._evaluated = 0

    def counting_after_save(self, session, global_step_value):
        self._saved += not self._is_first_run
        last = self._timer.last_triggered_step()
        result = after_save(self, session, global_step_value)
        self._evaluated += self._timer.last_triggered_step() != last
        return result

    def exporting_end(self, session, global_step_value):
        missed, throttle = self._saved - self._evaluated, self._eval_throttle_secs
        if missed > 0 and any(op.name == _STOP for op in session.graph.get_operations()):
            _warn(
                'Early stopping has not seen %d of %d checkpoints, as they are evaluated every %s seconds at most. '
                'EvalSpec(throttle_secs=0) evaluates each.',
                missed,
                self._saved,
                throttle,
            )
        end(self, session, global_step_value)
        evaluator, found = self._evaluator, self.eval_result
        if found and found.status == training._EvalStatus.EVALUATED and not evaluator.is_final_export_triggered:
            _export_final(evaluator, found, global_step_value)

    listener.begin, listener.after_save, listener.end = counting_begin, counting_after_save, exporting_end


def _export_final(evaluator, found, step):
    spec = evaluator._eval_spec
    exporters = [exporter for exporter in spec.exporters if isinstance(exporter, training.exporter_lib.FinalExporter)]
    if exporters:
        _warn(
            'Training has ended at step %d, before max_steps=%s: FinalExporter exports it.', step, evaluator._max_training_steps
        )
        evaluator._eval_spec = spec._replace(exporters=exporters)
        evaluator._export_eval_result(found, is_the_final_export=True)
        evaluator._eval_spec = spec


def _for_cpu(init):
    """Makes a TPUEstimator without a TPU export no graph for one, unless that is asked for."""

    @functools.wraps(init)
    def initialized(self, *args, **kwargs):
        if kwargs.get('use_tpu') is False:
            kwargs.setdefault('export_to_tpu', False)
        init(self, *args, **kwargs)

    return initialized


_mend()  # Once, when this module is imported.
