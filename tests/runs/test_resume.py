"""Stopped or killed runs resume with the same result, or with other values at the same position in the data."""

import collections
import json
import logging
import os
import re
import shutil
import signal
import sys
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import api
from estimator_trainer.common.commands import status as command_status
from tests import forked
from tests.linear import scalars
from tests.shared import POLYNOMIAL, ROOT, assert_equal, losses, read_weights, rows

QUICK = (*POLYNOMIAL, '--schedule=train', '--hparams=num_samples=1280,learning_rate_schedule=constant')
ENDLESS = ('--train_steps=1000000', '--save_checkpoints_steps=100', '--save_summary_steps=20')
# Also with dropout and shifts, whose random numbers must repeat.
EVERYTHING = (
    '--hparams=filters=[4],dense_units=8,batch_size=12,ema_decay=0.9,gradient_accumulation_steps=3,cache=false,'
    'shuffle_buffer=100',
    *('--num_towers=2', '--steps_per_loop=7', '--schedule=train', '--train_steps=20', '--save_checkpoints_steps=10'),
)


def listening(pid):
    """Returns the addresses on which a process listens."""
    targets = {os.readlink(link.path) for link in os.scandir(f'/proc/{pid}/fd')}
    tables = [open(f'/proc/{pid}/net/{kind}').read().splitlines()[1:] for kind in ('tcp', 'tcp6')]
    sockets = [line.split() for line in sum(tables, [])]
    return [fields[1] for fields in sockets if fields[3] == '0A' and f'socket:[{fields[9]}]' in targets]


def status_of(directory, name='state', **expected):
    """Asserts values of status.json, and returns that of a name."""
    found = json.loads((directory / 'status.json').read_text())
    assert {name: found[name] for name in expected} == expected
    return found[name]


def test_a_run_listens_nowhere_excludes_others_and_resumes_exactly_after_a_stop(start, run, tmp_path):
    process = start(*QUICK, *ENDLESS)
    assert any('step = 20 ' in line for line in process.stderr)
    assert not os.path.exists('/proc/net/tcp') or listening(process.pid) == []
    code, _, err = run(*QUICK, *ENDLESS)
    assert code == 1
    assert re.match(rf'trainer.py: --output_dir=.*: process {process.pid} on .* is training there', err.splitlines()[-1])
    started = status_of(tmp_path / 'output', 'started', state='training', pid=process.pid, resumed=0, train_steps=1000000)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert (process.returncode, out) == (143, '') and 'rerun the command to resume' in err and 'Loss for final step' not in err
    stopped_at = int(tf.train.load_variable(str(tmp_path / 'output'), 'global_step'))
    assert stopped_at > 20
    status_of(tmp_path / 'output', state='stopped', reason='SIGTERM', global_step=stopped_at)
    flags = (*QUICK, f'--train_steps={stopped_at + 15}')
    code, result, log = run(*flags)
    assert (code, result) == (0, {'global_step': stopped_at + 15}) and min(losses(log)) == stopped_at
    assert status_of(tmp_path / 'output', 'started', state='finished', resumed=1, global_step=stopped_at + 15) == started
    steps = [int(row['global_step']) for row in rows(tmp_path / 'output' / 'metrics.csv', mode='train')]
    assert steps == [1, *range(21, stopped_at + 1, 20), stopped_at + 1]
    assert run(*flags, output_dir=tmp_path / 'undisturbed')[0] == 0
    assert_equal(read_weights(tmp_path / 'output'), read_weights(tmp_path / 'undisturbed'))


KILLED = """
import resource, signal, sys
import tensorflow.compat.v1 as tf
from estimator_trainer.common.commands import trainer

save = tf.train.Saver.save

def save_in_part(self, session, path, global_step, **options):
    if global_step == 10:  # The file of the weights is longer.
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    return save(self, session, path, global_step=global_step, **options)

tf.train.Saver.save = save_in_part
sys.exit(trainer.main(sys.argv))
"""


def test_a_run_killed_during_a_save_resumes_exactly(run, data_dir, tmp_path):
    output = tmp_path / 'output'
    command = [sys.executable, '-c', KILLED, *EVERYTHING, f'--data_dir={data_dir}', f'--output_dir={output}']
    process = forked.run(command, env={**os.environ, 'PYTHONPATH': ROOT})
    assert process.returncode == -signal.SIGXFSZ, process.stderr
    killed = command_status.describe(str(output))
    assert killed.state == 'killed?' and killed.note.endswith(' is gone while training; resumes from step 0')
    assert (output / 'model.ckpt-10_temp').exists() and not (output / 'model.ckpt-10.index').exists()
    code, result, log = run(*EVERYTHING)
    status_of(output, state='finished', resumed=1, global_step=20)
    assert [row['global_step'] for row in rows(output / 'metrics.csv', mode='train')] == ['1']
    assert (code, result) == (0, {'global_step': 20}) and f'Restoring parameters from {output}/model.ckpt-0' in log
    assert run(*EVERYTHING, output_dir=tmp_path / 'undisturbed')[0] == 0
    assert_equal(read_weights(output), read_weights(tmp_path / 'undisturbed'))


ROWS = 50  # Examples of an epoch.
DATA = types.SimpleNamespace(
    get_params=dict,
    prepare=lambda data_dir, params: None,
    read=lambda split, data_dir, params: tf.data.Dataset.range(ROWS),
    parse=lambda mode, params, i: ({'x': tf.ones([i % 4 + 1]), 'id': i}, {'y': tf.cast(i, tf.float32) / ROWS}),
)
HPARAMS = {'batch_size': 6, 'learning_rate': 0.01, 'shuffle_buffer': ROWS, 'optimizer': 'sgd'}


class Recorder:
    """Trains a linear model in directories below tmp_path; `seen` has the numbers of the examples, by directory."""

    def __init__(self, tmp_path):
        self.tmp_path, self.seen, self.name = tmp_path, collections.defaultdict(list), ''

    def model(self, features, labels, mode, params):
        y = tf.get_variable('w', [1]) * tf.cast(features['id'], tf.float32) / ROWS
        if labels is None:
            return {'y': y}, None
        with tf.control_dependencies([tf.py_func(lambda ids: self.seen[self.name].extend(ids), [features['id']], [])]):
            return {'y': y}, tf.square(y - labels['y'])

    def train(self, name, steps, override='', hparams=(), **options):
        """Trains up to a step, and returns hparams.json."""
        self.name, path = name, self.tmp_path / name
        model = types.SimpleNamespace(get_params=dict, model=self.model)
        options |= {'schedule': 'train', 'train_steps': steps, 'override_hparams': override}
        api.train(model, DATA, path, hparams={**HPARAMS, **dict(hparams)}, **options)
        return json.loads((path / 'hparams.json').read_text())


def test_with_another_batch_size_the_epoch_continues(tmp_path, caplog):
    recorder = Recorder(tmp_path)
    recorder.train('whole', 30)
    expected = recorder.seen['whole']
    assert sorted(expected[:ROWS]) == list(range(ROWS))
    recorder.train('found', 6)
    recorder.train('found', 7)
    recorder.train('found', 8, 'batch_size=10')
    for step in (7, 8):  # A change whose checkpoint is lost counts from the one before.
        (tmp_path / 'found' / f'model.ckpt-{step}.index').write_bytes(b'')
    del recorder.seen['found'][6 * 6 :]
    recorder.train('found', 12, 'batch_size=10')
    path = tmp_path / 'found' / 'hparams.json'
    before = path.read_bytes()
    with pytest.raises(api.UsageError, match="batch_size=1 is too small for 2 towers: use override_hparams={'batch_size': 2}"):
        recorder.train('found', 14, 'batch_size=1', num_towers=2)
    recorder.train('found', 12, 'batch_size=7')  # There is nothing to train.
    assert path.read_bytes() == before
    history = recorder.train('found', 14, 'batch_size=4')['override_history']
    assert [(entry['global_step'], entry['hparams']['batch_size']) for entry in history] == [(6, [6, 10]), (12, [10, 4])]
    with caplog.at_level(logging.INFO, 'tensorflow'):
        recorder.train('found', 15, hparams={'batch_size': 4})
    assert 'From step 6 on: batch_size is 10; it was 6.' in caplog.text and 'epoch 2.16' in caplog.text  # (36 + 60 + 12) / 50
    assert recorder.seen['found'] == expected[: 6 * 6 + 6 * 10 + 3 * 4]


def test_a_changed_rate_counts_from_its_step_on_and_resumes_exactly(tmp_path):
    recorder = Recorder(tmp_path)
    override = {'learning_rate': 0.001, 'weight_decay': 0.1}
    options = {'save_summary_steps': 1, 'save_checkpoints_steps': 3}
    recorder.train('expected', 4, **options)
    shutil.copytree(tmp_path / 'expected', tmp_path / 'found')
    rates = scalars(tmp_path / 'expected')['learning_rate']
    recorder.train('expected', 12, override, **options)
    rates |= scalars(tmp_path / 'expected')['learning_rate']  # Within a second, events go to a file of the same name.
    np.testing.assert_allclose([rates[step] for step in range(1, 13)], [0.01] * 4 + [0.001] * 8)
    recorder.train('found', 7, override)
    saved = recorder.train('found', 12, override)
    assert_equal(read_weights(tmp_path / 'found'), read_weights(tmp_path / 'expected'))
    changes = {'learning_rate': [0.01, 0.001], 'weight_decay': [0.0, 0.1]}
    assert saved['override_history'] == [{'global_step': 4, 'hparams': changes}] and saved['learning_rate'] == 0.001
    ways = (
        "omit what differs to go on with the run's own, or change the run from here on, with "
        "override_hparams={'learning_rate': 0.01}, or start over with overwrite=True, or choose another output_dir"
    )
    with pytest.raises(api.UsageError) as raised:
        recorder.train('found', 13, 'weight_decay=0.1')
    path = tmp_path / 'found' / 'hparams.json'
    assert str(raised.value) == f'{path}: learning_rate was 0.001, now it is 0.01: {ways}'
    saved = recorder.train('found', 13, 'learning_rate=0.01,weight_decay=0.1')
    assert [entry['global_step'] for entry in saved['override_history']] == [4, 12]


def test_another_batch_size_does_not_go_with_groups_by_length(tmp_path):
    recorder = Recorder(tmp_path)
    by_length = {'hparams': {'group_by_length': True}}
    recorder.train('found', 1, **by_length)
    with pytest.raises(api.UsageError, match='after which this run cannot continue with group_by_length'):
        recorder.train('found', 2, 'batch_size=4', **by_length)
    recorder.train('found', 2, 'learning_rate=0.01', **by_length)
