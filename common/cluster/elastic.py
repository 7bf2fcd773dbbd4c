"""Synchronous training that goes on without tasks that are lost, and takes them back: its processes restart with others."""

from collections.abc import Mapping, MutableMapping, Sequence
import dataclasses
import json
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import json_text
from estimator_trainer.common.cluster.assembly import Returning
from estimator_trainer.common.cluster.members import check_alike
from estimator_trainer.common.cluster.membership import Formation, Hello
from estimator_trainer.common.cluster.probe import FOREIGN, LOST
from estimator_trainer.common.cluster.synchronous import SynchronousTask
from estimator_trainer.common.cluster.task import Restart
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.files import dumps

_EXPECTED = 'CLUSTER_EXPECTED_TASKS'  # Environment variable of a restarted process: what Hello calls expected, as JSON.
_MEET_SECONDS = 60  # All have imported TensorFlow.
_CLOSE_SECONDS = 10  # In which one that has agreed to train, too, ends its assembly.
_GO_ON = 'the others restart from the latest checkpoint'


def expected(environ: MutableMapping[str, str]) -> Sequence[int]:
    """Returns the tasks with which this process is to train again, removed from os.environ; () if it was just started."""
    try:
        found = json_text.loads(environ.pop(_EXPECTED, '[]'))
    except ValueError:
        return ()
    return tuple(found) if isinstance(found, list) else ()


class ElasticTask(SynchronousTask):
    """A process of a synchronous cluster that trains together with those that are there.

    Args:
      formation: with this process.
      own: what it has said of itself.
    """

    def __init__(self, formation: Formation, own: Hello, timeout: float, session_config: tf.ConfigProto | None):
        super().__init__(formation.config, timeout, session_config)
        self._formation = formation
        self._returning = Returning(formation, own)
        self._meeting_seconds, self._foreign_seconds = min(timeout, _MEET_SECONDS), _CLOSE_SECONDS
        self.members = formation.config.names

    @property
    def full_count(self) -> int:
        return len(self._formation.configured.trainers)

    def meet(self, facts: Mapping[str, str]) -> None:
        try:
            super().meet(facts)
        except Restart:
            raise
        except RunError:
            raise self._restart('not all that had agreed to train are there: trying again', self._addresses) from None

    def recognize(self, params: Mapping[str, Any]) -> None:
        facts = {**self._returning.own.facts, **{name: dumps(value) for name, value in params.items()}}
        self._returning.own = dataclasses.replace(self._returning.own, facts=facts)

    def complete_step(self) -> None:
        """See Task. Now the run has a checkpoint, from which a task takes the hyper-parameters that are not given."""
        super().complete_step()
        if self.is_chief:
            self._returning.start()

    def end_watch(self) -> None:
        """See Task."""
        self._returning.stop()
        super().end_watch()

    def _compare(self, found, facts):
        """A task that differs from the chief ends; the others restart without it."""
        check_alike(self._names[0], found[0], self.name, facts)
        alike = [address for address, theirs in zip(self._addresses, found) if theirs == facts]
        if len(alike) < len(found):
            others = self._members.listed([address for address in self._addresses if address not in alike])
            raise self._restart(f'{others} was started otherwise, as its own log says: {_GO_ON}', alike)

    def loss(self, error: tf.errors.OpError | None = None) -> RunError:
        """See Task. This process restarts, unless nobody is lost and not a step was made."""
        found = super().loss(error)
        if isinstance(found, Restart):
            return self._restart(str(found), self._addresses)
        sightings = self._watch.sightings
        lost = {
            address: LOST if trouble.state == FOREIGN else trouble.state for address, trouble in sightings.culprits().items()
        }
        if not lost and not sightings.has_trained:
            return found
        text = self._members.describe(lost) if lost else 'another task has failed'
        return self._restart(f'{text}: {_GO_ON}', [address for address in self._addresses if address not in lost])

    def give_way(self, error: RunError) -> RunError:
        """See TrainerTask. Another part of the cluster trains: this one waits until that can be reached."""
        return self._restart(str(error), self._addresses)

    def has_returning(self) -> bool:
        return self._returning.is_any

    def take_back(self) -> Restart:
        return self._restart('a task has returned: all restart from the checkpoint with it', self._addresses)

    def _restart(self, text, kept):
        """Returns the error with which this process starts again, to train with the tasks at these addresses."""
        expected = [member for member, address in zip(self._formation.members, self._addresses) if address in kept]
        return Restart(text, **{_EXPECTED: json.dumps(expected)})
