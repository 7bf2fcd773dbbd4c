"""The best checkpoint is kept, with its metrics."""

import errno
import json
import math
import os
from unittest import mock

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.storage import best_checkpoint
from estimator_trainer.common.storage.objective import Objective

ACCURACY, LOSS = Objective('accuracy', True), Objective('loss', False)


def save(output_dir, step, names='w', value=None):
    with tf.Graph().as_default(), tf.Session() as session:
        for name in names:
            session.run(tf.get_variable(name, initializer=float(step if value is None else value)).initializer)
        return tf.train.Saver(sharded=True).save(session, f'{output_dir}/model.ckpt', global_step=step)


def kept(output_dir):
    return tf.train.load_variable(best_checkpoint.find_best(str(output_dir)), 'w')


def keep(output_dir, step, goal=ACCURACY, split='eval', **metrics):
    result = {'global_step': step, 'train': {'accuracy': 1.0, 'loss': 0.0}, split: metrics}
    best_checkpoint.keep_if_best(save(output_dir, step), str(output_dir), goal, split, result)
    return kept(output_dir)


def test_the_best_checkpoint_by_one_splits_metric_is_kept_and_no_other_until_another_goal_is_given(tmp_path):
    assert best_checkpoint.find_best(str(tmp_path)) is None
    for step, value, best in [(1, 0.5, 1), (2, 0.7, 2), (3, 0.7, 2), (4, 0.6, 2), (5, 0.8, 5)]:
        assert keep(tmp_path, step, accuracy=value) == best
    names = ['best.json', *(f'model.ckpt-5.{suffix}' for suffix in ('data-00000-of-00001', 'index', 'meta'))]
    assert sorted(os.listdir(tmp_path / 'best')) == names
    compared = {'checkpoint': 'model.ckpt-5', 'split': 'eval', 'metric': 'accuracy', 'is_max': True, 'value': 0.8}
    result = {'global_step': 5, 'eval': {'accuracy': 0.8}, 'train': {'accuracy': 1.0, 'loss': 0.0}}
    assert json.loads((tmp_path / 'best' / 'best.json').read_text()) == {**compared, **result}
    # Another metric, direction or split.
    assert keep(tmp_path, 6, LOSS, accuracy=0.1, loss=4.0) == 6
    assert keep(tmp_path, 7, Objective('loss', True), accuracy=0.1, loss=2.0) == 7
    assert keep(tmp_path, 8, Objective('loss', True), 'train', loss=1.0) == 8


def test_a_stop_during_the_copy_leaves_the_best_checkpoint_as_it_was(tmp_path, monkeypatch):
    keep(tmp_path, 1, accuracy=0.5)
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(best_checkpoint, 'write_json', lambda path, record: 1 / 0)
        keep(tmp_path, 2, accuracy=0.6)
    assert (kept(tmp_path), keep(tmp_path, 3, accuracy=0.7)) == (1, 3)
    assert not [name for name in os.listdir(tmp_path / 'best') if 'ckpt-1' in name or 'ckpt-2' in name]


def test_what_a_killed_save_of_the_same_step_left_does_not_count(tmp_path):
    keep(tmp_path, 1, accuracy=0.5)
    # As TensorFlow names what a Saver writes that is not sharded.
    (tmp_path / 'model.ckpt-2.data-00000-of-00001.tempstate1234').write_text('half')
    assert keep(tmp_path, 2, accuracy=0.6) == 2


@pytest.mark.parametrize('is_of_older_framework', [False, True])
def test_values_that_are_not_finite_are_compared_as_numbers(tmp_path, is_of_older_framework):
    record = tmp_path / 'best' / 'best.json'
    values = [(math.inf, 1), (math.nan, 1), (1e300, 3), (0.5, 4), (math.nan, 4), (math.inf, 4), (-math.inf, 7), (-1e300, 7)]
    for step, (value, expected) in enumerate(values, 1):
        assert keep(tmp_path, step, LOSS, loss=value) == expected
        content = json.loads(record.read_text(), parse_constant=None if is_of_older_framework else pytest.fail)
        if is_of_older_framework:
            record.write_text(json.dumps({**content, 'value': float(content['value'])}))  # NaN, without quotes.


def test_a_checkpoint_whose_metric_is_nan_is_never_the_best_and_the_first_of_a_number_is(tmp_path, caplog):
    path = save(tmp_path, 1)
    result = {'global_step': 1, 'eval': {'auc': math.nan, 'loss': 1.0}}
    best_checkpoint.keep_if_best(path, str(tmp_path), Objective('auc', True), 'eval', result)
    assert best_checkpoint.find_best(str(tmp_path)) is None
    assert 'model.ckpt-1 is not kept as the best: auc of the split eval is NaN.' in caplog.text
    assert keep(tmp_path, 2, Objective('auc', True), auc=0.1) == 2
    # Older versions kept the first one, whatever its value.
    record = tmp_path / 'best' / 'best.json'
    record.write_text(json.dumps({**json.loads(record.read_text()), 'value': 'NaN'}))
    assert keep(tmp_path, 3, Objective('auc', True), auc=0.0) == 3


@pytest.mark.parametrize('links', [0, 1, 2])
def test_the_best_checkpoint_takes_no_space_while_the_run_has_it_and_stays_with_another(tmp_path, monkeypatch, links):
    path, data = save(tmp_path, 1), 'model.ckpt-1.data-00000-of-00001'
    for i, metric in enumerate(['accuracy', 'loss']):  # It is best twice.
        if i == links:  # As on FAT, and on some file systems of networks.
            refuse = mock.Mock(side_effect=PermissionError(errno.EPERM, 'Operation not permitted'))
            monkeypatch.setattr(os, 'link', refuse)
        result = {'global_step': 1, 'eval': {metric: 1.0}}
        best_checkpoint.keep_if_best(path, str(tmp_path), Objective(metric, True), 'eval', result)
    assert tf.train.load_variable(path, 'w') == kept(tmp_path) == 1 and len(os.listdir(tmp_path / 'best')) == 4
    assert os.path.samefile(tmp_path / data, tmp_path / 'best' / data) is (links > 0)
    path = save(tmp_path, 1, 'vw', 7)  # The same step again; its index is of another size.
    assert tf.train.load_variable(path, 'w') == 7 and kept(tmp_path) == 1
    for file in tmp_path.glob('model.ckpt-1.*'):
        file.unlink()
    assert kept(tmp_path) == 1


@pytest.mark.parametrize('gone', ['*', '*.index', '*.data*'])
def test_a_checkpoint_that_was_deleted_meanwhile_leaves_the_best_one_as_it_was(tmp_path, caplog, gone):
    keep(tmp_path, 1, accuracy=0.5)
    path = save(tmp_path, 2)
    for file in tmp_path.glob(f'model.ckpt-2{gone}'):
        file.unlink()
    best_checkpoint.keep_if_best(path, str(tmp_path), ACCURACY, 'eval', {'global_step': 2, 'eval': {'accuracy': 0.9}})
    assert kept(tmp_path) == 1 and f'{path} was deleted before it could be kept as the best.' in caplog.text


RECORD = {'checkpoint': 'model.ckpt-1', 'split': 'eval', 'metric': 'loss', 'is_max': True, 'value': 1}


@pytest.mark.parametrize(
    'text',
    ['{', '{"a": 1}', *(json.dumps({**RECORD, key: None}) for key in RECORD), json.dumps({**RECORD, 'checkpoint': '../x-1'})],
)
def test_a_damaged_record_of_the_best_checkpoint_is_named(tmp_path, text):
    (tmp_path / 'best').mkdir()
    (tmp_path / 'best' / 'best.json').write_text(text)
    with pytest.raises(RunError, match=f'best.json: (is not JSON|does not describe a checkpoint).*: delete {tmp_path}/best$'):
        best_checkpoint.find_best(str(tmp_path))
