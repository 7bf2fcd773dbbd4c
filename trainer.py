"""Trains a model on a dataset, evaluates it, predicts with it and exports it: python trainer.py --help"""

import signal

if __name__ == '__main__':  # Until StopOnSignal takes over, Ctrl-C ends it without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import os
import sys
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

from absl import flags

from common.cluster import local, tf_config
from common.cluster.server import run_and_exit
from common.plugins import module_help
from common.runs import command, request
from common.runs.flags import check, define
from common.runs.stop import StopOnSignal
from common.storage import run_dir

_OF_LAUNCHER = ('local_cluster', 'restarts', 'log_file', 'verbosity')


def help_text(FLAGS: flags.FlagValues, doc: str | None = __doc__) -> str:
    """Returns what --help, which begins with `doc`, or --list prints; '' without them."""
    if FLAGS.list:
        return module_help.list_modules()
    given = [kind for kind in ('model', 'dataset') if FLAGS[kind].present]
    if not FLAGS.help or not given:
        return command.flags_help(doc, FLAGS) if FLAGS.help else ''
    return '\n\n'.join(module_help.describe_module(kind, FLAGS[kind].value or '') for kind in given)


def run(FLAGS: flags.FlagValues, stop: StopOnSignal) -> dict[str, Any]:
    """Runs the schedule that the flags select and returns the result."""
    if FLAGS.local_cluster:
        return _run_local_cluster(FLAGS, stop)
    local.end_with_launcher(os.environ)
    return request.run(FLAGS, stop, tf_config.read(os.environ))


def _run_local_cluster(FLAGS, stop):
    tf_config.refuse(os.environ, '--local_cluster')
    request.load(FLAGS)  # Finds most mistakes before any task is started.
    output_dir = request.output_dir(FLAGS)
    run_dir.ensure_writable(output_dir)
    flags_of_tasks = [FLAGS[name].serialize() for name in FLAGS if FLAGS[name].present and name not in _OF_LAUNCHER]
    return local.run([__file__, *flags_of_tasks], local.parse(FLAGS.local_cluster), output_dir, FLAGS.restarts, stop)


def main(argv: list[str]) -> int:
    """Runs a command line and returns the exit code: 0 on success, 1 on failure, 2 for wrong usage."""
    return command.execute(argv, define(), help_text, check, run)


if __name__ == '__main__':
    run_and_exit(lambda: main(sys.argv))
