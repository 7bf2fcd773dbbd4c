"""What the commands share: flags, help, log, signals, and errors reported in one line."""

from collections.abc import Callable, Sequence
import contextlib
import functools
import signal
import sys
import traceback
from typing import Any

from absl import flags
import tensorflow.compat.v1 as tf
from tqdm.contrib.logging import logging_redirect_tqdm

from common import files
from common.errors import RunError, UsageError, check_utf8, first_line, print_error
from common.plugins.traceback_filter import made_at, original, user_traceback
from common.runs.stop import StopOnSignal


class FlagGroup:
    """Defines flags under a title of --help."""

    def __init__(self, FLAGS: flags.FlagValues, title: str):
        def define(function):
            return functools.partial(function, flag_values=FLAGS, module_name=title)

        self.string = define(flags.DEFINE_string)
        self.integer = define(flags.DEFINE_integer)
        self.number = define(flags.DEFINE_float)
        self.boolean = define(flags.DEFINE_bool)
        self.enum = define(flags.DEFINE_enum)
        self.list = define(flags.DEFINE_list)


def execute(
    argv: Sequence[str],
    doc: str | None,
    FLAGS: flags.FlagValues,
    check: Callable[[flags.FlagValues], None],
    run: Callable[[flags.FlagValues, StopOnSignal], dict[str, Any]],
) -> int:
    """Runs a command and prints its result as a line of JSON.

    Args:
      argv: the program and its arguments.
      doc: the first lines of --help.
      FLAGS: must include the flags `help` and `full_traceback`.
      check: raises UsageError if flags are incompatible.
      run: returns the result.

    Returns:
      The exit code: 0 on success, 1 on failure, 2 for wrong usage.

    Raises:
      Exception: no line of a user's module is involved, or --full_traceback is set.
    """
    try:
        _parse(argv, FLAGS)
        if FLAGS.help:
            _print_help(doc, FLAGS)
            return 0
        check(FLAGS)
        tf.logging.set_verbosity(tf.logging.INFO)
        # Log lines would break a progress bar, which only a terminal shows.
        redirect = logging_redirect_tqdm([tf.get_logger()]) if sys.stderr.isatty() else contextlib.nullcontext()
        with StopOnSignal() as stop, redirect:
            result = run(FLAGS, stop)
    except Exception as error:
        code = _report(argv[0], error, FLAGS)
        if not code:
            raise
        return code
    print(files.dumps(result))
    return 0


def _report(program, error, FLAGS):
    """Reports an exception on stderr and returns the exit code; None if the full traceback is needed."""
    found = original(error)
    if isinstance(found, (UsageError, RunError)):
        if found.__cause__:  # An exception in the user's Python code.
            print(_traceback(found.__cause__, FLAGS), end='', file=sys.stderr)
        print_error(program, found)
        return 2 if isinstance(found, UsageError) else 1
    explanation = isinstance(found, (tf.errors.OpError, OSError, RuntimeError)) and files.explain(found)
    if explanation:
        print_error(program, f'{explanation}: fix this, then rerun the command')
        return 1
    if FLAGS.full_traceback:
        return None
    text, location = user_traceback(error), made_at(found)
    if text:
        print(text, end='', file=sys.stderr)
    elif location:
        print_error(program, f'{first_line(found)} ({location})')
    return 1 if text or location else None


def _traceback(error, FLAGS):
    return ''.join(traceback.format_exception(error)) if FLAGS.full_traceback else user_traceback(error)


def _print_help(doc, FLAGS):
    previous = signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # A reader such as `head` may not read all of it.
    print(doc, *(FLAGS.module_help(title) for title in FLAGS.flags_by_module_dict()), sep='\n', flush=True)
    signal.signal(signal.SIGPIPE, previous)


def _parse(argv, FLAGS):
    check_utf8(argv)
    try:
        rest = FLAGS(argv)[1:]
    except flags.Error as error:
        raise UsageError(str(error)) from None
    if rest:
        raise UsageError(f'{rest[0]}: every argument is a flag, --name=value; see --help')
