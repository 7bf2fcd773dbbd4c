"""Sweeps with the trainer itself: what they find, write and pass on, and how they are stopped and go on."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time

import optuna
from optuna.trial import TrialState
import pytest

from common.storage.metrics import Objective
from common.sweep.trials import TrialRunner
import sweep
from tests import forked
from tests.shared import ROOT

pytestmark = pytest.mark.slow

RATES = {'learning_rate': {'low': 1e-4, 'high': 0.5, 'log': True}}
FLAGS = ('--model=polynomial', '--dataset=polynomial', '--eval_every_steps=20', '--save_checkpoints_steps=20')


@pytest.fixture
def command(tmp_path):
    """Makes a sweep's command line: command(space, '--trials=1') -> list of str."""

    def make(space, *flags):
        path = tmp_path / 'space.json'
        path.write_text(json.dumps(space))
        return [
            'sweep.py',
            *FLAGS,
            f'--space={path}',
            f'--data_dir={tmp_path}/data',
            f'--output_dir={tmp_path}/output',
            *flags,
        ]

    return make


@pytest.fixture
def search(command, execute, monkeypatch):
    """Runs a sweep in this process: search(space, '--trials=1') -> (exit code, JSON of stdout or None, stderr)."""
    monkeypatch.setattr(subprocess, 'Popen', forked.Popen)
    return lambda space, *flags: execute(sweep.main, command(space, *flags))


@pytest.fixture
def start(command):
    """Starts a sweep in a process of its own."""
    processes = []

    def call(space, *flags):
        processes.append(
            forked.Popen(
                [sys.executable, os.path.join(ROOT, 'sweep.py'), *command(space, *flags)[1:]],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return processes[-1]

    yield call
    for process in processes:
        process.kill()
        process.communicate()


def losses(directory):
    """Returns the losses in metrics.csv, of the split that its first row is of."""
    with open(directory / 'metrics.csv') as file:
        rows = list(csv.DictReader(file))
    return [float(row['loss']) for row in rows if row['split'] == rows[0]['split']]


def trials_of(tmp_path):
    return optuna.load_study(study_name='sweep', storage=f'sqlite:///{tmp_path}/output/study.db').trials


def wait_until(condition, seconds=60):
    end = time.time() + seconds
    while not condition():
        assert time.time() < end
        time.sleep(0.05)


def test_the_best_set_trains_again_to_the_same_loss(search, run, tmp_path):
    space = {
        **RATES,
        'piecewise_boundaries': [[5, 9], [7, 9]],
        'cache': [False],
        'batch_size': {'low': 30, 'high': 90, 'step': 30},
    }
    code, result, _ = search(
        space,
        '--trials=3',
        '--jobs=2',
        '--train_steps=60',
        '--hparams=adam_beta2=0.99',
        '--seed=3',
        '--eval_splits=train,eval',
        '--eval_steps=20',
    )
    assert code == 0
    directories = [tmp_path / 'output' / f'trial-{i}' for i in range(3)]
    found = [min(losses(directory)) for directory in directories]
    best = directories[found.index(min(found))]
    hparams = tmp_path / 'output' / 'best_hparams.json'
    assert result == {'trials': 3, 'loss': min(found), 'best': str(best), 'hparams_set': str(hparams)}
    assert json.loads((tmp_path / 'output' / 'results.json').read_text()) == result
    assert len(set(found)) == 3 and all(len(losses(directory)) == 3 for directory in directories)
    for directory, trial in zip(directories, trials_of(tmp_path)):
        saved = json.loads((directory / 'hparams.json').read_text())
        assert saved['learning_rate'] == trial.params['learning_rate'] and saved['cache'] is False
        assert saved['piecewise_boundaries'] in ([5, 9], [7, 9]) and saved['batch_size'] in (30, 60, 90)
        assert (saved['train_steps'], saved['adam_beta2'], saved['seed']) == (60, 0.99, 3)

    assert (
        run(*FLAGS, '--eval_splits=train', '--eval_steps=20', f'--hparams_set={hparams}', output_dir=tmp_path / 'again')[0] == 0
    )
    assert losses(tmp_path / 'again') == losses(best)


def test_a_bad_trial_is_pruned(search, tmp_path):
    (tmp_path / 'output').mkdir()
    study = optuna.create_study(study_name='sweep', storage=f'sqlite:///{tmp_path}/output/study.db')
    for _ in range(5):
        study.add_trial(optuna.create_trial(value=1e-9, intermediate_values=dict.fromkeys(range(1, 100), 1e-09)))
    code, _, err = search({'learning_rate': [1e-4]}, '--trials=6', '--train_steps=1000')
    assert code == 0 and re.search(r'trial-5 was pruned: loss = \d+\.?\d* after \d+ evaluation', err)
    assert trials_of(tmp_path)[5].state == TrialState.PRUNED
    assert 1 <= len(losses(tmp_path / 'output' / 'trial-5')) < 50  # Of the 50 that there would be.
    assert list((tmp_path / 'output' / 'trial-5').glob('model.ckpt-*.index'))


def test_a_stopped_sweep_resumes_as_if_it_had_not_been_stopped(start, search, run, tmp_path):
    steps = ('--eval_every_steps=1500', '--save_checkpoints_steps=1500', '--eval_steps=10')
    flags = [{'learning_rate': [0.01]}, '--trials=1', '--train_steps=3000', *steps]
    process = start(*flags)
    trial = tmp_path / 'output' / 'trial-0'
    wait_until((trial / 'log.txt').exists)
    wait_until(lambda: 'step = 100 ' in (trial / 'log.txt').read_text())
    os.killpg(process.pid, signal.SIGINT)  # As Ctrl-C does, which the trainings must not get.
    assert process.wait(60) == 130
    steps_saved = [int(path.stem.split('-')[1]) for path in trial.glob('model.ckpt-*.index')]
    assert 100 < max(steps_saved) < 3000
    assert [trial.state for trial in trials_of(tmp_path)] == [TrialState.RUNNING]

    assert search(*flags)[0] == 0
    assert [trial.state for trial in trials_of(tmp_path)] == [TrialState.COMPLETE]
    assert run(*FLAGS, *steps, f'--hparams_set={trial}/hparams.json', output_dir=tmp_path / 'unstopped')[0] == 0
    assert losses(trial) == losses(tmp_path / 'unstopped') and len(losses(trial)) == 2


def test_trainings_of_a_killed_sweep_are_waited_for(start, search, tmp_path):
    flags = [
        {'learning_rate': [0.01]},
        '--trials=1',
        '--train_steps=3000',
        '--eval_every_steps=500',
        '--save_checkpoints_steps=500',
    ]
    process = start(*flags)
    trial = tmp_path / 'output' / 'trial-0'
    wait_until((trial / 'metrics.csv').exists)
    process.kill()
    process.wait()
    code, _, err = search(*flags)
    assert code == 1 and f'--output_dir={tmp_path}/output: another sweep, or a training that it started, is running' in err
    wait_until((trial / 'results.json').exists)
    wait_until(lambda: search(*flags)[0] == 0)
    assert trials_of(tmp_path)[0].value == min(losses(trial)) and len(losses(trial)) == 6


def test_failed_trials_are_reported_and_end_nothing_but_a_sweep_without_others(search, tmp_path):
    flags = ['--train_steps=20', '--hparams=optimizer=sgd']
    code, _, err = search({'learning_rate': [1e-4, 1e9]}, '--trials=1', *flags)
    assert [trial.params['learning_rate'] for trial in trials_of(tmp_path)] == [1e9]
    line = f'the loss of step 3 is inf: .* \\(log: {tmp_path}/output/trial-0/log.txt\\)\n'
    assert code == 1 and re.search(f' WARNING {tmp_path}/output/trial-0 failed: trainer.py: {line}', err)
    assert re.search(f'sweep.py: no trial completed; the last one: trainer.py: {line}$', err)

    code, result, _ = search({'learning_rate': [1e-4, 1e9]}, '--trials=3', '--jobs=2', *flags)
    states = {trial.params['learning_rate']: trial.state for trial in trials_of(tmp_path)}
    assert code == 0 and states == {1e9: TrialState.PRUNED, 1e-4: TrialState.COMPLETE} and result['trials'] == 3

    code, _, err = search({'learning_rate': [0.1, 0.2]}, '--trials=3', *flags[1:], '--train_steps=30')
    assert code == 2
    assert re.search(
        'study.db: train_steps was 20, now it is 30; the space of learning_rate was .*, now it is .0.1, 0.2.:', err
    )


def test_a_mistake_when_a_sweep_resumes_costs_nothing(search, tmp_path):
    flags = ['--trials=2', '--train_steps=20']
    code, _, err = search(RATES, *flags, '--best_metric=mae:max')
    assert code == 2 and 'a dry run failed: trainer.py: --best_metric=mae:max: there is no metric mae' in err
    assert search(RATES, '--trials=1', '--train_steps=20')[0] == 0
    code, _, err = search(RATES, *flags, '--freeze=nosuch')
    assert code == 2 and 'a dry run failed: trainer.py: --freeze=nosuch: matches none' in err
    code, _, err = search(RATES, *flags, '--eval_every_steps=5')
    assert code == 2 and 'study.db: --eval_every_steps was 20, now it is 5: use the same values' in err
    assert len(trials_of(tmp_path)) == 1

    best = tmp_path / 'output' / 'best_hparams.json'
    os.remove(best)
    code, result, _ = search(RATES, '--trials=1', '--train_steps=20')  # Nothing is left to do but this.
    assert code == 0 and result['best'] == f'{tmp_path}/output/trial-0'
    assert best.read_bytes() == (tmp_path / 'output' / 'trial-0' / 'hparams.json').read_bytes()


def test_a_sweep_leaves_directories_of_other_trainings_alone(search, run, tmp_path):
    assert run(*FLAGS, '--train_steps=2')[0] == 0
    before = (tmp_path / 'output' / 'hparams.json').read_bytes()
    code, _, err = search(RATES, '--trials=1')
    assert code == 2 and f'--output_dir={tmp_path}/output is the output_dir of a training: choose another' in err
    assert (tmp_path / 'output' / 'hparams.json').read_bytes() == before and not (tmp_path / 'output' / 'study.db').exists()

    trial = tmp_path / 'output' / 'trial-0'
    os.makedirs(trial)
    os.rename(tmp_path / 'output' / 'hparams.json', trial / 'hparams.json')
    code, _, err = search(RATES, '--trials=1', '--train_steps=2')
    assert code == 1
    assert re.search(
        rf'{trial} belongs to another sweep \(learning_rate was 0.5, now it is .*\): delete it, or choose another', err
    )
    assert (trial / 'hparams.json').read_bytes() == before


@pytest.mark.parametrize(
    'space, flags, message',
    [
        (RATES, ['--schedule=train'], '--schedule is for trainer.py: a sweep trains and evaluates'),
        (RATES, ['--space='], '--space is missing: a JSON file of what to search'),
        (RATES, ['--output_dir=gs://bucket/sweep'], '--output_dir=gs://bucket/sweep: a sweep needs a local directory'),
        (
            RATES,
            ['--data_dir=s3://bucket/data'],
            '--data_dir=s3://bucket/data: this TensorFlow has no file system s3:// (it has ',
        ),
        (
            RATES,
            ['--space=hdfs://space.json'],
            '--space=hdfs://space.json: this TensorFlow has no file system hdfs:// (it has ',
        ),
        (RATES, ['--trials=2147483648'], 'flag --trials=2147483648'),
        (RATES, ['--jobs=1025'], 'flag --jobs=1025'),
        (RATES, ['--trials=0'], 'flag --trials=0'),
        (RATES, ['--jobs=0'], 'flag --jobs=0'),
        (RATES, ['--model=nosuch'], '--model=nosuch: no module models.nosuch'),
        (RATES, ['--best_metric=loss'], '--best_metric=loss is not of the form METRIC:min or METRIC:max'),
        (RATES, ['--hparams=learning_rate=0.1'], 'learning_rate is also set by a flag: remove one of the two'),
        ({'train_steps': [1]}, ['--train_steps=2'], 'train_steps is also set by a flag'),
        ({'num_epochs': [1.0]}, ['--train_steps=2'], 'num_epochs is also set by a flag'),
        ({'optimizer': ['sgd', 'adm']}, [], 'optimizer=adm is not one of adam'),
        (RATES, ['--checkpoint=best'], '--checkpoint is for trainer.py: a sweep trains and evaluates'),
        ({'optimiser': ['sgd']}, [], 'unknown hyper-parameter optimiser, did you mean optimizer?'),
    ],
)
def test_wrong_usage_of_a_sweep_is_one_line_and_exit_code_2(search, tmp_path, space, flags, message):
    code, result, err = search(space, *flags)
    assert (code, result) == (2, None)
    assert err.splitlines()[-1].startswith('sweep.py: ') and message in err.splitlines()[-1]
    assert not list(tmp_path.glob('output/trial-*'))


@pytest.mark.parametrize(
    'text, code, message',
    [
        ('INFO:tensorflow:loss = 3\ntrainer.py: --freeze=x: is wrong\n', 2, 'trainer.py: --freeze=x: is wrong'),
        (
            'Traceback (most recent call last):\n  File "a.py", line 1, in b\n'
            'tensorflow.python.OutOfMemoryError: OOM [Op:MatMul]\n'
            'Original stack trace:\n  File "c.py", line 2, in d\n',
            1,
            'tensorflow.python.OutOfMemoryError: OOM [Op:MatMul]',
        ),
        ('INFO:tensorflow:loss = 3\n', -signal.SIGKILL, 'was killed by SIGKILL'),
        ('', 3, 'exit code 3'),
    ],
)
def test_the_cause_of_a_trials_failure_is_found_in_its_log(tmp_path, text, code, message):
    trainings = TrialRunner('trainer.py', [], {}, str(tmp_path), 'eval', Objective('loss', False), 0)
    trial = optuna.trial.create_trial(value=1)
    trial.number = 7
    (tmp_path / 'trial-7').mkdir()
    (tmp_path / 'trial-7' / 'log.txt').write_text(text)
    assert trainings.explain(trial, code) == f'{message} (log: {tmp_path}/trial-7/log.txt)'


def test_optuna_is_named_where_there_is_none(tmp_path):
    (tmp_path / 'optuna').mkdir()
    (tmp_path / 'optuna' / '__init__.py').write_text("raise ModuleNotFoundError('none', name='optuna')")
    process = subprocess.run(
        [sys.executable, os.path.join(ROOT, 'sweep.py'), '--space=space.json'],
        env={**os.environ, 'PYTHONPATH': str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert process.returncode == 1
    assert process.stderr.splitlines()[-1] == "sweep.py: optuna is not installed: pip install -e '.[sweep]'"


def test_help_of_a_sweep_shows_the_trainers_flags_too(capsys):
    assert sweep.main(['sweep.py', '--help']) == 0
    out = capsys.readouterr().out
    assert '--space' in out and '--trials' in out and '--best_metric' in out
