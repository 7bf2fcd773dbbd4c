"""The schedules, from their command lines to their results."""

import itertools
import json
import os
import shutil
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common import locks
from common.errors import RunError
from common.storage import checkpoints
from models import polynomial
from tests.shared import POLYNOMIAL, rows

# As those of the fixture `trained_run`.
FLAGS = (*POLYNOMIAL, '--train_steps=20', '--save_checkpoints_steps=10', '--eval_steps=5')


def test_polynomial_learns_its_weights(run, tmp_path):
    guide = '--hparams=learning_rate=0.1,learning_rate_schedule=constant,batch_size=100,optimizer=adam'
    for flags, tolerance in (
        ([], [0.01, 0.01, 0.01]),
        (['--train_steps=1000', guide], [0.01, 0.005, 0.45]),  # The guide reports [4.99, 0.00, 3.45].
    ):
        code, result, _ = run(*POLYNOMIAL, *flags, output_dir=tmp_path / str(len(flags)))
        assert code == 0
        assert all(np.abs([result['eval'][f'w_{i}'] for i in range(3)] - np.array([5, 0, 3])) <= tolerance)


def test_train_then_evaluate_equals_train_and_evaluate(run, trained_run, tmp_path):
    both = json.loads((trained_run('polynomial') / 'results.json').read_text())
    assert set(both) == {'global_step', 'eval'}
    assert run(*FLAGS, '--schedule=train', output_dir=tmp_path / 'other')[:2] == (0, {'global_step': 20})
    assert run(*FLAGS, '--schedule=evaluate', output_dir=tmp_path / 'other')[:2] == (0, both)
    assert json.loads((tmp_path / 'other' / 'results.json').read_text()) == both


def test_dry_run_makes_a_step_of_each_and_keeps_nothing(run, tmp_path):
    code, result, err = run(*POLYNOMIAL, '--schedule=dry_run')
    assert code == 0
    assert result['global_step'] == 1 and 'loss' in result['eval']
    assert err.count('Saving dict for global step 1: ') == 1
    assert list(tmp_path.iterdir()) == []


def test_dry_run_finds_what_is_broken_in_prediction_alone(run, monkeypatch):
    def model(features, labels, mode, params):
        return {'y': labels['y']}, tf.square(tf.get_variable('w', []) - labels['y'])

    monkeypatch.setattr(polynomial, 'model', model)
    monkeypatch.delattr(polynomial, 'eval_metrics')
    code, _, err = run(*POLYNOMIAL, '--schedule=dry_run')
    assert code == 1 and err.splitlines()[-1].startswith("TypeError: 'NoneType'")


def test_continuous_eval_follows_another_process_to_the_last_step(start, run, tmp_path):
    training = start(*FLAGS, '--schedule=train')
    code, result, err = run(*FLAGS, '--schedule=continuous_eval', '--eval_timeout=100')
    assert code == 0, err
    assert training.wait(100) == 0
    assert result['global_step'] == 20 and 'loss' in result['eval']
    assert rows(tmp_path / 'output' / 'metrics.csv')[-1]['global_step'] == '20'
    assert (tmp_path / 'output' / 'best' / 'best.json').exists()


def test_what_is_waited_for_is_logged_each_minute_until_the_timeout(monkeypatch, caplog):
    def iterator(directory, timeout, timeout_fn):
        waits.append(timeout)
        timeout_fn()
        yield 'x/model.ckpt-3'
        timeout_fn()
        timeout_fn()

    waits, clock = [], itertools.count(0, 60)  # A minute passes between any two calls.
    monkeypatch.setattr(checkpoints, 'time', types.SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(tf.train, 'checkpoints_iterator', iterator)
    caplog.set_level('INFO', 'tensorflow')
    with pytest.raises(RunError, match='^x: no new checkpoint for 120 .* the last one was x/model.ckpt-3; .* step 5:'):
        list(checkpoints.new_checkpoints('x', 5, timeout=120))
    waiting = 'Still waiting for a checkpoint in x, for 60 seconds; {}, and the training ends at step 5.'
    assert caplog.messages == [waiting.format(seen) for seen in ('there has been none', 'the last one was x/model.ckpt-3')]
    assert list(checkpoints.new_checkpoints('x', 5)) == ['x/model.ckpt-3']
    with pytest.raises(RunError, match='^x: no new checkpoint for 60 seconds, and there has been none; '):
        next(checkpoints.new_checkpoints('x', 5, timeout=7))
    assert waits == [60, 60, 7]


def test_continuous_eval_waits_for_its_timeout_and_passes_over_checkpoints_that_are_deleted(run, trained_run, monkeypatch):
    def iterator(directory, timeout, timeout_fn):
        assert timeout == 7
        return iter([f'{directory}/model.ckpt-{step}' for step in (15, 20)])

    trained_run('polynomial')
    monkeypatch.setattr(tf.train, 'checkpoints_iterator', iterator)
    code, result, log = run(*FLAGS, '--schedule=continuous_eval', '--eval_timeout=7')
    assert code == 0 and result['global_step'] == 20
    assert 'model.ckpt-15 was deleted before it could be evaluated' in log


def test_a_finished_training_says_so_and_is_evaluated_and_kept(run, trained_run):
    output_dir = trained_run('polynomial')
    shutil.rmtree(output_dir / 'best')
    code, result, log = run(*FLAGS, '--train_steps=3')
    assert code == 0 and result['global_step'] == 20 and 'loss' in result['eval']
    assert 'Nothing to train: step 20 is reached, and training ends at 3; raise --train_steps or --num_epochs' in log
    assert (output_dir / 'best' / 'model.ckpt-20.index').exists()


def test_an_export_waits_for_another_one_and_deletes_what_a_killed_one_has_left(start, trained_run):
    export = trained_run('polynomial') / 'export'
    for name in ('temp-1700000000', 'temp-of-mine'):
        (export / name).mkdir(parents=True)
    with locks.taking_turns(str(export)):
        process = start(*POLYNOMIAL, '--schedule=export')
        assert any(f'Waiting for another process to finish with {export}.' in line for line in process.stderr)
        assert (export / 'temp-1700000000').exists()
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert {path.name for path in export.iterdir()} == {os.path.basename(json.loads(out)['export']), 'temp-of-mine'}
