"""The best checkpoint is kept, with what it was evaluated to."""

import errno
import json
import os

import pytest
import tensorflow.compat.v1 as tf

from common.errors import RunError
from common.storage import best_checkpoint
from common.storage.metrics import Objective
from tests.together import run_together

ACCURACY = Objective('accuracy', True)


def save(output_dir, step):
    """Saves a checkpoint whose weight is the step, and returns its path."""
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.get_variable('w', initializer=float(step))
        session.run(w.initializer)
        return tf.train.Saver(sharded=True).save(session, f'{output_dir}/model.ckpt', global_step=step)


def keep(output_dir, step, goal=ACCURACY, **metrics):
    result = {'global_step': step, 'train': {'accuracy': 1.0, 'loss': 0.0}, 'eval': metrics}
    best_checkpoint.keep_if_best(save(output_dir, step), str(output_dir), goal, 'eval', result)
    return tf.train.load_variable(best_checkpoint.find_best(str(output_dir)), 'w')


def test_the_best_checkpoint_by_one_splits_metric_is_kept_and_no_other(tmp_path):
    assert best_checkpoint.find_best(str(tmp_path)) is None
    assert [keep(tmp_path, step, accuracy=value) for step, value in ((1, 0.5), (2, 0.7), (3, 0.7), (4, 0.6), (5, 0.8))] == [
        1,
        2,
        2,
        2,
        5,
    ]
    names = os.listdir(tmp_path / 'best')
    assert sorted(names) == ['best.json', 'model.ckpt-5.data-00000-of-00001', 'model.ckpt-5.index', 'model.ckpt-5.meta']
    assert json.load(open(tmp_path / 'best' / 'best.json')) == {
        'checkpoint': 'model.ckpt-5',
        'split': 'eval',
        'metric': 'accuracy',
        'is_max': True,
        'value': 0.8,
        'global_step': 5,
        'eval': {'accuracy': 0.8},
        'train': {'accuracy': 1.0, 'loss': 0.0},
    }


def test_the_checkpoint_of_the_smallest_metric_may_be_the_best(tmp_path):
    loss = Objective('loss', False)
    assert [keep(tmp_path, step, loss, loss=value) for step, value in ((1, 0.5), (2, 0.4), (3, 0.6))] == [1, 2, 2]


def test_another_goal_starts_over_with_the_best_checkpoint(tmp_path):
    assert keep(tmp_path, 1, accuracy=0.9, loss=3.0) == 1
    assert keep(tmp_path, 2, Objective('loss', False), accuracy=0.1, loss=4.0) == 2
    assert keep(tmp_path, 3, Objective('loss', True), accuracy=0.1, loss=2.0) == 3


def test_a_stop_during_the_copy_leaves_the_best_checkpoint_as_it_was(tmp_path, monkeypatch):
    keep(tmp_path, 1, accuracy=0.5)
    monkeypatch.setattr(best_checkpoint, 'write_json', lambda path, record: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        keep(tmp_path, 2, accuracy=0.6)
    monkeypatch.undo()
    assert tf.train.load_variable(best_checkpoint.find_best(str(tmp_path)), 'w') == 1
    assert keep(tmp_path, 3, accuracy=0.7) == 3
    assert not [name for name in os.listdir(tmp_path / 'best') if 'ckpt-1' in name or 'ckpt-2' in name]


@pytest.mark.parametrize(
    'values, kept',
    [(['nan', '0.5', 'nan'], [1, 2, 2]), (['inf', '0.5', '-inf', 'nan'], [1, 2, 3, 3]), (['nan', 'inf', '1e300'], [1, 2, 3])],
)
@pytest.mark.parametrize('is_of_older_framework', [False, True])
def test_values_that_are_not_finite_are_compared_as_numbers(tmp_path, values, kept, is_of_older_framework):
    record = tmp_path / 'best' / 'best.json'
    for step, (value, expected) in enumerate(zip(map(float, values), kept), 1):
        assert keep(tmp_path, step, Objective('loss', False), loss=value) == expected
        content = json.loads(record.read_text(), parse_constant=None if is_of_older_framework else pytest.fail)
        if is_of_older_framework:
            record.write_text(json.dumps({**content, 'value': float(content['value'])}))  # NaN, without quotes.


def test_another_split_starts_over_with_the_best_checkpoint(tmp_path):
    assert keep(tmp_path, 1, accuracy=0.9) == 1
    result = {'global_step': 2, 'train': {'accuracy': 0.5}}
    best_checkpoint.keep_if_best(save(tmp_path, 2), str(tmp_path), ACCURACY, 'train', result)
    assert best_checkpoint.find_best(str(tmp_path)).endswith('model.ckpt-2')


def refuse(*unused_paths):
    raise PermissionError(errno.EPERM, 'Operation not permitted')


@pytest.mark.parametrize('has_links', [True, False])
def test_the_best_checkpoint_takes_no_space_while_the_run_has_it_and_stays_when_the_run_deletes_it(
    tmp_path, monkeypatch, has_links
):
    if not has_links:  # As on FAT, and on some file systems of networks.
        monkeypatch.setattr(os, 'link', refuse)
    assert keep(tmp_path, 1, accuracy=0.5) == 1
    data = 'model.ckpt-1.data-00000-of-00001'
    assert len(os.listdir(tmp_path / 'best')) == 4
    assert os.path.samefile(tmp_path / data, tmp_path / 'best' / data) is has_links
    for file in tmp_path.glob('model.ckpt-1.*'):
        file.unlink()
    assert tf.train.load_variable(best_checkpoint.find_best(str(tmp_path)), 'w') == 1


def test_the_best_checkpoint_stays_whole_when_the_run_saves_its_step_again(tmp_path):
    assert keep(tmp_path, 1, accuracy=0.5) == 1
    with tf.Graph().as_default(), tf.Session() as session:
        for name in 'vw':  # Its index is of another size.
            session.run(tf.get_variable(name, initializer=7.0).initializer)
        tf.train.Saver(sharded=True).save(session, f'{tmp_path}/model.ckpt', global_step=1)
    assert tf.train.load_variable(str(tmp_path / 'model.ckpt-1'), 'w') == 7
    assert tf.train.load_variable(best_checkpoint.find_best(str(tmp_path)), 'w') == 1


@pytest.mark.parametrize('has_links', [True, False])
def test_a_checkpoint_that_is_best_twice_stays_whole(tmp_path, monkeypatch, has_links):
    path = save(tmp_path, 1)
    for metric in ('accuracy', 'loss'):
        best_checkpoint.keep_if_best(
            path, str(tmp_path), Objective(metric, True), 'eval', {'global_step': 1, 'eval': {metric: 1.0}}
        )
        if not has_links:
            monkeypatch.setattr(os, 'link', refuse)
    for directory in (tmp_path, tmp_path / 'best'):
        assert tf.train.load_variable(str(directory / 'model.ckpt-1'), 'w') == 1
    assert len(os.listdir(tmp_path / 'best')) == 4


@pytest.mark.parametrize('gone', ['*', '*.index', '*.data*'])
def test_a_checkpoint_that_was_deleted_meanwhile_leaves_the_best_one_as_it_was(tmp_path, gone):
    keep(tmp_path, 1, accuracy=0.5)
    path = save(tmp_path, 2)
    for file in tmp_path.glob(f'model.ckpt-2{gone}'):
        file.unlink()
    best_checkpoint.keep_if_best(path, str(tmp_path), ACCURACY, 'eval', {'global_step': 2, 'eval': {'accuracy': 0.9}})
    assert tf.train.load_variable(best_checkpoint.find_best(str(tmp_path)), 'w') == 1


@pytest.mark.parametrize(
    'text, message',
    [
        ('{', 'is not JSON'),
        ('{"a": 1}', 'does not describe a checkpoint'),
        ('{"checkpoint": 1}', 'does not describe a checkpoint'),
    ],
)
def test_a_damaged_record_of_the_best_checkpoint_is_named(tmp_path, text, message):
    (tmp_path / 'best').mkdir()
    (tmp_path / 'best' / 'best.json').write_text(text)
    with pytest.raises(RunError, match=f'best.json: {message}'):
        best_checkpoint.find_best(str(tmp_path))


def test_processes_that_evaluate_at_once_keep_the_best_of_all_whole(tmp_path):
    (tmp_path / 'output').mkdir()
    for step in range(60):
        save(tmp_path / 'output', step)
    run_together(
        tmp_path,
        """
from common.storage import best_checkpoint
from common.storage.metrics import Objective
output_dir, first = arguments
wait_for_the_others()
for step in range(int(first), 60, 4):
    result = {'global_step': step, 'eval': {'accuracy': step / 60}}
    best_checkpoint.keep_if_best(f'{output_dir}/model.ckpt-{step}', output_dir, Objective('accuracy', True), 'eval', result)
""",
        *([tmp_path / 'output', i] for i in range(4)),
    )
    assert tf.train.load_variable(best_checkpoint.find_best(str(tmp_path / 'output')), 'w') == 59
    assert sorted(os.listdir(tmp_path / 'output' / 'best')) == [
        'best.json',
        'model.ckpt-59.data-00000-of-00001',
        'model.ckpt-59.index',
        'model.ckpt-59.meta',
    ]
