"""Evaluations that are empty, that nobody sees, that are several or lose their checkpoint, and the export after training."""

import os
import re

from tf_estimator.mending import around
from tf_estimator.traps import by_steps
from tf_estimator.traps.early_stopping import STOP
from tf_estimator.traps.log import warn

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import estimator as estimators
from tensorflow_estimator.python.estimator import exporter, training


class Count(tf.train.SessionRunHook):
    """Raises ValueError for an empty evaluation, whose loss would be 0, and so the best."""

    count = 0

    def after_run(self, run_context, run_values):
        self.count += 1

    def end(self, session):
        if not self.count:
            raise ValueError('The evaluation input is empty: there is nothing to evaluate')


@around(estimators.Estimator, '_actual_eval')
def _evaluate(actual_eval, self, input_fn, strategy=None, steps=None, hooks=None, checkpoint_path=None, name=None):
    return actual_eval(self, input_fn, strategy, steps, [Count(), *(hooks or ())], checkpoint_path, name)


class _Specs(training.EvalSpec):
    """The first of several EvalSpecs, which says when to evaluate, with the others."""

    others: tuple[training.EvalSpec, ...] = ()


@around(training, '_assert_eval_spec')
def _check_specs(check, spec):
    specs = spec if isinstance(spec, list) and spec else [spec]
    for each in specs:
        check(each)
    if len(specs) == 1:
        return
    exporters = [exporter.name for each in specs for exporter in each.exporters]
    for kind, names in (('EvalSpecs', [each.name for each in specs]), ('exporters', exporters)):
        if len({*names}) < len(names):
            raise ValueError(f'Each of several {kind} needs a name of its own, not {names}')


@around(training._TrainingExecutor, '__init__')
def _with_several(init, self, estimator, train_spec, eval_spec, *args, **kwargs):
    if isinstance(eval_spec, list):
        first, *others = eval_spec
        eval_spec = _Specs._make(first)
        eval_spec.others, eval_spec.every_steps = tuple(others), first.every_steps
    init(self, estimator, train_spec, eval_spec, *args, **kwargs)


def _deleted(model_dir, error):
    """Returns the path of the checkpoint that an error names, if the training has deleted it meanwhile; else None."""
    named = re.search(rf'{re.escape(os.path.join(model_dir, ""))}model\.ckpt-\d+', str(error))
    return named[0] if named and not tf.train.checkpoint_exists(named[0]) else None


class _Evaluator(training._TrainingExecutor._Evaluator):  # type: ignore[name-defined]
    """Evaluates and exports by several EvalSpecs. The metrics of the others are {'NAME/METRIC': value}."""

    def __init__(self, estimator, eval_spec, max_training_steps):
        super().__init__(estimator, eval_spec, max_training_steps)
        self._others = [_Evaluator(estimator, spec, max_training_steps) for spec in getattr(eval_spec, 'others', ())]
        self._result = None

    @property
    def every_steps(self):
        return self._eval_spec.every_steps

    def is_due(self):
        """Whether the latest checkpoint is to be evaluated, by every_steps."""
        step, last = estimators._load_global_step_from_checkpoint_dir(self._estimator.model_dir), 0
        if self._result:
            last = self._result.metrics[tf.GraphKeys.GLOBAL_STEP]
        return step >= (self._max_training_steps or float('inf')) or by_steps.is_due(step, last, self.every_steps)

    def evaluate_and_export(self):
        try:
            result, exports = super().evaluate_and_export()
        except (ValueError, tf.errors.NotFoundError) as error:
            # An evaluator's process that ends here would miss all later checkpoints, and the final export.
            checkpoint = _deleted(self._estimator.model_dir, error)
            if not checkpoint:
                raise
            warn(
                '%s has been deleted while it was evaluated or exported: the next one is evaluated in its place. '
                'RunConfig(keep_checkpoint_max=...), or max_to_keep of a Saver, keeps more.',
                checkpoint,
            )
            return training._EvalResult(training._EvalStatus.NO_NEW_CHECKPOINT), []
        if result.status == training._EvalStatus.EVALUATED:
            self._result = result
            for other in self._others:
                found, others_exports = other.evaluate_and_export()
                metrics = {f'{other._eval_spec.name}/{name}': value for name, value in (found.metrics or {}).items()}
                result, exports = result._replace(metrics={**metrics, **result.metrics}), exports + others_exports
        return result, exports

    def export_final(self, step):
        """Exports by each FinalExporter, as the training has ended before max_steps, or without it."""
        for evaluator in (self, *self._others):
            spec = evaluator._eval_spec
            exporters = [each for each in spec.exporters if isinstance(each, exporter.FinalExporter)]
            if exporters and evaluator._result and not evaluator.is_final_export_triggered:
                end = evaluator._max_training_steps
                early = '' if end is None else f', before max_steps={end}'
                warn('Training has ended at step %d%s: FinalExporter exports it.', step, early)
                evaluator._eval_spec = spec._replace(exporters=exporters)
                evaluator._export_eval_result(evaluator._result, is_the_final_export=True)
                evaluator._eval_spec = spec


training._TrainingExecutor._Evaluator = _Evaluator
_Listener = training._NewCheckpointListenerForEvaluate


@around(_Listener, 'begin')
def _begin(begin, self):
    begin(self)
    if isinstance(self._evaluator, _Evaluator) and self._evaluator.every_steps:
        self._timer = by_steps.Timer(self._evaluator.every_steps)
    self._saved = self._evaluated = 0


@around(_Listener, 'after_save')
def _count(after_save, self, session, global_step_value):
    if self._is_first_run and isinstance(self._timer, by_steps.Timer):
        self._timer.first_step = global_step_value
    self._saved += not self._is_first_run
    last = self._timer.last_triggered_step()
    result = after_save(self, session, global_step_value)
    self._evaluated += self._timer.last_triggered_step() != last
    return result


@around(_Listener, 'end')
def _export(end, self, session, global_step_value):
    """Exports at the end of any run, and says that early stopping misses evaluations."""
    missed, every, cure = self._saved - self._evaluated, f'{self._eval_throttle_secs} seconds', 'throttle_secs=0'
    if isinstance(self._timer, by_steps.Timer):
        every, cure = f'{self._evaluator.every_steps} steps', 'every_steps=1'
    if missed > 0 and session and any(op.name == STOP for op in session.graph.get_operations()):
        warn(
            'Early stopping has not seen %d of %d checkpoints, as they are evaluated every %s at most. '
            'EvalSpec(%s) evaluates each.',
            missed,
            self._saved,
            every,
            cure,
        )
    end(self, session, global_step_value)
    self._evaluator.export_final(global_step_value)
