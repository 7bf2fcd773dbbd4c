"""Folds from flags and from Python: trained, resumed, predicted with and exported together."""

import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf2

import estimator_trainer
from estimator_trainer.common.commands import folds, trainer
from estimator_trainer.common.errors import RunError
from tests.shared import failed, refused

SETTINGS = ('--model=linear', '--dataset=table', '--train_steps=4', '--verbosity=warning')


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """The Folds of a small table, of which the second half of the third column tells the class."""
    directory = tmp_path_factory.mktemp('folds')
    rows = [
        f'{number % 7},{"ab"[number % 2]},{number / 10},2024-03-{number + 1:02},{"no" if number < 12 else "yes"}'
        for number in range(24)
    ]
    (directory / 'rows.csv').write_text('\n'.join(['x,kind,y,day,target', *rows, '']))
    hparams = {'table_file': str(directory / 'rows.csv'), 'hidden_units': [4]}
    options = {'data_dir': str(directory / 'data'), 'train_steps': 4}
    return estimator_trainer.train_folds('mlp', 'table', str(directory / 'out'), folds=2, jobs=2, hparams=hparams, **options)


def test_every_row_is_evaluated_and_predicted_once_by_the_fold_that_has_not_seen_it(trained):
    found = trained.predict_split()
    assert sorted(line['line'] for line in found) == [*range(2, 26)]
    assert {line['fold'] for line in found} == {1, 2}
    assert [run.output_dir[-6:] for run in trained.runs] == ['fold_1', 'fold_2']
    accuracies = [run.metrics['eval']['accuracy'] for run in trained.runs]
    np.testing.assert_allclose(trained.metrics['eval']['accuracy']['mean'], np.mean(accuracies), rtol=1e-5)
    np.testing.assert_allclose(trained.metrics['eval']['accuracy']['std'], np.std(accuracies, ddof=1), rtol=1e-5)


def test_a_fold_without_evaluations_is_named(tmp_path):
    with pytest.raises(RunError, match=r'fold_1/metrics\.csv: has no evaluation: restore it, or delete .*fold_1 to train'):
        folds.read_results(str(tmp_path), 2)


def test_changed_data_is_not_predicted_as_if_it_was_new(trained):
    path = os.path.join(os.path.dirname(trained.output_dir), 'rows.csv')
    status, rows = os.stat(path), open(path).read()
    try:
        with open(path, 'a') as file:
            file.write('3,a,2.5,2024-03-25,yes\n')
        for function in (trained.predict_split, trained.suspects):
            with pytest.raises(RunError, match='the split eval differs from that of .*fold_1, which may have learned'):
                function()
    finally:
        with open(path, 'w') as file:
            file.write(rows)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_suspects_are_ranked_by_the_fold_that_has_not_seen_them(trained):
    found = trained.suspects(top=24)
    assert sorted(one['line'] for one in found) == [*range(2, 26)] and 'example' not in found[0]
    logs = {line['line']: np.log(line['probabilities']) for line in trained.predict_split()}
    for one in found:
        no, yes = logs[one['line']]
        np.testing.assert_allclose(one['score'], no - yes if one['label'] == 'no' else yes - no, rtol=1e-3, atol=1e-3)
    assert [one['score'] for one in found] == sorted(one['score'] for one in found)


def test_predictions_and_an_export_are_the_averages_of_the_folds(trained, tmp_path):
    days = ['2024-03-02', '2024-03-20']
    inputs = {'x': ['1', '5'], 'kind': ['a', 'b'], 'y': ['0.3', '2.2'], 'day': days}
    expected = np.mean([run.predict(inputs)['probabilities'] for run in trained.runs], 0)
    found = trained.predict(inputs)
    np.testing.assert_allclose(found['probabilities'], expected, rtol=1e-6)
    assert found['class_name'].tolist() == [('no', 'yes')[number] for number in expected.argmax(1)]
    assert trained.predict({'x': 1, 'kind': 'a', 'y': 0.3, 'day': days[0]})['probabilities'].shape == (2,)
    (tmp_path / 'in.csv').write_text(f'x,kind,y,day\n1,a,0.3,{days[0]}\nmany,b,2.2,\n5,b,2.2,{days[1]}\n')
    lines = trained.predict_files(str(tmp_path / 'in.csv'))
    np.testing.assert_allclose([lines[0]['probabilities'], lines[2]['probabilities']], expected, rtol=1e-5)
    assert 'error' in lines[1]
    shutil.move(trained.export(), tmp_path / 'export')  # It needs nothing of the folds.
    signatures = tf2.saved_model.load(str(tmp_path / 'export')).signatures
    raw = {'x': [1.0, 5.0], 'kind': ['a', 'b'], 'y': [0.3, 2.2], 'day': days}
    outputs = signatures['serving_default'](**{name: tf2.constant(values) for name, values in raw.items()})
    assert {*signatures} == {'serving_default', 'predict'}  # In examples, days count from another one in each fold.
    np.testing.assert_allclose(outputs['probabilities'], expected, rtol=1e-5)
    assert [name.decode() for name in outputs['class_name'].numpy()] == found['class_name'].tolist()


def test_the_directory_alone_resumes_and_what_is_not_for_folds_is_refused(trained, execute):
    directory = f'--output_dir={trained.output_dir}'
    code, result, _ = execute(trainer.main, ['trainer.py', directory, '--verbosity=warning'])
    assert code == 0 and result['folds'] == 2 and result['eval']['loss']['folds'] == 2
    assert json.loads(open(f'{trained.output_dir}/results.json').read()) == result
    for argv, message in (
        (['--schedule=evaluate'], '--schedule=evaluate takes one run, but '),
        (['--schedule=export', '--format=onnx'], 'folds are exported together as saved_model only'),
        (['--schedule=predict', '--predict_split=train'], 'each fold trains on other examples'),
        (['--schedule=predict', '--checkpoint=/x'], '--checkpoint=/x: of folds, it can be latest or best'),
        (['--folds=3'], '--folds=3: '),
        ([*SETTINGS, '--folds=3', '--hparams=group=none'], 'has 2 folds: give that'),  # Before it looks at the data.
        (['--train_steps=5'], 'folds.json: train_steps was 4, now it is 5: use the same values'),
        (['--from_step=2'], '--from_step is not for folds: give it with the --output_dir of one'),
        (['--hparams=fold=2'], '--hparams: fold is set by --folds=2: omit it'),
        (SETTINGS, 'has 2 folds: give --folds=2, too'),
    ):
        code, _, err = execute(trainer.main, ['trainer.py', directory, '--verbosity=warning', *argv])
        assert code == 2 and message in err, err


def test_the_data_of_a_fold_is_checked_before_any_starts(trained, tmp_path, execute):
    common = [f'--output_dir={tmp_path}/out', f'--data_dir={tmp_path}/data', '--verbosity=warning', '--model=mlp']
    table = [*common, '--dataset=table', f'--hparams=table_file={trained.output_dir}/../rows.csv']
    for argv, message in (
        ([*table, '--folds=25'], 'folds=25: '),
        ([*table, '--folds=1'], '--folds=1 leaves nothing to train on'),
        ([*table[:-1], f'{table[-1]},group=who', '--folds=2'], 'group=who is no column of '),
        ([*table, '--folds=2', '--local_cluster=worker:2'], '--folds=2 excludes --local_cluster=worker:2'),
    ):
        code, _, err = execute(trainer.main, ['trainer.py', *argv])
        assert code == 2 and message in err and not (tmp_path / 'out' / 'fold_1').exists(), err
    code, result, _ = execute(trainer.main, ['trainer.py', *table, '--folds=2', '--schedule=dry_run'])
    assert code == 0 and 'loss' in result['eval'] and not (tmp_path / 'out').exists()


def test_folds_of_changed_data_are_refused(tmp_path, execute, monkeypatch):
    def stop(runner, jobs, stop):
        raise RunError('stopped')

    def change_suspects(runner, jobs, stop):
        suspects.write_text('record\n3\n')

    monkeypatch.setattr(folds.folds.FoldRunner, 'train', stop)
    rows, suspects = [f'{number % 7},{number % 2}' for number in range(24)], tmp_path / 'suspects.csv'
    suspects.write_text('record\n2\n')
    hparams = f'--hparams=table_file={tmp_path}/rows.csv,exclude={suspects}'
    paths = (f'--output_dir={tmp_path}/out', f'--data_dir={tmp_path}/data', hparams)

    def check(expected, *added):
        (tmp_path / 'rows.csv').write_text('\n'.join(['x,target', *rows, *added, '']))
        code, _, err = execute(trainer.main, ['trainer.py', *SETTINGS, '--folds=2', *paths])
        assert code and expected in err, err

    check('stopped')
    check('stopped')
    check('folds.json: the data of train and eval has changed', '5,1')
    monkeypatch.setattr(folds.folds.FoldRunner, 'train', change_suspects)
    check(f'folds.json: the data of {suspects} changed while these runs trained, on both: choose another --output_dir, or give')
    suspects.write_text('record\n2\n')
    check(f'folds.json: the data of {suspects} changed while these runs trained')


def test_a_dry_run_without_an_output_dir_does_not_care_for_folds_in_the_default_one(trained, tmp_path, execute, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained.output_dir, 'output/table/linear')
    paths = (f'--data_dir={tmp_path}/data', f'--hparams=table_file={os.path.dirname(trained.output_dir)}/rows.csv')
    code, _, err = execute(trainer.main, ['trainer.py', *SETTINGS, *paths, '--schedule=dry_run'])
    assert code == 0, err
    code, _, err = execute(trainer.main, ['trainer.py', *SETTINGS, *paths, '--schedule=find_learning_rate'])
    assert code == 2 and 'output/table/linear has folds' in err
    code, _, err = execute(trainer.main, ['trainer.py', *SETTINGS, *paths])
    assert code == 2 and '--output_dir=output/table/linear has 2 folds: give --folds=2, too' in err


def test_python_programs_are_told_what_folds_are_not(trained, tmp_path):
    train = estimator_trainer.train_folds
    assert refused(train, 'mlp', object(), str(tmp_path)).startswith('dataset is ')
    assert refused(train, 'mlp', 'table', str(tmp_path), folds=0) == 'folds=0 divides nothing: give 2 or more, or call train()'
    assert refused(estimator_trainer.train, 'mlp', 'table', str(tmp_path), folds=2).endswith('call train_folds()')
    assert refused(estimator_trainer.train, 'mlp', 'table', trained.output_dir).endswith('has folds: choose another')
    assert refused(estimator_trainer.load_folds, str(tmp_path)) == f'{tmp_path}: has no folds'
    shutil.copytree(trained.output_dir, tmp_path / 'out')
    (tmp_path / 'out' / 'fold_2' / 'status.json').unlink()
    assert 'fold_2 has not finished: train the folds to the end' in failed(estimator_trainer.load_folds, str(tmp_path / 'out'))
