"""Detection of other tasks' states by their ports, here sockets of this process."""

import contextlib
import queue
import socket
import threading

import pytest

from estimator_trainer.common.cluster import watch
from tests.cluster.tasks import free_ports


@contextlib.contextmanager
def listening(answers, host='127.0.0.1', family=socket.AF_INET):
    """Yields the port of a server that sends the next answer, bytes, to each connection, and none after the last."""
    kept = []  # Open.

    def serve():
        with contextlib.suppress(OSError):
            while True:
                kept.append(server.accept()[0])
                if answers:
                    with kept.pop() as connection:
                        connection.sendall(answers.pop(0))

    with socket.create_server((host, 0), family=family) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def test_a_task_answers_is_silent_or_lost_or_cannot_be_reached():
    with listening([b'x']) as answers, listening([]) as silent, listening([b'']) as ended:
        with listening([b'x'], '::1', socket.AF_INET6) as of_ipv6:
            ports = [answers, silent, ended, *free_ports(1)]
            found = watch.probe_all([*(f'127.0.0.1:{port}' for port in ports), f'[::1]:{of_ipv6}', 'no.such.host.invalid:1'])
    assert list(found.values()) == [watch.ANSWERS, watch.SILENT, watch.LOST, watch.LOST, watch.ANSWERS, watch.UNREACHABLE]


@pytest.mark.parametrize(
    'answers, timeout, steps, probes',
    [
        ([b'x', b'', b'x', *[b''] * 1000], 1000, 0, 5),  # It is lost, twice in a row.
        ([], 0.5, 0, 0),  # It hangs.
        ([b'x'] * 1000, 0.5, 1, 1),  # The step does not end.
    ],
)
def test_a_loss_is_reported_repeatedly_until_the_watch_stops(answers, timeout, steps, probes):
    told, count = queue.SimpleQueue(), len(answers)
    with listening(answers) as port:
        found = watch.Watch([f'127.0.0.1:{port}'], timeout, lambda: told.put((found.is_late, count - len(answers))))
        found.set_deadline(steps)
        assert [told.get(timeout=100) for _ in range(2)] == [(steps > 0, probes), (steps > 0, probes + bool(probes))]
        found.stop()
