"""Output of a run besides its result: the log, files, profiles, progress bars."""

import contextlib
import logging
import os
import pty
import re
import sys
import termios

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.lib.io import file_io
from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.records import records
from estimator_trainer.common.training.saving import StepCheck
from tests import forked
from tests.shared import POLYNOMIAL, ROOT, SMALL, losses

TRAINING = (*POLYNOMIAL, '--schedule=train', '--hparams=num_samples=1280,batch_size=128,learning_rate=0.01')


def test_the_loss_of_a_line_is_the_mean_since_the_last_one_with_the_epoch_and_the_time_that_is_left(run, tmp_path):
    each = losses(run(*TRAINING, '--train_steps=21', '--save_summary_steps=1', output_dir=tmp_path / 'each')[2])
    expected = {0: each[0], **{step: np.mean([each[step - i] for i in range(10)]) for step in (10, 20)}}
    assert list(each) == list(range(21)) and abs(expected[10] / each[10] - 1) > 0.01
    for flags in ((), ('--steps_per_loop=7',)):
        directory = tmp_path / f'some{len(flags)}'
        code, _, log = run(*TRAINING, *flags, '--train_steps=21', '--save_summary_steps=10', output_dir=directory)
        assert code == 0 and losses(log) == pytest.approx(expected, rel=1e-5)
        lines = re.findall(r'INFO (loss = .*)', log)
        assert [re.search(r'epoch (\S+)', line)[1].rstrip(',') for line in lines] == ['0.10', '1.10', '2.10']
        assert 'left' not in lines[0] and all(re.search(r', \d\d:\d\d left$', line) for line in lines[1:])
        order = ('Checking the data: ', 'Calling model_fn.', 'INFO Input x: float32', 'Running the first step', 'loss = ')
        assert sorted(map(log.index, order)) == [log.index(text) for text in order]
        assert re.search(r'INFO total +3\n', log)


def test_the_log_goes_to_a_file_with_the_error_that_ends_it_and_is_then_as_it_was(run, tmp_path):
    logger = logging.getLogger('tensorflow')
    logger.setLevel('ERROR')
    before = (logger.level, [(handler, handler.formatter) for handler in logger.handlers])
    path = tmp_path / 'log.txt'
    code, _, err = run(*TRAINING, '--train_steps=2', f'--log_file={path}')
    assert code == 0 and path.read_text() == err and 'loss = ' in err
    assert (logger.level, [(handler, handler.formatter) for handler in logger.handlers]) == before
    code, _, again = run(*TRAINING, '--train_steps=4', '--hparams=learning_rate=2.0', f'--log_file={path}')
    assert code == 2 and path.read_text() == err + again and 'learning_rate was 0.01, now it is 2.0' in again.splitlines()[-1]


@pytest.mark.skipif(not os.path.exists('/dev/full'), reason='needs /dev/full')
def test_a_full_disk_costs_the_log_file_and_nothing_else(run):
    code, result, err = run(*TRAINING, '--train_steps=2', '--log_file=/dev/full')
    assert (code, result) == (0, {'global_step': 2})
    assert err.count('/dev/full: can no longer be written: ') == 1 and 'Traceback' not in err and 'loss = ' in err


def test_the_verbosity_selects_the_least_important_messages(run, trained_run):
    output_dir = trained_run('polynomial')
    for level, shown, damaged in (('error', set(), 20), ('warning', {'WARNING'}, 12)):
        (output_dir / f'model.ckpt-{damaged}.index').write_text('')  # It is warned of.
        code, _, err = run(*POLYNOMIAL, '--schedule=train', '--train_steps=12', f'--verbosity={level}')
        assert code == 0 and {line.split()[2] for line in err.splitlines()} == shown


def test_everything_goes_through_gfile(run, monkeypatch):
    # TensorFlow's file system in memory stands for a remote one. It renames a directory without its files.
    rename = file_io.rename_v2

    def rename_all(src, dst, overwrite=False):
        src, dst = tf.compat.as_str(src), tf.compat.as_str(dst)
        if not tf.io.gfile.isdir(src):
            return rename(src, dst, overwrite)
        for directory, _, names in [*tf.io.gfile.walk(src)]:
            tf.io.gfile.makedirs(directory.replace(src, dst, 1))
            for name in names:
                path = os.path.join(directory, name)
                rename(path, path.replace(src, dst, 1), overwrite)
        tf.io.gfile.rmtree(src)

    monkeypatch.setattr(file_io, 'rename_v2', rename_all)
    monkeypatch.setattr(tf.io.gfile, 'rename', rename_all)
    examples = [{'image': bytes([i]) * 784, 'label': i % 10} for i in range(64)]
    records.write('ram://data/mnist', {'train': examples, 'eval': examples})
    flags = (*SMALL, '--train_steps=2', '--data_dir=ram://data')
    for schedule in ('train_and_evaluate', 'evaluate', 'predict', 'export'):
        code, result, err = run(*flags, f'--schedule={schedule}', output_dir='ram://output/here')
        assert code == 0 and result['global_step'] == 2, err
    with tf.io.gfile.GFile('ram://output/here/predictions.jsonl') as file:
        assert len(file.read().splitlines()) == 64
    assert tf.saved_model.contains_saved_model(result['export'])
    assert run(*flags, '--hparams=batch_size=8', output_dir='ram://output/here')[0] == 2


def test_the_chosen_steps_are_profiled(run, tmp_path):
    for steps in ('3:5', '4:50'):
        output_dir = tmp_path / steps
        assert run(*TRAINING, '--train_steps=6', f'--profile_steps={steps}', output_dir=output_dir)[0] == 0
        (profile,) = output_dir.glob('plugins/profile/*/*.xplane.pb')
        planes = XSpace.FromString(profile.read_bytes()).planes
        events = [plane.event_metadata[event.metadata_id] for plane in planes for line in plane.lines for event in line.events]
        assert sum(event.name.startswith('model/MatMul:') for event in events) == 2


def test_a_training_that_fails_as_it_is_profiled_ends_the_profile(tmp_path, monkeypatch):
    steps = iter(range(3))

    def fail(self, run_context, run_values):
        if next(steps, None) is None:
            raise RunError('no')

    given = {'hparams': {'learning_rate': 0.1}, 'schedule': 'train', 'train_steps': 4, 'profile_steps': '1:9'}
    with monkeypatch.context() as patch, pytest.raises(RunError):
        patch.setattr(StepCheck, 'after_run', fail)
        api.train('polynomial', 'polynomial', str(tmp_path / 'a'), **given)
    api.train('polynomial', 'polynomial', str(tmp_path / 'b'), **given)
    for name in 'ab':
        assert len([*(tmp_path / name).glob('plugins/profile/*/*.xplane.pb')]) == 1


def test_progress_bars_are_drawn_on_a_terminal_from_the_step_in_the_default_directory(run, tmp_path):
    directory = tmp_path / 'output' / 'polynomial' / 'polynomial'
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=60', output_dir=directory)[0] == 0
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 120))
    command = [sys.executable, os.path.join(ROOT, 'trainer.py'), *POLYNOMIAL, '--train_steps=300', '--eval_steps=1']
    process = forked.Popen(command, stdout=theirs, stderr=theirs, cwd=tmp_path)
    os.close(theirs)
    output = b''
    with contextlib.suppress(OSError):  # Where the process has ended.
        while part := os.read(ours, 4096):
            output += part
    os.close(ours)
    assert process.wait(100) == 0
    text = output.decode()
    assert re.search(r'Training: +20%.* 60/300 ', text) and re.search(r'Training: +100%.* 300/300 ', text)
    assert re.search(r'\d+it/s, loss=\S+, epoch=\d\.\d\d, examples/sec=\d', text)
    lines = [line for line in re.split(r'[\r\n]+', text) if ' INFO ' in line]
    assert not any('Training' in line for line in lines)  # The bar makes room for the log,
    assert sum(' INFO loss = ' in line for line in lines) == 3  # whose lines are still there, each once.
