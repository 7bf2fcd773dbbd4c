"""The states of other tasks by their ports, here sockets of this process."""

import contextlib
import http.server
import socket
import threading

import pytest

from estimator_trainer.common.cluster import probe

SETTINGS = b'\0\0\x12\4\0\0\0\0\0' + bytes(18)  # A gRPC server's first frame.
SSH = b'SSH-2.0-OpenSSH_9.6\r\n'


@contextlib.contextmanager
def listening(answer, host='127.0.0.1', family=socket.AF_INET):
    """Yields the port of a server that sends the answer, bytes, in two parts; none if it is None."""
    kept = []  # Open.

    def serve():
        with contextlib.suppress(OSError):
            while True:
                kept.append(server.accept()[0])
                if answer is not None:
                    with kept.pop() as connection:
                        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        connection.sendall(answer[:3])
                        connection.sendall(answer[3:])

    with socket.create_server((host, 0), family=family) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def web_server():
    with http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler) as server:
        server.RequestHandlerClass.log_message = lambda *unused: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_a_task_answers_is_silent_lost_another_program_or_cannot_be_reached():
    with contextlib.ExitStack() as servers:
        cases = [(SETTINGS, probe.ANSWERS), (None, probe.SILENT), (b'', probe.LOST), (SSH, probe.FOREIGN)]
        ports = {servers.enter_context(listening(answer)): state for answer, state in cases}
        unused = servers.enter_context(socket.socket())
        unused.bind(('127.0.0.1', 0))
        ports |= {servers.enter_context(web_server()): probe.FOREIGN, unused.getsockname()[1]: probe.LOST}
        expected = {f'127.0.0.1:{port}': state for port, state in ports.items()}
        expected[f'[::1]:{servers.enter_context(listening(SETTINGS, "::1", socket.AF_INET6))}'] = probe.ANSWERS
        expected['no.such.host.invalid:1'] = expected[f'{"a" * 64}:1'] = probe.UNKNOWN
        assert probe.probe_all(expected) == expected


@pytest.mark.parametrize('error', [TimeoutError(), OSError(113, 'No route to host')])
def test_a_host_that_does_not_answer_cannot_be_reached(monkeypatch, error):
    def fail(*unused):
        raise error

    monkeypatch.setattr(socket, 'create_connection', fail)
    assert probe.probe('a:1') == probe.UNREACHABLE


def test_nobody_listens_on_a_port_that_linux_has_chosen_for_the_connection_to_it(monkeypatch):
    itself = socket.socket()
    itself.bind(('127.0.0.1', 0))
    itself.connect(itself.getsockname())
    monkeypatch.setattr(socket, 'create_connection', lambda *unused, **options: itself)
    assert probe.probe('a:1') == probe.LOST
