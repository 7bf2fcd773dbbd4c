"""Loggers: what they are told, in which order, and what happens if they fail."""

import json
import os
import signal
import subprocess
import sys

import pytest

from estimator_trainer.common.loggers import process
from estimator_trainer.common.monitoring import logger_thread, tracker
from estimator_trainer.common.monitoring.tracker import Tracker, row_of_evaluation, row_of_training
from tests.forked import ROOT
from tests.own_logger import calls

FACTS = {'name': 'a/b', 'group': '', 'hparams': {'learning_rate': 0.1}, 'flags': {}}


@pytest.fixture
def make(tmp_path, monkeypatch):
    """make(**arguments) makes a Tracker of a logger in tmp_path."""
    monkeypatch.syspath_prepend(ROOT)
    facts = {**FACTS, 'output_dir': str(tmp_path)}
    return lambda **arguments: Tracker({'own': 'tests.own_logger'}, facts, **arguments)


@pytest.fixture(autouse=True)
def patient(caplog, monkeypatch):
    caplog.set_level('INFO')
    monkeypatch.setattr(tracker, '_SECONDS', 100)


def warnings(caplog):
    return [record.message for record in caplog.records if record.levelname == 'WARNING']


def saved(tmp_path):
    return json.loads((tmp_path / 'loggers/own.json').read_text())


def test_a_logger_gets_the_numbers_of_log_lines_and_evaluations_and_the_end(make, tmp_path, caplog):
    tracked = make(find_artifacts=lambda: {'report': 'report.html'})
    tracked.log(1, {'loss': 2, 'examples/sec': None})
    tracked.evaluated({'global_step': 1, 'eval': {'accuracy': 0.5, 'matrix': [1, 2]}, 'test': {'accuracy': float('nan')}})
    tracked.end('finished', '')
    assert calls(tmp_path, 'start') == [[None, 'a/b', '']]
    assert str(calls(tmp_path, 'log')) == "[[1, {'train/loss': 2.0}], [1, {'eval/accuracy': 0.5, 'test/accuracy': nan}]]"
    assert calls(tmp_path, 'end') == [['finished', '', {'report': 'report.html'}]]
    assert saved(tmp_path) == {'id': 'run 1', 'training': 1, 'evaluation': 1} and not warnings(caplog)


def test_a_run_that_resumes_goes_on_in_its_tracked_run_and_logs_no_row_twice_and_none_never(make, tmp_path):
    first = make()
    first.log(100, {'loss': 3})
    first.end('stopped', 'SIGTERM')
    second = make(earlier=[row_of_training(100, {'loss': 3}), row_of_evaluation({'global_step': 150, 'eval': {'loss': 2}})])
    second.log(100, {'loss': 3})
    second.log(200, {'loss': 1})
    second.end('finished', '')
    assert [run_id for run_id, *_ in calls(tmp_path, 'start')] == [None, 'run 1']
    assert calls(tmp_path, 'log') == [[100, {'train/loss': 3}], [150, {'eval/loss': 2}], [200, {'train/loss': 1}]]
    assert [state for state, *_ in calls(tmp_path, 'end')] == ['stopped', 'finished']


def test_a_run_that_resumes_with_many_rows_loses_none_of_the_new_ones(make, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logger_thread, '_MAX_ROWS', 2)
    (tmp_path / 'loggers').mkdir()
    (tmp_path / 'loggers/own.json').write_text('{"id": "run 1", "training": 3}')
    tracked = make(earlier=[row_of_training(step, {'loss': 3}) for step in range(4)], begins=False)
    tracked.log(4, {'loss': 1})
    tracked.end('finished', '')
    assert [step for step, _ in calls(tmp_path, 'log')] == [4] and not warnings(caplog)


@pytest.mark.parametrize(
    'failure, cause, logged',
    [
        ('start raise', 'start: ValueError: the server said: no; the training goes on, and the logger is asked again', 0),
        ('start sys.exit', 'start: SystemExit: no key; the training goes on, and the logger is asked again', 0),
        ('start os._exit', 'its process has ended, with exit code 3; the training goes on without it', 0),
        ('log raise', 'log: ValueError: the server said: no; the training goes on, without the rows', 3),
        ('log os._exit', 'its process has ended, with exit code 3; the training goes on without it', 1),
        ('end raise', 'end: ValueError: the server said: no; the training goes on without it', 3),
    ],
)
def test_a_failing_logger_is_one_warning_with_its_name_and_the_cause(
    make, tmp_path, caplog, monkeypatch, failure, cause, logged
):
    monkeypatch.setenv('OWN_LOGGER', failure)
    tracked = make()
    for step in (1, 2, 3):
        tracked.log(step, {'loss': 1})
    tracked.end('finished', '')
    found = warnings(caplog)
    assert len(found) == 1 and found[0].startswith(f'--loggers=own: {cause}'), found
    assert len(calls(tmp_path, 'log') if logged else []) == logged
    assert failure == 'end raise' or '3 rows of metrics.csv were not logged' in caplog.text


def test_a_file_that_cannot_be_written_is_one_warning(make, tmp_path, caplog):
    (tmp_path / 'loggers').write_text('no directory')
    tracked = make()
    tracked.log(1, {'loss': 1})
    tracked.end('finished', '')
    assert len(warnings(caplog)) == 1 and f'{tmp_path}/loggers' in warnings(caplog)[0]


def test_a_logger_that_hangs_blocks_nobody_and_what_it_does_not_take_is_said(make, caplog, monkeypatch):
    monkeypatch.setenv('OWN_LOGGER', 'start hang')
    monkeypatch.setattr(logger_thread, '_MAX_ROWS', 2)
    monkeypatch.setattr(tracker, '_SECONDS', 0)
    tracked = make()
    for step in range(5):
        tracked.log(step, {'loss': 1})
    tracked.end('finished', '')
    for thread in tracked._threads:  # Its process is killed.
        thread.join(100)
        assert not thread.is_alive()
    assert [text.partition(':')[2][:35] for text in warnings(caplog)] == [' is slower than the training: 2 row']
    assert '5 rows of metrics.csv were not logged' in caplog.text


def test_a_run_whose_process_is_killed_ends_as_failed(tmp_path):
    run = json.dumps(['start', [{**FACTS, 'output_dir': str(tmp_path), 'id': None}]])
    command = [sys.executable, '-m', 'estimator_trainer.common.loggers.process', 'tests.own_logger']
    ended = subprocess.run(command, input=f'{run}\n', capture_output=True, text=True, cwd=ROOT, env={**os.environ})
    assert ended.stdout == '{"id": "run 1"}\n' and 'start: chatter' in ended.stderr
    assert calls(tmp_path, 'end') == [['failed', 'the process of the training was killed', {}]]


class Answers:
    def write(self, line):
        if b'id' not in line:
            raise BrokenPipeError


@pytest.mark.parametrize(
    'failure, methods, ends',
    [
        ('', ('start', 'end'), [['stopped', 'SIGTERM', {}]]),  # The training's process does not wait for the answer.
        ('', ('start', 'log'), [['failed', 'the process of the training was killed', {}]]),
        ('start raise', ('start', 'log'), []),
    ],
)
def test_a_logger_ends_once_and_only_if_it_has_begun(tmp_path, monkeypatch, failure, methods, ends):
    monkeypatch.setenv('OWN_LOGGER', failure)
    monkeypatch.setattr(signal, 'alarm', lambda seconds: None)
    arguments = {
        'start': [{**FACTS, 'output_dir': str(tmp_path), 'id': None}],
        'log': [1, {}],
        'end': ['stopped', 'SIGTERM', {}],
    }
    process._serve('tests.own_logger', [json.dumps([method, arguments[method]]) for method in methods], Answers())
    assert calls(tmp_path, 'end') == ends


def test_an_evaluator_begins_with_its_first_evaluation(make, tmp_path):
    make(begins=False).end('finished', '')
    assert not os.listdir(tmp_path)
    tracked = make(begins=False, suffix='-evaluator')
    tracked.evaluated({'global_step': 7, 'eval': {'loss': 1}})
    tracked.end('finished', '')
    assert calls(tmp_path, 'log') == [[7, {'eval/loss': 1}]] and os.listdir(tmp_path / 'loggers') == ['own-evaluator.json']
