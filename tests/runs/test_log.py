"""What the log says of a training, and where it goes."""

import logging
import os
import re

import numpy as np
import pytest

from tests.shared import POLYNOMIAL, losses

TRAINING = (*POLYNOMIAL, '--schedule=train', '--hparams=num_samples=1280,batch_size=128,learning_rate=0.01')


@pytest.mark.parametrize('flags', [(), ('--steps_per_loop=7',)], ids=['', 'in loops'])
def test_the_loss_of_a_line_is_the_mean_since_the_last_one(run, tmp_path, flags):
    each = losses(run(*TRAINING, '--train_steps=21', '--save_summary_steps=1', output_dir=tmp_path / 'each')[2])
    code, _, log = run(*TRAINING, *flags, '--train_steps=21', '--save_summary_steps=10', output_dir=tmp_path / 'some')
    found = losses(log)
    expected = {
        0: each[0],
        10: np.mean([each[step] for step in range(1, 11)]),
        20: np.mean([each[step] for step in range(11, 21)]),
    }
    assert code == 0 and found == pytest.approx(expected, rel=1e-5) and list(each) == list(range(21))
    assert abs(expected[10] / each[10] - 1) > 0.01


def test_a_line_has_the_epoch_and_the_time_that_is_left(run):
    _, _, log = run(*TRAINING, '--train_steps=40', '--save_summary_steps=10')
    lines = re.findall(r'INFO (loss = .*)', log)
    assert [re.search(r'epoch (\S+)', line)[1].rstrip(',') for line in lines] == ['0.10', '1.10', '2.10', '3.10']
    assert 'left' not in lines[0] and all(re.search(r', 00:0\d left$', line) for line in lines[1:])
    for before, after in [('Checking the data: ', 'Calling model_fn.'), ('Running the first step', 'loss = ')]:
        assert 0 < log.index(before) < log.index(after)


def test_the_log_goes_to_a_file_with_the_error_that_ends_it(run, tmp_path):
    path = tmp_path / 'log.txt'
    code, _, err = run(*TRAINING, '--train_steps=2', f'--log_file={path}')
    assert code == 0 and path.read_text() == err and 'loss = ' in err
    code, _, again = run(*TRAINING, '--train_steps=4', '--hparams=learning_rate=2.0', f'--log_file={path}')
    assert code == 2 and path.read_text() == err + again and 'learning_rate was 0.01, now it is 2.0' in again.splitlines()[-1]
    run(*TRAINING, '--train_steps=4')
    assert path.read_text() == err + again


@pytest.mark.parametrize('level, shown', [('warning', {'WARNING'}), ('error', set())])
def test_the_verbosity_selects_the_least_important_messages(run, tmp_path, level, shown):
    run(*TRAINING, '--train_steps=2', '--save_checkpoints_steps=1')
    (tmp_path / 'output' / 'model.ckpt-2.index').write_text('')  # It is warned of.
    code, _, err = run(*TRAINING, '--train_steps=3', f'--verbosity={level}')
    assert code == 0 and {line.split()[2] for line in err.splitlines()} == shown


@pytest.mark.parametrize('level', ['NOTSET', 'ERROR'])
def test_afterwards_the_log_is_as_it_was(run, tmp_path, level):
    logger = logging.getLogger('tensorflow')
    logger.setLevel(level)
    before = (logger.level, [(handler, handler.formatter) for handler in logger.handlers])
    assert run(*TRAINING, '--train_steps=2', f'--log_file={tmp_path}/log.txt')[0] == 0
    assert (logger.level, [(handler, handler.formatter) for handler in logger.handlers]) == before


@pytest.mark.skipif(not os.path.exists('/dev/full'), reason='needs /dev/full')
def test_a_full_disk_costs_the_log_file_and_nothing_else(run):
    code, result, err = run(*TRAINING, '--train_steps=2', '--log_file=/dev/full')
    assert (code, result) == (0, {'global_step': 2})
    assert err.count('/dev/full: cannot be written any more: ') == 1 and 'Traceback' not in err and 'loss = ' in err


def test_a_log_file_that_cannot_be_written_is_one_line(run, tmp_path):
    code, _, err = run(*TRAINING, f'--log_file={tmp_path}/none/log.txt')
    assert (
        code == 2 and err == f'trainer.py: --log_file={tmp_path}/none/log.txt: cannot be written: No such file or directory\n'
    )
