"""From the flags of trainer.py to a run in this process, or to the processes of a local cluster."""

import os
from typing import Any

from absl import flags

from common.cluster import local, local_tasks, tf_config
from common.options.entry import Trait
from common.runs import request
from common.runs.flags import arguments
from common.stop import StopOnSignal
from common.storage import run_dir


def launch(script: str, FLAGS: flags.FlagValues, stop: StopOnSignal) -> dict[str, Any]:
    """Runs the schedule that the flags select and returns the result.

    Args:
      script: trainer.py, which the tasks of a local cluster run.
      FLAGS: of trainer.py.
    """
    if FLAGS.local_cluster:
        return _run_local_cluster(script, FLAGS, stop)
    local.end_with_launcher(os.environ)
    return request.run(FLAGS, stop, tf_config.read(os.environ))


def _run_local_cluster(script, FLAGS, stop):
    tf_config.refuse(os.environ, '--local_cluster')
    request.load(FLAGS)  # Finds most mistakes before any task is started.
    directory = request.output_dir(FLAGS)
    run_dir.ensure_writable(directory)
    command = [script, *arguments(FLAGS, but_for=Trait.LAUNCHER)]
    return local.run(command, local_tasks.parse(FLAGS.local_cluster), directory, FLAGS.restarts, stop)
