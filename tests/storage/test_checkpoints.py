"""Checkpoints that are damaged are passed over, and the training ends as if they had not been."""

import shutil

import pytest
import tensorflow.compat.v1 as tf

from common.errors import RunError
from common.storage import checkpoints
from tests.shared import DAMAGES, POLYNOMIAL, assert_equal, read_weights
import trainer

DATA = 'data-00000-of-00001'
DIGITS = '0123456789abcdef' * 2


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
    return shutil.copytree(saved_once, tmp_path / 'output')


@pytest.mark.parametrize('damage', DAMAGES)
@pytest.mark.parametrize(
    'name, expected',
    [('checkpoint', 10), ('model.ckpt-10.index', 8), (f'model.ckpt-10.{DATA}', 8), (f'model.ckpt-8.{DATA}', 10)],
)
def test_the_last_checkpoint_that_is_intact_is_resumed_from(output, caplog, name, expected, damage):
    DAMAGES[damage](output / name)
    checkpoints.recover(str(output))
    found = [tf.train.latest_checkpoint(str(output)), checkpoints.latest_intact(str(output))]
    assert found == [f'{output}/model.ckpt-{expected}'] * 2
    assert (f'{output}/model.ckpt-10: is corrupt or incomplete.' in caplog.text) == (expected == 8)
    assert name == 'checkpoint' or ('Resuming from' in caplog.text) == (expected == 8)
    # The others are to be deleted in their turn.
    older = [f'{output}/model.ckpt-{step}' for step in (0, 4, 8, 10) if step <= expected]
    assert list(tf.train.get_checkpoint_state(str(output)).all_model_checkpoint_paths) == older


def test_a_training_goes_on_from_it_as_if_nothing_had_been(execute, tmp_path):
    def train(output, steps):
        flags = ('--schedule=train', '--hparams=learning_rate_schedule=constant', '--save_checkpoints_steps=4')
        flags = (*POLYNOMIAL, *flags, f'--output_dir={output}', f'--train_steps={steps}')
        return execute(trainer.main, ['trainer.py', *flags])

    output, undisturbed = tmp_path / 'output', tmp_path / 'undisturbed'
    train(output, 10)
    shutil.copytree(output, undisturbed)
    DAMAGES['flipped'](output / 'model.ckpt-10.data-00000-of-00001')
    assert f'Restoring parameters from {output}/model.ckpt-8\n' in train(output, 12)[2]
    train(undisturbed, 12)
    assert_equal(read_weights(output), read_weights(undisturbed))
    (output / 'checkpoint').unlink()
    train(output, 20)
    assert {int(path.stem[11:]) for path in output.glob('*.index')} == {8, 10, 12, 16, 20}  # The last five.


def test_what_an_interrupted_save_has_left_is_deleted_and_is_no_checkpoint(output, tmp_path):
    before = {*output.iterdir()}
    (output / 'model.ckpt-8_temp').mkdir()
    leftovers = [
        *('model.ckpt-8_temp/part-00000-of-00001', 'model.ckpt-9.data-00000-of-00001', 'model.ckpt-9.meta'),
        *(f'{name}.tmp{DIGITS}' for name in ('model.ckpt-4.meta', 'checkpoint', 'graph.pbtxt')),
        *(f'{name}.{DIGITS}.part' for name in ('hparams.json', 'graph.pbtxt')),
    ]
    others = ['model.ckpt-4_temperature.txt', 'notes.json.old.part', 'checkpoint.tmp']
    for name in leftovers + others:
        (output / name).write_text('half')
    checkpoints.recover(str(output))
    assert {*output.iterdir()} == before | {output / name for name in others}
    (tmp_path / f'model.ckpt-0.{DATA}').write_text('whole, but its index was not written')
    assert checkpoints.latest_intact(str(tmp_path)) is None
    (tmp_path / f'model.ckpt-1.{DATA}').write_text('as well')
    with pytest.raises(RunError, match='all checkpoints are corrupt'):
        checkpoints.latest_intact(str(tmp_path))


def test_a_checkpoint_is_known_by_any_path_that_leads_to_it(tmp_path, monkeypatch):
    (tmp_path / 'output' / 'best').mkdir(parents=True)
    (tmp_path / 'link').symlink_to('output')
    monkeypatch.chdir(tmp_path)
    for output_dir in ('output', './output/', str(tmp_path / 'output'), 'link'):
        for directory in ('output', str(tmp_path / 'output'), f'{tmp_path}/link', 'output/best', f'{tmp_path}/link/best'):
            assert checkpoints.is_of(output_dir, f'{directory}/model.ckpt-1')
        assert not checkpoints.is_of(output_dir, f'{tmp_path}/model.ckpt-1')
    for path, is_of in (('', True), ('/best', True), ('/other', False), ('/..', False)):
        assert checkpoints.is_of('gs://a/b/', f'gs://a/b{path}/model.ckpt-1') == is_of
