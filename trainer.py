"""Trains a model on a dataset, evaluates it, predicts with it and exports it: python trainer.py --help"""

import signal

if __name__ == '__main__':  # Until StopOnSignal takes over, Ctrl-C ends it without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import sys
from typing import TYPE_CHECKING, Any

from absl import flags

from common.plugins.module_help import describe_framework, describe_module
from common.plugins.module_list import list_modules
from common.process import run_and_exit
from common.runs import command
from common.runs.flags import check, check_names, define

if TYPE_CHECKING:
    from common.stop import StopOnSignal


def help_text(FLAGS: flags.FlagValues, doc: str | None = __doc__) -> str:
    """Returns what --help, which begins with `doc`, or --list prints; '' without them."""
    if FLAGS.list:
        return list_modules()
    given = [kind for kind in ('model', 'dataset') if FLAGS[kind].present]
    if not FLAGS.help or not given:
        return command.flags_help(doc, FLAGS) if FLAGS.help else ''
    return '\n\n'.join([*(describe_module(kind, FLAGS[kind].value or '') for kind in given), describe_framework()])


def check_command(FLAGS: flags.FlagValues) -> None:
    """Raises UsageError if flags are empty or incompatible, or name what is not there."""
    check(FLAGS)
    check_names(FLAGS)


def run(FLAGS: flags.FlagValues, stop: 'StopOnSignal') -> dict[str, Any]:
    """Runs the schedule that the flags select and returns the result."""
    from common.runs import launch  # Imports TensorFlow.

    return launch.launch(__file__, FLAGS, stop)


def main(argv: list[str]) -> int:
    """Runs a command line and returns the exit code: 0 on success, 1 on failure, 2 for wrong usage."""
    return command.execute(argv, define(), help_text, check_command, run)


if __name__ == '__main__':
    run_and_exit(lambda: main(sys.argv))
