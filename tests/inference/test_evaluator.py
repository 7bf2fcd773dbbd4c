"""Evaluations on one graph: the Estimator's numbers and events, without rebuilding."""

import glob

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.inference.evaluator import Evaluator
from tests.linear import MODEL, X, Y, input_fn, loss_of, make_estimator, scalars


def make_evaluator(estimator, split='eval', steps=3, at_least=0, batch_size=4):
    return Evaluator(estimator, input_fn(repeat=False), split, steps, at_least, batch_size)


def test_evaluations_on_one_graph_give_the_numbers_of_estimator_evaluate_and_of_numpy(trained, tmp_path, monkeypatch):
    model, calls = MODEL.model, []
    monkeypatch.setattr(MODEL, 'model', lambda *args: calls.append(1) or model(*args))
    evaluator, with_more_steps = make_evaluator(trained), make_evaluator(trained, steps=50)
    for step in (4, 2, 4):
        path = f'{tmp_path}/model.ckpt-{step}'
        expected = trained.evaluate(input_fn(repeat=False), checkpoint_path=path)
        found = evaluator.evaluate(path)
        assert found == expected == with_more_steps.evaluate(path)
        w = tf.train.load_variable(path, 'w')[:, 0]
        assert found['loss'] == pytest.approx(loss_of(w), rel=1e-5)
        assert found['global_step'] == step
    assert len(calls) == 3 + 2  # The Estimator builds the model each time, each evaluator once.
    found = make_evaluator(trained, steps=1).evaluate(path)
    assert found['loss'] == pytest.approx(np.square(X[:4] @ w - Y[:4]).mean(), rel=1e-5)


def test_a_split_that_ends_early_is_an_error(trained, tmp_path):
    with pytest.raises(RunError, match='the split eval ended after 3 of 4 batches: a Python function of the dataset'):
        make_evaluator(trained, steps=50, at_least=4).evaluate(f'{tmp_path}/model.ckpt-4')
    make_evaluator(trained, steps=50, at_least=3).evaluate(f'{tmp_path}/model.ckpt-4')


def test_a_split_without_batches_is_an_error(trained, tmp_path):
    evaluator = Evaluator(trained, lambda: input_fn(repeat=False)().take(0), 'eval', 0, 0)
    with pytest.raises(RunError, match='^the split eval has no batch to evaluate'):
        evaluator.evaluate(f'{tmp_path}/model.ckpt-4')


def test_a_hook_that_needs_a_batch_after_the_last_one_is_named(trained, tmp_path, monkeypatch):
    def at_end(mode, params):
        return [
            tf.train.LoggingTensorHook(
                [tf.reduce_mean(tf.get_default_graph().get_tensor_by_name('IteratorGetNext:0'))], at_end=True
            )
        ]

    monkeypatch.setattr(MODEL, 'hooks', at_end, raising=False)
    path = f'{tmp_path}/model.ckpt-4'
    with pytest.raises(
        UsageError, match=r'^the evaluation hook LoggingTensorHook computes tensors of a batch in end\(\), after'
    ):
        make_evaluator(trained, steps=0).evaluate(path)
    assert make_evaluator(trained, steps=1).evaluate(path)['global_step'] == 4


def test_a_batch_that_no_memory_could_hold_is_refused(trained, tmp_path):
    with pytest.raises(
        UsageError, match=f'^with a batch of {10**15}, .* of memory is available: use a smaller eval_batch_size'
    ):
        make_evaluator(trained, batch_size=10**15).evaluate(f'{tmp_path}/model.ckpt-4')


def test_an_evaluation_writes_the_events_of_estimator_evaluate(trained, tmp_path):
    for split in ('eval', 'train'):
        make_evaluator(trained, split).evaluate(f'{tmp_path}/model.ckpt-2')
    trained.evaluate(input_fn(repeat=False), name='again', checkpoint_path=f'{tmp_path}/model.ckpt-2')
    found, of_train, expected = (scalars(tmp_path / name) for name in ('eval', 'eval_train', 'eval_again'))
    del expected['checkpoint_path']
    assert found == of_train == expected and len(found) == 3


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


def test_metrics_may_be_arrays_and_text_and_are_known_before_anything_is_trained(trained, tmp_path, monkeypatch):
    assert make_evaluator(make_estimator(tmp_path / 'new')).metric_names() == ['examples', 'loss', 'loss_again']
    assert not glob.glob(f'{tmp_path}/new/*ckpt*')

    def eval_metrics(features, labels, predictions, params):
        both = tf.metrics.mean_tensor(tf.stack([tf.reduce_mean(labels['y']), 1.0]))
        return {'text': (tf.constant('\xff no summary'), tf.no_op()), 'both': both}

    monkeypatch.setattr(MODEL, 'eval_metrics', eval_metrics)
    evaluator = make_evaluator(trained, steps=1)
    np.testing.assert_allclose(evaluator.evaluate(f'{tmp_path}/model.ckpt-4')['both'], [Y[:4].mean(), 1], rtol=1e-5)
    assert evaluator.metric_names() == ['loss']
    assert scalars(tmp_path / 'eval').keys() == {'loss', 'both'}
