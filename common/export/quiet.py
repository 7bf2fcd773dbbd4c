"""Libraries without their output: what goes wrong in them is an error, or a difference that is measured."""

from collections.abc import Iterator
import contextlib
import logging
import os
import sys
import warnings

from estimator_trainer.common.console import errors_only

_LOGGERS = ('root', 'tf2onnx')


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Within the block, libraries log nothing and warn of nothing, and what this process writes to stderr is lost."""
    root, loggers = logging.getLogger(), [logging.getLogger(name) for name in _LOGGERS]
    before, handlers = [logger.level for logger in loggers], [*root.handlers]
    with warnings.catch_warnings(), errors_only(), _without_stderr():
        warnings.simplefilter('ignore')
        try:
            for logger in loggers:
                logger.setLevel(logging.CRITICAL)
            yield
        finally:
            for logger, level in zip(loggers, before):
                logger.setLevel(level)
            root.handlers[:] = handlers  # A library's first line would add one, which TensorFlow's log would go to, too.


@contextlib.contextmanager
def _without_stderr():
    """Libraries in C++ write to it themselves."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, 'wb') as null:
            os.dup2(null.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
