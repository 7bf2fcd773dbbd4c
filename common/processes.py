"""Python processes: starting children, explaining their failures, and ending this one."""

import atexit
from collections.abc import Callable, Mapping, Sequence
import contextlib
import gc
import io
import os
import re
import signal
import subprocess
import sys
import threading
import traceback
from typing import Any

import estimator_trainer
from estimator_trainer.common.errors import RunError, UsageError, print_error

SCRIPT = os.path.join(os.path.dirname(estimator_trainer.__file__), '__main__.py')  # The trainer, for child processes.

# Error lines of the trainer or of Python: 'trainer.py: ...', 'ValueError: ...', 'a.b.ResourceExhaustedError: ...'.
_ERROR = re.compile(r'trainer\.py: .*|[\w.]*(Error|Exception)\b.*')

SIGNALS = tuple(getattr(signal, name) for name in ('SIGINT', 'SIGTERM', 'SIGHUP') if hasattr(signal, name))  # Windows has two.
_STOPPED = [code for number in SIGNALS for code in (128 + number, -number)]  # The latter while Python starts.
_keeps_threads = _keeps_objects = False
_again: tuple[list[str], dict[str, str]] | None = None  # What starts this process again.
_runs_tensorflow: int | None = None  # The process that does.


def was_stopped(code: int) -> bool:
    """Whether an exit code is that of a run stopped by a signal."""
    return code in _STOPPED


def error_of(code: int) -> type[UsageError | RunError]:
    """Returns the type of the error that a trainer's exit code other than 0 stands for."""
    return UsageError if code == 2 else RunError


def start(
    arguments: Sequence[str], log_path: str, stdin: Any = subprocess.DEVNULL, stdout: Any = None, **options: Any
) -> subprocess.Popen:
    """Starts Python with the arguments; appends its output to its log.

    Args:
      arguments: a script and its flags.
      log_path: a local file.
      stdin: a file, as for subprocess.Popen.
      stdout: where stdout goes, if not to the log.
      **options: of subprocess.Popen.
    """
    with open(log_path, 'ab') as log:
        # In a new session, so that Ctrl-C does not reach it: its parent stops it, once, and it saves a checkpoint.
        return subprocess.Popen(
            [sys.executable, *arguments],
            stdin=stdin,
            stdout=log if stdout is None else stdout,
            stderr=log,
            start_new_session=True,
            **options,
        )


def log_end(log_path: str) -> int:
    """Returns the number of bytes in a log, which a process that starts again appends to; 0 if there is none."""
    return os.path.getsize(log_path) if os.path.exists(log_path) else 0


def explain(log_path: str, code: int, log_start: int = 0) -> str:
    """Explains a child's exit code by the part of its log after log_start bytes; names the log."""
    return f'{cause(log_path, code, log_start)} (log: {log_path})'


def cause(log_path: str, code: int, log_start: int = 0) -> str:
    """Returns what ended a child: a signal, or the last error in its log."""
    with open(log_path, 'rb') as log:
        log.seek(log_start)
        errors = [line for line in log.read().decode(errors='replace').splitlines() if _ERROR.match(line)]
    if code < 0:
        return f'was killed by {signal.Signals(-code).name}'
    return errors[-1] if errors else f'exit code {code}'


def start_of(pid: int) -> str | None:
    """Returns the time at which a process of this machine started, in ticks; '' if it is unknown, None if it has ended."""
    with contextlib.suppress(OSError):  # It has ended, or the system has no /proc.
        with open(f'/proc/{pid}/stat') as file:
            state, *fields = file.read().rpartition(')')[2].split()  # Its name may have blanks.
        return None if state in 'ZX' else fields[18]
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:  # It is another user's.
        pass
    return ''


def keep_threads() -> None:
    """Records that threads of this process, such as those of TensorFlow's servers, may wait forever for other processes."""
    global _keeps_threads
    _keeps_threads = True


def keep_objects() -> None:
    """Makes `exit_process` leave the objects of this process: freeing TensorFlow's takes time, and a fork copies them first."""
    global _keeps_objects
    _keeps_objects = True


def exit_process(code: int) -> None:
    """Ends the process; immediately if threads may still wait for other processes."""
    if _keeps_objects and not _keeps_threads:
        _end_as_python()
    if _keeps_objects or _keeps_threads:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _end_as_python():
    """Does what Python does at exit before it frees objects, and what freeing them does for files."""
    threading._shutdown()  # type: ignore[attr-defined]  # First lets the idle threads of pools end, then waits for all.
    atexit._run_exitfuncs()
    for item in gc.get_objects():
        if issubclass(type(item), io.IOBase):  # Left open by a module.
            with contextlib.suppress(Exception):
                item.flush()


def prepare_restart(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Records how `restart_process` starts this command line again.

    Args:
      arguments: to add.
      environ: the environment variables with which this process was started.
    """
    global _again
    _again = [*sys.orig_argv, *arguments], dict(environ)


def restart_process(reason: BaseException, added: Mapping[str, str]) -> None:
    """Starts this command line again in this process, from any thread; returns if `prepare_restart` was not called.

    Args:
      reason: to print.
      added: environment variables to add.
    """
    if _again:
        command, environ = _again[0], {**_again[1], **added}
        print_error(sys.argv[0], reason)
        sys.stdout.flush()
        os.execve(sys.executable, command, environ)


def check_not_forked() -> None:
    """Raises RunError in a process that was forked from one that has called this before running TensorFlow.

    The fork has none of TensorFlow's threads, for which it would wait forever.
    """
    global _runs_tensorflow
    _runs_tensorflow = _runs_tensorflow or os.getpid()
    if _runs_tensorflow != os.getpid():
        raise RunError(
            'this process was forked from one that ran TensorFlow, and would wait forever: start it by '
            "multiprocessing.get_context('spawn')"
        )


def _open_standard_streams():
    """Opens the standard streams that are closed, to discard what is written: else, the next files would get their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for number, name in enumerate(('stdin', 'stdout', 'stderr')):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, 'w' if number else 'r', encoding='utf-8', closefd=False))


def run_and_exit(main: Callable[[], int]) -> None:
    """Ends the process with the exit code that a function returns or passes to sys.exit."""
    _open_standard_streams()
    try:
        code = main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
        if error.code and not isinstance(error.code, int):  # Python prints it at exit.
            print(error.code, file=sys.stderr)
    except Exception:
        traceback.print_exc()
        code = 1
    exit_process(code)
