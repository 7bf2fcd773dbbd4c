"""Help, and mistakes on the command line, are answered without TensorFlow, which takes seconds to import; what that costs."""

import gc
import subprocess
import sys

import pytest

from common.errors import RunError
from common.runs import command
from tests.shared import ROOT

CALLS = [
    ('trainer', ['--help'], '--train_steps'),
    ('trainer', ['--list'], '  alexnet          A small AlexNet'),
    ('trainer', ['--model=polynomial', '--dataset=tfrecord', '--help'], '--model=polynomial\n\nFits y = w_0 x^2'),
    ('sweep', ['--help'], '--train_steps'),
    ('sweep', ['--list'], '  alexnet          A small AlexNet'),
    ('trainer', ['--nope'], "trainer.py: Unknown command line flag 'nope'"),
    ('trainer', ['--output_dir=\udce4'], 'trainer.py: --output_dir=\\udce4: is not UTF-8\n'),
    ('trainer', ['--train_steps=0'], 'trainer.py: flag --train_steps=0: 0 is not an integer in the range [1, '),
    ('trainer', ['--model=alexnex'], 'trainer.py: --model=alexnex: no module models.alexnex; the models are: alexnet, '),
    ('trainer', ['--dataset=nope'], 'trainer.py: --dataset=nope: no module datasets.nope; the datasets are: addition, '),
    ('trainer', ['--hparams_set=nope'], 'trainer.py: --hparams_set=nope: no file '),
    ('trainer', ['--hparams=learning_rate'], "trainer.py: --hparams: 'learning_rate' is not of the form name=value"),
    (
        'trainer',
        ['--hparams=drop_rat=0.1'],
        'trainer.py: --hparams: unknown hyper-parameter drop_rat, did you mean drop_rate?',
    ),
    (
        'trainer',
        ['--model=resnet', '--dataset=text', '--hparams=depth=deep'],
        'trainer.py: --hparams: depth=deep must be an integer',
    ),
    ('trainer', ['--local_cluster=boss:1'], 'trainer.py: --local_cluster=boss:1 must list jobs'),
    ('trainer', ['--profile_steps=5'], 'trainer.py: --profile_steps=5 is not of the form FIRST:END'),
    ('trainer', ['--schedule=train', '--input=x.png'], 'trainer.py: --input requires --schedule=predict, not train'),
    ('sweep', ['--model=polynomial'], 'sweep.py: --space is missing'),
]
CODE = """
import contextlib, io, sys
import sweep, trainer

for program, argv, _ in {calls!r}:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = {{'sweep': sweep, 'trainer': trainer}}[program].main([program + '.py', *argv])
    sys.stdout.flush()
    print(f'{{code}} {{out.getvalue()}}', file=sys.stderr, end='\\0', flush=True)
assert 'tensorflow' not in sys.modules
"""


def test_help_and_mistakes_are_answered_without_tensorflow():
    process = subprocess.run([sys.executable, '-c', CODE.format(calls=CALLS)], cwd=ROOT, capture_output=True, text=True)
    *answers, end = process.stderr.split('\0')
    assert process.returncode == 0 and not end, process.stderr
    for (_, argv, text), answer in zip(CALLS, answers, strict=True):
        is_help = argv[-1] in ('--help', '--list')
        assert answer.startswith('0 ' if is_help else text) and text in answer, argv
        assert is_help or answer.count('\n') == 1 and answer.endswith('\n2 '), argv


def test_the_garbage_collector_leaves_out_what_a_command_imports(monkeypatch):
    def frozen():
        gc.unfreeze()
        command.import_tensorflow()
        return gc.get_freeze_count()

    was_frozen = gc.get_freeze_count() > 0
    try:
        assert frozen() == 0 and gc.isenabled()
        gc.disable()
        assert frozen() == 0 and not gc.isenabled()
        gc.enable()
        with monkeypatch.context() as patch:
            patch.delitem(sys.modules, 'tensorflow')
            assert frozen() > 100_000 and gc.isenabled()
            patch.setitem(sys.modules, 'tf_estimator', None)
            with pytest.raises(RunError, match='tf_estimator'):
                frozen()
            assert gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()
        if was_frozen:
            gc.freeze()
