"""How much CPU the trainer takes to answer what needs no training.

python -m benchmarks.command_line
"""

import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks import processes

ROUNDS = 5
COMMANDS = {
    '`--help`': ['--help'],
    '`--list`': ['--list'],
    'an unknown flag': ['--nope'],
    'an unknown model': ['--model=nope'],
    'an unknown file of hyper-parameters': ['--hparams_set=nope'],
    '`--model=alexnet --help`': ['--model=alexnet', '--help'],
    'an unknown hyper-parameter': ['--hparams=nope=1'],
}


def cpu_seconds(command: list[str]) -> float:
    """Returns the CPU time of a command and its children."""
    before = processes.cpu_of_children()
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(command, cwd=directory, env={**os.environ, 'PYTHONPATH': processes.ROOT}, capture_output=True)
    return processes.cpu_of_children() - before


def main() -> None:
    commands = {name: [sys.executable, os.path.join(processes.ROOT, 'trainer.py'), *flags] for name, flags in COMMANDS.items()}
    commands['for comparison: `import tensorflow`'] = [sys.executable, '-c', 'import tensorflow']
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            times[name].append(cpu_seconds(command))
    print('| command | CPU, s |\n| --- | --- |')
    for name, own in times.items():
        print(f'| {name} | {statistics.median(own):.2f} |')


if __name__ == '__main__':
    main()
