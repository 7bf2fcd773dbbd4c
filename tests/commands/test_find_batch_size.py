"""--schedule=find_batch_size, with processes that measure."""

import json

import pytest

import estimator_trainer
from estimator_trainer.common.commands import batch_trials, find_batch_size
from tests.shared import POLYNOMIAL, refused


def test_sizes_up_to_the_number_of_examples_are_measured_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(find_batch_size, '_MOST', 16)
    monkeypatch.setattr(find_batch_size, '_SECONDS', 600)
    found = estimator_trainer.find_batch_size('polynomial', 'polynomial', hparams={'learning_rate': 0.01})
    assert [trial['batch_size'] for trial in found['sizes']] == [8, 16] and found['largest'] == 16
    assert found['batch_size'] in (8, 16) and all(trial['examples/sec'] > 0 for trial in found['sizes'])
    assert all(10**8 < trial['memory'] < 10**10 for trial in found['sizes']) and not [*tmp_path.iterdir()]


def test_a_trial_writes_its_time_and_its_peak(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(batch_trials, '_SECONDS', 0)
    argv = ['batch_trials.py', '0', str(tmp_path / 'found.json'), '8', *POLYNOMIAL, '--verbosity=warning']
    assert batch_trials.main(argv) == 0, capsys.readouterr().err
    found = json.loads((tmp_path / 'found.json').read_text())
    assert found['seconds'] > 0 and found['peak'] > 10**8


@pytest.mark.parametrize('model', [object()])
def test_objects_that_processes_cannot_import_are_refused(model, tmp_path):
    assert 'but each size is a process that imports it' in refused(
        estimator_trainer.find_batch_size, model, 'polynomial', str(tmp_path)
    )
