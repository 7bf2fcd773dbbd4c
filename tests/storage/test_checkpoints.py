"""Checkpoints that are damaged are passed over, and the training ends as if they had not been."""

import pytest
import tensorflow.compat.v1 as tf

from common.errors import RunError
from common.storage import checkpoints
from tools.soak.damaged_checkpoints import DAMAGES, FLAGS, goes_on

pytestmark = pytest.mark.slow

POLYNOMIAL = ('--model=polynomial', '--dataset=polynomial', '--schedule=train', '--save_checkpoints_steps=4')


DIGITS = '0123456789abcdef' * 2


@pytest.fixture(scope='module')
def trainings(tmp_path_factory):
    """A directory for one training of 10 steps, which each test copies, and one for 12."""
    return tmp_path_factory.mktemp('trainings')


@pytest.mark.parametrize('damage', DAMAGES)
@pytest.mark.parametrize(
    'name',
    [
        'checkpoint',
        'model.ckpt-10.index',
        'model.ckpt-10.data-00000-of-00001',
        'model.ckpt-10.meta',
        'model.ckpt-8.data-00000-of-00001',
    ],
)
def test_a_training_resumes_from_the_last_checkpoint_that_is_intact(run, trainings, name, damage):
    def train(directory, steps):
        code, result, err = run(*FLAGS, f'--train_steps={steps}', output_dir=directory)
        assert (code, result) == (0, {'global_step': steps})
        return err

    whole, undisturbed = trainings / 'whole', trainings / 'undisturbed'
    if not whole.exists():
        train(whole, 10)
        train(undisturbed, 12)
    assert goes_on(whole, (undisturbed / 'model.ckpt-12.data-00000-of-00001').read_bytes(), name, damage, train)


def test_where_no_checkpoint_is_whole_no_training_begins(run, tmp_path):
    assert run(*POLYNOMIAL, '--train_steps=10')[0] == 0
    output = tmp_path / 'output'
    for path in output.glob('model.ckpt-*.index'):
        path.unlink()
    for schedule in ('train', 'evaluate'):
        code, _, err = run(*POLYNOMIAL[:2], f'--schedule={schedule}')
        assert code == 1
        assert err.splitlines()[-1].startswith(f'trainer.py: {output}: all checkpoints are corrupt')


def test_what_an_interrupted_save_has_left_is_deleted(run, tmp_path):
    assert run(*POLYNOMIAL, '--train_steps=4')[0] == 0
    output = tmp_path / 'output'
    (output / 'model.ckpt-8_temp').mkdir()
    leftovers = [
        output / name
        for name in (
            'model.ckpt-8_temp/part-00000-of-00001.data-00000-of-00001',
            'model.ckpt-9.data-00000-of-00001',
            'model.ckpt-9.meta',
            *(f'{name}.tmp{DIGITS}' for name in ('model.ckpt-4.meta', 'checkpoint', 'graph.pbtxt')),
            *(f'{name}.{DIGITS}.part' for name in ('hparams.json', 'graph.pbtxt')),
        )
    ]
    others = [output / name for name in ('model.ckpt-4_temperature.txt', 'notes.json.old.part', 'checkpoint.tmp')]
    for path in leftovers + others:
        path.write_text('half')
    assert run(*POLYNOMIAL, '--train_steps=6')[0] == 0
    assert not any(path.exists() for path in leftovers)
    assert all(path.exists() for path in others)
    assert not (output / 'model.ckpt-8_temp').exists()
    assert {path.stem for path in output.glob('model.ckpt-*.*') if path not in others} == {
        f'model.ckpt-{step}' for step in (0, 4, 6)
    }


def test_the_first_save_may_have_been_interrupted(tmp_path):
    (tmp_path / 'model.ckpt-0.data-00000-of-00001').write_text('whole, but its index was not written')
    assert checkpoints.latest_intact(str(tmp_path)) is None
    (tmp_path / 'model.ckpt-7.data-00000-of-00001').write_text('as well')
    with pytest.raises(RunError, match='all checkpoints are corrupt'):
        checkpoints.latest_intact(str(tmp_path))


def test_the_file_that_names_the_last_checkpoint_lists_the_others_for_deletion(run, tmp_path):
    assert run(*POLYNOMIAL, '--train_steps=10')[0] == 0
    output = tmp_path / 'output'
    (output / 'checkpoint').unlink()
    assert run(*POLYNOMIAL, '--train_steps=20')[0] == 0
    assert {int(path.stem[11:]) for path in output.glob('*.index')} == {8, 10, 12, 16, 20}  # The last five.
    assert tf.train.latest_checkpoint(str(output)) == f'{output}/model.ckpt-20'
