"""Faults of three hosts and their network, and what must become of the tasks, one on each host."""

from collections.abc import Mapping, Sequence
import dataclasses
import random
import signal

HOSTS = {'chief0': '10.77.0.1', 'worker0': '10.77.0.2', 'worker1': '10.77.0.3'}
LAST_STEP = 1000
_AT_STEP, _LAST_AT_STEP, _START_SECONDS = 50, 350, 8
_LONG, _SHORT = 90, 15  # --cluster_timeout of faults that pass, and of those that do not.
_STOPPED = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
      name: says what happens.
      rules: of what the switch drops, see tools/soak/switch.py.
      victim: the task that gets the signal.
      signal: its number; 0 for none.
      seconds: how long it lasts; None for good.
      timeout: --cluster_timeout.
      named: the tasks one of which each message must name; empty if all must finish.
      at_step: the step after which it begins.
      delay: seconds from the start of the tasks to the fault, instead of at_step.
    """

    name: str
    rules: Sequence[tuple[str, str, str]] = ()
    victim: str = ''
    signal: int = 0
    seconds: float | None = None
    timeout: float = _LONG
    named: Sequence[str] = ()
    at_step: int = _AT_STEP
    delay: float | None = None

    @property
    def is_early(self) -> bool:
        return self.delay is not None


@dataclasses.dataclass(frozen=True)
class End:
    """The end of a task: seconds since the fault, exit code as a shell shows it, and the last line of the log."""

    seconds: float
    code: int
    text: str


def ends_as_promised(fault: Fault, ends: Mapping[str, End]) -> bool:
    """Whether the exit codes and the messages of all tasks are right, but for the weights."""
    if set(ends) != set(HOSTS):
        return False
    codes = {name: end.code for name, end in ends.items()}
    if not any(codes.values()):
        return not fault.named and fault.signal not in _STOPPED or fault.is_early
    if fault.signal in _STOPPED and codes.pop(fault.victim) != _STOPPED[fault.signal]:
        return False
    if fault.signal in _STOPPED and not fault.is_early:
        return set(codes.values()) == {143}
    if fault.signal == signal.SIGKILL and codes.pop(fault.victim) != 137:
        return False
    if not fault.named and not fault.is_early:
        return False
    return all(code == 1 and _names(name, ends[name].text, fault.named or tuple(HOSTS)) for name, code in codes.items())


def _names(name, text, named):
    """Whether a task's message names one of the others that are at fault, or any other if it is at fault itself."""
    return any(HOSTS[other] in text for other in (HOSTS if set(named) <= {name} else named) if other != name)


def _cut(host):
    return (host, '*', 'all'), ('*', host, 'all')


def _for_good(name, rules, *named):
    return Fault(name, rules, timeout=_SHORT, named=named)


LISTED = [
    Fault('a firewall refuses new connections', [('*', '*', 'new')], seconds=60, timeout=5),
    *(Fault(f'worker1 is cut off for {seconds} s', _cut('worker1'), seconds=seconds) for seconds in (5, 25, 60)),
    Fault('chief0 is cut off for 25 s', _cut('chief0'), seconds=25),
    _for_good('worker1 is cut off', _cut('worker1'), 'worker1'),
    _for_good('chief0 is cut off', _cut('chief0'), 'chief0'),
    _for_good('nothing from worker1 to worker0', [('worker1', 'worker0', 'all')], 'worker0', 'worker1'),
    _for_good('nothing from worker1 to chief0', [('worker1', 'chief0', 'all')], 'worker1', 'chief0'),
    _for_good('nothing from worker1', [('worker1', '*', 'all')], 'worker1'),
    _for_good('nothing to worker1', [('*', 'worker1', 'all')], 'worker1'),
]


def _kinds(host, other, seconds, number):
    """Returns a fault of each kind."""
    name = signal.Signals(number).name
    return [
        Fault(f'a firewall refuses new connections for {seconds} s', [('*', '*', 'new')], seconds=seconds, timeout=5),
        Fault(f'{host} is cut off for {seconds} s', _cut(host), seconds=seconds),
        Fault(f'{host} hangs for {seconds} s', victim=host, signal=signal.SIGSTOP, seconds=seconds),
        _for_good(f'{host} is cut off', _cut(host), host),
        _for_good(f'nothing from {host} to {other}', [(host, other, 'all')], host, other),
        _for_good(f'nothing from {host}', [(host, '*', 'all')], host),
        _for_good(f'nothing to {host}', [('*', host, 'all')], host),
        Fault(f'{host} hangs', victim=host, signal=signal.SIGSTOP, timeout=_SHORT, named=[host]),
        Fault(f'{host} is killed', victim=host, signal=signal.SIGKILL, timeout=_SHORT, named=[host]),
        Fault(f'{host} gets {name}', victim=host, signal=number, timeout=_SHORT),
    ]


def at_random(count: int, seed: int, most_seconds: float = 40) -> list[Fault]:
    """Returns faults of random kinds, hosts, times and durations; one in eight begins before or near the first step."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        host, other = rng.sample([*HOSTS], 2)
        fault = rng.choice(_kinds(host, other, round(rng.uniform(1, most_seconds), 1), rng.choice([*_STOPPED])))
        is_early = rng.random() < 1 / 8
        step, delay = rng.randint(1, _LAST_AT_STEP), round(rng.uniform(0, _START_SECONDS), 1)
        found.append(dataclasses.replace(fault, at_step=step, delay=delay if is_early else None))
    return found
