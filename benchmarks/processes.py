"""Running what is compared in processes of their own, in turn, so that neither sees the other's memory or warm caches."""

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEERS = {'keras': ['tensorflow', 'keras'], 'torch': ['torch', 'lightning', 'numpy']}


def compare(module, names, rounds):
    """Runs `python -m module NAME` for each name, round by round.

    Args:
      module: str, a module that prints a JSON object of numbers as its last line.
      names: list of str.
      rounds: int.

    Returns:
      {name: {key: median over the rounds}}.
    """
    return median_of_rounds({name: lambda name=name: run_module(module, name) for name in names}, rounds)


def run_module(module, *arguments):
    """Returns the JSON object that `python -m module ARGUMENTS` prints as its last line."""
    return _last_line(sys.executable, '-m', module, *arguments, cwd=ROOT)


def _last_line(*command, **options):
    output = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True, check=True, **options).stdout
    return json.loads(output.splitlines()[-1])


def median_of_rounds(runs, rounds):
    """Runs what is compared, round by round.

    Args:
      runs: {name: function without arguments that returns {key: number}}.
      rounds: int.

    Returns:
      {name: {key: median over the rounds}}.
    """
    results = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            results[name].append(run())
    return {
        name: {key: statistics.median(result[key] for result in values) for key in values[0]}
        for name, values in results.items()
    }


def make_environments():
    """Makes the virtual environments of the peers in .venv-peers, where they are not there."""
    for name, packages in PEERS.items():
        directory = os.path.join(ROOT, '.venv-peers', name)
        done = os.path.join(directory, 'installed')
        if not os.path.exists(done):
            subprocess.run([sys.executable, '-m', 'venv', directory], check=True)
            subprocess.run([_python(name), '-m', 'pip', 'install', '-q', *packages], stdout=sys.stderr, check=True)
            open(done, 'w', encoding='utf-8').close()


def _python(peer):
    return os.path.join(ROOT, '.venv-peers', peer, 'bin', 'python')


def run_peer(peer, script, *arguments):
    """Returns the JSON object that a script of benchmarks/peers prints as its last line, and 'seconds', what it took."""
    start = time.perf_counter()
    result = _last_line(_python(peer), os.path.join(ROOT, 'benchmarks', 'peers', script), *arguments, stderr=subprocess.DEVNULL)
    return {**result, 'seconds': time.perf_counter() - start}


def run_trainer(*flags):
    """Runs the trainer in an output_dir of its own.

    Args:
      *flags: str.

    Returns:
      Dict: 'result', what it printed; 'log'; 'seconds', what it took; 'megabytes', its peak memory; 'steps_per_second' that
      it logged, without the first one.

    Raises:
      RuntimeError: it failed; with its log.
    """
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as output_dir, tempfile.TemporaryFile('w+') as out:
        # By wait4, as the other processes' memory is not this one's.
        process = subprocess.Popen(
            [sys.executable, os.path.join(ROOT, 'trainer.py'), f'--output_dir={output_dir}', *flags],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
        log = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        out.seek(0)
        if status:
            raise RuntimeError(log)
        result = json.load(out)
    rates = [float(rate) for rate in re.findall(r'global_step/sec: (\S+)', log)][1:]
    return {
        'result': result,
        'log': log,
        'seconds': time.perf_counter() - start,
        'megabytes': usage.ru_maxrss / 1024,
        'steps_per_second': statistics.harmonic_mean(rates) if rates else None,
    }


def peak_memory():
    """Returns the most memory that this process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == 'darwin' else 1024)
