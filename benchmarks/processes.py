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
    results = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            output = subprocess.run([sys.executable, '-m', module, name], stdout=subprocess.PIPE, text=True, check=True)
            results[name].append(json.loads(output.stdout.splitlines()[-1]))
    return {name: {key: statistics.median(result[key] for result in values) for key in values[0]}
            for name, values in results.items()}


def peak_memory():
    """Returns the most memory that this process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == 'darwin' else 1024)
