"""evaluate() keeps its graph while it is called again with the same model, and with inputs alike, for any checkpoint."""

import contextlib
import time

from tf_estimator.graphs import reached
from tf_estimator.mending import around
from tf_estimator.traps import kept
from tf_estimator.traps.evaluation import Count

import tensorflow.compat.v1 as tf
from tensorflow.python.eager import context
from tensorflow.python.training import evaluation
from tensorflow_estimator.python.estimator import estimator as estimators

_EVAL = tf.estimator.ModeKeys.EVAL


@around(estimators.Estimator, '_actual_eval')
def _actual_eval(actual_eval, self, input_fn, strategy=None, steps=None, hooks=None, checkpoint_path=None, name=None):
    checkpoint = checkpoint_path or tf.train.latest_checkpoint(self.model_dir)
    is_plain = strategy or hooks or not checkpoint or self._config.evaluation_master
    keep = vars(self).setdefault('_kept_evaluation', kept.Kept()).again(None if is_plain else kept.situation(self))
    if keep is None:
        return actual_eval(self, input_fn, strategy, steps, hooks, checkpoint_path, name)
    with context.graph_mode():
        return _evaluate(self, keep, input_fn, steps, checkpoint, self.eval_dir(name))


class _Model:
    """A graph of an evaluation, which is fed. Each evaluation has a session of its own, in which all state starts anew."""

    def __init__(self, graph, given, spec):
        self.graph, self.inputs, self._scaffold = graph, kept.flatten(given.values), spec.scaffold or tf.train.Scaffold()
        self.signature = given.signature
        metrics = estimators._verify_and_create_loss_metric(spec.eval_metric_ops, spec.loss)
        self.update, self.results = estimators._extract_metric_update_ops(metrics)
        self.results[tf.GraphKeys.GLOBAL_STEP] = tf.train.get_global_step(graph)

    def prepare(self):
        """Adds the counter of batches, as for any evaluation, to the finished graph."""
        counter = evaluation._get_or_create_eval_step()
        self._updates = [self.update, tf.assign_add(counter, 1, use_locking=True)]
        self._count = evaluation._get_latest_eval_step_value(self._updates)

    def run(self, batches, hooks, checkpoint, config):
        """Returns the results for all batches, or as many as the hooks take."""
        final = tf.train.FinalOpsHook(self.results)
        for hook in hooks:
            if isinstance(hook, evaluation._StopAfterNEvalsHook):
                hook._set_evals_completed_tensor(self._count)
        creator = tf.train.ChiefSessionCreator(self._scaffold, config=config, checkpoint_filename_with_path=checkpoint)
        with self.graph.as_default(), tf.train.MonitoredSession(creator, [Count(), *hooks, final]) as session:
            while not session.should_stop():
                session.run(self._updates, dict(zip(self.inputs, batches.next())))
        return final.final_ops_values


def _evaluate(estimator, keep, input_fn, steps, checkpoint, directory):
    """Evaluates by the kept model if it takes the input; otherwise makes another one."""
    hooks = estimator._convert_eval_steps_to_hooks(steps)
    with tf.Graph().as_default() as graph:
        given = kept.Input(estimator, input_fn, _EVAL)
        model = given.kept_model(keep)
        if model is None:
            spec = given.call_model_fn()
            model = _Model(graph, given, spec)
            if not given.is_simple or not _depends_on_inputs_alone(model, given, spec):
                keep.is_refused = True
                return _plain(estimator, model, spec, [*given.hooks, Count(), *hooks], checkpoint, directory)
            model.prepare()
            keep.model = model
        given.start()
    tf.logging.info('Starting evaluation at %s', time.strftime('%Y-%m-%dT%H:%M:%S'))
    with contextlib.closing(given):
        results = model.run(given, hooks, checkpoint, estimator._session_config)
    tf.logging.info('Finished evaluation at %s', time.strftime('%Y-%m-%d-%H:%M:%S'))
    step = results[tf.GraphKeys.GLOBAL_STEP]
    estimators._write_dict_to_summary(directory, results, step)
    estimators._write_checkpoint_path_to_summary(directory, checkpoint, step)
    return results


def _depends_on_inputs_alone(model, given, spec):
    if spec.evaluation_hooks or not kept.starts_alike(model.graph, spec.scaffold):
        return False
    results = [tensor for tensor in model.results.values() if tensor is not None]
    ops = reached([model.update, *results], model.inputs)
    return not kept.runs_python(model.graph) and not ops & given.ops and not reached(results) & given.ops


def _plain(estimator, model, spec, hooks, checkpoint, directory):
    """Evaluates the default graph as any other."""
    scaffold = spec.scaffold
    if scaffold and scaffold.local_init_op:
        evaluation._get_or_create_eval_step()
        own = tf.group(scaffold.local_init_op, tf.train.Scaffold.default_local_init_op())
        scaffold = tf.train.Scaffold(local_init_op=own, copy_from_scaffold=scaffold)
    hooks = [*hooks, *(spec.evaluation_hooks or ())]
    return estimator._evaluate_run(checkpoint, scaffold, model.update, model.results, hooks, directory)
