"""When checkpoints are saved, and when they are evaluated."""

import tf_estimator  # noqa: F401 - before TensorFlow

from google.protobuf import text_format
import tensorflow.compat.v1 as tf

from common.runs.stop import StopOnSignal
from common.training.saving import CheckpointSaver, EvaluateAfterSave


def evaluated_steps(saved, end, every_steps=1, enough_at=None):
    """Returns the steps that are evaluated if checkpoints are saved at these, and whether each ended the training."""
    steps = []
    with StopOnSignal() as stop:
        listener = EvaluateAfterSave(
            lambda: steps.append(current) or current, lambda: steps[-1] == enough_at, stop, every_steps
        )
        ends = []
        for current in saved:
            ends.append(bool(listener.after_save(None, current)))
        current = end
        listener.end(None, end)
        assert listener.result == (steps[-1] if steps else None)
    return steps, ends


def test_every_checkpoint_but_the_first_is_evaluated_and_the_last_once():
    assert evaluated_steps([5, 10, 15], 15)[0] == [10, 15]
    assert evaluated_steps([0, 10, 15], 15)[0] == [10, 15]


def test_evaluations_are_at_the_multiples_and_at_the_end():
    assert evaluated_steps([0, 4, 5, 8, 10, 12], 12, every_steps=5)[0] == [5, 10, 12]
    assert evaluated_steps([7, 8, 10], 10, every_steps=5)[0] == [10]
    assert evaluated_steps([0], 0, every_steps=5)[0] == []


def test_an_evaluation_may_end_the_training():
    assert evaluated_steps([0, 5, 10], 10, enough_at=10) == ([5, 10], [False, False, True])


def saved_steps(tmp_path, periods, start, end):
    """Returns the steps at which checkpoints are saved in a training from `start` to `end`."""
    steps = []

    class Listener(tf.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            steps.append(global_step_value)

    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = tf.assign_add(step, 1)
        saver = CheckpointSaver(str(tmp_path), periods)
        saver._listeners = [Listener()]
        scaffold = tf.train.Scaffold(init_op=tf.assign(step, start))
        with tf.train.SingularMonitoredSession([saver], scaffold=scaffold) as session:
            for _ in range(start, end):
                session.run(count)
    return steps


def test_the_graph_is_written_as_text_with_the_shapes(tmp_path):
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        tf.constant(2.5, shape=[3], name='scale')
        tf.constant('a line\n"é"', name='text')
        with tf.train.SingularMonitoredSession([CheckpointSaver(str(tmp_path), [10])]):
            pass
        read = text_format.Parse((tmp_path / 'graph.pbtxt').read_text(encoding='utf-8'), tf.GraphDef())
    assert read == graph.as_graph_def(add_shapes=True)
    nodes = {node.name: node for node in read.node}
    assert nodes['scale'].attr['value'].tensor.float_val == [2.5]
    assert nodes['scale'].attr['_output_shapes'].list.shape[0].dim[0].size == 3
    assert nodes['text'].attr['value'].tensor.string_val == ['a line\n"é"'.encode()]


def test_checkpoints_are_saved_at_multiples_wherever_the_training_starts(tmp_path):
    assert saved_steps(tmp_path, [4], 0, 9) == [0, 4, 8, 9]
    assert saved_steps(tmp_path, [4], 3, 9) == [3, 4, 8, 9]
    assert saved_steps(tmp_path, [4, 6], 0, 12) == [0, 4, 6, 8, 12]
