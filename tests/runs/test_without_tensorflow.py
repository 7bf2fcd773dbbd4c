"""Help, and mistakes on the command line, are answered without TensorFlow, which takes seconds to import; what that costs."""

import os
import subprocess
import sys

import pytest

from tests.shared import ROOT


@pytest.fixture
def run(tmp_path):
    """Runs a command in a process that cannot import TensorFlow: run(script, *flags) -> CompletedProcess."""
    (tmp_path / 'tensorflow.py').write_text('raise AssertionError("TensorFlow is imported")')

    def call(script, *flags):
        environment = {**os.environ, 'PYTHONPATH': str(tmp_path)}
        command = [sys.executable, script, *flags]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    return call


@pytest.mark.parametrize('script', ['trainer.py', 'sweep.py'])
@pytest.mark.parametrize('flag, text', [('--help', '--train_steps'), ('--list', '  alexnet          A small AlexNet')])
def test_help(run, script, flag, text):
    process = run(script, flag)
    assert (process.returncode, process.stderr) == (0, '') and text in process.stdout


def test_help_for_modules(run):
    process = run('trainer.py', '--model=polynomial', '--dataset=tfrecord', '--help')
    assert (process.returncode, process.stderr) == (0, '')
    assert process.stdout.startswith('--model=polynomial\n\nFits y = w_0 x^2') and '  tokens=words  ' in process.stdout


@pytest.mark.parametrize(
    'flags, message',
    [
        (['--nope'], "Unknown command line flag 'nope'"),
        (['--train_steps=0'], 'flag --train_steps=0: 0 is not an integer in the range [1, '),
        (['--model=alexnex'], '--model=alexnex: no module models.alexnex; the models are: alexnet, '),
        (['--dataset=nope'], '--dataset=nope: no module datasets.nope; the datasets are: addition, '),
        (['--hparams_set=nope'], '--hparams_set=nope: no file '),
        (['--hparams=learning_rate'], "--hparams: 'learning_rate' is not of the form name=value"),
        (['--hparams=drop_rat=0.1'], '--hparams: unknown hyper-parameter drop_rat, did you mean drop_rate?'),
        (['--model=resnet', '--dataset=text', '--hparams=depth=deep'], '--hparams: depth=deep must be an integer'),
        (['--hparams=batch_size=0'], '--hparams: batch_size=0 must be at least 1'),
        (['--local_cluster=boss:1'], '--local_cluster=boss:1 must list jobs'),
        (['--profile_steps=5'], '--profile_steps=5 is not of the form FIRST:END'),
        (['--schedule=train', '--input=x.png'], '--input requires --schedule=predict, not train'),
    ],
)
def test_mistakes(run, flags, message):
    process = run('trainer.py', *flags)
    assert process.returncode == 2 and process.stderr.startswith(f'trainer.py: {message}'), process.stderr


def test_the_garbage_collector_leaves_out_what_a_command_imports():
    code = """
import gc
from common.runs import command

command._import_tensorflow()
assert gc.isenabled() and gc.get_freeze_count() > 100000
gc.disable()
gc.unfreeze()
command._import_tensorflow()
assert not gc.isenabled() and gc.get_freeze_count() == 0
"""
    subprocess.run([sys.executable, '-c', code], cwd=ROOT, check=True)


def test_a_mistake_of_a_sweep(run):
    process = run('sweep.py', '--model=polynomial')
    assert process.returncode == 2 and process.stderr.startswith('sweep.py: --space is missing')
