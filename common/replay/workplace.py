"""A temporary directory in which a part of a run is trained again; one that was left by a killed process is deleted."""

from collections.abc import Iterator
import contextlib
import glob
import hashlib
import os
import shutil
import socket
import tempfile

from estimator_trainer.common import processes
from estimator_trainer.common.paths import real


@contextlib.contextmanager
def temporary(output_dir: str) -> Iterator[str]:
    """Yields a new directory, named by the run and this process, after deleting those of the run whose process has ended."""
    key = hashlib.sha256(f'{socket.gethostname()} {real(output_dir)}'.encode()).hexdigest()[:16]
    prefix = f'estimator_trainer-{key}-'
    for left in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), f'{prefix}*')):
        with contextlib.suppress(ValueError):  # Of another program's name.
            pid, start, _ = os.path.basename(left).removeprefix(prefix).split('-', 2)
            if processes.start_of(int(pid)) != start:
                shutil.rmtree(left, ignore_errors=True)
    own = os.getpid()
    with tempfile.TemporaryDirectory(prefix=f'{prefix}{own}-{processes.start_of(own)}-') as directory:
        yield directory
