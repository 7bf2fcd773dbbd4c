"""Trains a model on a dataset, evaluates it, predicts with it and exports it: python trainer.py --help"""

import signal

if __name__ == '__main__':  # Until StopOnSignal takes over, Ctrl-C ends it without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import os
import sys

from estimator_trainer.__main__ import find_command
from estimator_trainer.common.processes import run_and_exit


def start(arguments: list[str]) -> None:
    """Runs a command line of `python -m estimator_trainer` with the package of this checkout, and ends the process."""
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path[0] == here:
        del sys.path[0]  # A library or a user may have a folder `datasets`, too.
    try:
        command = find_command(arguments)
    except ModuleNotFoundError as error:
        sys.exit(f'trainer.py: {error.name} is not installed: pip install -e {here}/tf_estimator -e {here}')
    run_and_exit(command)


if __name__ == '__main__':
    start(sys.argv[1:])
