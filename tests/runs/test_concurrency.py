"""Processes of their own that work in one output_dir at the same time, or were killed there."""

import json
import os
import signal
import sys
import time

import tensorflow as tf2

from common import locks
from tests import forked
from tests.shared import POLYNOMIAL, ROOT

KILLED_EXPORT = """
import os, signal, sys
import trainer
import tensorflow.compat.v1 as tf
tf.gfile.Rename = lambda *args: os.kill(os.getpid(), signal.SIGKILL)  # The last that an export does.
trainer.main(sys.argv)
"""


def wait_for_part(directory):
    end = time.time() + 60
    while not list(directory.glob('predictions.jsonl.*.part')):
        assert time.time() < end
        time.sleep(0.001)


def test_a_prediction_resumes_while_a_training_starts_in_its_directory(run, start, tmp_path):
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=2')[0] == 0
    prediction = start(*POLYNOMIAL, '--schedule=predict', '--predict_split=train')
    wait_for_part(tmp_path / 'output')
    prediction.send_signal(signal.SIGSTOP)
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=4')[0] == 0
    prediction.send_signal(signal.SIGCONT)
    out, err = prediction.communicate()
    assert prediction.returncode == 0, err
    assert len(open(json.loads(out)['predictions']).read().splitlines()) == 100000


def test_what_a_killed_prediction_has_left_is_deleted_when_a_training_starts(run, start, tmp_path):
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=2')[0] == 0
    prediction = start(*POLYNOMIAL, '--schedule=predict', '--predict_split=train')
    wait_for_part(tmp_path / 'output')
    prediction.kill()
    prediction.wait()
    assert list((tmp_path / 'output').glob('*.part'))
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=4')[0] == 0
    assert not list((tmp_path / 'output').glob('*.part'))


def exports(tmp_path):
    return sorted(os.listdir(tmp_path / 'output' / 'export'))


def test_what_a_killed_export_has_left_is_deleted_by_the_next_one(run, data_dir, tmp_path):
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=2')[0] == 0
    for _ in range(2):
        process = forked.run(
            [
                sys.executable,
                '-c',
                KILLED_EXPORT,
                *POLYNOMIAL,
                '--schedule=export',
                f'--data_dir={data_dir}',
                f'--output_dir={tmp_path}/output',
            ],
            env={**os.environ, 'PYTHONPATH': ROOT},
        )
        assert process.returncode == -signal.SIGKILL
        (leftover,) = exports(tmp_path)
        assert leftover.startswith('temp-')
    (tmp_path / 'output' / 'export' / 'temp-of-mine').mkdir()
    code, result, _ = run(*POLYNOMIAL, '--schedule=export')
    assert code == 0 and exports(tmp_path) == [os.path.basename(result['export']), 'temp-of-mine']


def test_an_export_waits_for_another_one_and_leaves_what_it_writes(run, start, tmp_path):
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=2')[0] == 0
    written = tmp_path / 'output' / 'export' / 'temp-1700000000'
    written.mkdir(parents=True)
    with locks.taking_turns(str(tmp_path / 'output' / 'export')):
        process = start(*POLYNOMIAL, '--schedule=export')
        assert any(f'Waiting for another process to finish with {tmp_path}/output/export.' in line for line in process.stderr)
        assert written.exists()
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert exports(tmp_path) == [os.path.basename(json.loads(out)['export'])]


def test_two_exports_at_once_are_both_intact(run, start, tmp_path):
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=2')[0] == 0
    processes = [start(*POLYNOMIAL, '--schedule=export') for _ in range(2)]
    results = [json.loads(process.communicate()[0])['export'] for process in processes]
    assert sorted(map(os.path.basename, results)) == exports(tmp_path) and len(set(results)) == 2
    answers = [tf2.saved_model.load(path).signatures['serving_default'](x=tf2.constant([1.0, 2.0]))['y'] for path in results]
    assert (answers[0].numpy() == answers[1].numpy()).all()
