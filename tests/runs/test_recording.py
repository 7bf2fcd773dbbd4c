"""Records of a run once its session has started."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.runs.recording import AfterStart


class _AbortOnce(tf.train.SessionRunHook):
    is_first = True

    def before_run(self, run_context):
        if self.is_first:
            self.is_first = False
            raise tf.errors.AbortedError(None, None, '')


def test_a_start_is_recorded_once_though_tensorflow_starts_a_second_session():
    calls: list[int] = []
    with tf.Graph().as_default():
        two = tf.constant(2)
        with tf.train.MonitoredSession(hooks=[AfterStart(lambda: calls.append(1)), _AbortOnce()]) as session:
            assert calls == [1] and session.run(two) == 2
    assert calls == [1]
