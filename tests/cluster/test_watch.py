"""The thread that watches other tasks, whose answers are given here."""

import itertools
import queue
import types

import pytest

from estimator_trainer.common.cluster import watch
from estimator_trainer.common.cluster.members import Members
from estimator_trainer.common.cluster.probe import ANSWERS, LOST, SILENT, UNREACHABLE

MEMBERS = Members({'a:1': 'worker 0', 'b:1': 'chief'}, 'b:1')


@pytest.fixture
def answers(monkeypatch):
    """The next answers of the only task, the last one for ever; and how often it was asked."""
    given, count = [], itertools.count(1)

    def ask(addresses):
        given[1] = next(count)
        return {address: given[0].pop(0) if len(given[0]) > 1 else given[0][0] for address in addresses}

    monkeypatch.setattr(watch, 'probe_all', ask)
    monkeypatch.setattr(watch, '_SECONDS', 0.01)
    return given


@pytest.mark.parametrize(
    'states, timeout, steps, asked',
    [
        ([ANSWERS, LOST, ANSWERS, LOST], 1000, 0, 5),  # It is lost, twice in a row.
        ([SILENT], 0.1, 0, 1),  # It hangs.
        ([ANSWERS], 0.1, 1, 1),  # The step does not end.
    ],
)
def test_a_loss_is_reported_repeatedly_until_the_watch_stops(answers, monkeypatch, states, timeout, steps, asked):
    monkeypatch.setattr(watch, '_GRACE_SECONDS', 0)
    answers[:] = states, 0
    told = queue.SimpleQueue()
    found = watch.Watch(MEMBERS, timeout, lambda: told.put((found.is_late, answers[1])))
    found.set_deadline(steps)
    found.start(['a:1'])
    for is_late, count in (told.get(timeout=100) for _ in range(2)):
        assert is_late == (steps > 0) and count >= asked
    found.stop()


def test_nobody_is_asked_while_steps_complete_and_nothing_is_lost_then(answers, monkeypatch):
    answers[:] = [LOST], 0
    now, waits = itertools.count(1000, 0.5), itertools.count()
    monkeypatch.setattr(watch, 'time', types.SimpleNamespace(monotonic=lambda: next(now)))
    found = watch.Watch(MEMBERS, 1, lambda: pytest.fail('is lost'))

    def step(unused_seconds):  # In place of the wait for the next round.
        found.set_deadline(1)
        found.complete_step()
        return next(waits) == 20

    monkeypatch.setattr(found._is_over, 'wait', step)
    found._run()
    assert answers[1] == 0


def test_an_outage_is_told_once_when_it_has_taken_a_while(answers, monkeypatch, caplog):
    answers[:] = [*[ANSWERS, UNREACHABLE] * 3, *[UNREACHABLE] * 20, ANSWERS], 0
    now = [1000.0]  # Seconds; a round takes two.
    monkeypatch.setattr(watch, 'time', types.SimpleNamespace(monotonic=lambda: now[0]))
    found = watch.Watch(MEMBERS, 600, lambda: None)
    monkeypatch.setattr(found, '_addresses', ['a:1'])
    for _ in range(30):
        now[0] += 2
        found.is_failing()
    told = 'worker 0 (a:1) cannot be reached from chief (b:1); waiting for up to 600 seconds (--cluster_timeout).'
    assert caplog.messages == [told]
