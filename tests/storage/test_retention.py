"""Kept checkpoints, also after a resumption with other limits, and the warning of a disk that is almost full."""

import os
import re
import shutil
import types

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.storage import retention


def save(directory, steps, max_to_keep, keep_every=0):
    """Saves checkpoints at steps, as a run that resumes does, and returns the steps of those that are left."""
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.get_variable('w', [2], initializer=tf.zeros_initializer()).initializer)
        saver = tf.train.Saver(max_to_keep=max_to_keep)
        if state := tf.train.get_checkpoint_state(str(directory)):
            saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        for step in steps:
            retention.delete_excess(saver, keep_every)
            saver.save(session, f'{directory}/model.ckpt', global_step=step)
    return left(directory)


def left(directory):
    names = [name for name in os.listdir(directory) if name.startswith('model.ckpt-')]
    found = {kind: {int(re.search(r'\d+', name)[0]) for name in names if kind in name} for kind in ('.index', '.data', '.meta')}
    assert found['.index'] == found['.data'] == found['.meta']
    return sorted(found['.index'])


@pytest.mark.parametrize(
    'limit, expected', [(1, [60]), (2, [50, 60]), (5, [20, 30, 40, 50, 60]), (0, [0, 10, 20, 30, 40, 50, 60])]
)
def test_another_limit_holds_from_the_next_save_on(tmp_path, limit, expected):
    assert save(tmp_path, range(0, 60, 10), 6) == [0, 10, 20, 30, 40, 50]
    assert save(tmp_path, [60], limit) == expected


def test_checkpoints_at_multiples_of_a_step_stay_beside_the_latest_after_resumptions_too(tmp_path):
    assert save(tmp_path, range(10, 61, 10), 2, keep_every=30) == [30, 50, 60]
    assert save(tmp_path, [70, 80], 2, keep_every=30) == [30, 60, 70, 80]
    assert save(tmp_path, [90, 95, 100], 1, keep_every=30) == [30, 60, 90, 100]
    tf.train.update_checkpoint_state(str(tmp_path), f'{tmp_path}/model.ckpt-100', [f'{tmp_path}/model.ckpt-30'])
    assert save(tmp_path, [110], 1, keep_every=30) == [30, 60, 90, 110]  # A repaired file `checkpoint` may list any.


def test_a_disk_with_space_for_fewer_than_three_checkpoints_is_named(tmp_path, caplog, monkeypatch):
    free = 3 * (4 * 1000 + 8)
    monkeypatch.setattr(shutil, 'disk_usage', lambda path: types.SimpleNamespace(free=free))
    with tf.Graph().as_default():
        variables = [tf.get_variable('w', [10, 100]), tf.train.create_global_step()]
    retention.warn_of_space(str(tmp_path), variables)
    assert not caplog.messages
    free -= 1
    retention.warn_of_space('gs://bucket/output', variables)
    assert not caplog.messages
    retention.warn_of_space(str(tmp_path), variables)
    message = f'{tmp_path}: a checkpoint takes about 4.01 KB, and 12 KB is free on the disk: make room, or keep fewer'
    assert [text.startswith(message) for text in caplog.messages] == [True]
