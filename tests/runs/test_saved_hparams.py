"""Hyper-parameters from sets and flags, and those that are saved in the output_dir."""

import json

import pytest

from tests.shared import POLYNOMIAL, SMALL


def test_other_hparams_in_the_same_directory_are_refused_with_both_values(run):
    assert run(*POLYNOMIAL, '--train_steps=2', '--schedule=train')[0] == 0
    for schedule in ('train', 'evaluate', 'predict', 'export', 'train_and_evaluate'):
        code, result, err = run(*POLYNOMIAL, f'--schedule={schedule}', '--hparams=batch_size=50,num_samples=7')
        assert code == 2 and result is None
        assert 'batch_size was 100, now it is 50; num_samples was 100000, now it is 7' in err
    code, _, err = run(*SMALL, '--schedule=train')
    assert code == 2 and 'model was "polynomial", now it is "alexnet"' in err
    assert run(*POLYNOMIAL, '--seed=2')[0] == 2


def test_the_size_of_evaluation_batches_may_change_after_training_only(run):
    flags = (*POLYNOMIAL, '--train_steps=2', '--hparams=eval_batch_size=10')
    _, trained, _ = run(*POLYNOMIAL, '--train_steps=2')
    code, evaluated, _ = run(*flags, '--schedule=evaluate')
    assert code == 0 and evaluated['eval']['loss'] == pytest.approx(trained['eval']['loss'], rel=1e-4)
    assert run(*flags)[0] == 2


def test_hparams_may_change_as_long_as_nothing_was_trained(run):
    assert run(*POLYNOMIAL, '--hparams=batch_size=101', '--num_towers=2')[0] == 2
    assert run(*POLYNOMIAL, '--hparams=batch_size=102', '--num_towers=2', '--train_steps=1')[0] == 0


def test_a_models_own_bounds_are_one_line(run):
    code, _, err = run('--hparams=drop_rate=1.0', '--schedule=dry_run')
    assert code == 2 and err.splitlines()[-1].startswith('trainer.py: drop_rate=1.0 must be at least 0 and less than 1')


def test_the_saved_hparams_bring_their_seed(run, tmp_path):
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=3', '--seed=5')[0] == 0
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=4')[0] == 2
    assert run(*POLYNOMIAL, '--schedule=evaluate')[0] == 0
    saved = f'--hparams_set={tmp_path}/output/hparams.json'
    assert run(*POLYNOMIAL, '--schedule=evaluate', saved)[0] == 0
    assert run(*POLYNOMIAL, '--schedule=evaluate', saved, '--seed=6')[0] == 2


def test_epochs_and_steps_end_the_training(run, tmp_path):
    flags = (*POLYNOMIAL, '--schedule=train', '--hparams=num_samples=1000,batch_size=64')
    assert run(*flags, '--num_epochs=1.5', output_dir=tmp_path / 'a')[1] == {'global_step': 24}  # 1500 / 64, rounded up.
    assert run(*flags, '--num_epochs=1.5', '--train_steps=5', output_dir=tmp_path / 'b')[1] == {'global_step': 5}


def test_a_set_of_hparams_is_found_by_path_and_by_name(run, tmp_path):
    (tmp_path / 'mine.json').write_text('{"batch_size": 7, "train_steps": 3}')
    run(*POLYNOMIAL, '--schedule=train', f'--hparams_set={tmp_path}/mine.json')
    saved = json.loads((tmp_path / 'output' / 'hparams.json').read_text())
    assert (saved['batch_size'], saved['train_steps'], saved['learning_rate_schedule']) == (7, 3, 'constant')
    run(*POLYNOMIAL, '--schedule=train', '--train_steps=2', output_dir=tmp_path / 'by_name')
    saved = json.loads((tmp_path / 'by_name' / 'hparams.json').read_text())
    assert (saved['batch_size'], saved['train_steps'], saved['learning_rate_schedule']) == (100, 2, 'cosine')
