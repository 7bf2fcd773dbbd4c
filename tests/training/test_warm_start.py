"""Starting from the weights of another training, and training a part of them."""

import re
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.training.warm_start import warm_start
from tests.shared import SMALL, read_weights
import trainer

pytestmark = pytest.mark.slow


def weights(directory):
    return {name: value for name, value in read_weights(directory).items() if 'Adam' not in name and '_power' not in name}


@pytest.fixture(scope='module')
def trained(data_dir, tmp_path_factory):
    """Trains a small AlexNet and returns its output_dir."""
    directory = str(tmp_path_factory.mktemp('trained') / 'output')
    flags = ('--schedule=train', '--train_steps=5', f'--data_dir={data_dir}', f'--output_dir={directory}')
    assert trainer.main(['trainer.py', *SMALL, *flags]) == 0
    return directory


@pytest.fixture
def source(trained, tmp_path):
    """Returns a copy of a trained AlexNet's output_dir."""
    return shutil.copytree(trained, str(tmp_path / 'source'))


def frozen_at_the_start(run, tmp_path, path, *flags, output='frozen'):
    """Returns the weights and the log of a training of one step in which nearly nothing is trained."""
    directory = str(tmp_path / output)
    code, result, log = run(
        *SMALL,
        '--schedule=train',
        '--train_steps=1',
        f'--warm_start_from={path}',
        *flags,
        '--freeze=^(conv|dense/)|kernel',
        output_dir=directory,
    )
    assert code == 0 and result['global_step'] == 1
    return weights(directory), log


@pytest.mark.parametrize('kind', ['output_dir', 'checkpoint', 'index', 'SavedModel'])
@pytest.mark.parametrize('debug', [(), ('--debug_numerics',)])
def test_a_warm_start_takes_the_weights_of_the_other_training(run, tmp_path, source, kind, debug):
    path = {'output_dir': source, 'checkpoint': f'{source}/model.ckpt-5', 'index': f'{source}/model.ckpt-5.index'}.get(kind)
    if kind == 'SavedModel':
        path = run(*SMALL, '--schedule=export', output_dir=source)[1]['export']
    found, log = frozen_at_the_start(run, tmp_path, path, *debug)
    expected = weights(source)
    assert len(found) == 9 and found['global_step'] == 1
    for name in found.keys() - {'global_step', 'dense_1/bias'}:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    difference = np.abs(found['dense_1/bias'] - expected['dense_1/bias'])
    assert 0 < difference.max() < 0.01  # One step of Adam.
    assert log.count(' loaded\n') == 8


def test_a_warm_start_lists_what_does_not_fit_and_starts_it_anew(run, tmp_path, source):
    found, log = frozen_at_the_start(run, tmp_path, source, f'{SMALL[0]},num_classes=12')
    assert found['dense_1/kernel'].shape == (16, 12)
    assert 'dense_1/kernel                           skipped: its shape is [16, 10], not [16, 12]' in log
    np.testing.assert_array_equal(found['conv2d/kernel'], weights(source)['conv2d/kernel'])
    _, log = frozen_at_the_start(run, tmp_path, source, f'{SMALL[0]},batch_norm=true', output='other')
    assert 'batch_normalization/gamma                skipped: missing' in log


def test_a_warm_start_takes_averages_of_the_weights_from_the_best_checkpoint(run, tmp_path):
    source = str(tmp_path / 'source')
    assert run(f'{SMALL[0]},ema_decay=0.5', SMALL[1], '--train_steps=5', output_dir=source)[0] == 0
    found, log = frozen_at_the_start(run, tmp_path, f'{source}/best')
    np.testing.assert_array_equal(found['conv2d/kernel'], weights(source)['conv2d/kernel/ExponentialMovingAverage'])
    assert (found['conv2d/kernel'] != weights(source)['conv2d/kernel']).any()


def test_variables_of_other_names_are_found_and_excluded_ones_start_anew(run, tmp_path, source):
    names = '--warm_start_names=conv2d_1/:conv2d/,dense_1/bias:dense/bias,dense/:dense_1/'
    shapes = '--hparams=filters=[8,8],dense_units=10,batch_size=32,drop_rate=0.0,augment_shift=0,warmup_steps=0'
    flags = (
        shapes,
        '--eval_steps=1',
        '--schedule=train',
        '--train_steps=1',
        f'--warm_start_from={source}',
        '--freeze=^conv|bias',
    )
    directory = str(tmp_path / 'renamed')
    code, _, log = run(*flags, names, '--warm_start_exclude=^conv2d_1/kernel', output_dir=directory)
    assert code == 0, log
    found, expected = weights(directory), weights(source)
    np.testing.assert_array_equal(found['conv2d/bias'], expected['conv2d_1/bias'])
    np.testing.assert_array_equal(found['conv2d_1/bias'], expected['conv2d_1/bias'])
    np.testing.assert_array_equal(found['dense/bias'], expected['dense_1/bias'])
    assert not found['dense_1/bias'].any()
    for line in (
        'conv2d/bias                              loaded from conv2d_1/bias',
        'conv2d/kernel                            skipped: its shape is [3, 3, 4, 8], not [3, 3, 1, 8]',
        'conv2d_1/bias                            loaded',
        'conv2d_1/kernel                          skipped: excluded',
        'dense/bias                               loaded from dense_1/bias',
        'dense_1/bias                             skipped: its shape is [16], not [10]',
    ):
        assert f'  {line}\n' in log


@pytest.mark.parametrize(
    'names, expected',
    [
        (
            [':new/', 'old/:'],
            {'b': 2.0, 'new/a': 1.0, 'new/old/b': 2.0},
        ),  # The first that fits counts: an empty scope is in all.
        (['a:x', 'a:y'], {'x': 1.0, 'y': 1.0, 'a': 1.0}),
    ],
)
def test_scopes_are_added_and_removed_and_a_variable_may_start_several(tmp_path, names, expected):
    path = str(tmp_path / 'model.ckpt')
    with tf.Graph().as_default(), tf.Session() as session:
        saved = [tf.get_variable(name, initializer=value) for name, value in (('a', 1.0), ('old/b', 2.0))]
        session.run(tf.global_variables_initializer())
        tf.train.Saver(saved).save(session, path)
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [tf.get_variable(name, initializer=0.0) for name in expected]
        warm_start(path, variables, names)
        session.run(tf.global_variables_initializer())
        assert dict(zip(expected, session.run(variables))) == expected


def test_a_name_that_the_checkpoint_has_not_is_refused(run, source):
    flags = (*SMALL, '--schedule=train', '--train_steps=1', f'--warm_start_from={source}', '--warm_start_names=dens/:dense/')
    code, _, err = run(*flags)
    assert code == 2 and err.splitlines()[-1] == (
        f'trainer.py: --warm_start_names: dens/:dense/: {source}/model.ckpt-5 has no dens/ for a variable of the model'
    )


def test_a_training_that_resumes_keeps_its_own_weights(run, tmp_path, source):
    frozen_at_the_start(run, tmp_path, source)
    before = weights(tmp_path / 'frozen')
    other = str(tmp_path / 'other')
    run(*SMALL, '--schedule=train', '--train_steps=1', '--seed=9', output_dir=other)
    for path in (other, 'gone'):  # What it was started from may be gone.
        flags = (*SMALL, '--schedule=train', '--train_steps=2', f'--warm_start_from={path}')
        code, _, log = run(*flags, '--freeze=^(conv|dense/)|kernel', output_dir=str(tmp_path / 'frozen'))
        assert code == 0 and 'Starting from the weights' not in log
        assert '--warm_start_from is not used: ' in log
    np.testing.assert_array_equal(weights(tmp_path / 'frozen')['dense/kernel'], before['dense/kernel'])


def test_a_training_resumes_with_the_same_freeze_only(run, tmp_path, source):
    frozen_at_the_start(run, tmp_path, source)
    code, _, err = run(*SMALL, '--schedule=train', '--train_steps=2', output_dir=str(tmp_path / 'frozen'))
    assert code == 1 and re.search(
        r'model.ckpt-1: has no variable \S+/Adam\S*: use the --freeze it was trained with', err.splitlines()[-1]
    )


@pytest.mark.parametrize(
    'flags, message',
    [
        (
            ['--warm_start_from=nosuch'],
            '--warm_start_from=nosuch: is neither a checkpoint, nor a directory of checkpoints, nor a ',
        ),
        (['--freeze=nosuch'], '--freeze=nosuch: matches none of the variables: conv2d/kernel, conv2d/bias, '),
        (['--freeze=.'], '--freeze=.: matches all of the variables: '),
        (['--freeze=('], '--freeze=( is not a regular expression: '),
        (['--warm_start_names=a:b'], '--warm_start_names requires --warm_start_from'),
        (['--warm_start_exclude=a'], '--warm_start_exclude requires --warm_start_from'),
        (['--warm_start_from=x', '--warm_start_exclude=('], '--warm_start_exclude=( is not a regular expression: '),
        (
            ['--warm_start_from=x', '--warm_start_exclude=nosuch'],
            '--warm_start_exclude=nosuch: matches none of the variables: ',
        ),
        (
            ['--warm_start_from=x', '--warm_start_names=a:b'],
            '--warm_start_names: a:b: the model has no b; it has: conv2d/kernel',
        ),
        *(
            (['--warm_start_from=x', f'--warm_start_names={item}'], f'--warm_start_names: {item} is not of the form OLD:NEW')
            for item in ('a', 'a/:b', 'a:b/', 'a:b:c', ':', ':a')
        ),
    ],
)
def test_mistakes_in_a_warm_start_are_one_line(run, flags, message):
    code, _, err = run(*SMALL, '--schedule=train', '--train_steps=1', *flags)
    assert code == 2 and err.splitlines()[-1].startswith(f'trainer.py: {message}')


def test_a_warm_start_from_nothing_that_fits_is_refused(run, tmp_path, source):
    code, _, err = run('--model=polynomial', '--dataset=polynomial', '--schedule=train', f'--warm_start_from={source}')
    assert code == 2
    assert 'no variable matches one of the model in name and shape; it has ' in err.splitlines()[-1]
    assert 'conv2d/bias, ' in err.splitlines()[-1]


def test_a_damaged_checkpoint_to_start_from_is_named(run, tmp_path, source):
    path = tmp_path / 'source' / 'model.ckpt-5.data-00000-of-00001'
    path.write_bytes(path.read_bytes()[:-1] + b'!')
    flags = (*SMALL, '--schedule=train', '--train_steps=1')
    code, _, err = run(*flags, f'--warm_start_from={path}')
    assert code == 1
    assert (
        err.splitlines()[-1]
        == f'trainer.py: --warm_start_from={path}: {source}/model.ckpt-5 is corrupt: choose another checkpoint'
    )
    (tmp_path / 'source' / 'checkpoint').unlink()
    code, _, err = run(*flags, f'--warm_start_from={source}')
    assert code == 0
    assert f'{source}/model.ckpt-5: is corrupt' in err and f'Starting from the weights in {source}/model.ckpt-0:' in err
