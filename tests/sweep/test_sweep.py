"""Sweeps: results, files, passed flags, stopping and resuming; mostly with a fake trainer."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
from unittest import mock

import numpy as np
import optuna
from optuna.trial import TrialState
import pytest

from estimator_trainer.common import processes
from estimator_trainer.common.commands import sweep, sweep_request, trials
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import names_with
from estimator_trainer.common.storage.metrics import read_metric
from estimator_trainer.common.storage.objective import Objective
from estimator_trainer.common.sweep import execution, forks
from estimator_trainer.common.sweep import search as searches
from estimator_trainer.common.sweep import trials as runs_of_trials
from estimator_trainer.common.sweep.table import of_seeds
from estimator_trainer.common.sweep.trials import TrialRunner
from estimator_trainer.hparams.build import HParams
from tests import forked
from tests.cluster import tiny_data
from tests.cluster.tasks import TINY, tf_config, wait_until
from tests.shared import POLYNOMIAL, ROOT, read_weights, rows

RATES = {'learning_rate': {'low': 1e-4, 'high': 0.5, 'log': True}}
FAKE, TRAINER = os.path.join(ROOT, 'tests', 'sweep', 'fake_trainer.py'), processes.SCRIPT


@pytest.fixture
def command(tmp_path):
    """Returns a sweep's command line: command(space, '--trials=1') -> list of str."""

    def make(space, *flags):
        path = tmp_path / 'space.json'
        path.write_text(json.dumps(space))
        paths = (f'--space={path}', f'--data_dir={tmp_path}/data', f'--output_dir={tmp_path}/output')
        return ['sweep.py', *POLYNOMIAL, *paths, *flags]

    return make


@pytest.fixture
def search(command, execute, monkeypatch):
    """Runs a sweep: search(space, '--trials=1') -> (exit code, JSON of stdout or None, stderr)."""
    monkeypatch.setattr(subprocess, 'Popen', forked.Popen)

    def call(space, *flags, script=FAKE):
        monkeypatch.setattr(processes, 'SCRIPT', script)
        return execute(sweep.main, command(space, *flags))

    return call


def losses(directory, split='eval'):
    return [float(row['loss']) for row in rows(directory / 'metrics.csv') if row['split'] == split]


def logged(log):
    """Returns the lines of a log without times, rates and paths."""
    return [re.sub(r'\S*/\S*|[\d.]+ sec|\d\d:\d\d left', '', line[20:]) for line in log.splitlines() if '/sec' not in line]


def table_of(tmp_path):
    return json.loads((tmp_path / 'output' / 'trials.json').read_text())


def trials_of(tmp_path):
    return optuna.load_study(study_name='sweep', storage=f'sqlite:///{tmp_path}/output/study.db').trials


def test_the_best_set_trains_again_to_the_same_loss(search, run, tmp_path):
    space = {**RATES, 'piecewise_boundaries': [[5, 9], [7, 9]], 'batch_size': {'low': 30, 'high': 90, 'step': 30}}
    evaluations = ('--eval_every_steps=20', '--eval_splits=train,eval', '--eval_steps=2')
    flags = ('--trials=2', '--jobs=2', '--train_steps=60', '--hparams=adam_beta2=0.99', '--seed=3')
    code, result, _ = search(space, *flags, *evaluations, script=TRAINER)
    assert code == 0
    directories = [tmp_path / 'output' / f'trial-{i}' for i in range(2)]
    found = [min(losses(directory, 'train')) for directory in directories]
    best = directories[found.index(min(found))]
    hparams = tmp_path / 'output' / 'best_hparams.json'
    assert result == {'trials': 2, 'loss': min(found), 'best': str(best), 'hparams_set': str(hparams)}
    assert len(set(found)) == 2 and all(len(losses(directory)) == 3 for directory in directories)
    for directory, trial in zip(directories, trials_of(tmp_path)):
        saved = json.loads((directory / 'hparams.json').read_text())
        assert (saved['train_steps'], saved['adam_beta2'], saved['seed']) == (60, 0.99, 3)
        assert saved['learning_rate'] == trial.params['learning_rate'] and saved['batch_size'] == trial.params['batch_size']
        assert saved['piecewise_boundaries'] == json.loads(trial.params['piecewise_boundaries'])

    again = tmp_path / 'again'
    code, _, log = run(*POLYNOMIAL, *evaluations, f'--hparams_set={hparams}', output_dir=again)
    assert code == 0 and losses(again, 'train') == losses(best, 'train')
    weights, expected = read_weights(again), read_weights(best)
    assert weights.keys() == expected.keys() and all((weights[name] == expected[name]).all() for name in weights)
    assert logged(log) == logged((best / 'log.txt').read_text())


def test_a_stopped_sweep_resumes_its_trials(search, tmp_path, monkeypatch):
    tiny_data.write(tmp_path / 'data')
    steps = ('--train_steps=60', '--eval_every_steps=30', '--save_summary_steps=1')
    flags = [{'learning_rate': [0.05]}, '--trials=1', '--hparams=batch_size=10', *TINY, *steps]
    trial = tmp_path / 'output' / 'trial-0'

    def stop():
        wait_until(lambda: (trial / 'log.txt').exists() and 'step = 3' in (trial / 'log.txt').read_text())
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setenv('TINY_SECONDS', '1')
    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(SystemExit) as stopped:
        search(*flags, script=TRAINER)
    assert stopped.value.code == 130
    assert 3 <= max(int(path.stem.split('-')[1]) for path in trial.glob('model.ckpt-*.index')) < 60
    assert [trial.state for trial in trials_of(tmp_path)] == [TrialState.RUNNING]

    monkeypatch.delenv('TINY_SECONDS')
    assert search(*flags, script=TRAINER)[0] == 0
    assert [trial.state for trial in trials_of(tmp_path)] == [TrialState.COMPLETE]
    assert [row['global_step'] for row in rows(trial / 'metrics.csv')] == ['30', '60']


@pytest.mark.parametrize('forks_are_safe', [True, False])
def test_a_trial_starts_with_the_flags_of_a_run_in_its_own_session(search, tmp_path, monkeypatch, forks_are_safe):
    monkeypatch.setattr(forks, 'can_fork', lambda: forks_are_safe)
    flags = ('--train_steps=20', '--hparams=momentum=0.5', '--seed=3', '--num_towers=2', '--best_metric=loss:max')
    code, result, err = search({'learning_rate': [0.25]}, '--trials=1', '--jobs=2', *flags, f'--log_file={tmp_path}/log')
    assert code == 0
    output, trial = tmp_path / 'output', tmp_path / 'output' / 'trial-0'
    best = {'best': str(trial), 'hparams_set': f'{output}/best_hparams.json'}
    assert result == {'trials': 1, 'loss': 0.5, **best} == json.loads((output / 'results.json').read_text())
    started = json.loads((trial / 'started.json').read_text())
    assert started['leads_session']  # Ctrl-C does not reach it.
    paths = [f'--data_dir={tmp_path}/data', f'--hparams_set={trial}/hparams.json', f'--output_dir={trial}']
    assert started['flags'][:2] == [*POLYNOMIAL]
    assert sorted(started['flags'][2:]) == sorted(['--best_metric=loss:max', '--num_towers=2', *paths])
    assert (trial / 'log.txt').read_text() == ''
    assert f'{trial}: learning_rate=0.25' in err and f'{trial} completed: loss = 0.5 after 2 evaluations' in err
    assert err.splitlines()[-1].endswith(f'which hyper-parameters matter: --schedule=compare --runs={output}')


def test_a_bad_trial_is_pruned(search, tmp_path):
    (tmp_path / 'output').mkdir()
    study = optuna.create_study(study_name='sweep', storage=f'sqlite:///{tmp_path}/output/study.db')
    for _ in range(5):
        study.add_trial(optuna.create_trial(value=1e-9, intermediate_values=dict.fromkeys(range(1, 100), 1e-09)))
    code, _, err = search({'learning_rate': [0.5]}, '--trials=6', '--train_steps=1000', '--freeze=waits')
    assert code == 0 and f'{tmp_path}/output/trial-5 was pruned: loss = 0.5 after 2 evaluations' in err
    assert trials_of(tmp_path)[5].state == TrialState.PRUNED


def test_a_sweep_waits_for_the_trials_of_a_killed_one(command, search, tmp_path):
    flags = [{'learning_rate': [0.25]}, '--trials=1', '--freeze=waits']
    code = f'import sys; sys.path.insert(0, {ROOT!r}); from estimator_trainer.common import processes; '
    code += f'from estimator_trainer.common.commands import sweep; processes.SCRIPT = {FAKE!r}; '
    arguments = [sys.executable, '-c', f'{code}sweep.main(sys.argv)', *command(*flags)[1:]]
    process = forked.Popen(arguments, stderr=subprocess.DEVNULL)
    wait_until((tmp_path / 'output' / 'trial-0' / 'metrics.csv').exists)
    process.kill()
    process.wait()
    code, _, err = search(*flags)
    assert code == 1 and f'--output_dir={tmp_path}/output: another sweep, or one of its runs, is active' in err
    (tmp_path / 'output' / 'go').touch()
    wait_until(lambda: search(*flags)[0] == 0)
    assert trials_of(tmp_path)[0].value == 0.25


def test_failed_trials_are_reported_and_end_nothing_but_a_sweep_without_others(search, tmp_path):
    space = {'learning_rate': [1e-4, 1e9]}
    code, _, err = search(space, '--trials=1', '--train_steps=20')
    assert [trial.params['learning_rate'] for trial in trials_of(tmp_path)] == [1e9]
    line = f'trainer.py: the loss of step 3 is inf (log: {tmp_path}/output/trial-0/log.txt)\n'
    assert code == 1 and f' WARNING {tmp_path}/output/trial-0 failed: {line}' in err
    assert err.endswith(f'sweep.py: no trial completed; the last one: {line}')

    code, result, err = search(space, '--trials=4', '--jobs=2', '--train_steps=20')
    states = {trial.params['learning_rate']: trial.state for trial in trials_of(tmp_path)}
    assert code == 0 and states == {1e9: TrialState.PRUNED, 1e-4: TrialState.COMPLETE} and result['trials'] == 2
    assert 'All 2 points of the space are done.' in err

    code, _, err = search({'learning_rate': [0.1, 0.2]}, '--trials=4', '--train_steps=30', '--eval_every_steps=5')
    assert code == 2
    changes = ['train_steps was 20, now it is 30', 'the space of learning_rate was .*, now it is .0.1, 0.2.']
    for change in [*changes, '--eval_every_steps was null, now it is 5']:
        assert re.search(f'study.db: .*{change}.*: use the same values, or choose another --output_dir', err)


def test_a_mistake_costs_no_trial_and_a_complete_sweep_only_prints_the_result(search, tmp_path):
    for mode, expected in (('wrong', 2), ('broken', 1)):
        code, _, err = search(RATES, f'--freeze={mode}')
        assert code == expected and f'a dry run failed: trainer.py: --freeze={mode}: matches none (log: {tmp_path}' in err
    assert not (tmp_path / 'output' / 'study.db').exists()
    assert search(RATES, '--trials=1')[0] == 0
    best = tmp_path / 'output' / 'best_hparams.json'
    os.remove(best)
    code, result, err = search(RATES, '--trials=1')
    assert code == 0 and result['best'] == f'{tmp_path}/output/trial-0'
    assert 'Nothing to do: all 1 trials are complete; raise --trials to continue.' in err
    assert best.read_bytes() == (tmp_path / 'output' / 'trial-0' / 'hparams.json').read_bytes()


def test_a_sweep_of_changed_data_does_not_resume(search, tmp_path):
    path, rows = tmp_path / 'rows.csv', [f'{number % 7},{number % 2}' for number in range(24)]
    used, other = tmp_path / 'used.json', tmp_path / 'other.json'
    table, space = ('--model=linear', '--dataset=table', f'--hparams=table_file={path}'), {'schema': [str(used), str(other)]}
    path.write_text('\n'.join(['x,target', *rows, '']))
    for schema in (used, other):
        schema.write_text('{"columns": {"x": "numeric"}}')
    assert search(space, '--trials=1', *table)[0] == 0
    change = 'has changed since the first of these runs, or is converted differently by other ver'
    other.write_text('{"columns": {"x": "categorical"}}')  # Of no record of the sweep's own data.
    code, _, err = search(space, '--trials=2', *table)
    assert code == 2 and f'study.db: the data of {other} {change}' in err and len(trials_of(tmp_path)) == 1, err
    path.write_text('\n'.join(['x,target', *rows, '5,1', '']))
    code, _, err = search(space, '--trials=2', *table)
    assert code == 2 and f'study.db: the data of train and {other} {change}' in err and len(trials_of(tmp_path)) == 1, err


def test_data_that_changes_while_trials_run_gives_no_result(search, tmp_path, monkeypatch):
    def change_data(*args):
        path.write_text('\n'.join(['x,target', *rows, '5,1', '']))
        return execution.run_trials(*args)

    path, rows = tmp_path / 'rows.csv', [f'{number % 7},{number % 2}' for number in range(24)]
    path.write_text('\n'.join(['x,target', *rows, '']))
    monkeypatch.setattr(searches, 'run_trials', change_data)
    settings = RATES, '--trials=1', '--model=linear', '--dataset=table', f'--hparams=table_file={path}'
    code, _, err = search(*settings)
    assert not (tmp_path / 'output' / 'results.json').exists() and len(trials_of(tmp_path)) == 1
    monkeypatch.setattr(searches, 'run_trials', execution.run_trials)
    for content in ([*rows, '5,1'], rows):  # As it is now, and restored.
        path.write_text('\n'.join(['x,target', *content, '']))
        again, _, said = search(*settings)
        for found, text in ((code, err), (again, said)):
            assert found == (1 if text is err else 2)
            assert re.search('study.db: the data of train.* changed while these runs trained, on both: choose another', text)


def test_a_sweep_leaves_directories_of_other_runs_alone(search, run, tmp_path):
    assert run(*POLYNOMIAL, '--train_steps=2')[0] == 0
    hparams, trial = tmp_path / 'output' / 'hparams.json', tmp_path / 'output' / 'trial-0'
    code, _, err = search(RATES, '--trials=1')
    assert code == 2 and f'--output_dir={tmp_path}/output is the output_dir of a run: choose another' in err
    assert not (tmp_path / 'output' / 'study.db').exists()
    trial.mkdir()
    before = hparams.rename(trial / 'hparams.json').read_bytes()
    study = tmp_path / 'output' / 'study.db'
    for make in (lambda: None, study.touch):
        make()
        code, _, err = search(RATES, '--trials=1', '--train_steps=2')
        lost = f'{trial} is of an unknown sweep, as {study} is missing or empty: restore that, or choose another --output_dir'
        assert code == 2 and lost in err and (trial / 'hparams.json').read_bytes() == before
    optuna.create_study(study_name='sweep', storage=f'sqlite:///{study}')
    code, _, err = search(RATES, '--trials=1', '--train_steps=2')
    other = rf'{trial} belongs to another sweep \(learning_rate was 0.5, now it is .*\): delete it, or choose another'
    assert code == 1 and re.search(other, err) and (trial / 'hparams.json').read_bytes() == before


def test_a_trial_resumes_with_the_hyper_parameters_that_its_data_has_set(tmp_path):
    params = HParams({'seed': 1, 'learning_rate': 0.5, 'num_classes': 0, 'task': ''})
    runner = TrialRunner([], params, str(tmp_path), 'eval', Objective('loss', False), 1, mock.Mock())
    path = tmp_path / 'trial-0' / 'hparams.json'

    def start(**chosen):
        runner.start(mock.Mock(number=0, params=chosen))
        return json.loads(path.read_text())

    assert start(learning_rate=0.25) == {**params, 'learning_rate': 0.25}
    path.write_text(json.dumps(whole := {**params, 'learning_rate': 0.25, 'num_classes': 3, 'task': 'classification'}))
    assert start(learning_rate=0.25) == whole
    for chosen, message in (
        ({'learning_rate': 0.125}, 'learning_rate was 0.25, now it is 0.125'),
        ({'learning_rate': 0.25, 'num_classes': 0}, 'num_classes was 3, now it is 0'),
    ):
        with pytest.raises(RunError, match=rf'trial-0 belongs to another sweep \({message}\)'):
            start(**chosen)


def test_wrong_usage_of_a_sweep_and_a_cluster_are_one_line_and_exit_code_2(search, tmp_path, monkeypatch):
    for message, space, flags in (
        ('--schedule is for trainer.py: each trial of a sweep trains and evaluates', RATES, ['--schedule=train']),
        ('--space is missing: a JSON file of the search space', RATES, ['--space=']),
        ('{}: a sweep needs a local directory', RATES, ['--output_dir=gs://bucket/sweep']),
        ('{}: this TensorFlow has no file system ', RATES, ['--data_dir=s3://bucket/data', '--space=hdfs://space.json']),
        ('flag {}', RATES, ['--trials=2147483648', '--trials=0', '--jobs=1025', '--jobs=0']),
        ('learning_rate is also set by a flag: remove one of the two', RATES, ['--hparams=learning_rate=0.1']),
        ('num_epochs is also set by a flag', {'num_epochs': [1.0]}, ['--train_steps=2']),
        ('train_steps is also set by a flag', {'train_steps': [1]}, ['--num_epochs=2']),
        ('seed is also set by a flag', {'seed': [1]}, ['--seed=2']),
        ('learning_rate is a logarithmic range: give a list of choices for --sampler=grid', RATES, ['--sampler=grid']),
        ('seed is also set by --seeds=2: remove one of the two', {'seed': [1]}, ['--seeds=2']),
        ('optimizer=adm is not one of adam', {'optimizer': ['sgd', 'adm']}, ['--trials=1']),
    ):
        for flag in flags:
            code, result, err = search(space, flag)
            assert (code, result) == (2, None)
            assert err.splitlines()[-1].startswith('sweep.py: ') and message.format(flag) in err.splitlines()[-1]
    monkeypatch.setenv('TF_CONFIG', tf_config({'worker': ['a:1', 'b:1']}, 'worker'))
    code, _, err = search(RATES)
    assert code == 2 and err.startswith('sweep.py: TF_CONFIG or Slurm describes a cluster, but sweep.py runs on one machine: ')
    assert not (tmp_path / 'output').exists()


def test_the_error_in_the_log_is_the_cause_of_a_failure_and_signals_that_ask_a_training_to_stop_are_none(tmp_path):
    log = tmp_path / 'log.txt'
    log.write_text('INFO:tensorflow:loss = 3\nTraceback:\n  File "a.py"\na.b.OutOfMemoryError: OOM [Op:C]\nFile "c.py"\n')
    assert processes.explain(str(log), 1) == f'a.b.OutOfMemoryError: OOM [Op:C] (log: {log})'
    assert [code for code in range(-20, 160) if processes.was_stopped(code)] == [-15, -2, -1, 129, 130, 143]


def test_the_table_has_a_row_for_each_finished_trial_with_its_seeds(search, tmp_path):
    space = {'learning_rate': [0.25, 1e9, 0.5], 'filters': [[4, 8]]}
    flags = ('--sampler=grid', '--seeds=2', '--seed=7', '--model=alexnet', '--dataset=mnist', '--train_steps=20')
    assert search(space, *flags, '--trials=2')[0] == 0 and len(table_of(tmp_path)) == 2
    code, result, err = search(space, *flags)
    output = tmp_path / 'output'
    assert code == 0 and (result['loss'], result['loss_std'], result['trials']) == (0.25, 0, 3)
    found = table_of(tmp_path)
    assert [(row['number'], row['state'], row['value'], row['std']) for row in found] == [
        (0, 'complete', 0.25, 0),
        (1, 'failed', None, None),
        (2, 'complete', 0.5, 0),
    ]
    assert found[0]['values'] == {'7': 0.25, '8': 0.25} and found[1]['values'] == {'7': None, '8': None}
    assert found[0]['hparams'] == {'learning_rate': 0.25, 'filters': [4, 8]} and found[0]['seconds'] > 0
    assert found[0]['output_dir'] == f'{output}/trial-0' and 'the loss of step 3 is inf' in found[1]['error']
    columns = ['number', 'state', 'value', 'std', 'seed_7', 'seed_8', 'learning_rate', 'filters']
    table = rows(output / 'trials.csv')
    assert [*table[0]] == [*columns, 'seconds', 'output_dir', 'error']
    assert [table[2][name] for name in columns] == ['2', 'complete', '0.5', '0.0', '0.5', '0.5', '0.5', '[4, 8]']
    seeds = [json.loads((output / 'trial-0' / f'seed-{seed}' / 'hparams.json').read_text())['seed'] for seed in (7, 8)]
    assert seeds == [7, 8] and json.loads((output / 'best_hparams.json').read_text())['seed'] == 7


def test_each_flag_that_changes_results_is_one_on_which_trials_agree(command):
    FLAGS = sweep.define_flags()
    FLAGS(command({}))
    setup = sweep_request._setup(FLAGS, HParams({'seed': 1}), {'momentum': [1]})
    assert {f'--{name}' for name in names_with(Trait.CHANGES_RESULT)} < setup.keys()


def test_a_forked_trainer_draws_its_own_random_numbers(execute, monkeypatch):
    monkeypatch.setattr(forks, 'serve', lambda **_: ['--version'])
    monkeypatch.setattr(sys, 'argv', ['pytest'])
    np.random.seed(0)
    expected = np.random.RandomState(0).rand()
    assert execute(trials.main, ['trials.py'])[0] == 0 and sys.argv == ['trainer.py', '--version']
    assert np.random.rand() != expected
    monkeypatch.setattr(forks, 'serve', lambda **_: None)
    assert execute(trials.main, ['trials.py']) == (0, None, '')


def test_a_trial_with_an_infinite_value_has_no_spread(tmp_path):
    runner = TrialRunner([], HParams({'seed': 1}), str(tmp_path), 'eval', Objective('loss', False), 2, mock.Mock())
    for values, spread in (({'0': math.inf, '1': 1.0}, None), ({'0': 3.0, '1': 1.0}, pytest.approx(2**0.5))):
        trial = optuna.create_trial(value=values['0'], user_attrs={'values': values})
        assert of_seeds(trial, runner) == {'value': values['0'], 'std': spread, 'values': {'1': values['0'], '2': 1.0}}


def test_the_metrics_of_a_trial_are_read_again_only_if_they_have_changed(tmp_path, monkeypatch):
    runner = TrialRunner([], HParams({'seed': 1}), str(tmp_path), 'eval', Objective('loss', False), 1, mock.Mock())
    (tmp_path / 'trial-0').mkdir()
    reads = []
    monkeypatch.setattr(runs_of_trials, 'read_metric', lambda *given: reads.append(given) or read_metric(*given))
    for content, expected in (('', []), ('global_step,split,loss\n2,eval,3.0\n', [3]), ('4,eval,1.0\n', [3, 1])):
        if content:
            with open(tmp_path / 'trial-0' / 'metrics.csv', 'a') as file:
                file.write(content)
        assert [runner.read(mock.Mock(number=0)) for _ in range(3)] == [expected] * 3
    assert len(reads) == 3


def test_the_dry_run_has_a_directory_of_its_own_whatever_the_default_one_has(tmp_path):
    start, stop = mock.Mock(), mock.MagicMock()
    stop.wait_for.return_value = 0
    TrialRunner(['--model=m'], HParams({'seed': 1}), str(tmp_path), 'eval', Objective('loss', False), 1, start).check(stop)
    ((arguments, _), _) = start.call_args
    assert {'--model=m', '--schedule=dry_run', f'--output_dir={tmp_path}/dry_run'} < {*arguments}
    assert not (tmp_path / 'dry_run').exists()


def test_a_run_that_fails_without_a_word_is_not_explained_by_what_an_earlier_start_logged(tmp_path):
    runner = TrialRunner([], HParams({'seed': 1}), str(tmp_path), 'eval', Objective('loss', False), 1, mock.Mock())
    trial, log = mock.Mock(number=0, params={}), tmp_path / 'trial-0' / 'log.txt'
    log.parent.mkdir()
    log.write_text('trainer.py: model.ckpt-2: No space left on device\n')
    runner.start(trial)
    assert runner.explain(trial, 0, 1) == f'exit code 1 (log: {log})'
    with open(log, 'a') as file:
        file.write('trainer.py: the loss of step 3 is inf\n')
    assert runner.explain(trial, 0, 1) == f'trainer.py: the loss of step 3 is inf (log: {log})'
