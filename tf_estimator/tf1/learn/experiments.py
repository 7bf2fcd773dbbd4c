"""Experiments, and the schedules that run them."""

from tf_estimator.mending import around
from tf_estimator.tf1.learn.evaluation_metrics import metric_fn
from tf_estimator.tf1.learn.exports import exporting, receiver_fn_of
from tf_estimator.tf1.learn.monitors import replace_monitors_with_hooks

import tensorflow.compat.v1 as tf


class Experiment:
    """An Estimator with what it is trained and evaluated on: after each checkpoint, whatever the options about times are.

    Args:
      export_strategies: exporters, as of make_export_strategy.
    """

    def __init__(
        self,
        estimator,
        train_input_fn,
        eval_input_fn,
        eval_metrics=None,
        train_steps=None,
        eval_steps=100,
        train_monitors=None,
        eval_hooks=None,
        local_eval_frequency=None,
        eval_delay_secs=120,
        continuous_eval_throttle_secs=60,
        min_eval_frequency=None,
        delay_workers_by_global_step=False,
        export_strategies=None,
        train_steps_per_iteration=None,
        checkpoint_and_export=False,
        saving_listeners=None,
        check_interval_secs=5,
    ):
        self.estimator = estimator
        self._measured = tf.estimator.add_metrics(estimator, metric_fn(eval_metrics)) if eval_metrics else estimator
        hooks = replace_monitors_with_hooks(train_monitors, estimator)
        self._train_spec = tf.estimator.TrainSpec(train_input_fn, train_steps, hooks, saving_listeners)
        self._eval_spec = tf.estimator.EvalSpec(
            eval_input_fn, eval_steps, hooks=eval_hooks, exporters=export_strategies, start_delay_secs=0, throttle_secs=0
        )

    def train(self, delay_secs=None):
        spec = self._train_spec
        return self.estimator.train(spec.input_fn, spec.hooks, max_steps=spec.max_steps, saving_listeners=spec.saving_listeners)

    def evaluate(self, delay_secs=None, name=None):
        spec = self._eval_spec
        return self._measured.evaluate(input_fn=spec.input_fn, steps=spec.steps, hooks=spec.hooks, name=name)

    def train_and_evaluate(self):
        return tf.estimator.train_and_evaluate(self._measured, self._train_spec, self._eval_spec)

    local_run = continuous_train_and_eval = train_and_evaluate


def run(experiment_fn, output_dir=None, schedule=None, run_config=None, hparams=None):
    """Makes an Experiment and calls one of its methods, by default train_and_evaluate.

    Args:
      experiment_fn: function of output_dir, or of run_config and hparams.
    """
    experiment = experiment_fn(output_dir) if run_config is None else experiment_fn(run_config, hparams)
    tasks = [name for name in dir(experiment) if not name.startswith('_') and callable(getattr(experiment, name))]
    if (schedule or 'train_and_evaluate') not in tasks:
        raise ValueError(f'Schedule references non-existent task {schedule}: there are {", ".join(tasks)}')
    return getattr(experiment, schedule or 'train_and_evaluate')()


def make_export_strategy(serving_input_fn, default_output_alternative_key=None, assets_extra=None, as_text=False, **options):
    """Returns an exporter of the latest models; serving_input_fn may return InputFnOps."""
    count = options.get('exports_to_keep', 5)
    exporter = tf.estimator.LatestExporter('Servo', receiver_fn_of(serving_input_fn), assets_extra, as_text, count)

    @around(exporter, 'export')
    def export(former, *args, **kwargs):
        with exporting(default_output_alternative_key):
            return former(*args, **kwargs)

    return exporter
