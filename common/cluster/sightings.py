"""The states of other tasks, as seen by one since its steps stopped."""

from collections.abc import Mapping
import dataclasses

from estimator_trainer.common.cluster.probe import ANSWERS, FOREIGN, LOST, UNKNOWN, UNREACHABLE

_OUTAGE_SECONDS = 10  # TCP bridges shorter ones.
_QUIET_SECONDS = 3
_REPEAT_SECONDS = 30
_TOGETHER_SECONDS = 3  # A round of questions takes up to 2 seconds.


@dataclasses.dataclass(frozen=True)
class Trouble:
    """A task that does not answer.

    Attributes:
      state: the last one, see common/cluster/probe.py.
      since: seconds, the time of its last answer.
      times: how often it was seen in this state, without another one between.
    """

    state: str
    since: float
    times: int = 1

    @property
    def is_cut_off(self) -> bool:
        return self.state in (UNREACHABLE, UNKNOWN)


class Sightings:
    """The troubles of other tasks, in the order of their beginning: a task that has lost another one ends, and looks lost, too.

    A completed step is an answer of all tasks, and ends all troubles. All times are seconds of one clock.

    Attributes:
      troubles: {address: Trouble} of the tasks that did not answer when they were last asked.
      outages: {address: (start, end)} of the tasks whose host could not be reached for a while, since the last step.
    """

    def __init__(self):
        self.troubles: dict[str, Trouble] = {}
        self.outages: dict[str, tuple[float, float]] = {}
        self._answers: dict[str, float] = {}
        self._last_step: float | None = None
        self._step_seconds = 0.0

    def complete_step(self, now: float, seconds: float) -> None:
        """Notes that a step, or a loop of several, has ended, which took this time."""
        self._last_step, self._step_seconds = now, seconds
        self.troubles, self.outages = {}, {}

    @property
    def is_cut_off(self) -> bool:
        """Whether the host of a task cannot be reached."""
        return any(trouble.is_cut_off for trouble in self.troubles.values())

    @property
    def has_trained(self) -> bool:
        return self._last_step is not None

    def is_quiet(self, now: float) -> bool:
        """Whether nobody need be asked, as steps complete."""
        return self._last_step is not None and now < self._last_step + max(_QUIET_SECONDS, 2 * self._step_seconds)

    def see(self, states: Mapping[str, str], asked: float, now: float) -> None:
        """Notes the answers to questions of the time `asked`, unless a step has ended since."""
        if self._last_step is not None and asked < self._last_step:
            return
        troubles, outages = dict(self.troubles), dict(self.outages)  # Other threads may read the old ones.
        for address, state in states.items():
            before = troubles.pop(address, None)
            if state == ANSWERS:
                self._answers[address] = now
                continue
            answers = (time for time in (self._answers.get(address), self._last_step) if time is not None)
            since = before.since if before else max(answers, default=asked)
            troubles[address] = Trouble(state, since, before.times + 1 if before and before.state == state else 1)
            if troubles[address].is_cut_off:
                start, _ = outages.get(address, (since, now))
                outages[address] = start, now
        self.troubles, self.outages = troubles, outages

    def has_loss(self, now: float, timeout: float) -> bool:
        """Whether a task has ended, or has not answered for the timeout, or steps do not go on after an outage."""
        return self._has_stalled(now) or any(
            trouble.state in (LOST, FOREIGN) and trouble.times > 1 or now > trouble.since + timeout
            for trouble in self.troubles.values()
        )

    def _has_stalled(self, now):
        """Whether gRPC has given up a connection, which it does not tell those who wait for an answer."""
        if not self.outages or self.is_cut_off:
            return False
        seconds = max(end - start for start, end in self.outages.values())
        # TCP repeats what was lost within twice the time of the outage.
        return seconds > _OUTAGE_SECONDS and now > max(end for _, end in self.outages.values()) + min(seconds, _REPEAT_SECONDS)

    def is_long_cut_off(self, now: float) -> bool:
        """Whether the host of a task has been unreachable for so long that users should know."""
        return any(trouble.is_cut_off and now > trouble.since + _OUTAGE_SECONDS for trouble in self.troubles.values())

    def culprits(self) -> dict[str, Trouble]:
        """Returns the troubles that began first."""
        first = min((trouble.since for trouble in self.troubles.values()), default=0)
        return {address: each for address, each in self.troubles.items() if each.since <= first + _TOGETHER_SECONDS}

    def waited(self, trouble: Trouble) -> float:
        """Returns how many seconds no step had ended when a trouble began."""
        return trouble.since - self._last_step if self._last_step is not None else 0.0
