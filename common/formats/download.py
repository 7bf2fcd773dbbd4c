"""HTTP downloads: resumed after an interruption, verified by SHA-256, written atomically."""

import http.client
import os
import time
import urllib.error
import urllib.request
import uuid

import tensorflow.compat.v1 as tf

from estimator_trainer.common.console import make_bar
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.files import sha256_of
from estimator_trainer.common.locks import taking_turns
from estimator_trainer.common.paths import is_remote

_ATTEMPTS = 4  # In a row without a new byte.
PAUSE = 0.5  # Seconds before the next attempt, doubled after each attempt without a new byte.
TIMEOUT = 30.0  # Seconds of silence from the server.
_BLOCK = 1 << 16
_BUSY = (408, 429)  # Retried, like 5xx.


class _Interrupted(Exception):
    """An attempt failed, but another may succeed. The message is the reason."""


class _Refused(Exception):
    """The server's answer is final. The message is the reason."""


def download(url: str, path: str, sha256: str) -> None:
    """Downloads a file unless it exists. On a terminal a progress bar counts the bytes.

    A failed download keeps its bytes in PATH.part, from which the next one continues. Of several processes, the first downloads
    the file while the others wait.

    Args:
      url: http or https.
      path: the local file to write; its directory is created.
      sha256: of the file, in hexadecimal.

    Raises:
      RunError: the server is unreachable or lacks the file, the SHA-256 differs, or the file cannot be written. The message has
          the URL, the path, and the hyper-parameter raw_dir, which the calling dataset must have.
    """
    by_hand = f'put that file at {path} by hand, or name its directory with --hparams=raw_dir=DIRECTORY'
    if is_remote(path):
        raise RunError(f'{url}: cannot be downloaded to a remote file system; {by_hand}')
    try:
        os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
        with taking_turns(path) as is_alone:
            if not os.path.exists(path):
                part = f'{path}.part' if is_alone else f'{path}.{uuid.uuid4().hex}.part'
                _fetch_verified(url, part, sha256)
                os.replace(part, path)
    except (_Interrupted, _Refused) as error:
        raise RunError(f'{url}: cannot be downloaded: {error}; {by_hand}') from None
    except OSError as error:
        raise RunError(f'{path}: cannot be written: {error.strerror}; --data_dir names another place') from None


def _fetch_verified(url, part, sha256):
    """Downloads to the file `part`; restarts once if it continued an earlier download and the SHA-256 differs."""
    while True:
        is_continued = _size(part) > 0
        _fetch(url, part)
        found = sha256_of(part)
        if found == sha256:
            return
        os.remove(part)
        if not is_continued:
            raise _Refused(f'its SHA-256 is {found}, not {sha256}')


def _fetch(url, part):
    """Downloads the rest of the file `part`; retries after each interruption."""
    most, failures = _size(part), 0
    while True:
        try:
            _receive(url, part)
            return
        except _Interrupted as error:
            failures = 0 if _size(part) > most else failures + 1
            most = max(most, _size(part))
            if failures == _ATTEMPTS:
                raise
            tf.logging.info('%s: %s at byte %d; trying again.', url, error, _size(part))
            time.sleep(PAUSE * 2**failures)


def _receive(url, part):
    """Makes one request and appends the response to the file `part`; overwrites it if the server ignores the range."""
    begin = _size(part)
    try:
        response = _open(url, begin)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and begin:  # Nothing is missing; the SHA-256 decides.
            return
        failure = _Interrupted if error.code in _BUSY or error.code >= 500 else _Refused
        raise failure(f'HTTP {error.code} {error.reason}') from None
    with response:
        if response.status != 206:
            begin = 0
        elif not response.headers.get('Content-Range', '').startswith(f'bytes {begin}-'):
            open(part, 'wb').close()
            raise _Interrupted('the server sent another range than requested')
        end = None if response.length is None else begin + response.length
        with (
            open(part, 'ab' if begin else 'wb') as file,
            make_bar(
                desc=f'Downloading {os.path.basename(url)}',
                initial=begin,
                total=end,
                unit='B',
                unit_scale=True,
            ) as bar,
        ):
            position = begin
            while position != end and (block := _read(response)):
                file.write(block)
                bar.update(len(block))
                position += len(block)
    if end is not None and position < end:
        raise _Interrupted('the connection was dropped')


def _open(url, begin):
    """Requests the bytes from `begin` on; returns the response."""
    request = urllib.request.Request(url, headers={'Range': f'bytes={begin}-'} if begin else {})
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(_reason(error)) from None


def _read(response):
    try:
        return response.read1(_BLOCK)  # Returns the bytes available; read would wait for a whole block, and lose it on failure.
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(_reason(error)) from None


def _reason(error):
    error = getattr(error, 'reason', error)  # The cause of a URLError.
    if isinstance(error, TimeoutError):
        return f'the server did not answer for {TIMEOUT:g} seconds'
    return getattr(error, 'strerror', None) or str(error) or type(error).__name__


def _size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0
