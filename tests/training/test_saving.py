"""Saving and evaluation of checkpoints, and the errors that end training."""

import contextlib
import shutil
import types

from google.protobuf import text_format
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.training.saving import BatchCounts, CheckpointSaver, EvaluateAfterSave, StepCheck
from tests.shared import failed


@pytest.mark.parametrize(
    'saved, end, every_steps, evaluated',
    [
        ([5, 10, 15], 15, 1, [10, 15]),
        ([0, 4, 5, 8, 10, 12], 12, 5, [5, 10, 12]),
        ([0, 4, 11], 12, 5, [11, 12]),
        ([7, 8, 10], 10, 5, [10]),
        ([0], 0, 5, []),
    ],
)
@pytest.mark.parametrize('enough_at', [None, 10])
def test_checkpoints_at_multiples_and_the_last_are_evaluated_and_may_end(saved, end, every_steps, evaluated, enough_at):
    steps = []
    stop = types.SimpleNamespace(call_outside_training=lambda evaluate: evaluate())
    listener = EvaluateAfterSave(lambda: steps.append(current) or current, lambda: current == enough_at, stop, every_steps)
    ends = []
    for current in saved:
        ends += [current] * listener.after_save(None, current)
    current = end
    listener.end(None, end)
    assert steps == evaluated and listener.result == (steps[-1] if steps else None)
    assert ends == [step for step in evaluated if step == enough_at]
    without_result = EvaluateAfterSave(lambda: None, lambda: True, stop, 1)  # Does not end training.
    assert [without_result.after_save(None, step) for step in (0, 1)] == [False, False]


@pytest.mark.parametrize('is_missed', [True, False])
def test_a_session_without_a_step_evaluates_what_was_missed(is_missed):
    stop = types.SimpleNamespace(call_outside_training=lambda evaluate: evaluate())
    listener = EvaluateAfterSave(lambda: 'result', lambda: False, stop, 5, is_missed=lambda: is_missed)
    listener.after_save(None, 8)
    listener.end(None, 8)
    assert listener.result == ('result' if is_missed else None)


def train(directory, periods, start, end, *hooks, **initial):
    """Assigns 1 to the variables; returns the steps at which it has saved."""
    saved = []
    listener = tf.train.CheckpointSaverListener()
    listener.after_save = lambda session, step: saved.append(step) or step == 25  # Ends training.
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        variables = [tf.get_variable(name, initializer=value) for name, value in initial.items()]
        count = tf.group(tf.assign_add(step, 1), *(tf.assign(variable, tf.ones_like(variable)) for variable in variables))
        with tf.control_dependencies([tf.global_variables_initializer()]):
            init = tf.assign(step, start)
        saver = CheckpointSaver(str(directory), periods, [listener])
        with tf.train.SingularMonitoredSession([saver, *hooks], scaffold=tf.train.Scaffold(init_op=init)) as session:
            while not session.should_stop() and session.raw_session().run(step) < end:
                session.run(count)
    return saved


class Lost(tf.train.SessionRunHook):
    """Loses the connection at given steps, one for each start of the session."""

    def __init__(self, steps):
        self._steps, self.starts = steps, 0

    def after_create_session(self, session, coord):
        self._step, self.starts = 0, self.starts + 1

    def after_run(self, run_context, run_values):
        self._step += 1
        if self.starts <= len(self._steps) and self._step == self._steps[self.starts - 1]:
            raise tf.errors.UnavailableError(None, None, 'lost')


@pytest.mark.parametrize('steps, is_preempted', [([2] * 9, False), ([3, 2, 4, 1, 3, 2, 3], True)])
def test_an_error_taken_for_a_lost_connection_ends_training_if_it_comes_5_times_at_the_same_step(tmp_path, steps, is_preempted):
    with tf.Graph().as_default():
        count = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        lost = Lost(steps)
        message = f'training was started 5 times from {tmp_path}/model.ckpt-0, and failed each time with an AbortedError or'
        expected = contextlib.nullcontext() if is_preempted else pytest.raises(RunError, match=message)
        hooks = [CheckpointSaver(str(tmp_path), [10]), lost]
        with expected, tf.train.MonitoredTrainingSession('', hooks=hooks) as session:
            for _ in range(30):
                session.run(count)
    assert lost.starts == (len(steps) + 1 if is_preempted else 6)  # The first starts without a checkpoint.


@pytest.mark.parametrize(
    'periods, start, end, steps', [([4], 3, 9, [3, 4, 8, 9]), ([4, 6], 0, 12, [0, 4, 6, 8, 12]), ([5], 18, 40, [18, 20, 25])]
)
def test_checkpoints_are_saved_at_multiples_but_not_over_the_first_one(tmp_path, periods, start, end, steps):
    first = tmp_path / f'model.ckpt-{start}.index'
    if start:
        first.write_text('as it was')
    assert train(tmp_path, periods, start, end) == steps
    assert all((tmp_path / f'model.ckpt-{step}.index').exists() for step in steps)
    assert not start or first.read_text() == 'as it was'
    graph = text_format.Parse((tmp_path / 'graph.pbtxt').read_text(encoding='utf-8'), tf.GraphDef())  # With the shapes.
    assert [len(node.attr['_output_shapes'].list.shape) for node in graph.node if node.name == 'global_step'] == [1]


def test_a_variable_that_is_not_finite_is_not_saved(tmp_path):
    error = failed(train, tmp_path, [4], 0, 5, good=1.0, bad=[1.0, np.inf], count=3)
    assert error.startswith('bad is not finite after step 0, which is not saved: lower learning_rate, or find the')
    assert not [*tmp_path.glob('model.ckpt*')]
    assert train(tmp_path, [4], 0, 5, good=1.0, count=3) == [0, 4, 5]


def test_a_disk_that_is_almost_full_is_said_at_the_start(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(shutil, 'disk_usage', lambda path: types.SimpleNamespace(free=50))
    train(tmp_path, [4], 0, 9, w=[1.0, 2.0])  # 8 bytes, and 8 of the global step.
    assert f'{tmp_path}: a checkpoint takes about 16 bytes, and 50 bytes is free' not in caplog.text
    monkeypatch.setattr(shutil, 'disk_usage', lambda path: types.SimpleNamespace(free=47))
    train(tmp_path, [4], 9, 13, w=[1.0, 2.0])
    assert caplog.text.count(f'{tmp_path}: a checkpoint takes about 16 bytes, and 47 bytes is free on the disk') == 1


def test_nothing_is_saved_into_a_directory_that_was_replaced(tmp_path):
    hook, output = tf.train.SessionRunHook(), tmp_path / 'output'
    hook.after_create_session = lambda *_: output.rename(tmp_path / 'moved') and output.mkdir()
    cure = 'was deleted or moved during the run: move away what is there now; then move it back to resume from its last'
    assert cure in failed(train, output, [1], 0, 5, hook)
    assert not [*output.iterdir()]


def test_data_that_ends_is_an_error():
    with tf.Graph().as_default():
        step = tf.train.create_global_step()
        loss = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(1.0).repeat(3)).get_next()
        with tf.control_dependencies([loss]):
            count = tf.assign_add(step, 1).op
        message = '^the training data ended at step 3, although it is repeated: a Python function of'
        with pytest.raises(RunError, match=message), tf.train.SingularMonitoredSession([StepCheck(loss)]) as session:
            while not session.should_stop():
                session.run(count)


def test_the_graph_is_written_without_the_data_of_the_input(tmp_path):
    data = np.arange(5000)
    with tf.Graph().as_default():
        with tf.name_scope('input'):
            tf.constant(data, name='numbers')
            tf.constant([f'text {i}' for i in data], name='texts')
            tf.constant(data[:9], name='small')
        tf.constant(data, name='outside')
        tf.train.get_or_create_global_step()
        with tf.train.SingularMonitoredSession([CheckpointSaver(str(tmp_path), [10])]):
            pass
    (path,) = tmp_path.glob('events.*')
    events = [*tf.train.summary_iterator(str(path))]
    (shown,) = [tf.GraphDef.FromString(event.graph_def) for event in events if event.graph_def]
    (meta,) = [tf.MetaGraphDef.FromString(event.meta_graph_def) for event in events if event.meta_graph_def]
    written = text_format.Parse((tmp_path / 'graph.pbtxt').read_text(), tf.GraphDef())
    assert shown == written == meta.graph_def and meta.saver_def.filename_tensor_name
    with tf.Graph().as_default(), tf.Session() as session:
        found = tf.import_graph_def(written, return_elements=['input/numbers:0', 'input/texts:0', 'input/small:0', 'outside:0'])
        numbers, texts, small, outside = session.run(found)
    assert numbers.shape == texts.shape == data.shape and not numbers.any() and {*texts} == {b''}
    assert np.array_equal(small, data[:9]) and np.array_equal(outside, data)


def test_each_checkpoint_has_the_whole_graph_which_is_exported_once(tmp_path, monkeypatch):
    exported, as_graph_def = [], tf.Graph.as_graph_def
    with tf.Graph().as_default() as graph:
        with tf.name_scope('input'):
            tf.constant(np.arange(5000), name='numbers')
        count = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        with tf.train.SingularMonitoredSession([CheckpointSaver(str(tmp_path), [1])]) as session:
            monkeypatch.setattr(tf.Graph, 'as_graph_def', lambda *args, **options: exported.append(args))
            for _ in range(3):
                session.run(count)
        assert not exported
        monkeypatch.setattr(tf.Graph, 'as_graph_def', as_graph_def)
        (saver,) = graph.get_collection(tf.GraphKeys.SAVERS)
        expected = saver.export_meta_graph()
    for step in range(4):
        assert tf.MetaGraphDef.FromString((tmp_path / f'model.ckpt-{step}.meta').read_bytes()) == expected
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(str(tmp_path / 'model.ckpt-3.meta')).restore(session, str(tmp_path / 'model.ckpt-3'))
        assert session.run(tf.global_variables()) == [3]
        assert np.array_equal(session.run('input/numbers:0'), np.arange(5000))


@pytest.mark.parametrize(
    'added, warned', [([1, 1, 0], []), ([1, 0, 1, 1], ['the global step is 9 after the batch of step 10'])]
)
def test_batches_that_the_global_step_does_not_count_are_a_warning(caplog, added, warned):
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.create_global_step()
        hook = BatchCounts('--model=m')
        hook.begin()
        session.run(step.assign(7))
        hook.after_create_session(session, None)
        for number in added:
            session.run(step.assign_add(number))
            hook.after_run(types.SimpleNamespace(session=session), None)
    assert [text.partition(': ')[2].partition(',')[0] for text in caplog.messages] == warned
