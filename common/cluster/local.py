"""A cluster on this machine: one process per task; if one fails, all are restarted."""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
import contextlib
import functools
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import tensorflow.compat.v1 as tf
import tqdm

from estimator_trainer.common import json_text, processes
from estimator_trainer.common.cluster.local_process import LocalProcess, Recovery
from estimator_trainer.common.cluster.task import RESTART
from estimator_trainer.common.cluster.tf_config import EVALUATOR, JOBS, PS, ClusterConfig
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.stop import StopOnSignal

_POLL_SECONDS = 0.2
_TASK = 'LOCAL_CLUSTER_TASK'  # Environment variable of a task: its cluster. Its stdin closes when its launcher ends.


def run(
    command: Sequence[str],
    counts: Mapping[str, int],
    output_dir: str,
    restarts: int,
    stop: StopOnSignal,
    min_tasks: int = 0,
    terminate_seconds: float = 10,
    kill_seconds: float = 60,
) -> dict[str, Any]:
    """Trains, logs the chief's warnings, and returns its result. Each task appends its output to its log in output_dir/cluster.

    Args:
      command: the trainer's script and the flags of all tasks.
      counts: of the tasks, from `common.cluster.local_tasks.parse`.
      output_dir: a local directory, which exists.
      restarts: how often all tasks may be restarted after a failure; with min_tasks, how often a single one.
      stop: its signal is passed on to all tasks.
      min_tasks: see --min_tasks.
      terminate_seconds: after a task fails, the others end on their own within seconds, unless they wait for it to start or
          evaluate; tasks that still run after this time get SIGTERM.
      kill_seconds: tasks that still run after this time get SIGKILL.

    Raises:
      UsageError: a task rejects its flags, hyper-parameters or modules.
      RunError: a task failed and no restarts are left.
      SystemExit: the tasks were stopped by a signal, after a checkpoint.
    """
    directory = os.path.join(output_dir, 'cluster')
    os.makedirs(directory, exist_ok=True)
    tf.logging.info('The logs of all tasks are in %s.', directory)
    num_restarts = 0
    find_chief = functools.partial(_chief, output_dir=output_dir, is_elastic=min_tasks > 0)
    with stop.defer_signals(), _Status() as status:
        while True:
            note = f'restarts: {num_restarts} of {restarts}' if num_restarts else ''
            with _started(command, counts, directory, min_tasks > 0) as tasks:
                recovery = Recovery(min_tasks, restarts)
                failed = _watch(tasks, find_chief, recovery, stop, status, note, terminate_seconds, kill_seconds)
                chief = find_chief(tasks)
                printed = chief.read_output()
            if not failed:
                return _result(chief.process.returncode, printed, stop)
            reason = failed.explain().replace(f': {RESTART}', '')  # Repeated below.
            if failed.process.returncode == 2:
                raise UsageError(reason)
            if stop.received or min_tasks or num_restarts == restarts:
                raise RunError(f'{reason}; rerun the command to resume from the latest checkpoint')
            num_restarts += 1
            tf.logging.warning('%s; restarting all tasks (restart %d of %d).', reason, num_restarts, restarts)


def rehearse(command: Sequence[str], counts: Mapping[str, int], stop: StopOnSignal) -> None:
    """Makes a dry run of the chief, alone; arguments as for `run`.

    Raises:
      UsageError: it rejects its flags, hyper-parameters or modules.
      RunError: it fails.
    """
    job = next(job for job in JOBS if counts.get(job))
    with stop.defer_signals(), tempfile.TemporaryDirectory() as directory, held_addresses(counts) as addresses:
        tf_config = json.dumps({'cluster': addresses, 'task': {'type': job, 'index': 0}})
        log = os.path.join(directory, 'log.txt')
        flags = ['--schedule=dry_run', f'--output_dir={directory}/output']
        environ = {**os.environ, 'TF_CONFIG': tf_config, _TASK: _text(counts)}
        with _lifeline() as stdin:
            process = processes.start([*command, *flags], log, stdin=stdin, stdout=subprocess.DEVNULL, env=environ)
            code = stop.wait_for(process)
        if code:
            cause = processes.cause(log, code).removeprefix('trainer.py: ')
            raise processes.error_of(code)(cause)


def share_gpus(num_tasks: int, num_gpus: int, visible: str) -> list[dict[str, str]]:
    """Returns the environment variables that give each task its own GPU; empty if there are too few.

    Args:
      num_gpus: the number of GPUs visible to TensorFlow.
      visible: CUDA_VISIBLE_DEVICES, '' if it is not set.
    """
    if num_gpus < num_tasks:
        return [{}] * num_tasks
    names = visible.split(',') if visible else map(str, range(num_gpus))
    return [{'CUDA_VISIBLE_DEVICES': name} for name, _ in zip(names, range(num_tasks))]


def end_with_launcher(environ: MutableMapping[str, str]) -> str:
    """Sends this process SIGTERM when its launcher, `run`, exits.

    Returns:
      the cluster that it is a task of, as the text of --local_cluster; '' without a launcher.
    """
    cluster = environ.pop(_TASK, '')
    if not cluster:
        return ''

    def wait():
        os.read(0, 1)  # Nothing is ever written: it returns when the other end closes.
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
    return cluster


@contextlib.contextmanager
def _started(command, counts, directory, is_elastic):
    """Starts a process per task and yields them, the first chief first; kills them at the end."""
    num_gpus = len(tf.config.list_physical_devices('GPU'))
    gpus = share_gpus(sum(counts.values()), num_gpus, os.environ.get('CUDA_VISIBLE_DEVICES', ''))
    tasks: list[LocalProcess] = []
    with held_addresses(counts) as addresses, _lifeline() as stdin, contextlib.ExitStack() as files:
        configs = [ClusterConfig(addresses, job, index) for job in JOBS for index in range(counts.get(job, 0))]
        try:
            for config, gpu in zip(configs, gpus):
                tf_config = json.dumps({'cluster': addresses, 'task': {'type': config.job, 'index': config.index}})
                environ = {**os.environ, **gpu, 'TF_CONFIG': tf_config, _TASK: _text(counts)}
                may_be_chief = not tasks or is_elastic and (config.job, config.index) in config.trainers
                output = files.enter_context(tempfile.TemporaryFile()) if may_be_chief else None
                log_path = os.path.join(directory, f'{config.name.replace(" ", "-")}.log')
                start = functools.partial(processes.start, command, log_path, stdin=stdin, stdout=output, env=environ)
                tasks.append(LocalProcess(config, log_path, start, output))
            yield tasks
        finally:
            for started in tasks:
                started.process.kill()
                started.process.wait()


def _chief(tasks, output_dir, is_elastic):
    """Returns the task that does the chief's work."""
    names = [task.config.name for task in tasks]
    with contextlib.suppress(OSError, ValueError, LookupError):
        if is_elastic:
            with open(os.path.join(output_dir, 'tasks.jsonl'), encoding='utf-8') as file:
                return tasks[names.index(json_text.loads(file.readlines()[-1])['tasks'][0])]
    return tasks[0]


@contextlib.contextmanager
def _lifeline():
    """Yields the stdin of child processes: it closes when the block, or this process, ends, see `end_with_launcher`."""
    receiver, sender = os.pipe()
    try:
        yield receiver
    finally:
        os.close(receiver)
        os.close(sender)


def _text(counts):
    """Returns the text of --local_cluster."""
    return ','.join(f'{job}:{count}' for job, count in counts.items())


@contextlib.contextmanager
def held_addresses(counts: Mapping[str, int]) -> Iterator[dict[str, list[str]]]:
    """Yields free local addresses for the given number of tasks of each job. Within the block, only the tasks get their ports.

    Linux lets a server listen on a port that another socket is bound to, if that does not listen and both have SO_REUSEADDR, as
    TensorFlow's servers have. On other systems, the ports are free when the block begins.
    """
    with contextlib.ExitStack() as held:

        def hold():
            holder = held.enter_context(socket.socket())
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(('', 0))
            return f'127.0.0.1:{holder.getsockname()[1]}'

        addresses = {job: [hold() for _ in range(count)] for job, count in counts.items()}
        if sys.platform != 'linux':
            held.close()
        yield addresses


def _watch(tasks, find_chief, recovery, stop, status, note, terminate_seconds, kill_seconds):
    """Waits until all tasks have ended; returns the first that failed, or None."""
    failed, broken_since = None, math.inf
    is_passed_on = is_terminated = False  # Sent to the others: this process's signal; SIGTERM after a failure.
    failed_before_sigterm = None
    warned: set[str] = set()
    while True:
        for task in tasks:
            task.process.poll()
        chief = find_chief(tasks)
        for warning in chief.read_log():
            if warning not in warned:  # All tasks give most of them, and each may become the chief.
                warned.add(warning)
                tf.logging.warning('%s', warning)
        if not stop.received:
            recovery.recover(tasks)
        running = [task for task in tasks if task.process.poll() is None]
        failures = [task for task in tasks if task.state == 'failed']
        if failures and not failed:
            failed = failures[0]
            tf.logging.info('%s failed; in %g s, tasks that still run will be stopped.', failed.config.name, terminate_seconds)
        if broken_since == math.inf and any(task.breaks_training for task in tasks):
            broken_since = time.monotonic()
        status.show(tasks, chief.loss, note)
        if not running:
            break
        time.sleep(_POLL_SECONDS)
        seconds = time.monotonic() - broken_since
        if stop.received and not is_passed_on:
            is_passed_on = True
            name = signal.Signals(stop.received).name
            tf.logging.info('%s: stopping all tasks after saving a checkpoint; rerun the command to resume.', name)
            _send(running, stop.received)
        elif seconds > terminate_seconds and not is_passed_on and not is_terminated:
            is_terminated, failed_before_sigterm = True, failed
            _send(_unaware(running, tasks, chief, failed), signal.SIGTERM)
        elif seconds > kill_seconds and failed:
            _send(running, signal.SIGKILL)
    # After a signal before the first step, the chief ends immediately, and others may fail as a result.
    return failed_before_sigterm if (stop.received or is_terminated) and chief.state == 'stopped' else failed


def _unaware(running, tasks, chief, failed):
    """Returns the running tasks that have not stopped on their own."""
    # Without parameter servers, training tasks have stopped each other between steps, and are saving a checkpoint.
    have_stopped = not failed and chief.loss and not any(task.config.job == PS for task in tasks)
    return [task for task in running if task.config.job == EVALUATOR] if have_stopped else running


def _send(tasks, number):
    for task in tasks:
        task.process.send_signal(number)


def _result(code, printed, stop):
    """Returns the chief's printed result; exits with the chief's exit code if it failed."""
    if code:
        stop.exit_if_received()
        sys.exit(128 - code if code < 0 else code)  # Negative: killed before it handled the signal.
    result, lines = None, printed.splitlines()
    for place in reversed(range(len(lines))):
        with contextlib.suppress(ValueError):
            found = json.loads(lines[place])
            if isinstance(found, dict):
                result = found
                del lines[place]
                break
    for line in lines:  # Printed by a module, or as the process ended.
        print(line)
    if result is None:
        raise RunError('the chief ended without a result, with exit code 0')
    return result


class _Status:
    """Shows the states of the tasks: a refreshed line on a terminal, else a log line per change."""

    def __enter__(self) -> '_Status':
        self._line = tqdm.tqdm(bar_format='{desc}', leave=False, disable=None)
        self._shown = ''
        return self

    def __exit__(self, *unused_exception):
        self._line.close()

    def show(self, tasks: Sequence[LocalProcess], loss: str, note: str) -> None:
        """Shows the states, the chief's last step and loss, and a note."""
        names: dict[str, list[str]] = {}
        for task in tasks:
            names.setdefault(task.state, []).append(task.config.name)
        parts = [f'{state}: {", ".join(of_state)}' for state, of_state in names.items()]
        text = '; '.join(filter(None, [*parts, loss, note]))
        if text == self._shown:
            return
        self._shown = text
        if self._line.disable:
            tf.logging.info(text)
        else:
            self._line.set_description_str(text[: shutil.get_terminal_size().columns - 1])
