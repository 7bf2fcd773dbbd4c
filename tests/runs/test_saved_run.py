"""Evaluation, prediction and export of a run take the model, the dataset, data_dir and the hyper-parameters from it."""

import json
import os
import shutil

import pytest

from tests.cluster import tiny_data
from tests.cluster.tasks import TINY
import trainer

TRAINING = (*TINY, '--train_steps=4', '--hparams=batch_size=12,learning_rate=0.05,uses_words=true', '--schedule=train')


@pytest.fixture
def command(execute, tmp_path, monkeypatch):
    """Calls the trainer's main with a directory of the test as the current one."""
    (tmp_path / 'cwd').mkdir()
    monkeypatch.chdir(tmp_path / 'cwd')
    return lambda *flags: execute(trainer.main, ['trainer.py', *flags])


@pytest.fixture
def trained(command, tmp_path):
    """Returns the output_dir of a training on data in another directory than the default one, named relatively."""
    tiny_data.write(tmp_path / 'tiny')
    code, _, log = command(*TRAINING, '--data_dir=../tiny', '--output_dir=run')
    assert code == 0, log
    return 'run'


@pytest.mark.parametrize('schedule', ['evaluate', 'predict', 'continuous_eval'])
def test_a_run_is_used_as_with_all_its_flags(command, trained, tmp_path, schedule):
    flags = [*TRAINING[:-1], f'--data_dir={tmp_path / "tiny"}', '--output_dir=run', f'--schedule={schedule}']
    code, expected, log = command(*flags)
    assert code == 0, log
    code, result, log = command(f'--schedule={schedule}', '--output_dir=run')
    assert (code, result) == (0, expected)
    assert (
        'From the run: --model=tests.cluster.tiny_model, --dataset=tests.cluster.tiny_data, '
        f'--data_dir={os.path.realpath(tmp_path / "tiny")}, --hparams_set=run/hparams.json.'
    ) in log


def test_a_run_is_exported_where_its_data_is_gone(command, trained, tmp_path):
    shutil.rmtree(tmp_path / 'tiny')
    code, result, log = command('--schedule=export', '--output_dir=run')
    assert code == 0 and os.path.exists(os.path.join(result['export'], 'saved_model.pb')), log


def test_flags_that_are_given_take_precedence(command, trained, tmp_path):
    tiny_data.write(tmp_path / 'other', seed=1)
    results = [
        command('--schedule=evaluate', '--output_dir=run', *flags)[1] for flags in ([], [f'--data_dir={tmp_path / "other"}'])
    ]
    assert results[0]['eval']['loss'] != results[1]['eval']['loss']
    # A hyper-parameter of the run's model, not of the default one.
    code, result, log = command('--schedule=evaluate', '--output_dir=run', '--hparams=uses_words=true')
    assert (code, result) == (0, results[0]), log
    code, _, log = command('--schedule=evaluate', '--output_dir=run', '--hparams=learning_rate=0.1')
    assert code == 2 and 'learning_rate was 0.05, now it is 0.1' in log
    code, _, log = command('--schedule=evaluate', '--output_dir=run', '--model=polynomial', '--dataset=polynomial')
    assert code == 2 and 'model was "tests.cluster.tiny_model", now it is "polynomial"' in log


def test_a_training_takes_nothing_from_the_run(command, trained):
    code, _, log = command('--schedule=train', '--output_dir=run', '--data_dir=../tiny', *TINY, '--train_steps=8')
    assert code == 2 and 'batch_size was 12, now it is 128' in log and 'From the run' not in log


def test_a_corrupt_hparams_json_is_named(command, trained):
    with open('run/hparams.json', 'w') as file:
        json.dump([], file)
    code, _, log = command('--schedule=evaluate', '--output_dir=run')
    assert code == 2 and 'run/hparams.json' in log.splitlines()[-1] and 'Traceback' not in log
