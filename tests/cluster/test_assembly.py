"""The agreement of an elastic cluster's tasks on who trains, by sockets, here in threads of one process."""

import concurrent.futures
import contextlib
import json
import socket
import threading
import types

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster import assembly
from estimator_trainer.common.cluster.assembly import Assembly, Returning, SharedDirectory
from estimator_trainer.common.cluster.membership import Formation, Hello
from estimator_trainer.common.cluster.probe import ANSWERS, FOREIGN, LOST, UNREACHABLE, probe_all
from estimator_trainer.common.cluster.tf_config import ClusterConfig
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.locks import Held
from tests.cluster.tasks import free_ports, wait_until

FACTS = {'batch_size': '12'}
LONG = 600


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    tf.logging.set_verbosity(tf.logging.INFO)
    monkeypatch.setattr(assembly, '_SECONDS', 0.05)
    monkeypatch.setattr(assembly, '_ANSWER_SECONDS', 100)  # A busy machine answers late.


class Cluster:
    """Tasks that share a directory, by default without limits of time. Arguments of `start`: see Assembly."""

    def __init__(self, count):
        self.addresses = {'worker': [f'127.0.0.1:{port}' for port in free_ports(count)]}
        self._lock = threading.Lock()
        self.locked = []
        self.is_finished = False

    @contextlib.contextmanager
    def lock(self, task):
        if not self._lock.acquire(blocking=False):
            raise Held('another trainer is training there')
        try:
            self.locked.append(task)
            yield
        finally:
            self._lock.release()

    def hold(self):
        """Locks the directory, as the chief of another part of the cluster does."""
        self._lock.acquire()

    def release(self):
        self._lock.release()

    def config(self, task):
        return ClusterConfig(self.addresses, 'worker', task)

    def start(self, task, expected=(), facts=FACTS, needed=2, timeout=LONG, holder=lambda: 'process 1'):
        directory = SharedDirectory('/shared', lambda: self.lock(task), holder, lambda: self.is_finished)
        own = Hello(task, tuple(expected), facts)
        future = concurrent.futures.Future()

        def run():
            try:
                future.set_result(Assembly(self.config(task), own, needed, timeout, directory).form())
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future

    def wait_for(self, task):
        """Waits until a task listens."""
        address = self.addresses['worker'][task]
        wait_until(lambda: probe_all([address])[address] == FOREIGN)


def names(future):
    formation = future.result(timeout=100)
    return formation and [f'{formation.config.name}'] + [formation.config.name_of(*t) for t in formation.config.trainers]


def test_all_agree_on_all_and_only_the_chief_locks():
    cluster = Cluster(3)
    started = [cluster.start(i) for i in range(3)]
    everyone = [f'worker {i}' for i in range(3)]
    assert [names(each) for each in started] == [[name, *everyone] for name in everyone]
    assert set(cluster.locked) == {0}


def test_those_left_go_on_without_a_lost_chief_and_one_that_returns_is_no_chief():
    cluster = Cluster(4)
    left = [cluster.start(i, [1, 3]) for i in (3, 1)]
    assert [names(each)[1:] for each in left] == [['worker 1', 'worker 3']] * 2
    returned = cluster.start(0)
    cluster.wait_for(0)
    everyone = [returned, *(cluster.start(i, [1, 3]) for i in (1, 3))]
    assert [names(each)[1:] for each in everyone] == [['worker 1', 'worker 3', 'worker 0']] * 3
    assert 0 not in cluster.locked and 3 not in cluster.locked


def test_two_parts_that_lose_each_other_do_not_both_train(monkeypatch):
    """Each part has as many tasks as must train; one of them trains, and so holds the lock."""
    cluster = Cluster(4)
    parts = [{cluster.addresses['worker'][i] for i in part} for part in ((0, 1), (2, 3))]
    asked = threading.local()
    original = Assembly._look

    def look(self):
        asked.part = next(part for part in parts if self._addresses[self._own.task] in part)
        return original(self)

    def probe_own_part(addresses):
        found = list(addresses)
        return {**dict.fromkeys(found, UNREACHABLE), **probe_all(address for address in found if address in asked.part)}

    monkeypatch.setattr(Assembly, '_look', look)
    monkeypatch.setattr(assembly, 'probe_all', probe_own_part)
    now = [0.0]
    monkeypatch.setattr(assembly, 'time', types.SimpleNamespace(monotonic=lambda: now[0]))
    first = [cluster.start(i, [0, 1]) for i in (0, 1)]
    assert [names(each)[1:] for each in first] == [['worker 0', 'worker 1']] * 2
    cluster.hold()
    second = [cluster.start(i, [2, 3], timeout=10) for i in (2, 3)]
    cluster.wait_for(2)
    cluster.wait_for(3)
    now[0] = 11  # Each sees the other.
    with pytest.raises(Held, match='another trainer is training there'):
        second[0].result(timeout=100)
    with pytest.raises(RunError, match='fewer than 2 tasks \\(--min_tasks\\): .*worker 2'):
        second[1].result(timeout=100)
    assert 2 not in cluster.locked and 3 not in cluster.locked


def test_a_part_that_waits_for_another_one_does_not_go_on_without_it_when_that_restarts():
    cluster = Cluster(4)
    cluster.hold()
    waiting = [cluster.start(i, [0, 1]) for i in (0, 1)]
    cluster.wait_for(0)
    cluster.wait_for(1)
    returning = Returning(Formation(cluster.config(2), (2, 3)), Hello(2, (), FACTS))
    returning.start()
    wait_until(lambda: returning.is_any)
    hellos = []

    def all_know():
        hellos[:] = assembly.answers(cluster.addresses['worker'][:2], Hello(2, (), FACTS))
        return [hello.expected for hello in hellos] == [(), ()]

    wait_until(all_know)
    returning.stop()
    cluster.release()
    rest = [cluster.start(i, [2, 3]) for i in (2, 3)]
    assert [names(each)[1:] for each in (*waiting, *rest)] == [['worker 2', 'worker 3', 'worker 0', 'worker 1']] * 4


def test_a_task_waits_while_the_others_train_and_ends_when_they_have_finished(monkeypatch, caplog):
    cluster = Cluster(3)
    states, rounds = [ANSWERS], []

    def ask(addresses):
        rounds.append(1)
        return dict.fromkeys(addresses, states[0])

    monkeypatch.setattr(assembly, 'probe_all', ask)
    waiting = cluster.start(2, needed=1, timeout=0.01)  # Those who train are waited for without limit.
    wait_until(lambda: len(rounds) > 5)
    assert not waiting.done()
    cluster.is_finished, states[0] = True, LOST
    assert names(waiting) is None
    assert caplog.messages.count('The others train: waiting to take part from the next checkpoint on.') == 1


def test_a_chief_that_trains_sees_a_task_that_waits_but_not_another_program_nor_one_started_otherwise(monkeypatch):
    cluster = Cluster(3)
    returning = Returning(Formation(cluster.config(0), (0, 1)), Hello(0, (), FACTS))
    port = int(cluster.addresses['worker'][2].rpartition(':')[2])
    with socket.create_server(('127.0.0.1', port)) as other:
        returning.start()
        other.accept()[0].close()
        other.accept()[0].close()
        assert not returning.is_any
    wrong = cluster.start(2, facts={'batch_size': '13'})
    with pytest.raises(UsageError, match='worker 0 has batch_size=12, but worker 2 has batch_size=13: '):
        wrong.result(timeout=100)
    assert not returning.is_any
    waiting = cluster.start(2)
    wait_until(lambda: returning.is_any)
    returning.stop()
    assert not waiting.done()
    rest = [cluster.start(i, [0, 1]) for i in (0, 1)]
    assert [names(each)[1:] for each in (waiting, *rest)] == [['worker 0', 'worker 1', 'worker 2']] * 3


def test_a_task_with_another_output_dir_is_refused(monkeypatch):
    now = [0]
    monkeypatch.setattr(assembly, 'time', types.SimpleNamespace(monotonic=lambda: now[0]))
    cluster = Cluster(2)
    other = cluster.start(1, holder=lambda: '')
    cluster.wait_for(1)
    first = cluster.start(0, timeout=10)
    with pytest.raises(UsageError, match='--output_dir=/shared is not that of worker 0 .*: give all tasks the same one'):
        other.result(timeout=100)
    now[0] = 11
    with pytest.raises(RunError, match='fewer than 2 tasks'):
        first.result(timeout=100)


def test_too_few_tasks_and_a_port_in_use_end_with_a_line():
    cluster = Cluster(3)
    address = cluster.addresses['worker'][0]
    with pytest.raises(RunError, match=r'TF_CONFIG: fewer than 2 tasks \(--min_tasks\): worker 1 .*, worker 2 .* for 0.1 seco'):
        cluster.start(0, timeout=0.1).result(timeout=100)
    with socket.create_server(('', int(address.rpartition(':')[2]))):
        with pytest.raises(RunError, match='worker 0 cannot listen on port '):
            cluster.start(0).result(timeout=100)


@pytest.mark.parametrize(
    'request_line',
    [b'GET / HTTP/1.1\r\n\r\n', b'\xff\n', b'[]\n', b'{"task": 1, "expected": [], "facts": {"batch_size": "12"}, "offer": 3}\n']
    + [
        json.dumps({'task': 1, 'expected': [], 'facts': FACTS, 'offer': offer}).encode() + b'\n'
        for offer in (
            {'members': [1, 2], 'holder': 'process 1'},
            {'members': [0, 9], 'holder': 'process 1'},
            {'members': [0]},
        )
    ],
)
def test_what_is_no_offer_is_answered_and_changes_nothing(request_line):
    cluster = Cluster(3)
    waiting = cluster.start(0)
    host, port = cluster.addresses['worker'][0].split(':')
    cluster.wait_for(0)
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(request_line)
        reply = json.loads(connection.makefile().readline())
    assert (reply['task'], reply['accepts']) == (0, False)
    started = [cluster.start(i) for i in (1, 2)]
    assert [len(names(each)) for each in (waiting, *started)] == [4, 4, 4]
