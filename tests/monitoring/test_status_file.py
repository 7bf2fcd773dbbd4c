"""The status of a run, from its start over stops to its end."""

import json
import signal
import time
import types

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.monitoring import status_file
from estimator_trainer.common.monitoring.status_file import StatusFile
from estimator_trainer.common.runs.recording import recorded
from estimator_trainer.common.storage.status import State

RUNNING = types.SimpleNamespace(received=None)


def read(directory, *names):
    found = json.loads((directory / 'status.json').read_text())
    return [found[name] for name in names]


def test_a_resumed_run_keeps_its_beginning_and_counts_once_per_process(tmp_path, monkeypatch):
    monkeypatch.setattr(status_file, '_SECONDS', -1)
    (tmp_path / 'status.json').write_text('{"state": "training"')  # Of nothing, so it is not read.
    first = StatusFile(str(tmp_path))
    first.begin(0, 100)
    first.log(10, {'loss': 0.5}, speed=32.04, seconds_left=9.06)
    started, *found = read(tmp_path, 'started', 'state', 'resumed', 'global_step', 'examples/sec', 'seconds_left')
    assert started and found == ['training', 0, 10, 32.0, 9.1]
    for count in (1, 2):
        resumed = StatusFile(str(tmp_path), is_resumed=True)
        resumed.enter(State.PREPARING)
        assert read(tmp_path, 'state', 'global_step', 'resumed') == ['preparing', 10, count - 1]
        for _ in range(2):  # A session may start again.
            resumed.begin(8, 120)
        names = ('started', 'state', 'resumed', 'global_step', 'train_steps', 'training')
        assert read(tmp_path, *names) == [started, 'training', count, 8, 120, {'global_step': 10, 'loss': 0.5}]
        resumed.log(10, {'loss': 0.5}, speed=None, seconds_left=None)


def test_a_run_of_an_older_version_or_with_a_broken_status_has_an_unknown_beginning(tmp_path):
    for _ in range(2):
        file = StatusFile(str(tmp_path), is_resumed=True)
        file.begin(5, 10)
        assert read(tmp_path, 'started', 'resumed') == [None, 1]
        (tmp_path / 'status.json').write_text('{"state": "trai')


def test_an_evaluation_leads_back_to_training(tmp_path):
    file = StatusFile(str(tmp_path))
    file.enter(State.EVALUATING)
    assert read(tmp_path, 'state') == ['evaluating']
    result = {'global_step': 7, 'eval': {'loss': 0.5}}
    file.evaluated(result)
    assert read(tmp_path, 'state', 'global_step', 'evaluation') == ['training', 7, result]


@pytest.mark.parametrize(
    'error, received, state, reason',
    [
        (RunError('the disk\nis full'), None, 'failed', 'the disk is full'),
        (ZeroDivisionError('by 0'), None, 'failed', 'ZeroDivisionError: by 0'),
        (SystemExit(143), signal.SIGTERM, 'stopped', 'SIGTERM'),
        (KeyboardInterrupt(), signal.SIGINT, 'stopped', 'SIGINT'),
    ],
)
def test_the_end_of_a_training_is_recorded_with_its_reason(tmp_path, error, received, state, reason):
    with pytest.raises(type(error)), recorded(str(tmp_path), False, types.SimpleNamespace(received=received)) as file:
        assert read(tmp_path, 'state') == ['preparing']
        file.log(3, {}, speed=1.0, seconds_left=1.0)
        file.reach(4)
        raise error
    found = read(tmp_path, 'state', 'reason', 'global_step', 'examples/sec', 'seconds_left')
    assert found[0] == state and found[1].startswith(reason) and found[2:] == [4, None, None]


@pytest.mark.parametrize('is_resumed', [True, False])  # Not if it is to start over.
def test_a_mistake_changes_nothing_in_the_status_of_an_earlier_run(tmp_path, is_resumed):
    def refused(begins=False):
        with pytest.raises(UsageError), recorded(str(tmp_path), is_resumed, RUNNING) as file:
            if begins:
                file.begin(3, 9)
            raise UsageError('a mistake')
        return (tmp_path / 'status.json').read_text()

    refused()
    assert read(tmp_path, 'state', 'reason') == ['failed', 'a mistake']
    with recorded(str(tmp_path), is_resumed, RUNNING) as file:
        file.begin(3, 9)
    before = (tmp_path / 'status.json').read_text()
    assert refused() == before
    assert refused(begins=True) != before and read(tmp_path, 'state') == ['failed']


def test_a_training_that_succeeds_is_finished_and_one_without_a_directory_writes_nothing(tmp_path, monkeypatch):
    with recorded(str(tmp_path), False, RUNNING):
        pass
    assert read(tmp_path, 'state', 'reason') == ['finished', '']
    monkeypatch.chdir(tmp_path / '..')
    with recorded('', False, RUNNING) as file:
        file.begin(0, 1)
    assert not (tmp_path / '..' / 'status.json').exists()


def test_a_directory_that_was_moved_ends_the_training_and_gets_no_status(tmp_path):
    directory = tmp_path / 'output'
    directory.mkdir()
    with pytest.raises(RunError, match='output: was deleted or moved'), recorded(str(directory), False, RUNNING) as file:
        directory.rename(tmp_path / 'moved')
        directory.mkdir()
        file.begin(0, 1)
    assert not (directory / 'status.json').exists() and (tmp_path / 'moved' / 'status.json').exists()


@pytest.mark.parametrize('directory, seconds', [('{tmp_path}', 1), ('ram://status', 10)])
def test_lines_of_the_log_that_follow_at_once_do_not_write_the_file_again(tmp_path, monkeypatch, directory, seconds):
    clock, directory = [100.0], directory.format(tmp_path=tmp_path)
    monkeypatch.setattr(time, 'monotonic', lambda: clock[0])
    tf.io.gfile.makedirs(directory)
    file = StatusFile(directory)
    file.begin(0, 10)
    for passed, step, seen in ((seconds - 0.1, 1, 0), (0.2, 2, 2), (0.2, 3, 2)):
        clock[0] += passed
        file.log(step, {}, None, None)
        assert step_in(directory) == seen
    file.enter(State.FINISHED)
    assert step_in(directory) == 3


def step_in(directory):
    with tf.io.gfile.GFile(f'{directory}/status.json') as content:
        return json.loads(content.read())['global_step']
