"""Completion of command lines: the candidates for a word, and what bash makes of them."""

import shutil
import subprocess
import sys

import pytest

from estimator_trainer.common.commands import completion, sweep
from estimator_trainer.common.commands.flags import define


@pytest.mark.parametrize(
    'word, expected',
    [
        ('--output', ['--output_dir=']),
        ('--xl', ['--xla']),
        ('--samp', []),  # Of sweeps.
        ('--precision=', ['--precision=float32', '--precision=bfloat16', '--precision=float16']),
        ('--precision=b', ['--precision=bfloat16']),
        ('--model=al', ['--model=alexnet']),
        ('--dataset=im', ['--dataset=image_folder', '--dataset=image_list']),
        ('--hparams_set=alexnet_mnist_', ['--hparams_set=alexnet_mnist_accurate', '--hparams_set=alexnet_mnist_quick']),
        ('--hparams=seed=1,batch', ['--hparams=seed=1,batch_size=']),
        ('--output_dir=o', []),
        ('--train_steps=1', []),
        ('--unknown=1', []),
        ('word', []),
    ],
)
def test_the_candidates_begin_with_the_word(word, expected):
    assert completion.candidates(define(), word) == expected


def test_sweeps_have_flags_of_their_own():
    assert completion.candidates(sweep.define_flags(), '--sampler=g') == ['--sampler=grid']


BASH = """
estimator-trainer() { "$PYTHON" -m estimator_trainer "$@"; }
eval "$(estimator-trainer completion bash)"
COMP_LINE=$1 COMP_POINT=${#1}
compopt() { printf '%s ' "$@"; }
_estimator_trainer estimator-trainer
printf '%s ' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(not shutil.which('bash'), reason='there is no bash')
def test_bash_completes_the_part_after_the_last_equals_sign():
    for line, expected in (
        ('estimator-trainer --output_d', '-o nospace --output_dir= '),
        ('estimator-trainer --model=alexnet --precision=b', 'bfloat16 '),
        ('estimator-trainer --hparams=seed=1,batch_s', '-o nospace 1,batch_size= '),
        ('estimator-trainer --train_steps=1', ' '),
    ):
        command = ['bash', '--norc', '-c', BASH, 'bash', line]
        found = subprocess.run(command, env={'PYTHON': sys.executable}, capture_output=True, text=True, check=True)
        assert (found.stdout, found.stderr) == (expected, '')


def test_other_shells_are_refused(capsys):
    assert completion.main(['completion', 'fish']) == 2
    assert capsys.readouterr().err == 'completion: give the shell: bash or zsh\n'
