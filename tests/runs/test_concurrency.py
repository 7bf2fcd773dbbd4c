"""Processes of their own that work in one output_dir at the same time, or were killed there."""

import json
import os
import signal
import sys

import pytest

from common import locks
from tests import forked
from tests.shared import POLYNOMIAL, ROOT

# The trainer, which sends itself a signal when it first calls a function: when it writes a prediction, or ends an export.
STOPPED = """
import os, sys
from common.runs import schedules
import tensorflow.compat.v1 as tf
import trainer

number, owner, name, *arguments = sys.argv[1:]
owner = {'schedules': schedules, 'gfile': tf.gfile}[owner]
function = getattr(owner, name)

def call(*args):
    setattr(owner, name, function)
    os.kill(os.getpid(), int(number))
    return function(*args)

setattr(owner, name, call)
sys.exit(trainer.main(['trainer.py', *arguments]))
"""


@pytest.fixture
def start_stopped():
    processes = []

    def call(number, owner, name, *flags):
        command = [sys.executable, '-c', STOPPED, str(int(number)), owner, name, *POLYNOMIAL, *flags]
        processes.append(forked.Popen(command, stdout=-1, stderr=-1, env={**os.environ, 'PYTHONPATH': ROOT}))
        return processes[-1]

    yield call
    for process in processes:
        process.kill()
        process.communicate()


def test_a_training_leaves_what_a_prediction_writes_and_deletes_what_a_killed_one_has_left(run, start_stopped, trained_run):
    output = trained_run('polynomial')
    flags = ('schedules', 'dumps', '--schedule=predict', f'--output_dir={output}')
    prediction = start_stopped(signal.SIGSTOP, *flags)
    forked.wait_until_stopped(prediction)
    killed = start_stopped(signal.SIGKILL, *flags)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL and len(list(output.glob('*.part'))) == 2
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=22')[0] == 0
    assert len(list(output.glob('*.part'))) == 1
    prediction.send_signal(signal.SIGCONT)
    out, err = prediction.communicate()
    assert prediction.returncode == 0, err
    assert len(open(json.loads(out)['predictions']).read().splitlines()) == 10000


def exports(output):
    return sorted(os.listdir(output / 'export'))


def test_what_a_killed_export_has_left_is_deleted_by_the_next_one(run, start_stopped, trained_run):
    output = trained_run('polynomial')
    killed = start_stopped(signal.SIGKILL, 'gfile', 'Rename', '--schedule=export', f'--output_dir={output}')
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    (leftover,) = exports(output)
    assert leftover.startswith('temp-')
    (output / 'export' / 'temp-of-mine').mkdir()
    code, result, _ = run(*POLYNOMIAL, '--schedule=export')
    assert code == 0 and exports(output) == [os.path.basename(result['export']), 'temp-of-mine']


def test_an_export_waits_for_another_one_and_leaves_what_it_writes(start, trained_run):
    output = trained_run('polynomial')
    written = output / 'export' / 'temp-1700000000'
    written.mkdir(parents=True)
    with locks.taking_turns(str(output / 'export')):
        process = start(*POLYNOMIAL, '--schedule=export')
        assert any(f'Waiting for another process to finish with {output}/export.' in line for line in process.stderr)
        assert written.exists()
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert exports(output) == [os.path.basename(json.loads(out)['export'])]
