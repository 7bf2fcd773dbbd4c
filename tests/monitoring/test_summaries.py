"""Training summaries in TensorBoard and the log."""

import json
import threading
import time
import types
from unittest import mock

import numpy as np
import pytest
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.monitoring import hparams_tab, model_summary, status_file, summaries
from estimator_trainer.common.monitoring.status_file import StatusFile
from estimator_trainer.common.monitoring.times import Times
from estimator_trainer.common.runs.diagnosis import find_cause
from estimator_trainer.hparams.build import HParams
from tests.linear import scalars
from tests.shared import rows


def test_training_records_its_speed_and_remaining_time(tmp_path, session, monkeypatch, caplog):
    clock, seen, steps = [1000.0], [], iter(range(5, 13))
    monkeypatch.setattr(time, 'perf_counter', lambda: clock[0])
    monkeypatch.setattr(time, 'time', lambda: clock[0])
    monkeypatch.setattr(status_file, '_SECONDS', -1)
    caplog.set_level('INFO', 'tensorflow')

    def work():
        clock[0] += 2

    global_step = tf.train.get_or_create_global_step()
    collections = [tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES]
    waited = tf.get_variable('waited', [], tf.float64, tf.zeros_initializer(), collections=collections)
    step = [tf.assign_add(global_step, 1), tf.assign_add(waited, 0.5), tf.numpy_function(work, [], [])]
    tf.summary.scalar('scalar', 3.0)
    tf.summary.scalar('learning_rate', 0.125)
    params = HParams({'batch_size': 32, 'train_split': 'all'})
    hook = summaries.TrainingSummaries(
        loss=tf.constant(0.5),
        mean_loss=tf.constant(0.25),
        metrics={'metric': (tf.constant(7.0), tf.constant(8.0)), 'vector': (0, tf.zeros([2])), 'op': (0, tf.no_op())},
        waited=waited,
        every_steps=2,
        length=summaries.Length(params, num_examples=128, total_steps=14, batch_size=32),
        output_dir=str(tmp_path),
        steps=types.SimpleNamespace(next_visible_step=lambda: next(steps)),
        on_metrics=seen.append,
        status=StatusFile(str(tmp_path)),
        times=Times(),
    )
    scaffold = tf.train.Scaffold(init_op=tf.assign(global_step, 4))
    with tf.train.SingularMonitoredSession([hook], scaffold=scaffold) as training:
        for _ in range(6):
            training.run(step)
            clock[0] += 3  # As if to save, between steps.
        clock[0] -= 50  # Set back.
        for _ in range(2):
            training.run(step)
    # Two steps take 10 seconds, of which 4 are those of the steps themselves, and one of these is waited.
    speed = {'global_step/sec': 0.2, 'examples/sec': 16.0, 'input/wait_fraction': 0.25}
    first = {'loss': 0.5, 'metric': 8.0}
    assert seen == [{'global_step': number, 'train': {**first, **(speed if number > 5 else {})}} for number in (5, 7, 9)] + [
        {'global_step': 11, 'train': first}
    ]
    row = {'split': 'all', 'mode': 'train', 'loss': '0.25', 'metric': '8.0', 'learning_rate': '0.125', 'step_loss': '0.5'}
    speeds = {'5': '', '7': '16.0', '9': '16.0', '11': ''}
    expected = [{'global_step': number, **row, 'examples/sec': speed} for number, speed in speeds.items()]
    assert rows(tmp_path / 'metrics.csv', mode='train') == expected
    status = json.loads((tmp_path / 'status.json').read_text())
    names = ('state', 'global_step', 'train_steps', 'training', 'examples/sec', 'seconds_left')
    training = {'global_step': 11, 'loss': 0.25, 'metric': 8.0}
    assert [status[name] for name in names] == ['training', 11, 14, training, None, None]
    events = [event for path in tmp_path.glob('events*') for event in tf.train.summary_iterator(str(path))]
    assert [event.step for event in events if event.session_log.status == tf.SessionLog.START] == [5]  # Forget later ones.
    found = scalars(tmp_path)
    assert found['scalar'] == {5: 3, 7: 3, 9: 3, 11: 3} and found['metric'] == {5: 8, 7: 8, 9: 8, 11: 8}
    assert found['examples/sec'] == {7: 16, 9: 16} and 'vector' not in found
    lines = [record.getMessage() for record in caplog.records if 'loss' in record.getMessage()]
    assert lines == [
        'loss = 0.25, step = 4, epoch 1.25',
        'loss = 0.25, step = 6 (10.000 sec), epoch 1.75, 00:35 left',
        'loss = 0.25, step = 8 (10.000 sec), epoch 2.25, 00:25 left',
        'loss = 0.25, step = 10, epoch 2.75',
    ]
    assert caplog.text.count('global_step/sec: 0.2\n') == 2
    assert summaries.Length(HParams({'batch_size': 32}), 0, 14, 32).epoch(3) == ''


def test_writers_of_a_directory_and_those_below_it_are_closed(tmp_path, monkeypatch):
    cache = tf.summary.FileWriterCache
    names = ('a', 'a/eval', 'ab')
    with tf.Graph().as_default():
        writers = {name: cache.get(f'{tmp_path}/{name}') for name in names}
        summaries.close_writers(f'{tmp_path}/a/')
        assert [cache.get(f'{tmp_path}/{name}') is writers[name] for name in names] == [False, False, True]
        failure = IndexError(
            f'{tmp_path}/ab/events.1; File too large\n\tFailed to flush 2 events'
        )  # Of the thread that writes.
        monkeypatch.setattr(writers['ab'], 'close', mock.Mock(side_effect=failure))
        with pytest.raises(IndexError) as raised:
            summaries.close_writers(f'{tmp_path}/ab')
        assert str(find_cause(raised.value)) == f'{tmp_path}/ab/events.1: File too large: fix this, then rerun the command'


def test_the_input_wait_is_the_time_from_the_beginning_of_a_step_to_its_batch(session, monkeypatch):
    clock, is_started = [100.0], threading.Event()

    def now():
        found = np.float64(clock[0])
        is_started.set()
        return found

    def next_batch():
        assert is_started.wait(100)
        clock[0] += 5
        return np.float32([1, 2])

    monkeypatch.setattr(tf, 'timestamp', lambda: tf.ensure_shape(tf.numpy_function(now, [], tf.float64), []))
    sparse = tf.sparse.from_dense(tf.ensure_shape(tf.numpy_function(next_batch, [], tf.float32), [2]))
    waited, count_wait = summaries.measure_wait({'x': sparse})
    session.run(tf.local_variables_initializer())
    for steps in (1, 2, 3):
        session.run(count_wait)
        assert session.run(waited) == 5 * steps
        clock[0] += 100  # Between steps there is no waiting.
        is_started.clear()
    session.run(tf.variables_initializer(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)))
    assert session.run(waited) == 0


def test_the_model_summary_lists_inputs_variables_and_their_sum(session):
    features = {'image': tf.placeholder(tf.float32, [None, 28, 28, 1]), 'a': tf.placeholder(tf.string, [8])}
    variables = [tf.get_variable('conv/kernel', [3, 3, 1, 200]), tf.get_variable('b', [])]
    assert model_summary.describe(features, {'label': tf.placeholder(tf.int64, [None])}, variables) == [
        'Input a: string (8,)',
        'Input image: float32 (None, 28, 28, 1)',
        'Input label: int64 (None,)',
        'conv/kernel  (3, 3, 1, 200)         1,800',
        'b            ()                         1',
        'total                               1,801',
    ]
    assert model_summary.describe({}, None, [])[-1].split() == ['total', '0']


def read(directory):
    """Returns the messages of the plug-in in the events of a directory."""
    paths = tf.io.gfile.glob(f'{directory}/events*')
    values = [value for path in paths for event in tf.train.summary_iterator(path) for value in event.summary.value]
    found = [value.metadata.plugin_data for value in values if value.metadata.plugin_data.plugin_name == 'hparams']
    return [plugin_data_pb2.HParamsPluginData.FromString(data.content) for data in found]


def test_the_hparams_tab_gets_the_hyperparameters_and_how_it_ended(tmp_path):
    params = {'rate': 0.5, 'steps': 3, 'cache': True, 'model': 'm', 'filters': (1, 2)}
    with hparams_tab.session(str(tmp_path), lambda: params) as hook:
        assert read(tmp_path) == []
        hook.begin()
        assert len(read(tmp_path)) == 1
    start, end = read(tmp_path)
    values = start.session_start_info.hparams
    assert (values['rate'].number_value, values['steps'].number_value, values['cache'].bool_value) == (0.5, 3, True)
    assert (values['model'].string_value, values['filters'].string_value) == ('m', '[1, 2]')
    assert end.session_end_info.status == api_pb2.STATUS_SUCCESS
    with pytest.raises(ZeroDivisionError), hparams_tab.session(f'{tmp_path}/failure', dict):
        raise ZeroDivisionError
    assert read(f'{tmp_path}/failure')[-1].session_end_info.status == api_pb2.STATUS_FAILURE
