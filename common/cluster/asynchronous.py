"""Tasks of a cluster with parameter servers, whose variables each worker updates at its own pace."""

from collections.abc import Callable, Mapping
import contextlib
import json
import math
import time
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.asynchronous_hooks import StopAsynchronous, WaitingScaffold
from estimator_trainer.common.cluster.hooks import StepDeadline
from estimator_trainer.common.cluster.members import check_alike
from estimator_trainer.common.cluster.notices import GOING_ON, Notices
from estimator_trainer.common.cluster.probe import ANSWERS, SILENT
from estimator_trainer.common.cluster.task import Task, TrainerTask, make_session_config
from estimator_trainer.common.cluster.tf_config import PS, ClusterConfig
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.stop import StopOnSignal

_POLL_SECONDS = 0.5
_NOTHING = 'null'


class AsynchronousTask(TrainerTask):
    """A process that trains without waiting for the others at each step. See Task for the arguments.

    A lost worker can be restarted alone and rejoins. If the chief or a parameter server is lost, all others end.
    """

    def __init__(self, config: ClusterConfig, timeout: float, session_config: tf.ConfigProto | None):
        super().__init__(config, timeout, make_session_config(config, session_config, f'/job:{PS}'))
        self.device = f'/job:{config.job}/task:{config.index}'

    def run_config(self, config: 'tf.estimator.RunConfig') -> 'tf.estimator.RunConfig':
        """See TrainingTask. A training graph places variables on the servers, other ops on this task."""
        place = tf.train.replica_device_setter(
            ps_tasks=self.num_servers, worker_device=self.device, ps_strategy=LeastLoaded(self.num_servers)
        )
        config = super().run_config(config.replace(device_fn=place))
        config._is_chief = self.is_chief
        return config

    def local(self) -> contextlib.AbstractContextManager[Any]:
        return tf.device(self.device)

    def step_hook(self, stop: StopOnSignal) -> StopAsynchronous:
        return StopAsynchronous(self, stop)

    def hooks(self, hooks, step_hook, means, stop, periods, total_steps, steps_per_loop):
        del means, stop, periods, total_steps
        return [StepDeadline(self, steps_per_loop), step_hook.hearing(), *hooks, step_hook]

    def scaffold(self, keep_checkpoint_max: int) -> WaitingScaffold:
        return WaitingScaffold(self, keep_checkpoint_max)

    def meet(self, facts: Mapping[str, str]) -> None:
        """Waits for the servers, in a worker also for the chief, and checks that the chief agrees."""
        servers = range(self.count, self.count + self.num_servers)
        if self.is_chief:
            self._wait_and_watch(range(1, self.count + self.num_servers), servers)
        else:
            self._wait_and_watch([0, *servers], [0, *servers])
        self._compare('facts', {**facts, **self._cluster})

    def _start(self, facts):
        return self._compare('start', facts)

    def _leave(self):
        self._run(lambda notices: notices.texts['start'].assign(_NOTHING))
        self.end_servers(0)

    def end_servers(self, number: int) -> None:
        """Notifies the parameter servers of the end of training, once all workers have ended.

        Args:
          number: of the signal that stopped training, or 0.
        """

        def running():
            states = self._states(range(1, self.count))
            return [address for address, state in states.items() if state in (ANSWERS, SILENT)]

        try:
            self.wait_until(lambda: not running(), 'workers have not ended')
        except RunError:
            left = self._members.listed(running())
            tf.logging.warning('%s: still running after %g seconds; training ends.', left, self._timeout)
        self._run(lambda notices: [end.assign(number) for end in notices.ends])
        self.end_watch()

    def check_chief(self) -> None:
        """Raises RunError if the chief, which outlives its workers, has ended or cannot be reached for the timeout."""
        while self._watch.look([self._addresses[0]]).troubles:
            if self._watch.is_failing():
                raise self.loss()
            time.sleep(_POLL_SECONDS)

    def _compare(self, name, facts):
        """Raises UsageError if the chief has other facts; returns False if it has left."""
        if self.is_chief:
            self._run(lambda notices: notices.texts[name].assign(json.dumps(dict(facts))))
            return True
        theirs = json.loads(self._run(lambda notices: notices.texts[name].read_value()))
        if theirs is None:
            return False
        check_alike(self._names[0], theirs, self.name, facts)
        return True

    def _run(self, fetch: Callable[[Notices], Any]) -> Any:
        """Returns the fetched notices once the servers have initialized them and they are not empty."""
        with self.naming_lost_tasks(), tf.Graph().as_default():
            notices = Notices(self.num_servers)
            fetched = fetch(notices)
            is_initialized = notices.is_initialized()
            with self.session() as session:
                self.wait_until(lambda: session.run(is_initialized), 'a parameter server has not started')
                for name, addresses in zip(self._names[self.count :], session.run(notices.clusters)):
                    check_alike(name, {'TF_CONFIG': addresses.decode()}, self.name, self._cluster)
                return self.wait_until(lambda: session.run(fetched), 'chief has not started')


class LeastLoaded:
    """A strategy for tf.train.replica_device_setter: the server with the fewest bytes so far gets the next variable.

    All tasks create the same variables in the same order, so they agree.
    """

    def __init__(self, num_servers: int):
        self._bytes = [0] * num_servers

    def __call__(self, op: tf.Operation) -> int:
        server = self._bytes.index(min(self._bytes))
        shape = tf.TensorShape(op.get_attr('shape'))
        self._bytes[server] += math.prod(shape.as_list()) * tf.as_dtype(op.get_attr('dtype')).size
        return server


class ParameterServer(Task):
    """A process that holds variables until the chief has ended. See Task for the arguments."""

    def __init__(self, config: ClusterConfig, timeout: float):
        without_gpus = tf.ConfigProto(device_count={'GPU': 0})
        super().__init__(config, timeout, make_session_config(config, without_gpus, f'/job:{PS}'))

    def serve(self, stop: StopOnSignal) -> int:
        """Returns the number of the signal that stopped training, or 0.

        Args:
          stop: a signal to this process stops training.

        Raises:
          RunError: the chief cannot be reached, or is lost.
        """
        self._wait_and_watch([0, *range(self.count, len(self._names))], [0])
        with self.naming_lost_tasks(), tf.Graph().as_default():
            notices, own = Notices(self.num_servers, self._cluster['TF_CONFIG']), self.index - self.count
            end, number = notices.ends[own].read_value(), tf.placeholder(tf.int32, [])
            stops, tell = notices.stop.read_value(), notices.stop.assign(number)
            with self.session() as session:
                session.run([variable.initializer for variable in notices.of_server(own)])
                with stop.defer_signals():
                    while (ended := session.run(end)) < 0:
                        if stop.received and session.run(stops) == GOING_ON:
                            session.run(tell, {number: stop.received})
                        time.sleep(_POLL_SECONDS)
                    time.sleep(_POLL_SECONDS)  # The chief still needs an answer.
        self.end_watch()
        return int(ended)
