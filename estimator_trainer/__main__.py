"""The command lines: python -m estimator_trainer, also with `sweep` or `records` as the first word."""

import signal

if __name__ == '__main__':  # Until StopOnSignal takes over, Ctrl-C ends it without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from collections.abc import Callable
import functools
import importlib
import os
import sys


def find_command(arguments: list[str]) -> Callable[[], int]:
    """Returns the command of the arguments, a function that returns 0 on success, 1 on failure, 2 for wrong usage.

    Raises:
      ModuleNotFoundError: a package that the command needs is not installed.
    """
    name, rest = (arguments[0], arguments[1:]) if arguments[:1] in (['sweep'], ['records']) else ('trainer', arguments)
    module = importlib.import_module(f'estimator_trainer.common.commands.{name}')
    return functools.partial(module.main, [f'{name}.py', *rest])


if __name__ == '__main__':
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path[0] == here:  # A child process runs this file. Neighbors of it, or of the package, are not importable.
        sys.path[0] = os.path.dirname(here)
        importlib.import_module('estimator_trainer')
        del sys.path[0]
    command = find_command(sys.argv[1:])
    importlib.import_module('estimator_trainer.common.processes').run_and_exit(command)
