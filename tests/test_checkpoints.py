"""Checkpoints that are damaged are passed over, and the training ends as if they had not been."""

import shutil

import pytest
import tensorflow.compat.v1 as tf

from common import checkpoints
from common.errors import RunError

POLYNOMIAL = ('--model=polynomial', '--dataset=polynomial', '--schedule=train', '--save_checkpoints_steps=4')


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = {
    'deleted': lambda path: path.unlink(),
    'emptied': lambda path: path.write_bytes(b''),
    'cut': lambda path: path.write_bytes(path.read_bytes()[:-20]),
    'flipped': flip,
}


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    """A directory for one training of 10 steps, which each test copies."""
    return tmp_path_factory.mktemp('whole') / 'output'


@pytest.mark.parametrize('damage', DAMAGES)
@pytest.mark.parametrize('suffix', ['index', 'data-00000-of-00001'])
def test_a_training_goes_on_from_the_last_one_that_is_whole(run, whole, tmp_path, damage, suffix):
    if not whole.exists():
        assert run(*POLYNOMIAL, '--train_steps=10', output_dir=whole)[0] == 0
    output = tmp_path / 'output'
    shutil.copytree(whole, output)
    expected = (whole / 'model.ckpt-10.data-00000-of-00001').read_bytes()
    DAMAGES[damage](output / f'model.ckpt-10.{suffix}')
    code, result, err = run(*POLYNOMIAL, '--train_steps=10')
    assert (code, result) == (0, {'global_step': 10})
    assert f'WARNING:tensorflow:{output}/model.ckpt-10: is damaged, or a file of it is missing.' in err
    assert f'Going on from {output}/model.ckpt-8.' in err
    assert (output / 'model.ckpt-10.data-00000-of-00001').read_bytes() == expected


def test_where_none_is_whole_no_training_begins(run, tmp_path):
    assert run(*POLYNOMIAL, '--train_steps=10')[0] == 0
    output = tmp_path / 'output'
    for path in output.glob('model.ckpt-*.index'):
        path.unlink()
    for schedule in ('train', 'evaluate'):
        code, _, err = run(*POLYNOMIAL[:2], f'--schedule={schedule}')
        assert code == 1
        assert err.splitlines()[-1].startswith(f'trainer.py: --output_dir={output}: no checkpoint there is whole')


def test_what_an_interrupted_save_has_left_is_deleted(run, tmp_path):
    assert run(*POLYNOMIAL, '--train_steps=4')[0] == 0
    leftover = tmp_path / 'output' / 'model.ckpt-8_temp' / 'part-00000-of-00001.data-00000-of-00001'
    leftover.parent.mkdir()
    leftover.write_text('half')
    assert run(*POLYNOMIAL, '--train_steps=6')[0] == 0
    assert not leftover.parent.exists()


def test_the_first_save_may_have_been_interrupted(tmp_path):
    (tmp_path / 'model.ckpt-0.data-00000-of-00001').write_text('whole, but its index was not written')
    assert checkpoints.newest(str(tmp_path)) is None
    (tmp_path / 'model.ckpt-7.data-00000-of-00001').write_text('as well')
    with pytest.raises(RunError, match='no checkpoint there is whole'):
        checkpoints.newest(str(tmp_path))


def test_the_file_that_names_the_last_one_lists_the_others_for_deletion(run, tmp_path):
    assert run(*POLYNOMIAL, '--train_steps=10')[0] == 0
    output = tmp_path / 'output'
    (output / 'checkpoint').unlink()
    assert run(*POLYNOMIAL, '--train_steps=20')[0] == 0
    assert {int(path.stem[11:]) for path in output.glob('*.index')} == {8, 10, 12, 16, 20}  # The last five.
    assert tf.train.latest_checkpoint(str(output)) == f'{output}/model.ckpt-20'
