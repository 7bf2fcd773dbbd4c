"""Downloads over HTTP, from a server that breaks off, hangs, refuses or sends something else."""

import hashlib
import socket
import threading
import time

import tf_estimator  # noqa: F401 - before TensorFlow

import pytest

from common.errors import RunError
from common.formats import download as module
from common.formats.download import download
from tests.http_server import CONTENT, fail, send, serving
from tests.together import run_together

SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(module, 'PAUSE', 0)
    monkeypatch.setenv('no_proxy', '*')


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'raw' / 'file.bin'


def write_part(path, content):
    path.parent.mkdir(exist_ok=True)
    part = path.with_name('file.bin.part')
    part.write_bytes(content)
    return part


def assert_complete(path):
    assert path.read_bytes() == CONTENT
    assert sorted(entry.name for entry in path.parent.iterdir()) == ['file.bin', 'file.bin.lock']


def refusal(url, path):
    """Returns the message of the RunError with which a download ends, after checking what each one says."""
    with pytest.raises(RunError) as caught:
        download(url, str(path), SHA256)
    message = str(caught.value)
    assert message.startswith(f'{url}: ') and f' at {path} by hand' in message and '--hparams=raw_dir=' in message
    assert '\n' not in message and not path.exists()
    return message


def test_a_file_is_downloaded_to_a_directory_that_is_created(path):
    with serving(send()) as (url, ranges):
        download(url, str(path), SHA256)
    assert_complete(path)
    assert ranges == [None]


def test_a_file_that_is_there_is_not_downloaded(path):
    path.parent.mkdir()
    path.write_bytes(b'mine')
    with serving(fail(404)) as (url, ranges):
        download(url, str(path), SHA256)
    assert path.read_bytes() == b'mine' and ranges == []


def test_a_dropped_connection_is_resumed_where_it_broke_off(path):
    with serving(send(count=70_000), send(count=1), send()) as (url, ranges):
        download(url, str(path), SHA256)
    assert_complete(path)
    assert ranges == [None, 'bytes=70000-', 'bytes=70001-']


def test_a_server_that_ignores_the_range_sends_the_file_anew(path):
    with serving(send(count=70_000), send(heeds_range=False)) as (url, ranges):
        download(url, str(path), SHA256)
    assert_complete(path)
    assert ranges == [None, 'bytes=70000-']


def test_another_range_than_was_wanted_is_not_used(path):
    with serving(send(count=70_000), send(shift=10), send()) as (url, ranges):
        download(url, str(path), SHA256)
    assert_complete(path)
    assert ranges == [None, 'bytes=70000-', None]


def test_a_download_continues_what_an_earlier_process_left(path):
    write_part(path, CONTENT[:1000])
    with serving(send()) as (url, ranges):
        download(url, str(path), SHA256)
    assert_complete(path)
    assert ranges == ['bytes=1000-']


def test_a_complete_file_of_an_earlier_process_is_used(path):
    write_part(path, CONTENT)
    with serving(fail(416)) as (url, _):
        download(url, str(path), SHA256)
    assert_complete(path)


@pytest.mark.parametrize('part, first', [(b'something else', send()), (CONTENT + b'x', fail(416))])
def test_what_an_earlier_process_left_is_discarded_if_it_is_not_of_the_file(path, part, first):
    write_part(path, part)
    with serving(first, send()) as (url, ranges):
        download(url, str(path), SHA256)
    assert_complete(path)
    assert ranges == [f'bytes={len(part)}-', None]


def test_a_file_with_another_sum_is_discarded(path):
    with serving(send(content=b'<html>Please log in</html>')) as (url, ranges):
        message = refusal(url, path)
    assert f'not {SHA256}' in message
    assert ranges == [None] and not path.with_name('file.bin.part').exists()


@pytest.mark.parametrize('code', [403, 404])
def test_a_file_that_the_server_does_not_have_is_not_asked_for_again(path, code):
    with serving(fail(code)) as (url, ranges):
        assert f'HTTP {code} ' in refusal(url, path)
    assert len(ranges) == 1


def test_a_busy_server_is_asked_again(path):
    with serving(fail(503), fail(429), send()) as (url, ranges):
        download(url, str(path), SHA256)
    assert_complete(path)
    assert len(ranges) == 3


def test_four_attempts_that_bring_nothing_are_enough(path):
    with serving(send(count=70_000), send(count=0)) as (url, ranges):
        assert 'the connection was dropped' in refusal(url, path)
    assert ranges == [None, *['bytes=70000-'] * 4]
    assert path.with_name('file.bin.part').read_bytes() == CONTENT[:70_000]


def test_any_number_of_attempts_that_bring_something_is_made(path):
    with serving(send(count=20_000)) as (url, ranges):
        download(url, str(path), SHA256)
    assert_complete(path)
    assert len(ranges) == 10


def test_a_server_that_starts_anew_and_breaks_off_each_time_is_given_up(path):
    answers = [send(count=count, heeds_range=False) for count in (70_000, 50_000)]
    with serving(*answers * 10) as (url, ranges):
        assert 'the connection was dropped' in refusal(url, path)
    assert len(ranges) == 5


def test_what_came_before_a_server_fell_silent_is_kept(path, monkeypatch):
    monkeypatch.setattr(module, 'TIMEOUT', 0.2)
    over = threading.Event()
    with serving(send(count=70_000, then=lambda: over.wait(20))) as (url, ranges):
        try:
            download(url, str(path), SHA256)
        finally:
            over.set()
    assert_complete(path)
    assert ranges == [None, 'bytes=70000-', 'bytes=140000-']


def test_a_server_that_never_answers_is_named(path, monkeypatch):
    monkeypatch.setattr(module, 'TIMEOUT', 0.2)
    with socket.create_server(('127.0.0.1', 0)) as listener:
        message = refusal(f'http://127.0.0.1:{listener.getsockname()[1]}/file.bin', path)
    assert 'the server did not answer for 0.2 seconds' in message


def test_a_server_that_cannot_be_reached_is_named(path):
    with socket.create_server(('127.0.0.1', 0)) as listener:
        port = listener.getsockname()[1]
    assert 'Connection refused' in refusal(f'http://127.0.0.1:{port}/file.bin', path)


def test_a_host_without_an_address_is_named(path):
    assert 'cannot be downloaded: ' in refusal('http://no-such-host.invalid/file.bin', path)


def test_an_answer_without_a_length_is_read_to_its_end(path):
    def answer(handler, begin):
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(CONTENT)

    with serving(answer) as (url, _):
        download(url, str(path), SHA256)
    assert_complete(path)


def test_a_path_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / 'raw').write_text('')
    with pytest.raises(RunError, match=f'^{tmp_path}/raw/file.bin: cannot be written: .*; --data_dir names another place$'):
        download('http://127.0.0.1:9/file.bin', str(tmp_path / 'raw' / 'file.bin'), SHA256)


def test_a_remote_path_is_refused():
    refused = 'http://127.0.0.1:9/file.bin: cannot be downloaded to a remote file system; put that file at gs://bucket/file.bin'
    with pytest.raises(RunError, match=refused):
        download('http://127.0.0.1:9/file.bin', 'gs://bucket/file.bin', SHA256)


def test_the_progress_bar_counts_from_what_is_there(path, monkeypatch):
    write_part(path, CONTENT[:1000])
    bars = []
    make_bar = module.make_bar
    monkeypatch.setattr(module, 'make_bar', lambda **options: bars.append(options) or make_bar(**options))
    with serving(send()) as (url, _):
        download(url, str(path), SHA256)
    (options,) = bars
    assert (options['initial'], options['total']) == (1000, len(CONTENT))


def test_two_processes_download_a_file_once(path, tmp_path):
    code = """
from common.formats.download import download

wait_for_the_others()
download(*arguments)
"""
    slow = send(count=100_000, then=lambda: time.sleep(0.5))
    with serving(slow, send()) as (url, ranges):
        run_together(tmp_path, code, *[(url, path, SHA256)] * 2)
    assert_complete(path)
    assert ranges == [None, 'bytes=100000-']
