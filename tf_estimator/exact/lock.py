"""One training in a model_dir at a time."""

from collections.abc import Iterator
import contextlib
import errno
import os
import socket
import sys

from tf_estimator.errors import CommandError
from tf_estimator.traps.log import warn

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextlib.contextmanager
def lock(path: str) -> Iterator[None]:
    """Holds a lock of this process until the block or the process ends; children that it forks do not hold it.

    Args:
      path: a local file, which is created and names the holder.

    Raises:
      CommandError: another process holds the lock.
    """
    if sys.platform == 'win32':
        yield
        return
    import fcntl  # Windows has none.

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN, *_NO_LOCKS):
                raise
            if error.errno not in _NO_LOCKS:
                holder = os.read(descriptor, 1000).decode(errors='replace') or 'another process'
                directory = os.path.dirname(os.path.dirname(path))
                raise CommandError(f'{directory}: {holder} is training in it. Wait for it, or use another model_dir') from None
            warn('%s: the file system has no locks: let only one process train in it at a time.', path)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f'process {os.getpid()} on {socket.gethostname()}'.encode())
        yield
    finally:
        os.close(descriptor)
