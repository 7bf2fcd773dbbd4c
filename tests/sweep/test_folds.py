"""The runs of folds: which start, how many at once, and what their ends mean; and the table of their metrics."""

import contextlib
import csv
import json
import os

import pytest

from estimator_trainer.common.commands import flags
from estimator_trainer.common.commands import folds as commands
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import status
from estimator_trainer.common.sweep import fold_table, folds
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.defaults import DEFAULTS
from tests.shared import failed, refused


class Trainers:
    """Fake trainers, which end when they are polled, with exit codes {fold: code}, 0 without; `jobs` ran at once at most."""

    def __init__(self, codes=(), finishes=True):
        self.codes, self.finishes, self.started, self.running, self.jobs, self.stopped = dict(codes), finishes, [], 0, 0, []

    def start(self, flags, log_path):
        directory = flags[-1].partition('=')[2]
        self.started.append(int(directory[-1]))
        self.running += 1
        self.jobs = max(self.jobs, self.running)
        with open(log_path, 'w') as log:
            log.write('trainer.py: the loss is nan\n')
        return Trainer(self, directory)


class Trainer:
    def __init__(self, trainers, directory):
        self.trainers, self.directory, self.returncode = trainers, directory, None

    def poll(self):
        if self.returncode is None:
            self.trainers.running -= 1
            self.returncode = self.trainers.codes.get(int(self.directory[-1]), 0)
            if not self.returncode and self.trainers.finishes:
                finish(self.directory)
        return self.returncode

    def terminate(self):
        self.trainers.stopped.append(int(self.directory[-1]))

    def wait(self):
        return self.poll()


def finish(directory):
    os.makedirs(directory, exist_ok=True)
    found = {**status.new(), 'state': 'finished', 'updated': status.now().isoformat()}
    with open(status.status_path(directory), 'w') as file:
        json.dump(found, file)


def train(directory, trainers, jobs=1, count=3):
    runner = folds.FoldRunner(trainers.start, ['--model=m'], HParams({**DEFAULTS, 'seed': 7}), str(directory), count)
    with StopOnSignal() as stop:
        runner.train(jobs, stop)


def test_each_fold_starts_once_with_its_number_and_two_run_at_once(tmp_path):
    trainers = Trainers()
    train(tmp_path, trainers, jobs=2)
    assert trainers.started == [1, 2, 3] and trainers.jobs == 2
    saved = [json.loads((tmp_path / f'fold_{number}' / 'hparams.json').read_text()) for number in (1, 2, 3)]
    assert [(found['folds'], found['fold'], found['seed']) for found in saved] == [(3, 1, 7), (3, 2, 7), (3, 3, 7)]


def test_a_resumed_training_starts_the_folds_that_have_not_finished(tmp_path):
    finish(tmp_path / 'fold_2')
    trainers = Trainers()
    train(tmp_path, trainers)
    assert trainers.started == [1, 3]


def test_a_fold_is_explained_by_its_own_part_of_the_log(tmp_path):
    (tmp_path / 'fold_1').mkdir()
    (tmp_path / 'fold_1' / 'log.txt').write_text('trainer.py: old\n')
    for start, cause in ((0, 'trainer.py: old'), (16, 'exit code 1')):
        assert failed(folds._check, f'{tmp_path}/fold_1', 1, start).startswith(f'{tmp_path}/fold_1 failed: {cause} (log: ')


@pytest.mark.parametrize(
    'code, error, message',
    [
        (1, RunError, 'fold_2 failed: trainer.py: the loss is nan (log: '),
        (2, UsageError, 'fold_2 failed: trainer.py: the loss is nan (log: '),
        (143, RunError, 'fold_2 was interrupted: rerun the command to resume'),
    ],
)
def test_a_fold_that_fails_ends_the_others(tmp_path, code, error, message):
    trainers = Trainers({2: code})
    with pytest.raises(error) as caught:
        train(tmp_path, trainers, jobs=2, count=4)
    assert message in str(caught.value)
    assert 4 not in trainers.started and not folds.is_finished(str(tmp_path / 'fold_2'))


def test_a_process_that_ends_before_its_training_is_a_failure(tmp_path):
    with pytest.raises(RunError, match='fold_1: its process ended before its training, with exit code 0'):
        train(tmp_path, Trainers(finishes=False))


def test_other_folds_and_settings_are_refused_by_name(tmp_path):
    directory, setup = str(tmp_path), {'learning_rate': 0.1, '--eval_splits': ('eval',)}
    folds.save(directory, 3, setup, {}, {})
    folds.save(directory, 3, setup, {}, {})
    assert refused(folds.save, directory, 4, setup, {}, {}) == (
        f'--folds=4: {directory} has 3 folds: give that, or choose another --output_dir'
    )
    folds.save(directory, 3, setup, {}, {}, {'train': '1'})  # folds.json of an older version does not know its data.
    message = refused(folds.save, directory, 3, {**setup, 'learning_rate': 0.2}, {}, {})
    assert 'folds.json: learning_rate was 0.1, now it is 0.2: use the same values' in message
    (tmp_path / 'folds.json').unlink()
    folds.save(directory, 4, setup, {}, {})
    assert folds.load(directory)[folds.COUNT] == 4
    (tmp_path / 'folds.json').write_text('{"folds": "3"}')
    assert 'folds.json: lacks folds, setup, flags or hparams: restore it' in refused(folds.load, directory)
    (tmp_path / 'hparams.json').write_text('{}')
    assert refused(folds.refuse_run, directory).endswith('is the output_dir of a run: choose another')


def test_other_data_is_refused(tmp_path):
    folds.save(str(tmp_path), 3, {}, {}, {}, {'train': '1', 'eval': '2'})
    folds.save(str(tmp_path), 3, {}, {}, {}, {'train': '1', 'eval': '2', 'test': '3'})
    message = refused(folds.save, str(tmp_path), 3, {}, {}, {}, {'train': '2', 'eval': '2'})
    assert 'folds.json: the data of train has changed since the first of these runs' in message
    assert message.endswith('restore it, choose another --output_dir, or give --overwrite')


def test_runs_of_unknown_folds_do_not_pass_for_finished(tmp_path):
    train(tmp_path, Trainers())
    message = refused(folds.save, str(tmp_path), 3, {}, {}, {})
    assert message.startswith(
        f'{tmp_path}/fold_1 is a run of unknown folds, as there is no {tmp_path}/folds.json: restore that'
    )
    assert not (tmp_path / 'folds.json').exists()


def test_what_folds_share_is_deleted_after_their_runs(tmp_path, monkeypatch):
    folds.save(str(tmp_path), 3, {}, {}, {})
    train(tmp_path, Trainers())
    monkeypatch.setattr(commands.start_over, 'locked', lambda path, options: contextlib.nullcontext())
    FLAGS = flags.from_values({'output_dir': str(tmp_path), 'overwrite': True})

    def fail(path):
        if path.endswith('fold_2'):
            raise OSError('stopped')

    monkeypatch.setattr(commands.start_over, 'delete', fail)
    with pytest.raises(OSError, match='stopped'):
        commands._delete(FLAGS, str(tmp_path))
    assert (tmp_path / 'folds.json').exists()
    monkeypatch.setattr(commands.start_over, 'delete', lambda path: None)
    commands._delete(FLAGS, str(tmp_path))
    assert not (tmp_path / 'folds.json').exists()


def test_metrics_have_the_mean_and_the_deviation_of_a_sample(tmp_path):
    results = [
        {'fold': number, 'output_dir': '', 'global_step': 9, 'eval': {'loss': loss, 'auc': auc, 'matrix': [1, 2]}}
        for number, loss, auc in ((1, 1.0, float('nan')), (2, 2.0, 0.5), (3, 6.0, None))
    ]
    assert fold_table.summarize(results) == {
        'eval': {
            'loss': {'mean': 3.0, 'std': pytest.approx(7**0.5), 'folds': 3},  # ((1-3)² + (2-3)² + (6-3)²) / 2
            'auc': {'mean': 0.5, 'std': None, 'folds': 1},
        }
    }
    assert fold_table.to_lines(results)[0] == 'eval loss = 3.0 ± 2.64575 (1.0, 2.0, 6.0)'
    fold_table.save(results, str(tmp_path))
    rows = list(csv.reader((tmp_path / 'folds.csv').read_text().splitlines()))
    assert rows[0] == ['fold', 'global_step', 'eval.loss', 'eval.auc'] and rows[2] == ['2', '9', '2.0', '0.5']
    assert rows[4] == ['mean', '', '3.0', '0.5'] and rows[5][3] == ''
