"""Running what is compared in processes of their own, in turn, so that neither sees the other's memory or warm caches."""

import json
import resource
import statistics
import subprocess
import sys


def compare(module, names, rounds):
    """Runs `python -m module NAME` for each name, round by round.

    Args:
      module: str, a module that prints a JSON object of numbers as its last line.
      names: list of str.
      rounds: int.

    Returns:
      {name: {key: median over the rounds}}.
    """
    def run(name):
        output = subprocess.run([sys.executable, '-m', module, name], stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(output.stdout.splitlines()[-1])

    return median_of_rounds({name: lambda name=name: run(name) for name in names}, rounds)


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
    return {name: {key: statistics.median(result[key] for result in values) for key in values[0]}
            for name, values in results.items()}


def peak_memory():
    """Returns the most memory that this process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == 'darwin' else 1024)
