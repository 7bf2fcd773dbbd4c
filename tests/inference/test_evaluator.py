"""Evaluations on one graph: the Estimator's numbers, its events, and nothing built twice."""

import glob
import resource

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.inference.evaluator import Evaluator
from tests.linear import MODEL, X, Y, input_fn, loss_of, make_estimator, scalars

ModeKeys = tf.estimator.ModeKeys


def make_evaluator(estimator, split='eval', steps=3):
    return Evaluator(estimator, input_fn(repeat=False), split, steps)


def test_an_evaluation_gives_the_numbers_of_estimator_evaluate_and_of_numpy(trained, tmp_path):
    evaluator = make_evaluator(trained)
    for step in (4, 2, 4):
        path = f'{tmp_path}/model.ckpt-{step}'
        found = evaluator.evaluate(path)
        assert found == trained.evaluate(input_fn(repeat=False), checkpoint_path=path)
        w = tf.train.load_variable(path, 'w')[:, 0]
        assert found['loss'] == pytest.approx(loss_of(w), rel=1e-5)
        assert found['global_step'] == step


def test_an_evaluation_writes_the_events_of_estimator_evaluate(trained, tmp_path):
    make_evaluator(trained).evaluate(f'{tmp_path}/model.ckpt-2')
    make_evaluator(trained, 'train').evaluate(f'{tmp_path}/model.ckpt-2')
    found = scalars(tmp_path / 'eval')
    trained.evaluate(input_fn(repeat=False), name='again', checkpoint_path=f'{tmp_path}/model.ckpt-2')
    expected = scalars(tmp_path / 'eval_again')
    del expected['checkpoint_path']
    assert found == expected and len(found) == 3
    assert scalars(tmp_path / 'eval_train') == found


def test_batches_are_of_the_weights_evaluated_last_and_as_many_as_are_evaluated(trained, tmp_path):
    evaluator = make_evaluator(trained, steps=2)
    for step in (4, 2):
        evaluator.evaluate(f'{tmp_path}/model.ckpt-{step}')
        batches = list(evaluator.batches(lambda features, labels, predictions: {**features, 'again': predictions['y']}))
        w = tf.train.load_variable(f'{tmp_path}/model.ckpt-{step}', 'w')[:, 0]
        for i, batch in enumerate(batches):
            np.testing.assert_array_equal(batch['x'], X[4 * i : 4 * i + 4])
            np.testing.assert_allclose(batch['again'], X[4 * i : 4 * i + 4] @ w, rtol=1e-5)
        assert len(batches) == 2
    assert len(list(make_evaluator(trained, steps=9).batches(lambda features, *_: features))) == 3
    assert not list(evaluator.batches(lambda *_: {}))


def test_steps_limit_the_batches_of_an_evaluation(trained, tmp_path):
    w = tf.train.load_variable(str(tmp_path), 'w')[:, 0]
    found = make_evaluator(trained, steps=1).evaluate(f'{tmp_path}/model.ckpt-4')
    assert found['loss'] == pytest.approx(np.square(X[:4] @ w - Y[:4]).mean(), rel=1e-5)


def test_averages_of_the_weights_are_evaluated(tmp_path):
    estimator = make_estimator(tmp_path, text=',ema_decay=0.3')
    estimator.train(input_fn(), max_steps=3)
    average = estimator.get_variable_value('w/ExponentialMovingAverage')[:, 0]
    assert make_evaluator(estimator).evaluate(f'{tmp_path}/model.ckpt-3')['loss'] == pytest.approx(loss_of(average), rel=1e-5)


def test_more_steps_than_batches_evaluate_all_batches(trained, tmp_path):
    path = f'{tmp_path}/model.ckpt-4'
    assert make_evaluator(trained, steps=50).evaluate(path) == make_evaluator(trained).evaluate(path)


@pytest.mark.parametrize('name', ['loss', 'global_step', 'split'])
def test_metrics_with_the_frameworks_names_are_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(
        MODEL, 'eval_metrics', lambda features, labels, predictions, params: {name: tf.metrics.mean(labels['y'])}
    )
    with pytest.raises(
        UsageError, match=rf'--model=m: eval_metrics\(\) must not name a metric {name}: the framework uses that name'
    ):
        make_evaluator(make_estimator(tmp_path)).metric_names()


def test_metrics_may_be_text(tmp_path, monkeypatch):
    monkeypatch.setattr(
        MODEL,
        'eval_metrics',
        lambda features, labels, predictions, params: {'text': (tf.constant('\xff no summary'), tf.no_op())},
    )
    estimator = make_estimator(tmp_path)
    estimator.train(input_fn(), max_steps=1)
    evaluator = make_evaluator(estimator)
    assert 'loss' in evaluator.evaluate(f'{tmp_path}/model.ckpt-1') and evaluator.metric_names() == ['loss']


def test_the_names_of_the_metrics_are_known_before_anything_is_trained(tmp_path):
    assert make_evaluator(make_estimator(tmp_path)).metric_names() == ['examples', 'loss', 'loss_again']
    assert not glob.glob(f'{tmp_path}/*ckpt*')


def test_evaluations_share_a_graph_and_a_session_and_memory_stays_flat(trained, tmp_path, monkeypatch):
    calls = []
    model = MODEL.model
    monkeypatch.setattr(MODEL, 'model', lambda *args: calls.append(1) or model(*args))
    evaluator = make_evaluator(trained)

    def evaluate(times):
        for _ in range(times):
            evaluator.evaluate(f'{tmp_path}/model.ckpt-4')
        with open('/proc/self/statm') as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    before = evaluate(20)
    assert evaluate(100) < 1.05 * before
    assert len(calls) == 1


def test_metrics_may_be_arrays(tmp_path, monkeypatch):
    monkeypatch.setattr(
        MODEL,
        'eval_metrics',
        lambda features, labels, predictions, params: {
            'both': tf.metrics.mean_tensor(tf.stack([tf.reduce_mean(labels['y']), 1.0]))
        },
    )
    estimator = make_estimator(tmp_path)
    estimator.train(input_fn(), max_steps=1)
    found = make_evaluator(estimator, steps=1).evaluate(f'{tmp_path}/model.ckpt-1')
    np.testing.assert_allclose(found['both'], [Y[:4].mean(), 1], rtol=1e-5)
