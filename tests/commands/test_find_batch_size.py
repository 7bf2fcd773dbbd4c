"""--schedule=find_batch_size, with processes that measure."""

import json

import pytest

import estimator_trainer
from estimator_trainer.common.commands import batch_trials, find_batch_size
from estimator_trainer.common.sweep.batch_sizes import Trial
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


def test_sizes_are_those_of_a_run_with_its_flags(run, trained_run, monkeypatch):
    path = trained_run('polynomial') / 'flags.json'
    path.write_text(json.dumps(json.loads(path.read_text()) | {'num_towers': 2, 'freeze': 'nothing', 'eval_steps': 7}))
    arguments = []

    def try_size(begin, directory, size, given, *others):
        arguments.append(given)
        return Trial(size, 1.0, 10**9)

    monkeypatch.setattr(find_batch_size, '_try', try_size)
    code, _, err = run('--schedule=find_batch_size', '--precision=bfloat16')
    assert code == 0 and 'From the run: ' in err, err
    assert {'--num_towers=2', '--freeze=nothing', '--precision=bfloat16'} <= {*arguments[0]}
    assert not [flag for flag in arguments[0] if flag.startswith(('--xla', '--num_gpus', '--overfit_batches'))]


def test_fewer_examples_than_the_first_size_are_refused(tmp_path):
    path = tmp_path / 'few.csv'
    path.write_text('x,y\n' + '1,a\n2,b\n3,a\n' * 2)
    hparams = {'table_file': str(path), 'target': 'y'}
    found = refused(estimator_trainer.find_batch_size, 'mlp', 'table', str(tmp_path / 'run'), hparams=hparams)
    assert found.endswith(' training examples are too few to compare sizes from 8 on')


@pytest.mark.parametrize('model', [object()])
def test_objects_that_processes_cannot_import_are_refused(model, tmp_path):
    assert 'but each size is a process that imports it' in refused(
        estimator_trainer.find_batch_size, model, 'polynomial', str(tmp_path)
    )
