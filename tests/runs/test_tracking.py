"""The messages of a whole run to its loggers."""

import csv
import json
import os
import signal

import pytest

from tests.own_logger import calls
from tests.shared import POLYNOMIAL, assert_equal, read_weights

FLAGS = (*POLYNOMIAL, '--save_checkpoints_steps=100', '--loggers=tests.own_logger')


@pytest.fixture
def train(run, tmp_path):
    """train(*flags) -> (exit code, result, stderr) of a tracked run in tmp_path/output."""
    return lambda *flags: run(*FLAGS, *flags)


def in_metrics_csv(output_dir):
    """Returns the rows of metrics.csv as a logger gets them."""
    found = []
    with open(os.path.join(output_dir, 'metrics.csv')) as file:
        for row in csv.DictReader(file):
            step, split, mode = int(row.pop('global_step')), row.pop('split'), row.pop('mode')
            found.append(
                [step, {f'{mode or split}/{name}': float(text) for name, text in row.items() if text and name != 'step_loss'}]
            )
    return found


def by_step(rows):
    return sorted(rows, key=lambda row: (row[0], str(row)))


def test_loggers_change_no_weight_and_get_each_row_of_metrics_csv_once_also_if_it_is_computed_again(train, run, tmp_path):
    output, other = tmp_path / 'output', tmp_path / 'other'
    assert train('--train_steps=200')[0] == 0
    assert run(*POLYNOMIAL, '--save_checkpoints_steps=100', '--train_steps=200', output_dir=other)[0] == 0
    assert_equal(read_weights(output), read_weights(other))
    path = output / 'loggers/tests.own_logger.json'
    assert json.loads(path.read_text()) == {'id': 'run 1', 'training': 101, 'evaluation': 200}
    (before,) = calls(output, 'end')
    assert before == ['finished', '', {'best_checkpoint': f'{output}/best/model.ckpt-200'}]
    path.write_text('{"id": "run 1", "training": 1, "evaluation": 250}')  # A row was lost, and another was logged.
    assert run('--train_steps=300', '--eval_every_steps=50')[0] == 0  # The flag is kept.
    assert [run_id for run_id, *_ in calls(output, 'start')] == [None, 'run 1']
    logged = calls(output, 'log')
    assert logged.pop(4) == logged[2]  # Of step 101, which was lost.
    assert by_step(logged) == by_step(row for row in in_metrics_csv(output) if row[0] != 250)


def test_another_tracked_run_begins_with_overwrite_and_with_from_step_which_logs_the_earlier_rows_too(train, tmp_path):
    output = tmp_path / 'output'
    assert train('--train_steps=200')[0] == 0
    assert train('--train_steps=300', '--from_step=100')[0] == 0
    logged = calls(output, 'log')
    assert by_step(logged[4:]) == by_step(in_metrics_csv(output)) and logged[4][0] == 1
    assert (output / 'abandoned/1/loggers/tests.own_logger.json').exists()
    assert train('--train_steps=100', '--overwrite')[0] == 0
    assert [run_id for run_id, *_ in calls(output, 'start')] == [None, None, None]


def test_the_end_of_a_run_is_told_with_its_error_or_its_signal(train, tmp_path, monkeypatch):
    from estimator_trainer.common.monitoring.summaries import TrainingSummaries

    def fail(*unused):
        raise OSError(28, 'No space left on device', 'metrics.csv')

    with monkeypatch.context() as patch:
        patch.setattr(TrainingSummaries, '_record', fail)
        assert train('--train_steps=200')[0] == 1
    with monkeypatch.context() as patch:
        patch.setattr(TrainingSummaries, '_record', lambda *unused: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(SystemExit):
            train('--train_steps=200')
    (state, reason, _), stopped = calls(tmp_path / 'output', 'end')
    assert state == 'failed' and 'No space left on device' in reason
    assert stopped[:2] == ['stopped', 'SIGTERM']


def test_only_the_chosen_run_is_tracked_not_a_dry_run_and_a_report_joins_a_run_that_has_ended(train, run, tmp_path):
    assert train('--schedule=dry_run')[0] == 0 and not (tmp_path / 'output').exists()
    assert train('--train_steps=100')[0] == 0
    assert run('--schedule=report', '--loggers=tests.own_logger')[0] == 0
    state, _, artifacts = calls(tmp_path / 'output', 'end')[1]
    assert state == 'finished' and artifacts['report'] == str(tmp_path / 'output/report.html')
    assert len(calls(tmp_path / 'output', 'log')) == 2


def test_a_trial_of_a_sweep_has_the_sweep_as_its_group(run, tmp_path):
    (tmp_path / 'sweep').mkdir()
    (tmp_path / 'sweep/study.db').touch()
    for name in ('trial-3', 'trial-4/seed-1'):
        run(*FLAGS, '--train_steps=10', output_dir=str(tmp_path / 'sweep' / name))
        (started,) = calls(tmp_path / 'sweep' / name, 'start')
        assert started == [None, '/'.join(['sweep', *name.split('/')][-2:]), f'{tmp_path}/sweep']
