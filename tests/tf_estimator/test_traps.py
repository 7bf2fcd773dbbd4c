"""What Estimator did without a word is said, or is what the program meant."""

import gc
import os

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.tf_estimator.programs import run_fresh

est = tf.estimator


def model_fn(features, labels, mode, params):
    y = tf.layers.dense(tf.layers.dense(features['x'], 2, name='hidden'), 1, name=params.get('name', 'last'))
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, {'y': y})
    loss = tf.losses.mean_squared_error(labels, y)
    optimizer = params.get('optimizer') or tf.train.GradientDescentOptimizer(0.0)
    return est.EstimatorSpec(mode, {'y': y}, loss, optimizer.minimize(loss, tf.train.get_global_step()))


def make(directory, warm_start=None, **params):
    config = est.RunConfig(str(directory), save_checkpoints_steps=2)
    return est.Estimator(model_fn, config=config, params=params, warm_start_from=warm_start)


def data(rows=4, repeats=None):
    tensors = ({'x': np.ones([4, 3], np.float32)}, np.ones([4, 1], np.float32))
    return lambda: tf.data.Dataset.from_tensors(tensors).take(rows).repeat(repeats)


def serving():
    x = tf.placeholder(tf.float32, [None, 3])
    return est.export.ServingInputReceiver({'x': x}, x)


def test_training_that_ends_early_or_does_nothing_says_why(tmp_path, caplog):
    make(tmp_path).train(data(repeats=3), max_steps=10)
    assert 'The training input has ended at step 3, and so has the training. Dataset.repeat() goes on.' in caplog.messages
    make(tmp_path).train(data(), max_steps=2)
    assert f'{tmp_path} is at step 3: nothing is trained up to max_steps=2. Raise it to go on.' in caplog.messages
    make(tmp_path).train(data(rows=0), steps=2)
    assert 'The training input is empty: nothing was trained.' in caplog.messages
    caplog.clear()
    make(tmp_path).train(data(), max_steps=5)
    assert [record for record in caplog.records if 'traps' in record.pathname] == []


def test_an_empty_evaluation_and_predictions_without_weights_are_errors(tmp_path):
    estimator = make(tmp_path / 'none')
    message = 'none has no checkpoint: its predictions would be random. Train first, or mend the path'
    with pytest.raises(ValueError, match=message):
        next(estimator.predict(data(repeats=1)))

    make(tmp_path / 'other').train(data(), steps=1)
    with pytest.raises(ValueError, match='The evaluation input is empty: there is nothing to evaluate'):
        make(tmp_path / 'other').evaluate(data(rows=0))
    assert len([*make(tmp_path / 'other').predict(data(repeats=1))]) == 4

    def weights_of_its_own(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        tf.train.init_from_checkpoint(str(tmp_path / 'other'), {'hidden/': 'hidden/', 'last/': 'last/'})
        return spec

    predictions = est.Estimator(weights_of_its_own, str(tmp_path / 'own'), params={}).predict(data(repeats=1))
    assert len([*predictions]) == 4


def test_a_warm_start_initializes_new_variables_and_names_them(tmp_path, caplog):
    old = make(tmp_path / 'old').train(data(), steps=1)
    new = make(tmp_path / 'new', est.WarmStartSettings(str(tmp_path / 'old')), name='other').train(data(), steps=1)
    np.testing.assert_array_equal(*(each.get_variable_value('hidden/kernel') for each in (old, new)))
    assert f'{tmp_path}/old lacks other/bias, other/kernel: initialized, not warm-started.' in caplog.messages


@pytest.mark.parametrize('throttle', [0, 600])
def test_early_stopping_joins_an_old_run_exports_at_its_end_and_names_missed_evaluations(tmp_path, caplog, throttle):
    make(tmp_path).train(data(), max_steps=2)
    estimator = make(tmp_path)
    hook = est.experimental.stop_if_no_decrease_hook(estimator, 'loss', 3, run_every_secs=None, run_every_steps=1)
    train = est.TrainSpec(data(), 12, [hook])
    exporter = est.FinalExporter('final', serving)
    evaluate = est.EvalSpec(data(repeats=1), exporters=exporter, throttle_secs=throttle, start_delay_secs=0)
    est.train_and_evaluate(estimator, train, evaluate)
    step = estimator.get_variable_value('global_step')
    assert len(os.listdir(tmp_path / 'export' / 'final')) == 1
    missed = 'Early stopping has not seen 4 of 5 checkpoints, as they are evaluated every 600 seconds at most.'
    said = f'Training has ended at step {step}, before max_steps=12: FinalExporter exports it.'
    found = [message for message in caplog.messages if message.startswith(('Early stopping has', 'Training has ended'))]
    assert (step == 12, found) == (
        (True, [f'{missed} EvalSpec(throttle_secs=0) evaluates each.']) if throttle else (False, [said])
    )


def test_an_optimizer_that_outlives_its_graphs_does_not_keep_them(tmp_path):
    estimator = make(tmp_path, optimizer=tf.train.AdamOptimizer())
    counts = []
    for _ in range(3):
        estimator.train(data(), steps=1)
        gc.collect()
        counts.append(sum(isinstance(found, tf.Graph) for found in gc.get_objects()))
    assert counts[2] <= counts[0]


def test_what_is_gone_says_what_replaces_it_and_as_it_was_keeps_all(tmp_path):
    with pytest.raises(NotImplementedError, match='tf.estimator.BoostedTreesClassifier: .* tensorflow_decision_forests has'):
        tf.estimator.BoostedTreesClassifier([], 1)
    script = tmp_path / 'script.py'
    script.write_text("""
import numpy as np, sys, tensorflow as tf
v1 = tf.compat.v1
def model_fn(features, labels, mode):
    return tf.estimator.EstimatorSpec(mode, {'y': v1.layers.dense(features, 1)})
estimator = tf.estimator.Estimator(model_fn, sys.argv[1])
print(len(list(estimator.predict(lambda: tf.data.Dataset.from_tensors(np.ones([2, 3], np.float32))))))
""")
    code, out, _ = run_fresh('-m', 'tf_estimator', '--as_it_was', script, tmp_path / 'none')
    assert (code, out) == (0, '2\n')
    code, _, err = run_fresh('-m', 'tf_estimator', script, tmp_path / 'none')
    assert code == 1 and 'has no checkpoint' in err.splitlines()[-1]
