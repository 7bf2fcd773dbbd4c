"""train_and_evaluate evaluates by steps, and keeps the best checkpoint."""

import inspect
import json
import os
import time
import types

import tf_estimator  # noqa: F401 - before TensorFlow
from tf_estimator.traps import by_steps

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as tf1
from tensorflow_estimator.python.estimator import training

from tests.tf_estimator import slope

est = tf.estimator


def evaluated(directory):
    """Returns the steps of the evaluations in the event files."""
    events = [event for path in directory.glob('eval/*') for event in tf1.train.summary_iterator(str(path))]
    return sorted(event.step for event in events if any(value.tag == 'loss' for value in event.summary.value))


def spec(**arguments):
    return est.EvalSpec(slope.input_fn, steps=1, start_delay_secs=0, **arguments)


@pytest.mark.parametrize('is_list', [False, True])
def test_the_first_checkpoint_from_each_multiple_of_every_steps_on_is_evaluated_and_the_last(tmp_path, is_list):
    estimator = slope.make_estimator(tmp_path, save_checkpoints_steps=2)
    specs = [spec(every_steps=5), spec(name='other')] if is_list else spec(every_steps=5)
    est.train_and_evaluate(estimator, est.TrainSpec(slope.input_fn, 6), specs)
    assert evaluated(tmp_path) == [6]
    est.train_and_evaluate(estimator, est.TrainSpec(slope.input_fn, 17), specs)
    assert evaluated(tmp_path) == [6, 10, 16, 17]


def test_an_evaluator_task_evaluates_the_checkpoints_that_are_due(tmp_path, monkeypatch):
    train = slope.make_estimator(tmp_path)
    steps = iter([3, 4, 5, 6, 9])

    def next_checkpoint(seconds):
        train.train(slope.input_fn, max_steps=next(steps, 9))

    for module in (training, by_steps):
        monkeypatch.setattr(module, 'time', types.SimpleNamespace(time=time.time, sleep=next_checkpoint))
    train_spec = est.TrainSpec(slope.input_fn, 9)
    training._TrainingExecutor(slope.make_estimator(tmp_path), train_spec, spec(every_steps=4)).run_evaluator()
    assert evaluated(tmp_path) == [4, 9]


def test_every_steps_is_part_of_an_eval_spec():
    assert (spec().every_steps, spec(every_steps=3)._replace(name='a').every_steps) == (None, 3)
    assert 'every_steps' in inspect.signature(est.EvalSpec).parameters
    with pytest.raises(ValueError, match='every_steps of an EvalSpec must be at least 1, not 0'):
        spec(every_steps=0)


def test_the_best_checkpoint_is_kept_over_restarts_and_kills(tmp_path, caplog):
    def export(step, loss, **arguments):
        estimator = slope.make_estimator(tmp_path)
        estimator.train(slope.input_fn, max_steps=step)
        return est.BestCheckpointExporter(**arguments).export(
            estimator, '', estimator.latest_checkpoint(), {'loss': loss}, False
        )

    best = tmp_path / 'best'
    assert export(1, 3.0) == str(best / '1' / 'model.ckpt-1')
    assert export(2, 4.0) is None
    (best / 'new').mkdir()  # Of a killed program.
    (best / 'new' / 'model.ckpt-2.index').touch()
    (best / '2').mkdir()  # Of one killed before the file `checkpoint` names it.
    assert export(3, 2.5) == str(best / '3' / 'model.ckpt-3')
    assert sorted(os.listdir(best)) == ['3', 'checkpoint']
    assert json.loads((best / '3' / 'eval_result.json').read_text()) == {'loss': 2.5}
    found = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(best))).get_tensor('slope')
    assert found == pytest.approx(slope.slope_after(3))

    greater = lambda best_eval_result, current_eval_result: current_eval_result['loss'] > best_eval_result['loss']  # noqa: E731
    assert export(4, 2.6, compare_fn=greater) == str(best / '4' / 'model.ckpt-4')
    gone = est.BestCheckpointExporter().export(slope.make_estimator(tmp_path), '', 'gone', {'loss': 0.0}, False)
    assert gone is None and 'gone was deleted before it could be copied' in caplog.text
    assert tf.train.latest_checkpoint(str(best)) == str(best / '4' / 'model.ckpt-4')
