"""What the commands share: flags, help, log, signals, and errors reported in one line."""

from collections.abc import Callable, Sequence
import contextlib
import logging
import signal
import sys
import traceback
from typing import Any

from absl import flags
import tensorflow.compat.v1 as tf
from tqdm.contrib.logging import logging_redirect_tqdm

from common import files
from common.errors import UsageError, check_utf8, error_line, first_line
from common.plugins.traceback_filter import made_at, original, user_traceback
from common.runs.diagnosis import find_cause
from common.runs.stop import StopOnSignal


def execute(
    argv: Sequence[str],
    FLAGS: flags.FlagValues,
    help_text: Callable[[flags.FlagValues], str],
    check: Callable[[flags.FlagValues], None],
    run: Callable[[flags.FlagValues, StopOnSignal], dict[str, Any]],
) -> int:
    """Runs a command and prints its result as a line of JSON.

    Args:
      argv: the program and its arguments.
      FLAGS: must include the flags full_traceback, log_file and verbosity.
      help_text: returns what is to be printed instead of a run; '' for a run.
      check: raises UsageError if flags are incompatible.
      run: returns the result.

    Returns:
      The exit code: 0 on success, 1 on failure, 2 for wrong usage.

    Raises:
      Exception: no line of a user's module is involved, or --full_traceback is set.
    """
    try:
        _parse(argv, FLAGS)
        if text := help_text(FLAGS):
            _print_help(text)
            return 0
        check(FLAGS)
        with StopOnSignal() as stop, _log(FLAGS):
            result = run(FLAGS, stop)
    except Exception as error:
        code, text = _report(argv[0], error, FLAGS)
        _append(FLAGS['log_file'].value, text)  # The flags may not be parsed.
        if not code:
            raise
        print(text, end='', file=sys.stderr)
        return code
    print(files.dumps(result))
    return 0


@contextlib.contextmanager
def _log(FLAGS):
    """Within the block, TensorFlow's log has the time in each line, and is written to --log_file, too."""
    logger = tf.get_logger()
    tf.logging.set_verbosity(FLAGS.verbosity.upper())
    formatter = logging.Formatter('%(asctime)s %(levelname)s %(message)s', '%Y-%m-%d %H:%M:%S')
    for handler in logger.handlers:
        handler.setFormatter(formatter)
    with contextlib.ExitStack() as cleanup:
        if sys.stderr.isatty():  # Log lines would break a progress bar.
            cleanup.enter_context(logging_redirect_tqdm([logger]))
        if FLAGS.log_file:
            try:
                handler = _FileHandler(FLAGS.log_file, encoding='utf-8')
            except OSError as error:
                raise UsageError(f'--log_file={FLAGS.log_file}: cannot be written: {error.strerror}') from None
            handler.setFormatter(formatter)
            logger.addHandler(handler)
            cleanup.callback(handler.close)
            cleanup.callback(logger.removeHandler, handler)
        yield


class _FileHandler(logging.FileHandler):
    """Goes on without the file if it can no longer be written, as on a full disk."""

    def handleError(self, record):
        if not self._is_broken:
            self._is_broken = True
            print(f'{self.baseFilename}: cannot be written any more: {sys.exc_info()[1]}', file=sys.stderr)

    def close(self):
        with contextlib.suppress(OSError):
            super().close()

    _is_broken = False


def _append(path, text):
    """Appends text to a log file, if there is one."""
    if path:
        with contextlib.suppress(OSError), open(path, 'a', encoding='utf-8') as file:  # The disk may be full.
            file.write(text)


def _report(program, error, FLAGS):
    """Returns the exit code for an exception and what to say of it; the code is 0 if its own traceback is to be shown."""
    found = find_cause(error)
    if found:
        of_user = _traceback(found.__cause__, FLAGS) if found.__cause__ else ''  # An exception in the user's Python code.
        return 2 if isinstance(found, UsageError) else 1, f'{of_user}{error_line(program, found)}\n'
    if FLAGS.full_traceback:
        return 0, _traceback(error, FLAGS)
    made = original(error)
    text, location = user_traceback(error), made_at(made)
    if not text and location:
        text = error_line(program, f'{first_line(made)} ({location})') + '\n'
    return (1, text) if text else (0, ''.join(traceback.format_exception(error)))


def _traceback(error, FLAGS):
    return ''.join(traceback.format_exception(error)) if FLAGS.full_traceback else user_traceback(error)


def flags_help(doc: str | None, FLAGS: flags.FlagValues) -> str:
    """Returns the text of --help: first lines and all flags, in groups."""
    return '\n'.join([doc or '', *(FLAGS.module_help(title) for title in FLAGS.flags_by_module_dict())])


def _print_help(text):
    previous = signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # A reader such as `head` may not read all of it.
    print(text, flush=True)
    signal.signal(signal.SIGPIPE, previous)


def _parse(argv, FLAGS):
    check_utf8(argv)
    try:
        rest = FLAGS(argv)[1:]
    except flags.Error as error:
        raise UsageError(str(error)) from None
    if rest:
        raise UsageError(f'{rest[0]}: every argument is a flag, --name=value; see --help')
