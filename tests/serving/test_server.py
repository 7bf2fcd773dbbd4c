"""The server as a process: newer checkpoints, signals, and addresses that it cannot have."""

import asyncio
import contextlib
import errno
import http.client
import json
import logging
import os
import re
import resource
import signal
import socket
import sys
import threading
import time

import pytest

from estimator_trainer.common.commands import api
from estimator_trainer.common.serving import connections, server
from estimator_trainer.common.serving.app import make_app
from estimator_trainer.common.serving.metrics import Metrics
from tests import forked
from tests.serving.test_app import model
from tests.serving.test_exported import save
from tests.shared import refused

PREDICT, BODY = '/v1/models/polynomial:predict', json.dumps({'instances': [1.0, 2.0]})


def ask(port, method, path, body=None):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=100)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def is_refused(port):
    """Whether a server has closed its port; one that is closing it resets connections."""
    try:
        ask(port, 'GET', '/v1/models/polynomial')
    except ConnectionRefusedError:
        return True
    except OSError:
        pass
    return False


def wait_for_log(process, pattern):
    for line in process.stderr:
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f'no {pattern} in the log')


def half_sent(port):
    """Returns a connection with a request, without its body, that the server has begun to read."""
    client = socket.create_connection(('127.0.0.1', port), timeout=100)
    head = f'POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\nExpect: 100-continue\r\n\r\n'
    client.sendall(head.encode())
    assert client.recv(1000).startswith(b'HTTP/1.1 100 ')
    return client


def test_a_process_answers_as_the_run_loads_newer_checkpoints_and_ends_after_the_last_answer(trained_run, start, tmp_path):
    output_dir = trained_run('polynomial')
    expected = {step: api.load(str(output_dir)).predictor(str(output_dir / f'model.ckpt-{step}')) for step in (10, 20)}
    newest = [path for path in output_dir.iterdir() if path.name.startswith('model.ckpt-20')]
    state = (output_dir / 'checkpoint').read_text()
    for path in newest:
        path.rename(tmp_path / path.name)
    (output_dir / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-10"\n')
    results = (output_dir / 'results.json').read_bytes()
    process = start('--schedule=serve', '--port=0')
    port = int(wait_for_log(process, r'Serving step 10: http://127\.0\.0\.1:(\d+), ')[1])

    def answer(step):
        return [pytest.approx(value, rel=1e-5) for value in expected[step].predict([1.0, 2.0])['y'].tolist()]

    assert ask(port, 'POST', PREDICT, BODY) == (200, {'predictions': answer(10)})
    for path in newest:
        (tmp_path / path.name).rename(path)
    (output_dir / 'checkpoint').write_text(state)
    deadline = time.monotonic() + 100
    while (found := ask(port, 'POST', PREDICT, BODY))[1]['predictions'] == answer(10):
        assert time.monotonic() < deadline
    assert found == (200, {'predictions': answer(20)})
    wait_for_log(process, 'Step 20 is loaded')
    with half_sent(port) as client:
        process.send_signal(signal.SIGTERM)
        wait_for_log(process, 'Stopping after the requests in progress')
        while not is_refused(port):
            assert process.poll() is None
        client.sendall(BODY.encode())
        received = b''
        while part := client.recv(1000):
            received += part
        assert received.startswith(b'HTTP/1.1 200 ') and b'{"predictions": [' in received
    out, err = process.communicate(100)
    assert (process.returncode, out) == (0, '{}\n'), err
    assert (output_dir / 'results.json').read_bytes() == results


def test_an_export_needs_no_run(start, tmp_path):
    save(tmp_path / 'doubled' / '3', 2)
    process = start('--schedule=serve', '--port=0', f'--checkpoint={tmp_path / "doubled"}')
    port = int(wait_for_log(process, r'Serving version 3: http://127\.0\.0\.1:(\d+), .*/v1/models/doubled$')[1])
    code, answer = ask(port, 'POST', '/v1/models/doubled:predict', '{"inputs": [[1, 2]]}')
    assert (code, answer['outputs']['y']) == (200, [[2.0, 4.0]])
    process.send_signal(signal.SIGTERM)
    assert (process.communicate(100)[0], process.returncode) == ('{}\n', 0)


def test_addresses_that_a_server_cannot_have_are_named():
    with server.listen('127.0.0.1', 0) as listener:
        port = listener.getsockname()[1]
        assert server.url_of(listener) == f'http://127.0.0.1:{port}'
        with socket.create_connection(('127.0.0.1', port)), listener.accept()[0] as connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert refused(server.listen, '127.0.0.1', port).startswith(f'--port={port}: is taken by another process: give another')
    assert refused(server.listen, 'no.such.host.invalid', 0).startswith('--host=no.such.host.invalid: ')
    for host in ('a..b', '.x', 64 * 'a'):
        assert refused(server.listen, host, 0) == f'--host={host}: the parts of a name between dots have 1 to 63 characters'
    assert refused(server.listen, '192.0.2.1', 0).endswith('it must be an address of this machine')


@contextlib.contextmanager
def local_server(app=None):
    """Yields the port of a server of an app, by default of one whose requests have no end."""

    async def wait(scope, receive, send):
        while (await receive())['type'] != 'http.disconnect':
            pass

    running = server.make_server(app or wait)
    with server.listen('127.0.0.1', 0) as listener:
        thread = threading.Thread(target=running.run, args=([listener],))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            running.should_exit = running.force_exit = True
            thread.join()


def test_a_connection_without_a_complete_request_is_closed_and_others_are_not(monkeypatch):
    monkeypatch.setattr(connections, '_TICKS', 1)
    head = b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n'
    with local_server() as port, contextlib.ExitStack() as stack:
        asking, *silent = [stack.enter_context(socket.create_connection(('127.0.0.1', port), timeout=100)) for _ in range(3)]
        asking.sendall(head + b'Expect: 100-continue\r\n\r\n')
        assert asking.recv(1000).startswith(b'HTTP/1.1 100 ')
        silent[0].sendall(head)
        assert [client.recv(1000) for client in silent] == [b'', b'']
        asking.setblocking(False)
        with pytest.raises(BlockingIOError):
            asking.recv(1000)


def test_a_head_without_an_end_is_refused():
    with local_server() as port, socket.create_connection(('127.0.0.1', port), timeout=100) as client:
        client.sendall(b'GET / HTTP/1.1\r\nX: ')
        with contextlib.suppress(ConnectionError):  # Once it is refused.
            for _ in range(100):
                client.sendall(b'x' * 2**18)
            pytest.fail('25 MiB were read')


def test_what_is_no_request_and_too_many_connections_are_refused_in_json(monkeypatch):
    with local_server() as port, socket.create_connection(('127.0.0.1', port), timeout=100) as client:
        client.sendall(b'GET / nonsense\r\n\r\n')
        head, _, body = client.makefile('rb').read().partition(b'\r\n\r\n')
        assert head.startswith(b'HTTP/1.1 400 Bad Request\r\n') and b'\r\ncontent-type: application/json' in head
        assert json.loads(body) == {'error': 'Invalid HTTP request received.'}
        monkeypatch.setattr(connections, 'MAX_CONNECTIONS', 1)
        assert ask(port, 'GET', '/') == (503, {'error': 'there are 1 connections, the most that are served: try again later'})


def test_too_many_open_files_are_one_line_and_clients_are_answered_once_there_are_fewer(caplog, monkeypatch):
    accept, failing = socket.socket.accept, [errno.EMFILE] * 5000  # More than asyncio tries at once.

    def fail(listener):
        if failing:
            number = failing.pop()
            raise OSError(number, os.strerror(number))
        return accept(listener)

    monkeypatch.setitem(sys.modules, 'uvloop', None)  # Which closes such connections itself.
    monkeypatch.setattr(asyncio.constants, 'ACCEPT_RETRY_DELAY', 0.01)
    monkeypatch.setattr(resource, 'getrlimit', lambda limit: (40, 50))
    monkeypatch.setattr(socket.socket, 'accept', fail)
    with local_server(make_app(model(), Metrics())) as port:
        assert ask(port, 'GET', '/v1/models/m')[0] == 200
    found = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert found == ['No connection can be accepted: Too many open files: raise the limit of open files, 40 (ulimit -n)']


def test_the_answer_to_head_has_no_body():
    with local_server(make_app(model(), Metrics())) as port:
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=100)
        with contextlib.closing(connection):
            for method, body in (('HEAD', b''), ('GET', b'ok\n')):  # On one connection: a body would be the next head.
                connection.request(method, '/healthz')
                answer = connection.getresponse()
                assert (answer.status, answer.headers['content-length'], answer.read()) == (200, '3', body)


def test_missing_packages_are_named_before_the_port_is_taken(run, trained_run, monkeypatch):
    trained_run('polynomial')
    monkeypatch.setitem(sys.modules, 'uvicorn', None)
    code, _, err = run('--schedule=serve')
    assert code == 2 and "needs uvicorn: pip install 'estimator-trainer[serve]'" in err


def test_other_schedules_import_neither_package():
    program = (
        'import sys\nfrom estimator_trainer.common.commands import request\nprint({"fastapi", "uvicorn"} & {*sys.modules})'
    )
    assert forked.run([sys.executable, '-c', program]).stdout == 'set()\n'
