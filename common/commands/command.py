"""Runs a command: flags, help, log, signals, and errors reported in one line."""

from collections.abc import Callable, Sequence
import contextlib
import gc
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from absl import flags

from estimator_trainer.common.commands import guidance
from estimator_trainer.common.commands.flags import check_names, check_values
from estimator_trainer.common.errors import (
    RunError,
    UsageError,
    check_all,
    check_utf8,
    discard_output,
    error_lines,
    print_to_stderr,
)

if TYPE_CHECKING:
    from estimator_trainer.common.stop import StopOnSignal


def execute(
    argv: Sequence[str],
    FLAGS: flags.FlagValues,
    help_text: Callable[[flags.FlagValues], str],
    check: Callable[[flags.FlagValues], None],
    run: Callable[[flags.FlagValues, 'StopOnSignal'], dict[str, Any]],
    run_quickly: Callable[[flags.FlagValues], bool] = lambda FLAGS: False,
    beside: contextlib.AbstractContextManager[Any] | None = None,
) -> int:
    """Runs a command and prints its result as a line of JSON.

    Args:
      FLAGS: includes the flags full_traceback, log_file and verbosity.
      help_text: returns text to print instead of running; '' to run.
      check: raises UsageError if flags are incompatible.
      run_quickly: does what the flags ask if that needs no TensorFlow, and returns whether it did.
      beside: entered before TensorFlow is imported, and left after `run`.

    Returns:
      The exit code: 0 on success, 1 on failure, 2 for wrong usage.

    Raises:
      Exception: it involves no line of a user's module, or --full_traceback is set.
    """
    try:
        _check_platform()
        _parse(argv, FLAGS)
        with _checking_exits():
            text = help_text(FLAGS)
        if text:
            print_output(text)
            return 0
        check(FLAGS)
        if not run_quickly(FLAGS):
            with beside or contextlib.nullcontext():
                result = _run(FLAGS, run)
            print_output(result)
    except Exception as error:
        code, text = _report(argv[0], error, FLAGS)
        _append(FLAGS['log_file'].value, text)  # The flags may not be parsed.
        if not code:
            raise
        print_to_stderr(text)
        return code
    return 0


def _check_platform():
    """Raises RunError where Python lacks file locks and limits of memory: on Windows."""
    for module in ('fcntl', 'resource'):
        if importlib.util.find_spec(module) is None:
            raise RunError(f'needs Linux or macOS: Python has no module {module} here')


# The functions below import TensorFlow, which takes seconds, so the command line is checked before.


def _run(FLAGS, run):
    import_tensorflow()
    from estimator_trainer.common.console import log
    from estimator_trainer.common.files import dumps
    from estimator_trainer.common.stop import StopOnSignal

    with StopOnSignal() as stop, log(FLAGS), _checking_exits():
        result = run(FLAGS, stop)
        return result if isinstance(result, str) else dumps(result)


@contextlib.contextmanager
def _checking_exits():
    """Within the block, a module that ends the process as if it had succeeded raises RunError instead."""
    try:
        yield
    except SystemExit as error:
        from estimator_trainer.common.plugins.traceback_filter import check_exit

        check_exit(error)
        raise


def import_tensorflow() -> None:
    """Imports TensorFlow; raises RunError if a package that it needs is missing, or it cannot be loaded."""
    # Freezes TensorFlow's permanent objects before enabling the garbage collector, whose traversal of them would take 0.7 s of
    # a short run; not in a program that had imported TensorFlow, as that would freeze the program's objects, too.
    is_first, was_enabled = 'tensorflow' not in sys.modules, gc.isenabled()
    gc.disable()
    try:
        import tf_estimator  # noqa: F401

        if is_first:
            gc.freeze()
    except ImportError as error:  # The message of tf_estimator names the package to install.
        cure = ': pip install ./tf_estimator' if error.name == 'tf_estimator' else ''
        if 'failed to map segment' in str(error):
            cure = ': raise the limit of address space (ulimit -v), or mount its disk without noexec'
        raise RunError(f'{error}{cure}') from None
    finally:
        if was_enabled:
            gc.enable()


def _report(program, error, FLAGS):
    """Returns the exit code for an exception and its text; code 0 requests its own traceback."""
    is_wrapped = error.__cause__ or hasattr(error, 'ag_error_metadata')  # By a module's exception, or by AutoGraph.
    if isinstance(error, (UsageError, RunError)) and not is_wrapped:
        return 2 if isinstance(error, UsageError) else 1, error_lines(program, error)

    import tf_estimator  # noqa: F401 - before TensorFlow

    from estimator_trainer.common.commands.report import report

    return report(program, error, FLAGS)


def _append(path, text):
    """Appends text to a log file, if there is one."""
    if path:
        with contextlib.suppress(OSError), open(path, 'a', encoding='utf-8') as file:  # The disk may be full.
            file.write(text)


def flags_help(doc: str | None, FLAGS: flags.FlagValues) -> str:
    """Returns the text of --help: first lines and all flags, in groups."""
    text = '\n'.join([(doc or '').rstrip(), *(FLAGS.module_help(title) for title in FLAGS.flags_by_module_dict())])
    return text.replace("\n    (default: '')", '')  # Nothing, or what the help has said.


def print_output(text: str | None) -> None:
    """Prints to stdout; ends the process if that is a pipe whose reader has ended, raises RunError if it cannot be written."""
    try:
        print(text, flush=True)
    except BrokenPipeError:  # A reader such as `head` has what it wants.
        discard_output('stdout')
        sys.exit(0)
    except OSError as error:
        discard_output('stdout')
        raise RunError(f'stdout cannot be written: {error.strerror}') from None


def _parse(argv, FLAGS):
    check_utf8(argv)
    try:
        # Some editors begin a --flagfile with a mark.
        arguments = [item.removeprefix('\ufeff') for item in FLAGS.read_flags_from_files(argv[1:], force_gnu=False)]
    except flags.Error as error:
        raise UsageError(str(error)) from None
    try:
        rest = FLAGS([*argv[:1], *arguments])[1:]
        if not rest:
            return
        mistake = f'{rest[0]}: every argument is a flag, --name=value; see --help'
    except (flags.Error, ValueError) as error:
        mistake = str(error)
    # Not those of several flags together, which depend on what was meant.
    check_all([lambda: guidance.parse_each(arguments, FLAGS), lambda: check_values(FLAGS), lambda: check_names(FLAGS)])
    raise UsageError(mistake)
