"""The names of a cluster's tasks, in messages."""

from collections.abc import Collection, Iterable, Mapping

from estimator_trainer.common.cluster.probe import FOREIGN, LOST, SILENT, UNKNOWN, UNREACHABLE, host_and_port
from estimator_trainer.common.cluster.sightings import Sightings, Trouble
from estimator_trainer.common.errors import UsageError

_FAILED = {  # Texts for one task, and for several.
    LOST: ('is lost', 'are lost'),
    SILENT: ('does not answer', 'do not answer'),
}
_LONG_SECONDS = 10  # No step of a task that is lost takes this long, unless it waits for another.
_CHECK = 'check that it runs and that its address is right'
_OTHER_PROGRAM = (
    'another program answers there, or a task that has --min_tasks, unlike this one: correct the address, end that program, or '
    'start all tasks with the same command'
)


class Members:
    """Describes tasks of a cluster by their addresses, 'host:port'.

    Args:
      names: {address: name} of all tasks, in their order.
      own: this task's address.
    """

    def __init__(self, names: Mapping[str, str], own: str):
        self._names, self._own = names, own

    def listed(self, addresses: Collection[str]) -> str:
        """Returns the names and addresses of tasks, in their order."""
        return ', '.join(f'{name} ({address})' for address, name in self._names.items() if address in addresses)

    def describe(self, states: Mapping[str, str]) -> str:
        """Describes tasks, {address: state}, see common/cluster/probe.py."""
        parts = {state: [address for address in self._names if states.get(address) == state] for state in states.values()}
        return ', and '.join(self._describe_state(state, addresses) for state, addresses in parts.items())

    def describe_troubles(self, troubles: Mapping[str, Trouble]) -> str:
        return self.describe({address: trouble.state for address, trouble in troubles.items()})

    def describe_culprits(self, culprits: Mapping[str, Trouble], sightings: Sightings) -> str:
        """Describes the tasks whose trouble began first, and how long this one had waited before they ended."""
        waited = min(map(sightings.waited, culprits.values()))
        text = self.describe_troubles(culprits)
        if waited > _LONG_SECONDS and any(trouble.state == LOST for trouble in culprits.values()):
            text += f', after {waited:.0f} s without a step'
            text += ', perhaps because they could not reach one another' if len(culprits) > 1 else ''
        return f'{text}; {"their own logs" if len(culprits) > 1 else "its own log"} may say why'

    def describe_foreign(self, states: Mapping[str, str]) -> str:
        """Describes the addresses where something else answers, and the cure."""
        foreign = {address: state for address, state in states.items() if state == FOREIGN}
        return f'{self.describe(foreign)}: {_OTHER_PROGRAM}'

    def describe_absent(self, states: Mapping[str, str]) -> str:
        """Describes tasks that are not there yet."""
        return self.describe({address: UNKNOWN if state == UNKNOWN else UNREACHABLE for address, state in states.items()})

    def describe_missing(self, states: Mapping[str, str], timeout: float) -> str:
        """Describes tasks that were awaited in vain for a number of seconds, and the cure."""
        return f'{self.describe_absent(states)} for {timeout:g} seconds (--cluster_timeout): {_CHECK}'

    def _describe_state(self, state: str, addresses: Iterable[str]) -> str:
        found = list(addresses)
        if state == FOREIGN:
            return ', '.join("port {1} of {0} is not TensorFlow's".format(*host_and_port(address)) for address in found)
        if state == UNKNOWN:
            hosts = ', '.join(dict.fromkeys(host_and_port(address)[0] for address in found))
            return f'{self.listed(found)}: unknown host {hosts}'
        if state == UNREACHABLE:
            return f'{self.listed(found)} cannot be reached from {self.listed([self._own])}'
        return f'{self.listed(found)} {_FAILED[state][len(found) > 1]}'


def check_alike(name: str, theirs: Mapping[str, str], own: str, mine: Mapping[str, str]) -> None:
    """Raises UsageError if another task has other facts than this one; `name` and `own` are those of the tasks."""
    for key in [*mine, *theirs]:
        if theirs.get(key) != mine.get(key):
            raise UsageError(
                f'{name} has {key}={theirs.get(key)}, but {own} has {key}={mine.get(key)}: '
                'start all tasks with the same command, code, data and cluster'
            )
