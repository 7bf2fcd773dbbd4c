"""Terminal output of a run: the log and the progress bars."""

from collections.abc import Callable, Iterator
import contextlib
import logging
import os
import stat
import sys
import threading
from typing import Any
import warnings

from absl import flags
import tensorflow.compat.v1 as tf
import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from estimator_trainer.common.errors import UsageError, in_one_line, printable

_OWN = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), part, '') for part in ('common', 'datasets')
)


def make_bar(iterable: Any = None, **options: Any) -> tqdm.tqdm:
    """Returns a tqdm bar with these options; disabled without a terminal or notebook."""
    if _is_notebook():
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # Without ipywidgets it falls back to text.
            from tqdm.auto import tqdm as notebook_bar
        return notebook_bar(iterable, disable=False, **options)
    return tqdm.tqdm(iterable, disable=None, **options)


def _is_notebook():
    ipython: Any = sys.modules.get('IPython')
    shell = ipython and ipython.get_ipython()
    return bool(shell) and 'IPKernelApp' in shell.config


def quiet() -> contextlib.AbstractContextManager[None]:
    """Within the block, TensorFlow logs only warnings and errors of this thread, and all of others."""
    return _from(logging.WARNING)


def errors_only() -> contextlib.AbstractContextManager[None]:
    """Within the block, TensorFlow logs only errors of this thread, and all of others."""
    return _from(logging.ERROR)


def _from(level):
    thread = threading.get_ident()
    return filtered_log(lambda record: record.levelno >= level or record.thread != thread)


@contextlib.contextmanager
def filtered_log(is_kept: Callable[[logging.LogRecord], bool]) -> Iterator[None]:
    """Within the block, TensorFlow's log has only the records that are kept."""
    logger = tf.get_logger()
    logger.addFilter(is_kept)
    try:
        yield
    finally:
        logger.removeFilter(is_kept)


@contextlib.contextmanager
def log(FLAGS: flags.FlagValues) -> Iterator[None]:
    """Within the block, adds the time to each line of TensorFlow's log, and copies it to --log_file."""
    logger = tf.get_logger()
    formatter = _Formatter('%(asctime)s %(levelname)s %(message)s', '%Y-%m-%d %H:%M:%S')
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(setattr, threading, 'excepthook', threading.excepthook)
        threading.excepthook = _hook_but_for_events(threading.excepthook)
        for handler in logger.handlers:
            cleanup.callback(handler.setFormatter, handler.formatter)
            handler.setFormatter(formatter)
        cleanup.callback(logger.setLevel, logger.level)
        logger.setLevel(FLAGS.verbosity.upper())
        if sys.stderr.isatty():  # Log lines would break a progress bar.
            cleanup.enter_context(logging_redirect_tqdm([logger]))
        if FLAGS.log_file:
            if os.path.exists(FLAGS.log_file) and stat.S_ISFIFO(os.stat(FLAGS.log_file).st_mode):
                raise UsageError(f'--log_file={FLAGS.log_file}: is a pipe, which may wait for a reader: give a file')
            try:
                handler = _FileHandler(FLAGS.log_file, encoding='utf-8')
            except OSError as error:
                raise UsageError(f'--log_file={FLAGS.log_file}: cannot be written: {error.strerror}') from None
            handler.setFormatter(formatter)
            logger.addHandler(handler)
            cleanup.callback(handler.close)
            cleanup.callback(logger.removeHandler, handler)
        yield


def _hook_but_for_events(hook):
    def call(args):
        if not args.thread or args.thread.name != 'EventLoggerThread':  # Closing its writer raises the same.
            hook(args)

    return call


class _Formatter(logging.Formatter):
    def format(self, record):
        text = super().format(record)  # Names in the framework's messages may have line breaks; messages of others are theirs.
        return in_one_line(text) if record.pathname.startswith(_OWN) else printable(text)


class _FileHandler(logging.FileHandler):
    """Continues without the file if writing fails, as on a full disk."""

    def handleError(self, record):
        if not self._is_broken:
            self._is_broken = True
            print(f'{self.baseFilename}: can no longer be written: {sys.exc_info()[1]}', file=sys.stderr)

    def close(self):
        with contextlib.suppress(OSError):
            super().close()

    _is_broken = False
