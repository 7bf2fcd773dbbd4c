"""Estimators of one's own: training, evaluation, prediction, export, hooks, early stopping, warm starts."""

import logging
import os
import re

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tests.tf_estimator.slope import (
    BOTH_APIS,
    X,
    Y,
    input_fn,
    loss_after,
    make_estimator,
    model_fn,
    serving_input_fn,
    slope_after,
    slope_of,
    step_of,
)

# Of protobuf 6, about TensorFlow 2.20's own code.
pytestmark = pytest.mark.filterwarnings('ignore:float_format is deprecated')


def served(path, x):
    """Returns what the SavedModel at `path` answers."""
    return tf.saved_model.load(str(path)).signatures['serving_default'](x=tf.constant(x))['y'].numpy()


def losses_in(directory):
    """Returns {step: loss} of the event files of a directory."""
    events = [event for path in directory.glob('events*') for event in tf1.train.summary_iterator(str(path))]
    return {event.step: value.simple_value for event in events for value in event.summary.value if value.tag == 'loss'}


def train_and_evaluate(estimator, steps, hooks=(), exporters=()):
    return tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(input_fn, max_steps=steps, hooks=hooks),
        tf.estimator.EvalSpec(input_fn, steps=1, exporters=exporters, start_delay_secs=0, throttle_secs=0),
    )


@BOTH_APIS
def test_an_estimator_trains_evaluates_predicts_and_exports(api, tmp_path):
    estimator = make_estimator(tmp_path, api)
    estimator.train(input_fn, steps=2)
    estimator.train(input_fn, max_steps=3)
    assert slope_of(estimator) == slope_after(3)
    metrics = estimator.evaluate(input_fn, steps=2)
    assert metrics == {'global_step': 3, 'loss': pytest.approx(loss_after(3)), 'error': pytest.approx(0.25 * 1.5)}
    np.testing.assert_allclose([p['y'] for p, _ in zip(estimator.predict(input_fn), range(2))], [1.75, 3.5])
    path = estimator.export_saved_model(str(tmp_path / 'export'), serving_input_fn)
    np.testing.assert_allclose(served(path.decode(), [1.0, -4.0]), [1.75, -7])


def test_run_config_decides_what_is_kept_and_when(tmp_path):
    estimator = make_estimator(
        tmp_path, save_checkpoints_steps=2, keep_checkpoint_max=2, save_summary_steps=2, tf_random_seed=3
    )
    estimator.train(input_fn, steps=5)
    kept = tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths
    assert [os.path.basename(path) for path in kept] == ['model.ckpt-4', 'model.ckpt-5']
    losses = {1: 10, 3: loss_after(2), 5: loss_after(4)}
    assert losses_in(tmp_path) == pytest.approx(losses)
    assert estimator.config.tf_random_seed == 3


def test_session_hooks_see_and_stop_the_training(tmp_path):
    class Hook(tf.estimator.SessionRunHook):
        losses = []

        def before_run(self, run_context):
            return tf.estimator.SessionRunArgs({'loss': 'Mean:0'})

        def after_run(self, run_context, run_values):
            self.losses.append(run_values.results['loss'])

    estimator = make_estimator(tmp_path)
    estimator.train(input_fn, hooks=[Hook(), tf.estimator.StopAtStepHook(last_step=3)])
    assert Hook.losses == [10, pytest.approx(loss_after(1)), pytest.approx(loss_after(2))]
    assert step_of(estimator) == 3


def test_saving_listeners_are_called_around_each_checkpoint(tmp_path):
    calls = []

    class Listener(tf.estimator.CheckpointSaverListener):
        def begin(self):
            calls.append('begin')

        def before_save(self, session, global_step):
            calls.append(('before', int(global_step)))

        def after_save(self, session, global_step):
            calls.append(('after', int(global_step)))

        def end(self, session, global_step):
            calls.append(('end', int(global_step)))

    make_estimator(tmp_path, save_checkpoints_steps=2).train(input_fn, steps=3, saving_listeners=[Listener()])
    saves = [(when, step) for step in (0, 2, 3) for when in ('before', 'after')]
    assert calls == ['begin', *saves, ('end', 3)]


@pytest.fixture
def info_lines():
    """The lines that TensorFlow logs during the test, INFO included."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger('tensorflow')
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lines
    logger.setLevel(level)
    logger.removeHandler(handler)


def test_logging_tensor_hook_logs_a_tensor_every_so_many_steps(tmp_path, info_lines):
    hook = tf.estimator.LoggingTensorHook({'loss': 'Mean:0'}, every_n_iter=2, formatter=lambda v: str(v['loss']))
    make_estimator(tmp_path).train(input_fn, steps=3, hooks=[hook])
    logged = [line for line in info_lines if re.fullmatch(r'[\d.]+', line)]
    assert [float(line) for line in logged] == [10, pytest.approx(loss_after(2))]


def test_nan_tensor_hook_stops_the_training(tmp_path):
    def bad_input_fn():
        return tf.data.Dataset.from_tensors(({'x': X}, Y * np.nan)).repeat()

    with pytest.raises(tf.estimator.NanLossDuringTrainingError):
        make_estimator(tmp_path).train(bad_input_fn, steps=2)


def test_in_memory_evaluator_hook_evaluates_during_the_training(tmp_path, info_lines):
    estimator = make_estimator(tmp_path)
    hook = tf.estimator.experimental.InMemoryEvaluatorHook(estimator, input_fn, steps=1, every_n_iter=2)
    estimator.train(input_fn, steps=2, hooks=[hook])
    errors = [float(found[1]) for line in info_lines if (found := re.search(r'Saving dict .* error = ([\d.]+)', line))]
    assert errors == [3, 0.75, 0.75]  # Before the training, after two steps, at the end.


def test_training_stops_early_at_a_good_loss(tmp_path):
    estimator = make_estimator(tmp_path, save_checkpoints_steps=1)
    hook = tf.estimator.experimental.stop_if_lower_hook(
        estimator, 'loss', loss_after(2) + 0.1, run_every_secs=None, run_every_steps=1
    )
    train_and_evaluate(estimator, 50, [hook])
    assert 2 <= step_of(estimator) < 5


def test_training_stops_early_when_the_loss_no_longer_decreases(tmp_path):
    estimator = make_estimator(tmp_path, rate=0, save_checkpoints_steps=1)
    hook = tf.estimator.experimental.stop_if_no_decrease_hook(
        estimator, 'loss', max_steps_without_decrease=2, run_every_secs=None, run_every_steps=1
    )
    train_and_evaluate(estimator, 50, [hook])
    assert 2 < step_of(estimator) < 8


def test_training_stops_early_when_a_function_says_so(tmp_path):
    estimator = make_estimator(tmp_path, save_checkpoints_steps=1)
    hook = tf.estimator.experimental.make_early_stopping_hook(
        estimator, lambda: step_of(estimator) >= 3, run_every_secs=None, run_every_steps=1
    )
    estimator.train(input_fn, max_steps=50, hooks=[hook])
    assert 3 <= step_of(estimator) < 6


def test_train_and_evaluate_evaluates_each_checkpoint_and_exports(tmp_path):
    estimator = make_estimator(tmp_path, save_checkpoints_steps=2)
    exporters = [
        tf.estimator.FinalExporter('final', serving_input_fn),
        tf.estimator.LatestExporter('latest', serving_input_fn, exports_to_keep=1),
        tf.estimator.BestExporter('best', serving_input_fn, exports_to_keep=2),
    ]
    metrics, exported = train_and_evaluate(estimator, 6, exporters=exporters)
    assert metrics['global_step'] == 6 and metrics['loss'] == pytest.approx(loss_after(6), rel=1e-4)
    assert len(exported) == 3
    losses = {step: loss_after(step) for step in (2, 4, 6)}
    assert losses_in(tmp_path / 'eval') == pytest.approx(losses, rel=1e-4)
    exports = {name: sorted((tmp_path / 'export' / name).iterdir()) for name in ('final', 'latest', 'best')}
    assert {name: len(paths) for name, paths in exports.items()} == {'final': 1, 'latest': 1, 'best': 2}
    for paths in exports.values():
        np.testing.assert_allclose(served(paths[-1], [1.0]), slope_after(6))


def test_a_warm_start_takes_over_the_variables_but_not_the_step(tmp_path):
    make_estimator(tmp_path / 'first').train(input_fn, steps=3)
    settings = tf.estimator.WarmStartSettings(str(tmp_path / 'first'), vars_to_warm_start='slope')
    second = make_estimator(tmp_path / 'second', warm_start_from=settings)
    second.train(input_fn, steps=1)
    assert slope_of(second) == slope_after(4)
    assert step_of(second) == 1


def test_metrics_are_added_to_an_estimator(tmp_path):
    estimator = make_estimator(tmp_path)
    estimator.train(input_fn, steps=1)
    extended = tf.estimator.add_metrics(
        estimator, lambda features, labels, predictions: {'mean': tf1.metrics.mean(features['x'] * predictions['y'])}
    )
    metrics = extended.evaluate(input_fn, steps=1)
    assert metrics['mean'] == (1 * 1 + 2 * 2) / 2 and metrics['error'] == 1.5


def test_numpy_input_fn_feeds_arrays_in_order(tmp_path):
    fn = tf1.estimator.inputs.numpy_input_fn({'x': X}, Y, batch_size=2, num_epochs=3, shuffle=False)
    estimator = make_estimator(tmp_path, tf1)
    estimator.train(fn)
    assert step_of(estimator) == 3 and slope_of(estimator) == slope_after(3)
    assert [prediction['y'] for prediction in estimator.predict(fn)] == [1.75, 3.5] * 3


def test_tpu_estimator_works_without_a_tpu(tmp_path):
    def tpu_model_fn(features, labels, mode, params):
        assert params['batch_size'] == 2
        spec = model_fn(features, labels, mode, {})
        return tf1.estimator.tpu.TPUEstimatorSpec(mode, loss=spec.loss, train_op=spec.train_op)

    config = tf1.estimator.tpu.RunConfig(tf1.estimator.tpu.TPUConfig(iterations_per_loop=2), model_dir=str(tmp_path))
    estimator = tf1.estimator.tpu.TPUEstimator(
        tpu_model_fn, config=config, use_tpu=False, train_batch_size=2, eval_batch_size=2
    )
    estimator.train(lambda params: input_fn(), steps=3)
    assert slope_of(estimator) == slope_after(3)
    assert estimator.evaluate(lambda params: input_fn(), steps=1)['loss'] == pytest.approx(loss_after(3))
