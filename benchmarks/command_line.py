"""CPU time of the trainer for commands without training, the time until training starts, and that of predicting a picture.

python -m benchmarks.command_line
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

from PIL import Image

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
TRAINER = [sys.executable, os.path.join(processes.ROOT, 'trainer.py')]
IMPORT = [sys.executable, '-c', 'import tensorflow']


def cpu_seconds(command: list[str]) -> float:
    """Returns the CPU time of a command and its children."""
    before = processes.cpu_of_children()
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(command, cwd=directory, env={**os.environ, 'PYTHONPATH': processes.ROOT}, capture_output=True)
    return processes.cpu_of_children() - before


def seconds_to_first_step(data_dir: str) -> float:
    """Returns the time from the start of a run to the log line with the loss of its first step."""
    with tempfile.TemporaryDirectory() as output_dir:
        flags = [f'--data_dir={data_dir}', f'--output_dir={output_dir}', '--schedule=train', '--train_steps=1']
        start = time.perf_counter()
        process = subprocess.Popen([*TRAINER, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        lines = []
        while not lines or 'loss = ' not in lines[-1]:
            line = process.stderr.readline()
            if not line:
                raise RuntimeError(''.join(lines))
            lines.append(line)
        seconds = time.perf_counter() - start
        process.communicate()
        return seconds


def seconds_to_predict(data_dir: str, output_dir: str) -> float:
    """Returns the time that a command takes to predict a picture with the AlexNet in an output_dir."""
    picture = os.path.join(output_dir, 'picture.png')
    if not os.path.exists(picture):
        flags = [f'--data_dir={data_dir}', f'--output_dir={output_dir}', '--schedule=train', '--train_steps=1']
        subprocess.run([*TRAINER, *flags], capture_output=True, check=True)
        Image.new('L', (28, 28)).save(picture)
    predict = [*TRAINER, '--schedule=predict', f'--output_dir={output_dir}', f'--input={picture}']
    return processes.timed(lambda: subprocess.run(predict, capture_output=True, check=True))['seconds']


def main() -> None:
    commands = {name: [*TRAINER, *flags] for name, flags in COMMANDS.items()}
    commands['for comparison: `import tensorflow`'] = IMPORT
    times: dict[str, list[float]] = {name: [] for name in commands}
    names = 'from the command to the first step', 'a command that predicts a picture', 'for comparison: `import tensorflow`'
    starts: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as data_dir, tempfile.TemporaryDirectory() as output_dir:
        seconds_to_first_step(data_dir)  # Converts the data.
        seconds_to_predict(data_dir, output_dir)  # Trains the model.
        for _ in range(ROUNDS):
            for name, command in commands.items():
                times[name].append(cpu_seconds(command))
            imported = processes.timed(lambda: subprocess.run(IMPORT, stderr=subprocess.DEVNULL, check=True))['seconds']
            found = seconds_to_first_step(data_dir), seconds_to_predict(data_dir, output_dir), imported
            for own, value in zip(starts.values(), found, strict=True):
                own.append(value)
    for title, table in (('command | CPU, s', times), ('AlexNet | s', starts)):
        print(f'| {title} |\n| --- | --- |')
        for name, own in table.items():
            print(f'| {name} | {statistics.median(own):.2f} |')
        print()


if __name__ == '__main__':
    main()
