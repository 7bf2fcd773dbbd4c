"""Log filters for deprecation notices, output of TensorFlow's libraries on loading, and duplicate lines."""

from collections.abc import Iterator
import contextlib
import logging
import os
import sys
import types
from typing import Any
import warnings

# The only files of TensorFlow that log deprecation notices.
_DEPRECATION_FILES = (
    os.path.join('tensorflow', 'python', 'util', 'deprecation.py'),
    os.path.join('tensorflow', 'python', 'util', 'module_wrapper.py'),
)
# Warnings of TensorFlow, Keras 2 and protobuf.
_DEPRECATION_WARNINGS = (
    r'`tf\.(layers|nn\.rnn_cell)\.\w+` is deprecated',
    r'`[Ll]ayer\.(add_variable|apply|graph)` is deprecated',
    r'`(layer\.updates|Model\.state_updates)` will be removed',
    r'float_format is deprecated for text_format',
    r'To make it possible to preserve tf\.data options',
)


def quiet_import() -> contextlib.AbstractContextManager[None]:
    """Returns a context that imports TensorFlow silently, unless TF_CPP_MIN_LOG_LEVEL requests its output."""
    _drop_deprecations()
    is_quiet = os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3') == '3'
    return _native_stderr_closed() if is_quiet else contextlib.nullcontext()


def leave_to_root(tf: types.ModuleType) -> None:
    """Keeps TensorFlow's handlers from duplicating output of the root logger's handlers to the same stream."""
    for handler in tf.get_logger().handlers:
        _leave_to_root(handler)


def _drop_deprecations() -> None:
    """Drops only TensorFlow's own deprecation notices from the log and from warnings."""
    logging.getLogger('tensorflow').addFilter(lambda record: not record.pathname.endswith(_DEPRECATION_FILES))
    for message in _DEPRECATION_WARNINGS:
        warnings.filterwarnings('ignore', message=message)


@contextlib.contextmanager
def _native_stderr_closed() -> Iterator[None]:
    """Keeps native libraries from writing to stderr while they load: no log level reaches those lines."""
    try:
        stderr = os.dup(2)
    except OSError:  # There is no stderr.
        yield
        return
    if sys.stderr:
        sys.stderr.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)


def _leave_to_root(handler: logging.StreamHandler) -> None:
    """Keeps a handler from duplicating output of the root logger's handlers.

    TensorFlow does so when imported, but tf.app.run and logging.basicConfig add handlers later.
    """
    logger = logging.getLogger('tensorflow')

    def is_only_here(record: logging.LogRecord) -> bool:
        others = logging.getLogger().handlers if logger.propagate else ()
        return not any(_stream(other) is handler.stream and record.levelno >= other.level for other in others)

    handler.addFilter(is_only_here)


def _stream(handler: logging.Handler) -> Any:
    return getattr(getattr(handler, 'python_handler', handler), 'stream', None)  # Absl's handler wraps another.
