"""A checkpoint is found and loaded into a model, or refused with the reason."""

import pytest
import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError
from common.storage import checkpoints
from common.storage.restore import CheckpointGone, open_checkpoint, restore, without_suffix
from tests.shared import DAMAGES
from tests.storage.test_best_checkpoint import keep, save


def load(path, **shapes):
    with tf.Graph().as_default(), tf.Session() as session:
        variables = {name: tf.get_variable(name, shape) for name, shape in shapes.items()}
        restore(tf.train.Saver(), session, str(path))
        return session.run(variables)


def test_a_checkpoint_is_restored_to_a_model_with_its_variables(tmp_path):
    path = save(tmp_path, 3, 'vw')
    assert load(path, v=[], w=[]) == {'v': 3, 'w': 3} and load(path, w=[]) == {'w': 3}
    for shapes, message in (
        ({'v': [], 'w': [2]}, r'w has shape \[\] in the checkpoint, but \[2\] in the model'),
        ({'v': [], 'x': []}, 'it has no variable x'),
    ):
        with pytest.raises(RunError, match=f'^{path}: does not match the model: {message}$'):
            load(path, **shapes)


@pytest.mark.parametrize('suffix', ['index', 'data-00000-of-00001'])
def test_a_checkpoint_that_is_damaged_or_gone_is_named(tmp_path, suffix):
    path = save(tmp_path, 3)
    file = tmp_path / f'model.ckpt-3.{suffix}'
    DAMAGES['flipped'](file)
    with pytest.raises(RunError, match=f'^{path}: is corrupt: choose another checkpoint$'):
        load(path, w=[])
    file.unlink()
    with pytest.raises(CheckpointGone, match=f'^{path}: a file of it is missing: choose another checkpoint$'):
        load(path, w=[])


def test_a_checkpoint_is_found_by_its_name_or_path(tmp_path):
    for find in (checkpoints.require_checkpoint, lambda path: checkpoints.find_checkpoint(path, 'latest')):
        with pytest.raises(UsageError, match=f'--output_dir={tmp_path}: contains no checkpoint'):
            find(str(tmp_path))
    keep(tmp_path, 0, accuracy=0.5)
    checkpoints.require_checkpoint(str(tmp_path))
    keep(tmp_path, 12, accuracy=0.4)
    first, last = (f'{tmp_path}/model.ckpt-{step}' for step in (0, 12))
    best = f'{tmp_path}/best/model.ckpt-0'
    for which, expected in {'latest': last, 'best': best, first: first, f'{last}.meta': last}.items():
        assert checkpoints.find_checkpoint(str(tmp_path), which) == expected
    with pytest.raises(UsageError, match=f'--checkpoint=7: no such checkpoint; available: best, latest, {first}, {last}$'):
        checkpoints.find_checkpoint(str(tmp_path), '7')
    with pytest.raises(UsageError, match=f'--checkpoint=best: there is none in {tmp_path}/no/best'):
        checkpoints.find_checkpoint(f'{tmp_path}/no', 'best')
    names = ('index', 'meta', 'data-00003-of-00012', 'txt')
    assert [without_suffix(f'a.index/b.{name}') for name in names] == ['a.index/b'] * 3 + ['a.index/b.txt']


def test_the_step_of_a_checkpoint_is_read_from_it(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.train.create_global_step().assign(7))
        path = tf.train.Saver().save(session, str(tmp_path / 'a.ckpt'))
    assert checkpoints.global_step(path) == 7
    with pytest.raises(CheckpointGone):
        open_checkpoint(str(tmp_path / 'b.ckpt'))


def test_new_checkpoints_are_awaited_for_some_time(tmp_path):
    found = checkpoints.new_checkpoints(str(tmp_path), 70, timeout=1)
    path = save(tmp_path, 3)
    assert next(found) == path
    end = 'the training was to end at step 70: check whether'
    with pytest.raises(RunError, match=rf'^{tmp_path}: no new .* for \d+ seconds, and the last one was {path}; {end}'):
        next(found)
    (tmp_path / 'empty').mkdir()
    with pytest.raises(RunError, match=f'seconds, and there has been none; {end}'):
        next(checkpoints.new_checkpoints(str(tmp_path / 'empty'), 70, timeout=1))
