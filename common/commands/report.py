"""Exceptions as the user sees them: the text of a command, and the errors of a Python program."""

from collections.abc import Iterator
import contextlib
import traceback

from absl import flags
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands.arguments_text import to_arguments
from estimator_trainer.common.console import filtered_log
from estimator_trainer.common.errors import RunError, UsageError, error_line, error_lines, first_line, printable
from estimator_trainer.common.plugins.traceback_filter import check_exit, made_at, original, user_traceback
from estimator_trainer.common.runs.diagnosis import find_cause


def report(program: str, error: Exception, FLAGS: flags.FlagValues) -> tuple[int, str]:
    """Returns the exit code for an exception and its text; code 0 requests its own traceback."""
    found = find_cause(error)
    if found:
        of_user = _traceback(found.__cause__, FLAGS) if found.__cause__ else ''  # An exception in the user's Python code.
        return 2 if isinstance(found, UsageError) else 1, f'{printable(of_user)}{error_lines(program, found)}'
    if FLAGS.full_traceback:
        return 0, _traceback(error, FLAGS)
    made = original(error)
    text, location = user_traceback(error), made_at(made)
    if not text and (location or isinstance(made, tf.errors.OpError)):
        text = error_line(program, f'{first_line(made)} ({location or "--full_traceback shows where"})') + '\n'
    return (1, printable(text)) if text else (0, ''.join(traceback.format_exception(error)))


def _traceback(error, FLAGS):
    return ''.join(traceback.format_exception(error)) if FLAGS.full_traceback else user_traceback(error)


@contextlib.contextmanager
def naming_arguments() -> Iterator[None]:
    """Within the block of a Python program, errors and the log name arguments in place of flags.

    An exception is replaced with the error that names its cause, or with the module's own.
    """
    try:
        with filtered_log(_name_arguments):
            yield
    except SystemExit as error:
        check_exit(error)
        raise
    except Exception as error:
        found = find_cause(error) or original(error)
        if isinstance(found, (UsageError, RunError)):
            found.args = tuple(to_arguments(str(text)) for text in found.args)
        if found is error:
            raise
        raise found from found.__cause__


def _name_arguments(record):
    """Puts arguments in place of flags in a record of the log; a filter that keeps all."""
    record.msg, record.args = to_arguments(record.getMessage()), ()
    return True
