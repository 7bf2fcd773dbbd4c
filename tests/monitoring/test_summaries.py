"""What a training writes of its steps, to TensorBoard and to the log, and the time that it waits for its input."""

import threading
import time
import types

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
import tensorflow.compat.v1 as tf

from common.monitoring import summaries
from hparams.build import HParams
from tests.linear import input_fn, make_estimator, scalars


def test_a_training_writes_its_speed_and_what_is_left_of_it(tmp_path, session, monkeypatch, caplog):
    clock, seen, steps = [1000.0], [], iter(range(5, 11))
    monkeypatch.setattr(time, 'perf_counter', lambda: clock[0])
    monkeypatch.setattr(time, 'time', lambda: clock[0])
    caplog.set_level('INFO', 'tensorflow')

    def work():
        clock[0] += 2

    global_step = tf.train.get_or_create_global_step()
    collections = [tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES]
    waited = tf.get_variable('waited', [], tf.float64, tf.zeros_initializer(), collections=collections)
    step = [tf.assign_add(global_step, 1), tf.assign_add(waited, 0.5), tf.numpy_function(work, [], [])]
    tf.summary.scalar('scalar', 3.0)
    hook = summaries.TrainingSummaries(
        loss=tf.constant(0.5),
        mean_loss=tf.constant(0.25),
        metrics={'metric': (tf.constant(7.0), tf.constant(8.0)), 'vector': (0, tf.zeros([2])), 'op': (0, tf.no_op())},
        waited=waited,
        every_steps=2,
        length=summaries.Length(HParams({'batch_size': 32}), num_examples=128, total_steps=14),
        output_dir=str(tmp_path),
        steps=types.SimpleNamespace(next_visible_step=lambda: next(steps)),
        on_metrics=seen.append,
    )
    scaffold = tf.train.Scaffold(init_op=tf.assign(global_step, 4))
    with tf.train.SingularMonitoredSession([hook], scaffold=scaffold) as training:
        for _ in range(6):
            training.run(step)
            clock[0] += 3  # As if to save, between steps.
    # Two steps take 10 seconds, of which 4 are those of the steps themselves, and one of these is waited.
    speed = {'global_step/sec': 0.2, 'examples/sec': 16.0, 'input/wait_fraction': 0.25}
    first = {'loss': 0.5, 'metric': 8.0}
    assert seen == [{'global_step': number, 'train': {**first, **(speed if number > 5 else {})}} for number in (5, 7, 9)]
    found = scalars(tmp_path)
    assert found['scalar'] == {5: 3, 7: 3, 9: 3} and found['metric'] == {5: 8, 7: 8, 9: 8}
    assert found['examples/sec'] == {7: 16, 9: 16} and 'vector' not in found
    lines = [record.getMessage() for record in caplog.records if 'loss' in record.getMessage()]
    assert lines == [
        'loss = 0.25, step = 4, epoch 1.25',
        'loss = 0.25, step = 6 (10.000 sec), epoch 1.75, 00:35 left',
        'loss = 0.25, step = 8 (10.000 sec), epoch 2.25, 00:25 left',
    ]
    assert caplog.text.count('global_step/sec: 0.2\n') == 2
    assert summaries.Length(HParams({'batch_size': 32}), 0, 14).epoch(3) == ''


def test_what_a_killed_training_has_written_of_later_steps_is_forgotten(tmp_path):
    def steps():
        return [event.step for event in seen.Reload().Scalars('learning_rate')]

    for max_steps in (2, 6):
        make_estimator(tmp_path).train(input_fn(), max_steps=max_steps)
    # As if it had been killed before it saved another checkpoint.
    tf.train.update_checkpoint_state(str(tmp_path), f'{tmp_path}/model.ckpt-2')
    seen = EventAccumulator(str(tmp_path), purge_orphaned_data=True)
    assert steps() == [1, 2, 3, 4, 5, 6]
    make_estimator(tmp_path).train(input_fn(), max_steps=4)
    assert steps() == [1, 2, 3, 4]


def test_writers_of_a_directory_and_those_below_it_are_closed(tmp_path):
    cache = tf.summary.FileWriterCache
    names = ('a', 'a/eval', 'ab')
    with tf.Graph().as_default():
        writers = {name: cache.get(f'{tmp_path}/{name}') for name in names}
        summaries.close_writers(f'{tmp_path}/a/')
        assert [cache.get(f'{tmp_path}/{name}') is writers[name] for name in names] == [False, False, True]


def test_the_input_wait_is_the_time_from_the_beginning_of_a_step_to_its_batch(session, monkeypatch):
    clock, is_started = [100.0], threading.Event()

    def now():
        is_started.set()
        return np.float64(clock[0])

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
