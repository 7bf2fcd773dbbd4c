"""Checkpoints that are damaged are passed over, and the training ends as if they had not been."""

import shutil

import pytest
import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError
from common.storage import checkpoints
from tests.shared import POLYNOMIAL
from tests.storage.test_best_checkpoint import save
import trainer

DIGITS = '0123456789abcdef' * 2


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
def saved_once(tmp_path_factory):
    directory = tmp_path_factory.mktemp('saved')
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable('w', initializer=tf.range(50))
        saver = tf.train.Saver(sharded=True, save_relative_paths=True)
        session.run(tf.global_variables_initializer())
        for step in (0, 4, 8, 10):
            saver.save(session, f'{directory}/model.ckpt', global_step=step)
    return directory


@pytest.fixture
def output(saved_once, tmp_path):
    """A directory with the checkpoints of steps 0, 4, 8 and 10."""
    return shutil.copytree(saved_once, tmp_path / 'output')


def latest(directory):
    return tf.train.latest_checkpoint(str(directory))


@pytest.mark.parametrize('damage', DAMAGES)
@pytest.mark.parametrize(
    'name, expected',
    [
        ('checkpoint', 10),
        ('model.ckpt-10.index', 8),
        ('model.ckpt-10.data-00000-of-00001', 8),
        ('model.ckpt-10.meta', 10),
        ('model.ckpt-8.data-00000-of-00001', 10),
    ],
)
def test_the_last_checkpoint_that_is_intact_is_resumed_from(output, caplog, name, expected, damage):
    DAMAGES[damage](output / name)
    checkpoints.recover(str(output))
    assert latest(output) == checkpoints.latest_intact(str(output)) == f'{output}/model.ckpt-{expected}'
    assert (f'{output}/model.ckpt-10: is corrupt or incomplete.' in caplog.text) == (expected == 8)
    assert name == 'checkpoint' or ('Resuming from' in caplog.text) == (expected == 8)
    # The others are to be deleted in their turn.
    older = [f'{output}/model.ckpt-{step}' for step in (0, 4, 8, 10) if step <= expected]
    assert list(tf.train.get_checkpoint_state(str(output)).all_model_checkpoint_paths) == older


def test_a_training_goes_on_from_it_as_if_nothing_had_been_but_not_where_none_is_intact(execute, tmp_path):
    def run(output, *flags):
        flags = ('--hparams=learning_rate_schedule=constant', f'--output_dir={output}', *flags)
        return execute(trainer.main, ['trainer.py', *POLYNOMIAL, *flags])

    def train(output, steps):
        code, result, err = run(output, '--schedule=train', '--save_checkpoints_steps=4', f'--train_steps={steps}')
        assert (code, result) == (0, {'global_step': steps}), err
        return err

    output, undisturbed = tmp_path / 'output', tmp_path / 'undisturbed'
    train(output, 10)
    shutil.copytree(output, undisturbed)
    flip(output / 'model.ckpt-10.data-00000-of-00001')
    assert f'Restoring parameters from {output}/model.ckpt-8\n' in train(output, 12)
    train(undisturbed, 12)
    data = 'model.ckpt-12.data-00000-of-00001'
    assert (output / data).read_bytes() == (undisturbed / data).read_bytes()
    (output / 'checkpoint').unlink()
    train(output, 20)
    assert {int(path.stem[11:]) for path in output.glob('*.index')} == {8, 10, 12, 16, 20}  # The last five.
    for path in output.glob('model.ckpt-*.index'):
        path.unlink()
    for schedule in ('train', 'evaluate'):
        code, _, err = run(output, f'--schedule={schedule}')
        assert code == 1
        assert err.splitlines()[-1].startswith(f'trainer.py: {output}: all checkpoints are corrupt')


def test_what_an_interrupted_save_has_left_is_deleted(output):
    before = {*output.iterdir()}
    (output / 'model.ckpt-8_temp').mkdir()
    leftovers = [
        *('model.ckpt-8_temp/part-00000-of-00001.data-00000-of-00001', 'model.ckpt-9.data-00000-of-00001', 'model.ckpt-9.meta'),
        *(f'{name}.tmp{DIGITS}' for name in ('model.ckpt-4.meta', 'checkpoint', 'graph.pbtxt')),
        *(f'{name}.{DIGITS}.part' for name in ('hparams.json', 'graph.pbtxt')),
    ]
    others = ['model.ckpt-4_temperature.txt', 'notes.json.old.part', 'checkpoint.tmp']
    for name in leftovers + others:
        (output / name).write_text('half')
    checkpoints.recover(str(output))
    assert {*output.iterdir()} == before | {output / name for name in others}


def test_the_first_save_may_have_been_interrupted(tmp_path):
    (tmp_path / 'model.ckpt-0.data-00000-of-00001').write_text('whole, but its index was not written')
    assert checkpoints.latest_intact(str(tmp_path)) is None
    (tmp_path / 'model.ckpt-1.data-00000-of-00001').write_text('as well')
    with pytest.raises(RunError, match='all checkpoints are corrupt'):
        checkpoints.latest_intact(str(tmp_path))


def test_a_directory_without_a_checkpoint_is_named(tmp_path):
    with pytest.raises(UsageError, match=f'--output_dir={tmp_path}: contains no checkpoint'):
        checkpoints.require_checkpoint(str(tmp_path))
    save(tmp_path, 0)
    checkpoints.require_checkpoint(str(tmp_path))


@pytest.mark.parametrize('output_dir', ['/a/b', '/a/b/', 'gs://a/b/', 'b'])
def test_checkpoints_are_told_from_those_of_others(output_dir):
    directory = output_dir.rstrip('/')
    for path, is_of in (('', True), ('/best', True), ('/other', False), ('/..', False)):
        assert checkpoints.is_of(output_dir, f'{directory}{path}/model.ckpt-1') == is_of


def test_a_checkpoint_is_known_by_any_path_that_leads_to_it(tmp_path, monkeypatch):
    (tmp_path / 'output' / 'best').mkdir(parents=True)
    (tmp_path / 'link').symlink_to('output')
    monkeypatch.chdir(tmp_path)
    for output_dir in ('output', './output/', str(tmp_path / 'output'), 'link'):
        for directory in ('output', str(tmp_path / 'output'), f'{tmp_path}/link', 'output/best', f'{tmp_path}/link/best'):
            assert checkpoints.is_of(output_dir, f'{directory}/model.ckpt-1')
        assert not checkpoints.is_of(output_dir, f'{tmp_path}/model.ckpt-1')
