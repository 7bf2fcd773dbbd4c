"""The training of a run of a local cluster, again: in a cluster of its own, as its random numbers depend on the tasks."""

from collections.abc import Iterator
import contextlib
import os
import signal
import tempfile
import time

import tensorflow.compat.v1 as tf

from estimator_trainer.common import processes
from estimator_trainer.common.commands.rerun import check_data_dir
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.replay import run_copy
from estimator_trainer.common.runs import saved_flags
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import provenance, run_dir

_POLL_SECONDS = 0.2


def is_possible(output_dir: str, tasks: int) -> bool:
    """Whether a part of a run was trained by all tasks of --local_cluster, without parameter servers, which keep no order."""
    kept = saved_flags.load(output_dir)
    is_one = bool(kept.get(saved_flags.LOCAL_CLUSTER)) and not saved_flags.has_parameter_servers(kept)
    return is_one and tasks == kept.get('num_tasks')


@contextlib.contextmanager
def rerun(script: str, output_dir: str, path: str | None, end: int, stop: StopOnSignal, data_dir: str | None) -> Iterator[str]:
    """Yields a directory in which a cluster has trained a run up to a step, and saved its checkpoint.

    Args:
      script: trainer.py.
      path: the checkpoint that it goes on from, without suffix; None for the initialization.

    Raises:
      RunError: the cluster failed, or the data is gone.
    """
    check_data_dir(output_dir, data_dir)
    with tempfile.TemporaryDirectory() as directory:
        step = run_copy.copy(output_dir, path, directory) if path else 0
        record = provenance.record_of(provenance.read(output_dir))
        run_copy.save_hparams(output_dir, directory, step, provenance.made_by(record, step))
        tf.io.gfile.copy(run_dir.flags_path(output_dir), run_dir.flags_path(directory), overwrite=True)
        log = os.path.join(directory, 'rerun.log')
        flags = [f'--output_dir={directory}', '--schedule=train', f'--save_checkpoints_steps={end}', '--keep_checkpoint_max=0']
        flags += ['--keep_checkpoint_every=0', '--loggers='] + ([f'--data_dir={data_dir}'] if data_dir else [])
        wanted = os.path.join(directory, f'model.ckpt-{end}.index')
        with stop.defer_signals():
            process = processes.start([script, *flags], log)

            def stop_in_time():
                while process.poll() is None and not stop.received and not os.path.exists(wanted):
                    time.sleep(_POLL_SECONDS)
                process.send_signal(signal.SIGTERM)

            code = stop.wait_for(process, stop_in_time)
        stop.exit_if_received()
        if not os.path.exists(wanted):
            raise RunError(
                f'--output_dir={output_dir}: training it again up to step {end} failed: {processes.cause(log, code)}'
            )
        yield directory
