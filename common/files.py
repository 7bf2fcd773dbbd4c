"""Files, local or on TensorFlow's file systems: atomic writes, JSON, and the identity of a file."""

from collections.abc import Callable, Iterable, Iterator
import contextlib
import csv
import errno
import fcntl
import hashlib
import io
import json
import math
import os
import re
import stat
from typing import Any, BinaryIO
import uuid

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common import json_text
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.locks import flock
from estimator_trainer.common.paths import is_remote, unreachable

MAX_BYTES = 1 << 30  # Of a file that is read as a whole.
_PART = re.compile(r'\.[0-9a-f]{32}\.part$')  # Of `atomic_path`.
_OF_RUN = re.compile(r'.*\.(json|jsonl|csv|pbtxt|lock)|checkpoint|model\.ckpt-.*|events\..*|\.writable')
# Of local disks, NFS, CIFS and FUSE; macOS lacks some.
_FILE_ERRORS = (
    'EACCES EBUSY EDQUOT EEXIST EFBIG EHOSTDOWN EINVAL EIO EISDIR EKEYEXPIRED ELOOP EMFILE EMLINK ENAMETOOLONG ENFILE ENODEV '
    'ENOENT ENOKEY ENOLCK ENOMEDIUM ENOSPC ENOTCONN ENOTDIR ENOTEMPTY ENOTSUP ENXIO EOVERFLOW EPERM EPIPE EREMOTEIO EROFS '
    'ESTALE ETIMEDOUT ETXTBSY EUCLEAN EXDEV'
)


@contextlib.contextmanager
def atomic_path(path: str) -> Iterator[str]:
    """Yields the path of a temporary file, which replaces `path` if the block succeeds.

    The temporary path is unique: several processes may write the same file, and each leaves a complete one. A lock on it
    protects it from `remove_abandoned`.
    """
    part = f'{path}.{uuid.uuid4().hex}.part'
    with contextlib.ExitStack() as cleanup:
        if not is_remote(path):
            with contextlib.suppress(OSError):  # The caller's write fails, too, and reports it.
                cleanup.callback(os.close, _open_locked(part))
        try:
            yield part
            tf.io.gfile.rename(part, path, overwrite=True)
        except BaseException:
            if tf.io.gfile.exists(part):
                tf.io.gfile.remove(part)
            raise


def _open_locked(part):
    """Creates a file, locks it and returns its descriptor; retries if `remove_abandoned` deletes it in between."""
    while True:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            flock(descriptor, fcntl.LOCK_EX, part)
        except BaseException:
            os.close(descriptor)
            raise
        if os.path.exists(part):
            return descriptor
        os.close(descriptor)


def remove_abandoned(part: str) -> None:
    """Deletes a temporary file left behind by an interrupted `atomic_path`, whose names no other file has.

    Keeps it if a process is still writing it, or if that is unknown as the file system has no locks.
    """
    if is_remote(part) or not _PART.search(part):
        return
    with contextlib.suppress(FileNotFoundError, BlockingIOError, IsADirectoryError):
        descriptor = os.open(part, os.O_RDWR)
        try:
            if flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, part):
                os.remove(part)
        finally:
            os.close(descriptor)


def copy(source: str, target: str) -> None:
    """Copies a file that may be replaced but is never changed: a hard link, where possible. The copy appears whole."""
    if is_remote(target) or not _link(os.path.realpath(source), target):
        with atomic_path(target) as part:
            tf.io.gfile.copy(source, part, overwrite=True)


def _link(source, target):
    """Makes the target a hard link; returns False if the file system refuses."""
    part = f'{target}.{uuid.uuid4().hex}.part'
    try:
        os.link(source, part)
        os.rename(part, target)  # Fails if `remove_abandoned` has deleted it in between.
    except OSError:
        return os.path.exists(target) and os.path.exists(source) and os.path.samefile(source, target)
    finally:
        with contextlib.suppress(OSError):
            os.remove(part)  # It remains if it was the same file as the target.
    return True


def write(path: str, content: str | bytes) -> None:
    """Writes a file atomically; str as UTF-8."""
    with atomic_path(path) as part, tf.io.gfile.GFile(part, 'wb') as file:
        file.write(content)


def write_from(file: BinaryIO, path: str, place: int, content: bytes) -> None:
    """Writes content to a local file, which is open without a buffer, in place of all that it has from a place on.

    Raises:
      OSError: it cannot be written, as when the disk is full; names the path.
    """
    try:
        file.truncate(place)
        file.seek(place)
        while content:  # Once, unless the disk is full.
            content = content[file.write(content) :]
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def append(path: str, content: bytes) -> None:
    """Adds content to a local file, or creates it, so that it is there if the process is killed then.

    Raises:
      OSError: as of `write_from`.
    """
    with open(path, 'ab', buffering=0) as file:
        write_from(file, path, file.tell(), content)


def last_line(file: BinaryIO) -> tuple[bytes, int]:
    """Returns the last whole line of a local file, without its end, and the place after it; b'' and 0 if there is none."""
    size, length = file.seek(0, os.SEEK_END), 1 << 14
    while True:
        start = max(size - length, 0)
        file.seek(start)
        *lines, cut = file.read().split(b'\n')
        if len(lines) > 1 or not start:  # The first may lack its beginning.
            return lines[-1] if lines else b'', size - len(cut)
        length *= 4


def sha256_of(path: str) -> str:
    """Returns the SHA-256 of a file, local or remote, in hexadecimal; raises tf.errors.OpError if it cannot be read."""
    sha256 = hashlib.sha256()
    with tf.io.gfile.GFile(path, 'rb') as file:
        while block := file.read(1 << 20):
            sha256.update(block)
    return sha256.hexdigest()


def write_json(path: str, value: Any) -> None:
    """Writes a value atomically as indented JSON, as `dumps` formats it."""
    write(path, dumps(value, indent=2) + '\n')


def to_csv(rows: Iterable[Iterable[Any]]) -> str:
    """Returns rows of cells as CSV; None is an empty cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator='\n').writerows(rows)
    return text.getvalue()


def write_csv(path: str, rows: Iterable[Iterable[Any]]) -> None:
    """Writes rows of cells atomically as CSV, as `to_csv` formats them."""
    write(path, to_csv(rows))


def dumps(value: Any, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> str:
    """Returns a value as JSON. Numbers that are not finite become the strings "Infinity", "-Infinity" and "NaN".

    Args:
      default: function from a value of another type to one of JSON's.
    """
    try:
        return json.dumps(value, indent=indent, allow_nan=False, default=default)
    except ValueError:
        return json.dumps(_finite(value), indent=indent, allow_nan=False, default=default)


def _finite(value):
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return 'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'
    return value


def explain(error: BaseException) -> str | None:
    """Returns 'PATH: reason' for an error of TensorFlow or Python about a file; None for any other error."""
    if isinstance(error, OSError):
        name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else str(error.filename or '')
        return f'{_PART.sub("", name)}: {unreachable(name) or error.strerror}' if name else None
    # TensorFlow adds the system's text for the error to the path, which may have spaces.
    reasons = '|'.join(re.escape(os.strerror(getattr(errno, name))) for name in _FILE_ERRORS.split() if hasattr(errno, name))
    patterns = (rf'^(?:{{{{.*}}}} )?(.+); ({reasons})(?: \[Op:\w+\])?$', r'^(\S.*) (is (?:not )?a directory)$')
    match = next(filter(None, (re.search(pattern, str(error), re.MULTILINE) for pattern in patterns)), None)
    if not match or ':' in match[1] and '/' not in match[1]:  # Of a host and its port, or another text.
        return None
    return f'{_PART.sub("", match[1])}: {unreachable(match[1]) or match[2]}'


def names_in(directory: str) -> list[str]:
    """Returns the names of the files and folders in a directory, sorted; [] if it does not exist.

    Leaves out names that are not UTF-8: TensorFlow cannot open such files, so they are another program's.
    """
    if is_remote(directory):
        names = tf.io.gfile.listdir(directory) if tf.io.gfile.isdir(directory) else []
        return sorted(name.rstrip('/') for name in names)
    try:
        return sorted(os.fsdecode(name) for name in os.listdir(os.fsencode(directory)) if _is_utf8(name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_utf8(name):
    with contextlib.suppress(UnicodeDecodeError):
        return bool(name.decode())


def check_readable(path: str, max_bytes: float = math.inf) -> None:
    """Raises tf.errors.FailedPreconditionError for a large file, or a local pipe or device, whose content may never end.

    A missing file passes: opening it fails.
    """
    reason = ''
    with contextlib.suppress(OSError, tf.errors.OpError):
        found = None if is_remote(path) else os.stat(path)  # Of any name, also one that is not UTF-8.
        if found and not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            reason = 'is a pipe or a device: write its content to a file'
        elif max_bytes < math.inf and (size := found.st_size if found else tf.io.gfile.stat(path).length) > max_bytes:
            reason = f'has {size:,} bytes, more than {max_bytes:,}'
    if reason:
        raise tf.errors.FailedPreconditionError(None, None, reason)


def check_no_pipes(directory: str) -> None:
    """Raises UsageError if a file of a run, in a local directory, is a pipe or a device: reading or writing it would wait."""
    if is_remote(directory):
        return
    for path in (os.path.join(directory, name) for name in names_in(directory) if _OF_RUN.fullmatch(name)):
        with contextlib.suppress(OSError):  # Another process may have deleted it.
            mode = os.stat(path).st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                raise UsageError(f'{path}: is a pipe or a device: delete it, or choose another directory')


def read_json(path: str) -> dict[str, Any]:
    """Returns the JSON object in a file.

    Raises:
      ValueError: the file cannot be read, or does not contain a JSON object; the message names the file.
    """
    try:
        check_readable(path, MAX_BYTES)
        with tf.io.gfile.GFile(path, 'rb') as file:
            value = json_text.loads(file.read().decode('utf-8-sig'))  # Some editors begin files with a mark.
    except tf.errors.OpError as error:
        raise ValueError(f'{path}: cannot be read: {error.message.removeprefix(f"{path}; ")}') from None
    except json_text.Misread as error:
        raise ValueError(f'{path}: {error}') from None
    except ValueError as error:
        raise ValueError(f'{path}: is not JSON: {error}') from None
    if not isinstance(value, dict):
        raise ValueError(f'{path}: must contain one JSON object')
    return value


def to_json(value: Any) -> Any:
    """Converts a NumPy scalar or array to JSON values; rounds floats to the six digits of float32."""
    if np.ndim(value):
        return [to_json(item) for item in value]
    item = value.item() if isinstance(value, (np.ndarray, np.generic)) else value
    if isinstance(item, bytes):
        return item.decode(errors='replace')
    return float(f'{item:.6g}') if isinstance(item, float) else item


def stamp(path: str) -> tuple[int, int, int]:
    """Returns the size of a file, the time of its last change in ns, and its inode; 0 for the inode of a remote file.

    Raises:
      OSError, tf.errors.OpError: there is no such file.
    """
    if is_remote(path):
        remote = tf.io.gfile.stat(path)
        return remote.length, remote.mtime_nsec, 0
    found = os.stat(path)  # TensorFlow's has the time in seconds.
    return found.st_size, found.st_mtime_ns, found.st_ino


def check_scheme(flag: str, path: str) -> None:
    """Raises UsageError if a flag's path is on a file system that TensorFlow does not support, or is none."""
    scheme = re.match(r'([a-zA-Z][0-9a-zA-Z.]*)://', path)
    rest = path[scheme.end() :] if scheme else path
    if scheme and (not rest.strip('/') or scheme[1] in ('gs', 's3') and rest[0] == '/'):  # They need the name of a bucket.
        raise UsageError(f'--{flag}={path}: names no directory or file: give its whole path')
    known = tf.io.gfile.get_registered_schemes()
    if scheme and scheme[1] not in known:
        supported = ', '.join(f'{name}://' for name in sorted(filter(None, known)))
        raise UsageError(
            f'--{flag}={path}: this TensorFlow has no file system {scheme[1]}:// (it has {supported}): mount it as a '
            'directory and give that path'
        )
