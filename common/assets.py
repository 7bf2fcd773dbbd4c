"""Files that become assets of a SavedModel, written while its graph is built."""

from collections.abc import Iterator
import contextlib
import contextvars
import os
import re
import tempfile

_MAX_NAME = 100  # Bytes; file systems have a limit.
_Paths = dict[tuple[str, bytes], str]  # By name and content.
_written: contextvars.ContextVar[tuple[str, _Paths] | None] = contextvars.ContextVar('written', default=None)


@contextlib.contextmanager
def written() -> Iterator[None]:
    """Within the context, `asset` writes files, which exist until its end."""
    with tempfile.TemporaryDirectory() as directory:
        token = _written.set((directory, {}))
        try:
            yield
        finally:
            _written.reset(token)


def are_written() -> bool:
    """Whether `asset` may be called."""
    return _written.get() is not None


def asset(name: str, content: bytes) -> str:
    """Returns the path of a file for this name and content, called like it as far as all file systems allow, and .txt."""
    found = _written.get()
    assert found
    directory, paths = found
    if (name, content) not in paths:
        stem = re.sub(r'[^\w-]', '_', name.lower()).encode()[:_MAX_NAME].decode(errors='ignore')
        candidates = (os.path.join(directory, f'{stem}{end}.txt') for end in ('', *(f'_{i}' for i in range(2, len(paths) + 2))))
        path = paths[name, content] = next(path for path in candidates if path not in paths.values())
        with open(path, 'xb') as file:
            file.write(content)
    return paths[name, content]
