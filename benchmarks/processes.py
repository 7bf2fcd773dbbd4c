"""Alternating benchmarks in separate processes, isolated from each other's memory and warm caches."""

from collections.abc import Callable, Mapping
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from estimator_trainer.common import processor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEERS = {
    'cleanlab': ['cleanlab', 'scipy'],
    'jax': ['jax', 'flax', 'optax', 'numpy'],
    'keras': ['tensorflow', 'keras'],
    'onnx': ['onnxruntime', 'tensorflow', 'tf2onnx'],
    'serving': ['fastapi', 'uvicorn[standard]', 'torch', 'onnx', 'onnxruntime', 'onnxscript', 'numpy'],
    'sklearn': ['scikit-learn', 'statsmodels'],
    'torch': ['torch', 'lightning', 'numpy', 'pillow'],
}


def run_module(module: str, *arguments: Any) -> dict[str, Any]:
    """Returns the JSON object in the last output line of `python -m module ARGUMENTS`."""
    return _last_line(sys.executable, '-m', module, *arguments, cwd=ROOT)


def cpu_of_children() -> float:
    """Returns the CPU seconds of all finished child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def timed(run: Callable[[], object]) -> dict[str, float]:
    """Returns {'seconds': the duration of a function}."""
    start = time.perf_counter()
    run()
    return {'seconds': time.perf_counter() - start}


def _last_line(*command, **options):
    output = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True, check=True, **options).stdout
    return json.loads(output.splitlines()[-1])


def median_of_rounds(runs: Mapping[str, Callable[[], dict[str, Any]]], rounds: int) -> dict[str, dict[str, Any]]:
    """Calls functions round by round, and prints each result to stderr.

    Args:
      runs: {name: function that returns {key: number}}.
      rounds: number of calls of each.

    Returns:
      {name: {key: median over the rounds}}.
    """
    results: dict[str, list] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            results[name].append(run())
            numbers = [f'{key} {value:.5g}' for key, value in results[name][-1].items() if isinstance(value, (int, float))]
            print(f'{name}: {", ".join(numbers)}', file=sys.stderr)
    return {
        name: {key: statistics.median(result[key] for result in values) for key in values[0]}
        for name, values in results.items()
    }


def make_environments(*names: str) -> None:
    """Creates virtual environments of peers, by default of all, in .venv-peers, if they do not exist."""
    for name, packages in [(name, PEERS[name]) for name in names or PEERS]:
        directory = os.path.join(ROOT, '.venv-peers', name)
        done = os.path.join(directory, 'installed')
        if not os.path.exists(done):
            subprocess.run([sys.executable, '-m', 'venv', directory], check=True)
            subprocess.run([peer_python(name), '-m', 'pip', 'install', '-q', *packages], stdout=sys.stderr, check=True)
            open(done, 'w', encoding='utf-8').close()


def peer_python(peer: str) -> str:
    """Returns the path of Python in the virtual environment of a peer."""
    return os.path.join(ROOT, '.venv-peers', peer, 'bin', 'python')


def run_peer(peer: str, script: str, *arguments: Any) -> dict[str, Any]:
    """Returns the JSON object in the last output line of a script of benchmarks/peers, with 'seconds', its duration."""
    start = time.perf_counter()
    result = _last_line(
        peer_python(peer), os.path.join(ROOT, 'benchmarks', 'peers', script), *arguments, stderr=subprocess.DEVNULL
    )
    return {**result, 'seconds': time.perf_counter() - start}


def run_trainer(*flags: str) -> dict[str, Any]:
    """Runs the trainer in a temporary output_dir.

    Returns:
      'result', its output; 'log'; 'seconds', its duration; 'megabytes', its peak memory; 'steps_per_second', the harmonic mean
      of the logged rates except the first.

    Raises:
      RuntimeError: the run failed; the message is its log.
    """
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as output_dir, tempfile.TemporaryFile('w+') as out:
        # wait4 returns the peak memory of this child process alone.
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
    return {
        'result': result,
        'log': log,
        'seconds': time.perf_counter() - start,
        'megabytes': usage.ru_maxrss / 1024,
        'steps_per_second': steps_per_second(log),
    }


def steps_per_second(log: str) -> float | None:
    """Returns the harmonic mean of the rates in a log of the trainer except the first; None without any."""
    rates = [float(rate) for rate in re.findall(r'global_step/sec: (\S+)', log)][1:]
    return statistics.harmonic_mean(rates) if rates else None


def instruction_sets() -> str:
    """Returns the processor's instruction sets for matrices, such as 'AVX2, AVX-512'."""
    names = {'avx2': 'AVX2', 'avx512f': 'AVX-512', 'avx512_bf16': 'AVX-512 BF16', 'amx_bf16': 'AMX BF16'}
    flags = processor.flags()
    if not flags:
        return 'unknown processor'
    found = [name for flag, name in names.items() if flag in flags]
    lacking = [name for flag, name in names.items() if flag not in flags]
    return ', '.join(found) + (f'; without {", ".join(lacking)}' if lacking else '')


def peak_memory() -> float:
    """Returns the peak memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == 'darwin' else 1024)
