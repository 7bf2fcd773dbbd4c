"""A task of the cluster that trains a part of a run again: see cluster_rerun.py, which starts it with the trainer's flags."""

import contextlib
import dataclasses
import os
import sys
import tempfile
from typing import Any

from estimator_trainer.common.commands import command, flags

# In the output_dir: the step `end` to train up to, `first` from which on to record batches, and the `directory` of these.
ASKED = 'rerun.json'


def main(argv: list[str]) -> int:
    """Runs the task."""
    sys.argv[:] = ['trainer.py', *argv[1:]]
    return command.execute(sys.argv, flags.define(), lambda FLAGS: '', lambda FLAGS: None, _run)


def _run(FLAGS, stop) -> dict[str, Any]:
    from estimator_trainer.common.cluster import local, tf_config
    from estimator_trainer.common.cluster.synchronous import SynchronousTask
    from estimator_trainer.common.commands import request
    from estimator_trainer.common.files import read_json
    from estimator_trainer.common.replay.recorded import Recorded
    from estimator_trainer.common.replay.recorder import record
    from estimator_trainer.common.runs import cluster_task, runner
    from estimator_trainer.common.runs.diagnosis import diagnose_errors

    class Part(SynchronousTask):
        """A task of which all end at the same step, although the training, and so its learning rates, would go on."""

        def hooks(self, hooks, step_hook, means, stop, periods, total_steps, steps_per_loop):
            return super().hooks(hooks, step_hook, means, stop, periods, asked['end'], steps_per_loop)

    local.end_with_launcher(os.environ)
    cluster = tf_config.read(os.environ)
    assert cluster
    directory = flags.output_dir(FLAGS)
    asked = read_json(os.path.join(directory, ASKED))
    plan = request.prepare(FLAGS, request.Objects(), stop)
    plan = dataclasses.replace(plan, options=cluster_task.options_of_task(plan, cluster))
    with contextlib.ExitStack() as cleanup:
        task = cleanup.enter_context(cluster_task.joined(cluster, plan.params, plan.options, synchronous=Part))
        plan = dataclasses.replace(plan, task=task)
        if not task.is_chief:  # The chief has the weights.
            own = cleanup.enter_context(tempfile.TemporaryDirectory(dir=directory))
            plan = dataclasses.replace(plan.with_options(warm_start_from='', output_dir=directory), output_dir=own)
        experiment = cleanup.enter_context(runner.opened(plan))
        with diagnose_errors(experiment):
            record(experiment, asked['end'], Recorded(asked['directory']) if asked['directory'] else None, asked['first'])
        task.leave()
    return {}
