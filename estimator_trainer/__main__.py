"""The command lines: python -m estimator_trainer, and with `sweep`, `records` or `completion` as the first word, those.

An installed package also has the commands estimator-trainer and estimator-sweep. `trials`, `batch_trials` and
`rerun_task` are for processes that the trainer starts: see the files of these names in common/commands.
"""

import signal

if __name__ == '__main__':  # Until StopOnSignal takes over, Ctrl-C ends it without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from collections.abc import Callable
import importlib
import os
import shlex
import sys

_COMMANDS = ('sweep', 'records', 'completion', 'trials', 'batch_trials', 'rerun_task')


def find_command(arguments: list[str]) -> tuple[Callable[[list[str]], int], list[str]]:
    """Returns the command of the arguments, a function that returns the exit code, and the argv that it takes.

    Raises:
      ModuleNotFoundError: a package that the command needs is not installed.
    """
    is_named = arguments[:1] in ([name] for name in _COMMANDS)
    name, rest = (arguments[0], arguments[1:]) if is_named else ('trainer', arguments)
    module = importlib.import_module(f'estimator_trainer.common.commands.{name}')
    return module.main, [f'{name}.py', *rest]


def import_own_package() -> str:
    """Imports the package of this file, not another one that is installed, and returns the directory that it is in.

    If that is a checkout, it leaves sys.path: a library, or a user in the current directory, may have a `datasets`, too.
    """
    package = os.path.dirname(os.path.abspath(__file__))
    parent = os.path.dirname(package)
    sys.path.insert(0, parent)
    checkout = importlib.import_module('estimator_trainer').CHECKOUT
    del sys.path[0]
    if sys.path[0] in (package, checkout):
        del sys.path[0]
    return parent


def run(arguments: list[str], parent: str, program: str = '') -> None:
    """Runs a command line, and ends the process.

    Args:
      parent: the directory that the package is in.
      program: its name in messages; by default, that of the script of a checkout.
    """
    try:
        main, sys.argv[:] = find_command(arguments)
    except ModuleNotFoundError as error:
        cure = f'pip install -e {shlex.quote(f"{parent}/tf_estimator")} -e {shlex.quote(parent)}'
        sys.exit(f'trainer.py: {error.name} is not installed: {cure}')
    sys.argv[0] = program or sys.argv[0]
    importlib.import_module('estimator_trainer.common.processes').run_and_exit(lambda: main(sys.argv))


def trainer() -> None:
    """The command estimator-trainer."""
    _run_script([])


def sweep() -> None:
    """The command estimator-sweep."""
    _run_script(['sweep'])


def _run_script(command):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    program = os.path.basename(sys.argv[0])
    run([*command, *sys.argv[1:]], os.path.dirname(os.path.dirname(os.path.abspath(__file__))), program)


if __name__ == '__main__':
    run(sys.argv[1:], import_own_package())
