"""--help, and what is refused before anything is made."""

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
    assert trainer.main(['trainer.py', '--help']) == 0
    out = capsys.readouterr().out
    for name in (
        'model',
        'dataset',
        'schedule',
        'output_dir',
        'data_dir',
        'hparams',
        'hparams_set',
        'train_steps',
        'num_epochs',
        'eval_steps',
        'save_checkpoints_steps',
        'save_summary_steps',
        'keep_checkpoint_max',
        'num_gpus',
        'num_towers',
        'seed',
        'input',
        'predict_split',
        'eval_every_steps',
        'eval_splits',
        'best_metric',
        'early_stopping_patience',
        'early_stopping_min_delta',
        'checkpoint',
        'overfit_batches',
        'profile_steps',
        'warm_start_from',
        'freeze',
    ):
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
    monkeypatch.setattr(process, '_keeps_threads', False)  # Another test may have started a server in this process.
    with pytest.raises(SystemExit) as exit:
        process.run_and_exit(lambda: sys.exit(code))
    assert (exit.value.code, capsys.readouterr().err) == (expected, printed)


def test_flags_have_the_defaults_of_the_options():
    FLAGS = run_flags.define()
    FLAGS(['trainer.py'])
    assert from_flags(FLAGS) == Options()


@pytest.mark.parametrize(
    'flag, schedule',
    [
        ('output_dir', 'train'),
        ('output_dir', 'evaluate'),
        ('output_dir', 'continuous_eval'),
        ('output_dir', 'predict'),
        ('output_dir', 'export'),
        ('data_dir', 'dry_run'),
        ('data_dir', 'train_and_evaluate'),
        ('warm_start_from', 'train'),
        ('hparams_set', 'train'),
        ('checkpoint', 'evaluate'),
        ('input', 'predict'),
    ],
)
@pytest.mark.parametrize('scheme', ['s3', 'hdfs', 'http', 'foo'])
def test_a_file_system_that_tensorflow_has_not_is_named_before_anything_is_made(run, tmp_path, flag, schedule, scheme):
    path = f'{scheme}://bucket/x.json'
    code, _, err = run(*POLYNOMIAL, f'--schedule={schedule}', f'--data_dir={tmp_path}/data', f'--{flag}={path}')
    assert code == 2
    assert err == (
        f'trainer.py: --{flag}={path}: this TensorFlow has no file system {scheme}:// (it has file://, gs://, ram://): '
        'mount it as a directory and give that path\n'
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('schedule', ['evaluate', 'predict', 'export'])
def test_asking_a_directory_that_is_not_there_does_not_make_it(run, tmp_path, schedule):
    assert run(f'--schedule={schedule}')[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_wrong_usage_ends_a_process_without_a_traceback(start):
    for flag in ('--modle=x', '--hparams=batch_size=x', '--hparams=\udce4=1', '--output_dir=\udce4'):
        process = start(flag, is_fresh=flag == '--modle=x')
        out, err = process.communicate()
        assert process.returncode == 2 and out == ''
        assert len(err.splitlines()) == 1 and 'Traceback' not in err


def test_damaged_data_fails_with_the_files_name(run, data_dir, tmp_path):
    (tmp_path / 'data' / 'mnist').mkdir(parents=True)
    (tmp_path / 'data' / 'mnist' / 'manifest.json').write_text('{}')
    code, _, err = run('--schedule=train', f'--data_dir={tmp_path}/data')
    assert code == 1
    assert err.splitlines()[-1].startswith(f'trainer.py: {tmp_path}/data/mnist/manifest.json: ')
