"""Downloads a file over HTTP: resumed after an interruption, verified by its SHA-256, written beside and renamed."""

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
import uuid

import tensorflow.compat.v1 as tf

from estimator_trainer.common.console import make_bar
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.locks import taking_turns
from estimator_trainer.common.paths import is_remote

_ATTEMPTS = 4  # In a row that bring no new byte.
PAUSE = 0.5  # Seconds before the next attempt, doubled for each in a row that brought no new byte.
TIMEOUT = 30.0  # Seconds that the server may be silent.
_BLOCK = 1 << 16
_BUSY = (408, 429)  # And 5xx: worth another attempt.


class _Interrupted(Exception):
    """An attempt failed, but another one may not. The message is the reason."""


class _Refused(Exception):
    """The server's answer is final. The message is the reason."""


def download(url: str, path: str, sha256: str) -> None:
    """Downloads a file, unless it is there already. On a terminal a progress bar counts the bytes.

    What has arrived is kept in PATH.part if the download fails, and the next one continues from there. Processes that download
    the same file take turns: the first one does it.

    Args:
      url: http or https.
      path: the local file to write; its directory is created.
      sha256: of the file, in hexadecimal.

    Raises:
      RunError: the server cannot be reached or does not have the file, what it sends has another SHA-256, or the file cannot
        be written. The message has the URL, the path, and the hyper-parameter raw_dir, which the calling dataset must have.
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


def sha256_of(path: str) -> str:
    """Returns the SHA-256 of a file, local or remote, in hexadecimal; raises tf.errors.OpError if it cannot be read."""
    sha256 = hashlib.sha256()
    with tf.io.gfile.GFile(path, 'rb') as file:
        while block := file.read(1 << 20):
            sha256.update(block)
    return sha256.hexdigest()


def _fetch_verified(url, part, sha256):
    """Downloads to the file `part`; starts anew, once, if it continued an earlier download and the SHA-256 differs."""
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
    """Downloads the rest of the file `part`; each interruption is followed by another attempt."""
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
    """Makes one request, and appends what comes to the file `part`; a server that ignores the range starts it anew."""
    begin = _size(part)
    try:
        response = _open(url, begin)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and begin:  # Nothing is missing; whether it is the file, the SHA-256 tells.
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
    """Returns the response to a request for the bytes from `begin` on."""
    request = urllib.request.Request(url, headers={'Range': f'bytes={begin}-'} if begin else {})
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(_reason(error)) from None


def _read(response):
    try:
        return response.read1(_BLOCK)  # What has arrived; read would wait for a whole block, and lose it if it fails.
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(_reason(error)) from None


def _reason(error):
    error = getattr(error, 'reason', error)  # What a URLError wraps.
    if isinstance(error, TimeoutError):
        return f'the server did not answer for {TIMEOUT:g} seconds'
    return getattr(error, 'strerror', None) or str(error) or type(error).__name__


def _size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0
