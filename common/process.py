"""Ends this process with an exit code."""

from collections.abc import Callable
import os
import sys
import traceback

_keeps_threads = False


def keep_threads() -> None:
    """Is called when threads of this process may wait for other processes for ever, as those of TensorFlow's servers do."""
    global _keeps_threads
    _keeps_threads = True


def exit_process(code: int) -> None:
    """Ends the process; at once if threads may still wait for other processes."""
    if _keeps_threads:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run_and_exit(main: Callable[[], int]) -> None:
    """Ends the process with the exit code that a function returns, or with which it calls sys.exit."""
    try:
        code = main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
        if error.code and not isinstance(error.code, int):  # Python's own end prints it, too.
            print(error.code, file=sys.stderr)
    except Exception:
        traceback.print_exc()
        code = 1
    exit_process(code)
