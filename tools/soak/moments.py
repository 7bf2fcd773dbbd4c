"""Disturbs a run's life at each of its named moments, and compares how it ends with an undisturbed one.

    sudo python -m tools.soak.moments
    sudo python -m tools.soak.moments --faults kill,full --moments 'first save,export'

A life converts data, trains, evaluates, predicts, exports, and searches hyper-parameters. At the moment, the process is killed,
the disk is full from then on, or the file that was last written is cut and the process killed. The commands must then end with
one line, or as if nothing had happened; repeated, all end as if nothing had happened. The disk is a tmpfs, which needs root.
"""

import argparse
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from tests.shared import ROOT, read_weights, rows
from tools.soak.bounded import end_after

RUN = ('--model=tools.soak.ledger', '--dataset=tools.soak.ledger', '--train_steps=12', '--save_checkpoints_steps=4')
COMMANDS = {
    'train': ('trainer', *RUN, '--output_dir=run'),
    'predict': ('trainer', *RUN, '--output_dir=run', '--schedule=predict'),
    'export': ('trainer', *RUN, '--output_dir=run', '--schedule=export'),
    'sweep': ('sweep', *RUN, '--output_dir=sweep', '--space=space.json', '--trials=2', '--jobs=1'),
}
SPACE = '{"learning_rate": {"low": 0.001, "high": 0.1, "log": true}}'
PACKAGE = 'estimator_trainer.common'
# {name: (command, module, function, number of its call before which the fault happens)}.
MOMENTS = {
    'locking': ('train', 'storage.run_dir', 'lock', 1),
    'start of the conversion': ('train', 'records.conversion', 'Conversion.run', 1),
    'first shard': ('train', 'records.manifest', 'describe', 1),
    'last shard': ('train', 'records.manifest', 'describe', 8),
    'manifest': ('train', 'records.manifest', 'save', 1),
    'verification': ('train', 'records.verified', 'add', 1),
    'hyper-parameters': ('train', 'runs.runner', 'overrides.save', 1),
    'flags': ('train', 'runs.saved_flags', 'save', 1),
    'dataset': ('train', 'runs.saved_dataset', 'saving', 1),
    'first save': ('train', 'training.saving', 'CheckpointSaver._save', 1),
    'second save': ('train', 'training.saving', 'CheckpointSaver._save', 2),
    'last save': ('train', 'training.saving', 'CheckpointSaver._save', 4),
    'first summaries': ('train', 'monitoring.summaries', 'TrainingSummaries._write', 1),
    'first evaluation': ('train', 'inference.evaluator', 'Evaluator.evaluate', 1),
    'second metrics': ('train', 'runs.schedules', 'add_metrics', 2),
    'copy of the best': ('train', 'storage.best_checkpoint', '_copy', 2),
    'record of the best': ('train', 'storage.best_checkpoint', 'write_json', 1),
    'results': ('train', 'storage.run_dir', 'save_results', 1),
    'predictions': ('predict', 'runs.inference_schedules', 'count_examples', 1),
    'export': ('export', 'inference.serving', 'remove_leftovers', 1),
    'second trial of a sweep': ('sweep', 'sweep.trials', 'TrialRunner.start', 2),
    'result of a trial': ('sweep', 'sweep.execution', '_finish', 1),
}
DISTURBED = """
import importlib, itertools, os, signal, sys

def fault(kind):
    open('happened', 'w').close()
    if kind == 'full':
        with open('zeros', 'wb', buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return
    if kind == 'damage':
        paths = [os.path.join(top, name) for top, _, names in os.walk('.') for name in names]
        paths = [path for path in paths if os.path.getsize(path) and path != './space.json']
        if latest := max(paths, key=os.path.getmtime, default=None):
            os.truncate(latest, os.path.getsize(latest) // 2)
    os.kill(os.getpid(), signal.SIGKILL)

def disturb(kind, module, function, count):
    import tf_estimator

    *owners, name = function.split('.')
    owner = importlib.import_module(f'PACKAGE.{module}')
    for part in owners:
        owner = getattr(owner, part)
    original, calls = getattr(owner, name), itertools.count(1)

    def call(*args, **kwargs):
        if next(calls) == int(count):
            fault(kind)
        return original(*args, **kwargs)

    setattr(owner, name, call)

program, *arguments = sys.argv[1:]
if arguments[0] != '-':
    disturb(*arguments[:4])
    arguments = arguments[3:]
from PACKAGE.commands import sweep, trainer
sys.exit({'trainer': trainer, 'sweep': sweep}[program].main([program + '.py', *arguments[1:]]))
"""


def run(directory, command, disturbance=('-',)):
    """Runs a command in a directory; returns its exit code, and stderr without the log."""
    program, *flags = COMMANDS[command]
    code = DISTURBED.replace('PACKAGE', PACKAGE)
    process = subprocess.run(
        [sys.executable, '-c', code, program, *disturbance, *flags, f'--data_dir={directory}/data'],
        cwd=directory,
        env={**os.environ, 'PYTHONPATH': ROOT, 'LEDGER': os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    return process.returncode, [
        line for line in process.stderr.splitlines() if line.startswith(('Traceback', f'{program}.py:'))
    ]


def live(directory):
    """Runs all commands, each until it succeeds, at most twice, and returns the failures of the first attempts.

    Between the attempts, deletes what the line says is to be deleted.
    """
    failures = []
    for command in COMMANDS:
        code, lines = run(directory, command)
        if code:
            failures += [f'{command}: {code}: {line}' for line in lines or ['nothing is said']]
            for path in re.findall(r'delete (\S+/\S+)', ' '.join(lines)):
                shutil.rmtree(directory / path)
            for path in re.findall(r'(\S+): is not a table of metrics: delete it', ' '.join(lines)):
                os.remove(directory / path)
            code, lines = run(directory, command)
        if code:
            raise AssertionError(f'{command} fails again: {code}: {lines}')
    return failures


def outcome(directory):
    """Returns what a life leaves: weights, metrics, predictions, the best, whether all exports are complete, trials."""
    weights = {name: value.tolist() for name, value in read_weights(directory / 'run').items()}
    evaluations = rows(directory / 'run' / 'metrics.csv')  # Those of the training have its speed.
    predictions = (directory / 'run' / 'predictions.jsonl').read_text()
    best = json.loads((directory / 'run' / 'best' / 'best.json').read_text())
    exports = all((path / 'saved_model.pb').exists() for path in (directory / 'run' / 'export').iterdir())
    # A sweep that resumes may sample other values, but trains as many trials as long.
    trials = [len(rows(path / 'metrics.csv')) for path in (directory / 'sweep').glob('trial-*')]
    values = {'evaluations': evaluations, 'predictions': predictions, 'best': best, 'exports': exports, 'trials': trials}
    return {'weights': weights, **values}


def prepared(parent, name, is_disk=False):
    """Returns a new directory, which may be a small disk of its own, with the space of the sweep."""
    directory = pathlib.Path(parent) / name
    directory.mkdir()
    if is_disk:
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=40m', 'none', directory], check=True)
    (directory / 'space.json').write_text(SPACE)
    return directory


def disturbed(parent, moment, kind):
    """Lives with a fault; returns (outcome, what the commands said)."""
    directory = prepared(parent, f'{moment} {kind}'.replace(' ', '_'), is_disk=True)
    try:
        command, *function = MOMENTS[moment]
        for before in itertools.takewhile(lambda name: name != command, COMMANDS):
            code, lines = run(directory, before)
            if code:
                raise AssertionError(lines)
        code, lines = run(directory, command, (kind, *map(str, function)))
        if not (directory / 'happened').exists():
            raise AssertionError(f'{command} does not call {function}: {code}: {lines}')
        said = [f'{command}: {code}: {line}' for line in lines]
        if code not in (0, 1, 2, -9) or any('Traceback' in line for line in lines) or len(lines) > 1:
            raise AssertionError(said)
        if kind == 'full':
            (directory / 'zeros').unlink(missing_ok=True)
        said += live(directory)
        return outcome(directory), said
    finally:
        subprocess.run(['umount', directory], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--faults', default='kill,full,damage')
    parser.add_argument('--moments', default=','.join(MOMENTS))
    options = parser.parse_args()
    end_after(120)
    same, failed = 0, []
    with tempfile.TemporaryDirectory() as parent:
        undisturbed = prepared(parent, 'undisturbed')
        if said := live(undisturbed):
            raise AssertionError(said)
        expected = outcome(undisturbed)
        for moment in options.moments.split(','):
            for kind in options.faults.split(','):
                try:
                    found, said = disturbed(parent, moment, kind)
                except AssertionError as error:
                    found, said = None, error.args
                different = found and [name for name in expected if found[name] != expected[name]]
                print(f'{moment}, {kind}: {"fails" if found is None else different or "same"} {said or ""}', flush=True)
                same += found == expected
                if found != expected:
                    failed.append([moment, kind])
    print(json.dumps({'same': same, 'failed': failed}))


if __name__ == '__main__':
    main()
