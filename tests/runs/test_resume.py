"""Trainings that were stopped, killed or damaged resume, and end as if nothing had been."""

import os
import re
import signal
import sys

import tensorflow.compat.v1 as tf

from tests import forked
from tests.shared import POLYNOMIAL, ROOT, assert_equal, losses, read_weights

QUICK = (*POLYNOMIAL, '--schedule=train', '--hparams=num_samples=1280,learning_rate_schedule=constant')
ENDLESS = ('--train_steps=1000000', '--save_checkpoints_steps=100', '--save_summary_steps=20')
# Also with dropout and shifts, whose draws must come again.
EVERYTHING = (
    '--hparams=filters=[4],dense_units=8,batch_size=12,ema_decay=0.9,gradient_accumulation_steps=3,cache=false,'
    'shuffle_buffer=100',
    *('--num_towers=2', '--steps_per_loop=7', '--schedule=train', '--train_steps=20', '--save_checkpoints_steps=10'),
)


def listening(pid):
    """Returns the addresses on which a process listens."""
    targets = {os.readlink(link.path) for link in os.scandir(f'/proc/{pid}/fd')}
    tables = [open(f'/proc/{pid}/net/{kind}').read().splitlines()[1:] for kind in ('tcp', 'tcp6')]
    sockets = [line.split() for line in sum(tables, [])]
    return [fields[1] for fields in sockets if fields[3] == '0A' and f'socket:[{fields[9]}]' in targets]


def test_a_training_listens_nowhere_excludes_others_and_stopped_resumes_as_if_nothing_had_been(start, run, tmp_path):
    process = start(*QUICK, *ENDLESS)
    assert any('step = 20 ' in line for line in process.stderr)
    assert not os.path.exists('/proc/net/tcp') or listening(process.pid) == []
    code, _, err = run(*QUICK, *ENDLESS)
    assert code == 1
    assert re.match(rf'trainer.py: --output_dir=.*: process {process.pid} on .* is training there', err.splitlines()[-1])
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert (process.returncode, out) == (143, '') and 'rerun the command to resume' in err
    stopped_at = int(tf.train.load_variable(str(tmp_path / 'output'), 'global_step'))
    assert stopped_at > 20
    flags = (*QUICK, f'--train_steps={stopped_at + 15}')
    code, result, log = run(*flags)
    assert (code, result) == (0, {'global_step': stopped_at + 15}) and min(losses(log)) == stopped_at
    assert run(*flags, output_dir=tmp_path / 'undisturbed')[0] == 0
    assert_equal(read_weights(tmp_path / 'output'), read_weights(tmp_path / 'undisturbed'))


KILLED = """
import resource, signal, sys
import tensorflow.compat.v1 as tf
import trainer

save = tf.train.Saver.save

def save_in_part(self, session, path, global_step):
    if global_step == 10:  # The file of the weights is longer.
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    return save(self, session, path, global_step=global_step)

tf.train.Saver.save = save_in_part
sys.exit(trainer.main(sys.argv))
"""


def test_a_training_that_is_killed_inside_a_save_resumes_as_if_nothing_had_been(run, data_dir, tmp_path):
    output = tmp_path / 'output'
    command = [sys.executable, '-c', KILLED, *EVERYTHING, f'--data_dir={data_dir}', f'--output_dir={output}']
    process = forked.run(command, env={**os.environ, 'PYTHONPATH': ROOT})
    assert process.returncode == -signal.SIGXFSZ, process.stderr
    assert (output / 'model.ckpt-10_temp').exists() and not (output / 'model.ckpt-10.index').exists()
    code, result, log = run(*EVERYTHING)
    assert (code, result) == (0, {'global_step': 20}) and f'Restoring parameters from {output}/model.ckpt-0' in log
    assert run(*EVERYTHING, output_dir=tmp_path / 'undisturbed')[0] == 0
    assert_equal(read_weights(output), read_weights(tmp_path / 'undisturbed'))
