"""What the commands share: flags, help, log, signals, and mistakes told in one line."""

import contextlib
import sys
import traceback

from absl import flags
import tensorflow.compat.v1 as tf
from tqdm.contrib.logging import logging_redirect_tqdm

from common import files
from common.errors import RunError, UsageError, check_utf8, first_line, print_error
from common.plugins.traceback_filter import made_at, original, user_traceback
from common.runs.stop import StopOnSignal


def execute(argv, doc, FLAGS, check, run):
    """Runs a command and prints its result as a line of JSON.

    Args:
      argv: list of str, the program and its arguments.
      doc: str, which --help begins with.
      FLAGS: absl.flags.FlagValues with the flags `help` and `full_traceback`.
      check: function of FLAGS that raises UsageError where they do not go together.
      run: function of FLAGS and a StopOnSignal that returns the result, a dict.

    Returns:
      The exit code: 0 done, 1 failed, 2 wrong usage.

    Raises:
      Exception: what no line of a user's module has to do with, or any with --full_traceback.
    """
    try:
        _parse(argv, FLAGS)
        if FLAGS.help:
            print(doc, *(FLAGS.module_help(title) for title in FLAGS.flags_by_module_dict()), sep='\n')
            return 0
        check(FLAGS)
        tf.logging.set_verbosity(tf.logging.INFO)
        # Log lines and progress bars meet on a terminal only.
        redirect = logging_redirect_tqdm([tf.get_logger()]) if sys.stderr.isatty() else contextlib.nullcontext()
        with StopOnSignal() as stop, redirect:
            result = run(FLAGS, stop)
    except Exception as error:
        code = _tell(argv[0], error, FLAGS)
        if not code:
            raise
        return code
    print(files.dumps(result))
    return 0


def _tell(program, error, FLAGS):
    """Says on stderr what an exception is about; returns the exit code, or None where only the whole traceback can tell."""
    found = original(error)
    if isinstance(found, (UsageError, RunError)):
        if found.__cause__:  # An exception in the user's own Python.
            print(_traceback(found.__cause__, FLAGS), end='', file=sys.stderr)
        print_error(program, found)
        return 2 if isinstance(found, UsageError) else 1
    said = isinstance(found, (tf.errors.OpError, OSError, RuntimeError)) and files.explain(found)
    if said:
        print_error(program, f'{said}: fix this, then rerun the command')
        return 1
    if FLAGS.full_traceback:
        return None
    text, place = user_traceback(error), made_at(found)
    if text:
        print(text, end='', file=sys.stderr)
    elif place:
        print_error(program, f'{first_line(found)} ({place})')
    return 1 if text or place else None


def _traceback(error, FLAGS):
    return ''.join(traceback.format_exception(error)) if FLAGS.full_traceback else user_traceback(error)


def _parse(argv, FLAGS):
    check_utf8(argv)
    try:
        rest = FLAGS(argv)[1:]
    except flags.Error as error:
        raise UsageError(str(error)) from None
    if rest:
        raise UsageError(f'{rest[0]}: every argument is a flag, --name=value; see --help')
