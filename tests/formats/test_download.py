"""HTTP downloads from a server that disconnects, hangs, refuses or sends other content."""

import hashlib
import re
import shutil
import socket
import threading
import time

import pytest

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.formats import download as module
from estimator_trainer.common.formats.download import download
from tests.http_server import CONTENT, fail, send, serving
from tests.shared import failed

SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(module, 'PAUSE', 0)
    monkeypatch.setenv('no_proxy', '*')


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'raw' / 'file.bin'


def assert_complete(path):
    assert path.read_bytes() == CONTENT
    assert sorted(entry.name for entry in path.parent.iterdir()) == ['file.bin', 'file.bin.lock']


def refusal(url, path):
    message = failed(download, url, str(path), SHA256)
    assert re.fullmatch(rf'{url}: .* at {path} by hand.*--hparams=raw_dir=.*', message) and not path.exists()
    return message


def test_a_file_is_downloaded_however_the_server_sends_it_but_not_if_it_is_there(path):
    for answers, expected in (
        ([send()], [None]),
        ([send(70_000), send(1), send()], [None, 70_000, 70_001]),
        ([send(70_000), send(heeds_range=False)], [None, 70_000]),
        ([send(70_000), send(shift=10), send()], [None, 70_000, None]),
        ([fail(503), send(70_000), fail(429), fail(408), send()], [None, None, *[70_000] * 3]),
        ([send(20_000)], [None, *range(20_000, 200_000, 20_000)]),
    ):
        path.unlink(missing_ok=True)
        with serving(*answers) as (url, ranges):
            download(url, str(path), SHA256)
        assert_complete(path)
        assert ranges == [begin and f'bytes={begin}-' for begin in expected]
    path.write_bytes(b'mine')
    with serving(fail(404)) as (url, ranges):
        download(url, str(path), SHA256)
    assert path.read_bytes() == b'mine' and ranges == []


def test_bytes_of_an_earlier_process_are_used_and_counted(path, monkeypatch):
    bars, make_bar = [], module.make_bar
    monkeypatch.setattr(module, 'make_bar', lambda **options: bars.append(options) or make_bar(**options))
    path.parent.mkdir()
    for part, first, expected, counted in (
        (CONTENT[:1000], send(), ['bytes=1000-'], [1000]),
        (CONTENT, fail(416), [f'bytes={len(CONTENT)}-'], []),
        (b'something else', send(), ['bytes=14-', None], [14, 0]),
        (CONTENT + b'x', fail(416), [f'bytes={len(CONTENT) + 1}-', None], [0]),
    ):
        path.unlink(missing_ok=True)
        path.with_name('file.bin.part').write_bytes(part)
        bars.clear()
        with serving(first, send()) as (url, ranges):
            download(url, str(path), SHA256)
        assert_complete(path)
        assert ranges == expected
        assert [(bar['initial'], bar['total']) for bar in bars] == [(count, len(CONTENT)) for count in counted]


def test_a_download_stops_when_retrying_is_useless(path):
    no_progress = [send(count, heeds_range=False) for count in (50_000, 70_000)] * 2
    for answers, attempts, message, kept in (
        ([send(content=b'<html>Please log in</html>')], 1, f'not {SHA256}', None),
        ([fail(404)], 1, 'HTTP 404 Not Found', None),
        ([fail(500)], 4, 'HTTP 500 Internal Server Error', None),
        ([send(70_000), send(0)], 5, 'the connection was dropped', CONTENT[:70_000]),
        ([send(70_000), *no_progress], 5, 'the connection was dropped', CONTENT[:70_000]),
    ):
        part = path.with_name('file.bin.part')
        part.unlink(missing_ok=True)
        with serving(*answers) as (url, ranges):
            assert message in refusal(url, path)
        assert len(ranges) == attempts
        assert (part.read_bytes() if part.exists() else None) == kept


def test_bytes_from_before_a_server_falls_silent_are_kept(path, monkeypatch):
    is_sent, over = threading.Semaphore(0), threading.Event()
    open_ = module._open

    def open_sent(url, begin):
        response = open_(url, begin)
        assert is_sent.acquire(timeout=100)  # A server that takes its time is not silent.
        response.fp.raw._sock.settimeout(0.1)
        return response

    def fall_silent():
        is_sent.release()
        over.wait(100)

    monkeypatch.setattr(module, '_open', open_sent)
    with serving(send(count=70_000, then=fall_silent)) as (url, ranges):
        try:
            download(url, str(path), SHA256)
        finally:
            over.set()
    assert_complete(path)
    assert ranges == [None, 'bytes=70000-', 'bytes=140000-']


def test_a_server_that_never_answers_or_cannot_be_reached_is_named_and_a_path_that_cannot_be_written(path, monkeypatch):
    monkeypatch.setattr(module, 'TIMEOUT', 0.2)
    with socket.create_server(('127.0.0.1', 0)) as listener:
        url = f'http://127.0.0.1:{listener.getsockname()[1]}/file.bin'
        assert 'the server did not answer for 0.2 seconds' in refusal(url, path)
    with socket.socket() as unused:
        unused.bind(('127.0.0.1', 0))
        assert 'Connection refused' in refusal(f'http://127.0.0.1:{unused.getsockname()[1]}/file.bin', path)
    assert 'cannot be downloaded: ' in refusal('http://no-such-host.invalid/file.bin', path)
    shutil.rmtree(path.parent)
    path.parent.write_text('')
    with pytest.raises(RunError, match=f'^{path}: cannot be written: .*; --data_dir names another place$'):
        download('http://x/file', str(path), SHA256)
    with pytest.raises(RunError, match='^http://x/file: cannot be .* to a remote file system; put that file at gs://bucket/a'):
        download('http://x/file', 'gs://bucket/a', SHA256)


def test_two_concurrent_requests_for_a_file_download_it_once(path, caplog):
    def wait():
        while 'Waiting for another process' not in caplog.text and len(ranges) == 1:
            time.sleep(0.01)

    caplog.set_level('INFO', 'tensorflow')
    with serving(send(count=100_000, then=wait), send()) as (url, ranges):
        threads = [threading.Thread(target=download, args=(url, str(path), SHA256)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
    assert_complete(path)
    assert ranges == [None, 'bytes=100000-']
