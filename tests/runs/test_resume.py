"""Trainings that resume: after a signal, from where they ended, in place of dead ones."""

import json
import re
import signal

import pytest
import tensorflow.compat.v1 as tf

from tests.shared import POLYNOMIAL, SMALL, losses, read_weights

pytestmark = pytest.mark.slow


def test_the_same_seed_repeats_a_run_and_another_does_not(run, tmp_path):
    flags = ('--hparams=filters=[4],dense_units=16,batch_size=32', '--train_steps=20', '--schedule=train')
    for name, seed in (('a', 1), ('b', 1), ('c', 2)):
        run(*flags, f'--seed={seed}', output_dir=tmp_path / name)
    a, b, c = (read_weights(tmp_path / name) for name in 'abc')
    assert all((a[name] == b[name]).all() for name in a)
    assert (a['dense/kernel'] != c['dense/kernel']).any()


@pytest.mark.parametrize('number, code', [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_resumes_as_if_nothing_had_been(start, run, tmp_path, number, code):
    # With dropout and shifts on, whose draws must come again as well.
    flags = (
        '--hparams=filters=[4],dense_units=16,batch_size=32',
        '--train_steps=300',
        '--save_summary_steps=20',
        '--schedule=train',
        '--save_checkpoints_steps=100',
    )
    process = start(*flags)
    for line in process.stderr:
        if 'step = 40 ' in line:
            process.send_signal(number)
            break
    out, err = process.communicate()
    assert process.returncode == code and out == ''
    assert 'rerun the command to resume' in err
    stopped_at = int(tf.train.load_variable(str(tmp_path / 'output'), 'global_step'))
    assert 40 < stopped_at < 300
    exit_code, result, log = run(*flags)
    assert (exit_code, result) == (0, {'global_step': 300})
    assert min(losses(log)) == stopped_at
    run(*flags, output_dir=tmp_path / 'undisturbed')
    found, expected = read_weights(tmp_path / 'output'), read_weights(tmp_path / 'undisturbed')
    assert all((found[name] == expected[name]).all() for name in expected)


def test_a_finished_run_is_evaluated_again_and_a_longer_one_resumes(run):
    flags = SMALL
    first = run(*flags, '--train_steps=10')
    again = run(*flags, '--train_steps=10')
    assert again[:2] == first[:2] == (0, first[1])
    assert run(*flags, '--train_steps=15')[1]['global_step'] == 15


@pytest.mark.parametrize('content', [None, '', 'garbage', 'model_checkpoint_path: "model.ckpt-99"'])
def test_a_lost_checkpoint_state_never_starts_again_from_nothing(run, tmp_path, content):
    assert run(*POLYNOMIAL, '--schedule=train', '--train_steps=3')[0] == 0
    state = tmp_path / 'output' / 'checkpoint'
    for schedule, step in (('evaluate', 3), ('predict', 3), ('train', 5), ('train_and_evaluate', 6)):
        state.unlink(missing_ok=True)
        if content is not None:
            state.write_text(content)
        code, result, err = run(*POLYNOMIAL, f'--schedule={schedule}', f'--train_steps={step}')
        assert code == 0 and result['global_step'] == step
        assert ('Resuming from ' in err) == schedule.startswith('train')


def test_a_run_of_an_older_framework_resumes(run, tmp_path):
    assert run(*POLYNOMIAL, '--train_steps=2')[0] == 0
    path = tmp_path / 'output' / 'hparams.json'
    saved = json.loads(path.read_text())
    del saved['ema_decay'], saved['piecewise_factors']
    path.write_text(json.dumps(saved))
    assert run(*POLYNOMIAL, '--train_steps=3')[0] == 0
    code, _, err = run(*POLYNOMIAL, '--train_steps=4', '--hparams=ema_decay=0.5')
    assert code == 2 and 'ema_decay was' in err


def test_a_second_training_is_refused_and_a_dead_ones_place_is_taken(start, run, tmp_path):
    flags = (*POLYNOMIAL, '--schedule=train', '--hparams=learning_rate_schedule=constant', '--save_checkpoints_steps=100')
    first = start(*flags, '--train_steps=1000000')
    for line in first.stderr:
        if 'step = 300 ' in line:
            break
    code, _, err = run(*flags, '--train_steps=1000000')
    assert code == 1
    assert re.search(rf'trainer.py: --output_dir=.*: process {first.pid} on .* is training there', err.splitlines()[-1])
    assert first.poll() is None
    first.kill()
    first.wait()
    reached = int(tf.train.latest_checkpoint(str(tmp_path / 'output')).rpartition('-')[2])
    code, result, _ = run(*flags, f'--train_steps={reached + 5}')
    assert (code, result) == (0, {'global_step': reached + 5})


def test_the_checkpoint_that_a_training_resumes_from_is_not_written_again(run, tmp_path):
    def files():
        return {
            path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in (tmp_path / 'output').glob('model.ckpt-5.*')
        }

    run(*POLYNOMIAL, '--schedule=train', '--train_steps=5')
    before = files()
    code, _, err = run(*POLYNOMIAL, '--schedule=train', '--train_steps=8')
    assert code == 0 and len(before) == 3 and files() == before
    assert re.findall(r'Saving checkpoints for (\d+) ', err) == ['8']
