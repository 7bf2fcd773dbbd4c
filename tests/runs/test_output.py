"""What a run writes and shows besides its result: files, the log, profiles, progress bars."""

import fcntl
import os
import pty
import re
import struct
import sys
import termios

import pytest
import tensorflow.compat.v1 as tf
from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

from datasets import mnist
from tests.shared import POLYNOMIAL, ROOT, SMALL, losses
import trainer

pytestmark = pytest.mark.slow


def test_everything_goes_through_gfile(run):
    # TensorFlow's file system in memory stands for a remote one.
    flags = (*SMALL, '--train_steps=4', '--data_dir=ram://data')
    code, result, _ = run(*flags, output_dir='ram://output/here')
    assert code == 0 and result['global_step'] == 4
    for schedule in ('evaluate', 'predict', 'export'):
        assert run(*flags, f'--schedule={schedule}', output_dir='ram://output/here')[0] == 0
    with tf.io.gfile.GFile('ram://output/here/predictions.jsonl') as file:
        assert len(file.read().splitlines()) == 10000
    assert run(*flags, '--hparams=batch_size=8', output_dir='ram://output/here')[0] == 2


def test_the_flags_of_checkpoints_and_summaries_do_what_they_say(run, tmp_path):
    _, _, log = run(
        *POLYNOMIAL,
        '--schedule=train',
        '--train_steps=20',
        '--save_checkpoints_steps=4',
        '--keep_checkpoint_max=2',
        '--save_summary_steps=5',
    )
    assert sorted(path.name for path in (tmp_path / 'output').glob('*.index')) == [
        'model.ckpt-16.index',
        'model.ckpt-20.index',
    ]
    assert sorted(losses(log)) == [0, 5, 10, 15]


def test_overfitting_sees_the_first_batches_only_and_learns_them_by_heart(run, tmp_path, monkeypatch):
    seen = set()
    parse_batch = mnist.parse_batch

    def note(mode, params, serialized):
        features, labels = parse_batch(mode, params, serialized)
        if mode == tf.estimator.ModeKeys.TRAIN:
            sums = tf.py_func(lambda x: seen.update(x.tolist()) or x, [tf.reduce_sum(features['image'], [1, 2, 3])], tf.float32)
            with tf.control_dependencies([sums]):
                labels = {'label': tf.identity(labels['label'])}
        return features, labels

    monkeypatch.setattr(mnist, 'parse_batch', note)
    code, _, log = run(
        f'{SMALL[0]},learning_rate=0.01',
        '--schedule=train',
        '--train_steps=300',
        '--overfit_batches=2',
        '--save_summary_steps=10',
    )
    assert code == 0 and len(seen) == 64
    by_step = losses(log)
    assert by_step[0] > 2 and by_step[290] < 0.01


@pytest.mark.parametrize('steps, count', [('3:5', 2), ('4:50', 2)])
def test_the_chosen_steps_are_profiled(run, tmp_path, steps, count):
    assert run(*SMALL, '--schedule=train', '--train_steps=6', f'--profile_steps={steps}')[0] == 0
    (profile,) = (tmp_path / 'output').glob('plugins/profile/*/*.xplane.pb')
    names = [
        plane.event_metadata[event.metadata_id].name
        for plane in XSpace.FromString(profile.read_bytes()).planes
        for line in plane.lines
        for event in line.events
    ]
    assert sum(name.startswith(('model/dense_1/MatMul:', 'model/dense_1/BiasAdd:')) for name in names) == count


def test_the_log_opens_with_the_model(run):
    _, _, log = run(*SMALL, '--schedule=dry_run')
    assert re.search(r'INFO Input image: float32 \(None, 28, 28, 1\)', log)
    assert re.search(r'INFO dense_1/kernel +\(16, 10\) +160\n', log)
    # By hand: 3x3x1x4 + 4, 3x3x4x8 + 8, 72x16 + 16, 16x10 + 10; 28 becomes 14, then 7, then no more.
    assert f'{40 + 296 + 7 * 7 * 8 * 16 + 16 + 170:,}' in re.search(r'INFO total +([\d,]+)', log).group(1)


def test_the_default_directories_follow_from_the_names(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert trainer.main(['trainer.py', *POLYNOMIAL, '--train_steps=2', '--schedule=train']) == 0
    assert (tmp_path / 'output' / 'polynomial' / 'polynomial' / 'hparams.json').exists()


def test_progress_bars_are_drawn_on_a_terminal(tmp_path):
    output = run_on_terminal(tmp_path, '--train_steps=300', '--save_checkpoints_steps=300')
    assert re.search(r'Training: +\d+%', output)
    assert re.search(r'\d+it/s, epoch=\d\.\d\d, examples/sec=\d+, loss=\d', output)
    assert output.count('INFO loss = ') == 3  # The lines are still there, each once.


def run_on_terminal(tmp_path, *flags):
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 40, 120, 0, 0))
        os.execv(sys.executable, [sys.executable, os.path.join(ROOT, 'trainer.py'), *POLYNOMIAL, *flags])
    output = b''
    while True:
        try:
            output += os.read(terminal, 4096)
        except OSError:  # The other end has closed.
            break
    assert os.waitpid(pid, 0)[1] == 0, output
    return output.decode()


@pytest.mark.skipif(not os.path.exists('/proc/net/tcp'), reason='sockets are looked up in /proc')
def test_a_training_on_one_machine_listens_on_no_port(start):
    process = start(*POLYNOMIAL, '--schedule=train', '--hparams=learning_rate_schedule=constant', '--train_steps=1000000')
    for line in process.stderr:
        if 'step = 100 ' in line:
            break
    targets = {os.readlink(link.path) for link in os.scandir(f'/proc/{process.pid}/fd')}
    listening = []
    for kind in ('tcp', 'tcp6'):
        with open(f'/proc/{process.pid}/net/{kind}', encoding='ascii') as file:
            sockets = [line.split() for line in file.read().splitlines()[1:]]
        listening += [fields[1] for fields in sockets if fields[3] == '0A' and f'socket:[{fields[9]}]' in targets]
    assert targets and listening == []
