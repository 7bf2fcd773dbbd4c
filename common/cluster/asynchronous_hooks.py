"""Session hooks for training with parameter servers: the chief starts, and all stop together."""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.hooks import OneSession
from estimator_trainer.common.cluster.notices import CHIEF_STOPS, GOING_ON, Notices
from estimator_trainer.common.stop import StopOnSignal


class WaitingScaffold(OneSession):
    """Lets a worker wait until the chief has initialized or restored the variables; the chief saves them itself.

    TensorFlow's own worker polls only every 30 seconds, and its parameter servers write sharded checkpoints.

    Args:
      task: this process's AsynchronousTask.
      keep_checkpoint_max: see tf.train.Saver.
    """

    def __init__(self, task: Any, keep_checkpoint_max: int):
        super().__init__(task)
        saver = tf.train.Saver(max_to_keep=keep_checkpoint_max, defer_build=True, save_relative_paths=True)
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)

    def finalize(self):
        finalized = super().finalize()
        if not self.task.is_chief:
            with self.task.session() as session:
                self.task.wait_until(
                    lambda: not session.run(self.ready_for_local_init_op).size, 'chief has not initialized the variables'
                )
        return finalized


class StopAsynchronous(tf.train.SessionRunHook):
    """Stops all processes if one receives a signal or the chief stops. It must follow the hook that saves checkpoints.

    Also tracks the step, in place of MultiStepHook.

    Args:
      task: this process's AsynchronousTask.
    """

    def __init__(self, task: Any, stop: StopOnSignal):
        self._task = task
        self._stop = stop
        notice = Notices(task.num_servers).stop
        self._notice, self._own = notice.read_value(), tf.placeholder(tf.int32, [], 'notice')
        self._tell = notice.assign(self._own)

    def hearing(self) -> 'HearNotice':
        """Returns the hook that notices a signal before the hook that saves checkpoints runs."""
        return HearNotice(self._notice, self._stop)

    def begin(self):
        self._stop.begin()
        self._global_step = tf.train.get_global_step()

    def after_create_session(self, session, coord):
        self._task.last_step = int(session.run(self._global_step))

    def next_visible_step(self) -> int:
        """Returns this process's next step, or a later one, as other processes also advance the global step."""
        return self._task.last_step + 1

    def before_run(self, run_context):
        return tf.train.SessionRunArgs([self._global_step, self._notice])

    def after_run(self, run_context, run_values):
        step, notice = map(int, run_values.results)
        self._task.last_step = max(self._task.last_step + 1, step)
        own = self._stop.received or (CHIEF_STOPS if self._task.is_chief and run_context.stop_requested else GOING_ON)
        if own and not notice:
            run_context.session.run(self._tell, {self._own: own})
            notice = own
        if notice == CHIEF_STOPS:
            run_context.request_stop()
        self._stop.finish_step(run_context, notice if notice > 0 else None)

    def end(self, session):
        with self._stop.defer_signals():
            self._task.last_step = int(session.run(self._global_step))
            if self._task.is_chief:
                self._task.end_servers(self._stop.received or 0)
            else:
                self._task.check_chief()
            self._task.end_watch()
        self._stop.end(session)


class HearNotice(tf.train.SessionRunHook):
    """Keeps the chief from evaluating a checkpoint if all must stop. It must precede the hook that saves checkpoints.

    Args:
      notice: int32 scalar, see Notices.
    """

    def __init__(self, notice: tf.Tensor, stop: StopOnSignal):
        self._notice = notice
        self._stop = stop

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._notice)

    def after_run(self, run_context, run_values):
        if run_values.results > 0:
            self._stop.hear(int(run_values.results))
