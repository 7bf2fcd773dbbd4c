"""--help, the defaults of flags, and what ends a process before anything is made."""

import os
import re
import signal
import sys

import pytest

from common import process
from common.runs import flags as run_flags
from common.runs.options import Options, from_flags
from tests.shared import POLYNOMIAL
import trainer


def test_help_lists_every_flag_in_groups(capsys):
    assert trainer.main(['trainer.py', '-h']) == 0
    out = capsys.readouterr().out
    for name in set(run_flags.define()) - {'h'}:
        assert re.search(rf'--(\[no\])?{name}:', out), name
    assert out.index('What to run:') < out.index('--model:') < out.index('Execution:') < out.index('--num_gpus:')


def test_help_may_be_read_in_part(start):
    helped = start('--help', is_fresh=True)
    helped.stdout.close()
    assert helped.stderr.read() == ''
    assert helped.wait() == -signal.SIGPIPE
    helped.stdout = None


@pytest.mark.parametrize('code, expected, printed', [('why', 1, 'why\n'), (3, 3, ''), (None, 1, '')])
def test_what_a_module_calls_sys_exit_with_is_printed_or_the_exit_code(capsys, monkeypatch, code, expected, printed):
    monkeypatch.setattr(process, 'exit_process', sys.exit)  # Another test may have started a server in this process.
    with pytest.raises(SystemExit) as exit:
        process.run_and_exit(lambda: sys.exit(code))
    assert (exit.value.code, capsys.readouterr().err) == (expected, printed)


def test_flags_have_the_defaults_of_the_options():
    FLAGS = run_flags.define()
    FLAGS(['trainer.py'])
    assert from_flags(FLAGS) == Options()
    others = ('model', 'dataset', 'data_dir', 'output_dir', 'seed', 'train_steps', 'num_epochs', 'verify_data', 'restarts')
    assert [FLAGS[name].value for name in others] == ['alexnet', 'mnist', 'data', None, None, None, None, False, 0]


@pytest.mark.parametrize(
    'flag, schedule',
    [
        ('output_dir', 'train'),
        ('output_dir', 'evaluate'),
        ('data_dir', 'dry_run'),
        ('warm_start_from', 'train'),
        ('hparams_set', 'train'),
        ('checkpoint', 'export'),
        ('input', 'predict'),
    ],
)
def test_a_file_system_that_tensorflow_has_not_is_named_before_anything_is_made(run, tmp_path, flag, schedule):
    path = 's3://bucket/x.json'
    code, _, err = run(*POLYNOMIAL, f'--schedule={schedule}', f'--data_dir={tmp_path}/data', f'--{flag}={path}')
    assert code == 2
    assert err == (
        f'trainer.py: --{flag}={path}: this TensorFlow has no file system s3:// (it has file://, gs://, ram://): '
        'mount it as a directory and give that path\n'
    )
    assert list(tmp_path.iterdir()) == []


def test_data_that_is_damaged_or_cannot_be_written_fails_with_its_name(run, tmp_path):
    (tmp_path / 'data' / 'mnist').mkdir(parents=True)
    (tmp_path / 'data' / 'mnist' / 'manifest.json').write_text('{}')
    for data_dir, message in (
        (f'{tmp_path}/data', f'{tmp_path}/data/mnist/manifest.json: '),
        (os.devnull, '/dev/null/mnist: '),
    ):
        code, _, err = run('--schedule=train', f'--data_dir={data_dir}')
        assert code == 1 and err.splitlines()[-1].startswith(f'trainer.py: {message}')
    assert 'cannot be written' in err
