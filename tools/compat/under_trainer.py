"""Trains public programs with the trainer, kills each with kill -9, resumes it, and compares it with an undisturbed run.

    python -m tools.compat.under_trainer [--source=https://github.com/{owner}/{name}] [--work=DIR] [MODULE...] [FLAG...]

trainer_modules.tsv has the programs, each at a commit, trainer_modules/MODULE.py the model and dataset module of each. Their
packages are installed in DIR, and small data is written into the checkouts. Prints the table of docs/porting.md: variables that
differ in any bit, and metrics that differ from those of the program's own Estimator. Exits with 1 if any do. Other flags, such
as --num_towers=2, are passed to the trainer; a program that the trainer then refuses has its line in the table.
"""

import json
import os
from pathlib import Path
import subprocess
import sys
import tempfile
import time

import numpy as np

from tests.shared import ROOT, read_weights
from tools.compat import small_data
from tools.compat.programs import argument_parser, checkout, chosen_rows, last_line

MODULES = Path(__file__).with_name('trainer_modules')
_STEPS, _SAVE_STEPS = 60, 10
_TOLERANCE = 1e-5  # Relative, of a metric: the trainer writes six digits.


def main() -> None:
    arguments, flags = argument_parser(__doc__, 'under_trainer', metavar='MODULE').parse_known_args()
    print('| program | lines | killed at step | variables that differ | metrics that differ |\n| --- | --- | --- | --- | --- |')
    is_same = True
    for row in chosen_rows(MODULES.with_suffix('.tsv'), 'module', arguments.names):
        try:
            cells = _compare(arguments.work.resolve(), arguments.source, row, flags)
            is_same &= all(cell.startswith(('0 ', 'none')) for cell in cells[-2:])
        except RuntimeError as error:
            if not flags:
                raise
            cells = ('', '', last_line(str(error)), '')
        print(f'| {row["repository"]} {row["commit"]}, {row["program"]} | {" | ".join(cells)} |', flush=True)
    sys.exit(int(not is_same))


def _compare(work, source, row, flags):
    """Returns the cells of a program: lines of its module, step of the kill, variables and metrics that differ."""
    folder = checkout(work, source, row['repository'], row['commit']) / row['folder']
    if row['data']:  # Else the repository has data.
        getattr(small_data, row['data'])(folder)
    environment = {**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '2', 'PYTHONPATH': f'{folder}:{ROOT}:{_site(work, row["packages"])}'}
    lines = sum(bool(line.strip()) for line in (MODULES / f'{row["module"]}.py').read_text().splitlines())
    with tempfile.TemporaryDirectory() as out:
        program = _Program(row, folder, environment, Path(out), flags)
        program.train('undisturbed').finish()
        step = program.train('killed').kill()
        program.train('killed').finish()
        weights, expected = read_weights(f'{out}/killed'), read_weights(f'{out}/undisturbed')
        differ = [name for name in weights.keys() | expected.keys() if not _same(weights.get(name), expected.get(name))]
        metrics = program.metrics() if row['eval_steps'] else 'none'
    return str(lines), str(step), f'{len(differ)} of {len(expected)}', metrics


def _same(one, other):
    return one is not None and other is not None and one.tobytes() == other.tobytes()


def _site(work, packages):
    """Returns the folder of packages, installed without their dependencies, which would replace TensorFlow."""
    site = work / 'site' / packages.replace(' ', '_')
    if packages and not site.exists():
        subprocess.run(
            [sys.executable, '-m', 'pip', 'install', '-q', '--no-deps', '--target', site, *packages.split()], check=True
        )
    return site


class _Program:
    """A program's module, by the trainer and by its own Estimator."""

    def __init__(self, row, folder, environment, out, flags):
        self._module = f'tools.compat.trainer_modules.{row["module"]}'
        self._eval_steps = row['eval_steps']
        self._options = dict(cwd=folder, env=environment, stdin=subprocess.DEVNULL)
        self._out, self._flags = out, flags

    def train(self, name):
        """Starts a run into the folder of this name."""
        flags = (
            f'--model={self._module}',
            f'--dataset={self._module}',
            '--schedule=train',
            f'--train_steps={_STEPS}',
            *self._flags,
        )
        output_dir = self._out / name
        command = _trainer(*flags, f'--save_checkpoints_steps={_SAVE_STEPS}', f'--output_dir={output_dir}')
        with open(self._out / 'log', 'w') as log:
            return _Training(subprocess.Popen(command, stdout=log, stderr=log, **self._options), output_dir, Path(log.name))

    def metrics(self):
        """Returns how many metrics of the last checkpoint differ between the trainer and the program's own Estimator."""
        steps = [] if self._eval_steps == 'all' else [f'--eval_steps={self._eval_steps}']
        found = self._json(_trainer('--schedule=evaluate', f'--output_dir={self._out / "killed"}', *steps))['eval']
        own = [sys.executable, '-m', 'tools.compat.own_evaluation', self._module, self._out / 'killed', self._eval_steps]
        expected = self._json(own)
        differ = [name for name in expected if not np.isclose(found[name], expected[name], rtol=_TOLERANCE, atol=0)]
        for name in differ:
            print(f'{self._module}: {name} is {found[name]}, of its own Estimator {expected[name]}', file=sys.stderr)
        return f'{len(differ)} of {len(expected)}'

    def _json(self, command):
        """Returns the JSON that a command writes in its last line."""
        result = subprocess.run(command, capture_output=True, text=True, check=False, **self._options)
        if result.returncode:
            raise RuntimeError(result.stderr[-3000:])
        return json.loads(result.stdout.splitlines()[-1])


def _trainer(*flags):
    return [sys.executable, os.path.join(ROOT, 'trainer.py'), *flags]


class _Training:
    def __init__(self, process, output_dir, log):
        self._process, self._output_dir, self._log = process, output_dir, log

    def finish(self):
        if self._process.wait():
            raise RuntimeError(self._log.read_text()[-3000:])

    def kill(self):
        """Kills it after its first checkpoints, and returns the step of the last one."""
        while not (self._output_dir / f'model.ckpt-{2 * _SAVE_STEPS}.index').exists():
            if self._process.poll() is not None:
                raise RuntimeError(self._log.read_text()[-3000:])
            time.sleep(0.02)
        self._process.kill()
        if not self._process.wait():
            raise RuntimeError('It ended before it was killed.')
        return max(int(path.stem.rpartition('-')[2]) for path in self._output_dir.glob('model.ckpt-*.index'))


if __name__ == '__main__':
    main()
