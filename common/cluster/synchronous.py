"""Synchronous training: chief and workers, each with its own copy of all variables."""

from collections.abc import Iterator, Mapping
import contextlib
import json
import queue
import threading
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.agreement import CompareWeights
from estimator_trainer.common.cluster.collectives import Collectives
from estimator_trainer.common.cluster.hooks import StepDeadline
from estimator_trainer.common.cluster.members import check_alike
from estimator_trainer.common.cluster.synchronous_hooks import EndTogether, SharedScaffold, StepMeans, StopTogether, mean_alike
from estimator_trainer.common.cluster.task import Restart, TrainerTask, make_session_config
from estimator_trainer.common.cluster.tf_config import ClusterConfig
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.parts import part_size
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.hparams.build import HParams

_RESET_SECONDS = 3
# A collective op that times out sometimes crashes the process by using freed memory, so the watch must end the step earlier.
_MARGIN_SECONDS = 60


class SynchronousTask(TrainerTask):
    """A process that runs each step together with all others. See Task for the arguments."""

    def __init__(self, config: ClusterConfig, timeout: float, session_config: tf.ConfigProto | None):
        own_config = make_session_config(config, session_config)  # The collectives still reach the others.
        job, index = config.trainers[0]
        own_config.experimental.collective_group_leader = f'/job:{job}/replica:0/task:{index}'
        super().__init__(config, timeout, own_config)
        self.batch_parts = self.count
        self.collectives = Collectives(self.count, self.index, timeout + _MARGIN_SECONDS)

    def meet(self, facts: Mapping[str, str]) -> None:
        others = range(self.count)
        self._wait_and_watch(others, others)
        self._start({**facts, **self._cluster})

    def means(self, loss: tf.Tensor, params: HParams, weight: Any = None) -> StepMeans:
        return StepMeans(self.collectives, loss, self._parts(params, weight), params.gradient_accumulation_steps)

    def mean_gradients(self, gradients, merge, params, weight=None):
        return mean_alike(self.collectives, gradients, merge, self._parts(params, weight))

    def _parts(self, params, weight):
        """Returns the reciprocal of the weight of this process's share of a batch."""
        if weight is not None:
            return 1 / weight
        return params.batch_size / part_size(params.batch_size, self.count, self.index)

    def whole(self, share: tf.Tensor, batch_size: int) -> tf.Tensor:
        return self.collectives.whole(share, batch_size)

    def hooks(self, hooks, step_hook, means, stop, periods, total_steps, steps_per_loop):
        compare = CompareWeights(self, means, stop, periods, step_hook)
        end = EndTogether(self)
        stops = StopTogether(self, means, stop, periods, total_steps, step_hook, end)
        return [StepDeadline(self, steps_per_loop), compare, end, *hooks, stops, step_hook]

    def scaffold(self, keep_checkpoint_max: int) -> SharedScaffold:
        return SharedScaffold(self)

    def complete_step(self) -> None:
        """See Task. All tasks have run the step."""
        self._watch.complete_step()

    @contextlib.contextmanager
    def waiting(self, stop: StopOnSignal) -> Iterator[None]:
        """Within the block, this process waits for all others between two steps; signals are deferred."""
        self.set_deadline(1)
        with stop.defer_signals(), self.naming_lost_tasks():
            yield
        self.set_deadline(0)

    def _leave(self):
        self.exchange('null')

    def _start(self, facts):
        found = [json.loads(text) for text in self.exchange(json.dumps(dict(facts)))]
        if found[0] is None:
            return False
        try:
            self._compare(found, facts)
        except (UsageError, Restart):
            with contextlib.suppress(RunError):  # All find a difference, and none ends before the others have found it.
                self.exchange('null')
            raise
        return True

    def _compare(self, found, facts):
        """Raises UsageError if the facts that the tasks have found differ from this one's."""
        for name, theirs in zip(self._names, found):
            check_alike(name, theirs, self.name, facts)

    def has_returning(self) -> bool:
        """Whether a task that does not take part waits to, as far as this process knows."""
        return False

    def take_back(self) -> Restart:
        """Returns the error with which all tasks restart, together with those that wait."""
        raise NotImplementedError

    def _on_loss(self):
        """Aborts waiting for a lost task with an error in the waiting thread; if that fails, ends the process."""
        self._has_reset = True  # The session that waits may find its variables gone.
        thread = threading.Thread(target=tf.Session.reset, args=(self.target, None, self.session_config), daemon=True)
        thread.start()
        thread.join(_RESET_SECONDS)
        if thread.is_alive():  # TensorFlow retries asking the chief for a graph's first step id.
            self._end_process()

    def exchange(self, text: str) -> list[str]:
        """Returns the texts of all tasks, in their order."""
        data = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
        (sizes,) = np.array(self._gather(np.array([[len(data)]], np.int32))).T
        padded = np.pad(data, [0, max(sizes) - len(data)])[np.newaxis]
        return [row[:size].astype(np.uint8).tobytes().decode() for row, size in zip(self._gather(padded), sizes)]

    def _gather(self, array):
        answers: queue.SimpleQueue = queue.SimpleQueue()

        def run():
            answer: tuple[Any, Exception | None]
            try:
                with tf.Graph().as_default():
                    gathered = self.collectives.gather(tf.constant(array))
                    with self.session() as session:
                        answer = session.run(gathered), None
            except Exception as error:
                answer = None, error
            answers.put(answer)

        # TensorFlow would wait forever for a program at the chief's address that is not a task.
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        with self.naming_lost_tasks():
            try:
                gathered, error = answers.get(timeout=self._timeout)
            except queue.Empty:
                raise tf.errors.DeadlineExceededError(None, None, '') from None
            thread.join()
            if error:
                raise error
            return gathered
