"""Towers and --precision: what may differ from a training without, and what may not."""

import json

import numpy as np
import pytest

from estimator_trainer.common.commands import trainer
from tests.shared import SMALL, assert_equal, losses, read_weights

FLAGS = (SMALL[0], '--train_steps=3', '--save_summary_steps=1', '--eval_steps=1')


@pytest.fixture(scope='module')
def plain(tmp_path_factory, data_dir):
    """A training without towers, in float32: its output_dir, the losses of its 3 steps, and that of its evaluation."""
    path = tmp_path_factory.mktemp('plain') / 'output'
    flags = (*FLAGS, f'--data_dir={data_dir}', f'--output_dir={path}', f'--log_file={path}.log')
    assert trainer.main(['trainer.py', *flags]) == 0
    found = list(losses(path.with_suffix('.log').read_text()).values())
    assert len(found) == 3
    return path, found, json.loads((path / 'results.json').read_text())['eval']['loss']


def test_towers_train_and_evaluate_as_none(run, plain, tmp_path):
    path, expected, loss = plain
    assert run(*FLAGS, '--num_towers=2', '--hparams=batch_size=33')[0] == 2  # Another one may follow: nothing is trained yet.
    code, result, log = run(*FLAGS, '--num_towers=2')
    assert code == 0
    np.testing.assert_allclose(list(losses(log).values()), expected, rtol=1e-5)
    assert result['eval']['loss'] == pytest.approx(loss, rel=1e-4)
    assert_equal(read_weights(tmp_path / 'output'), read_weights(path), 1e-4)


@pytest.mark.skipif('avx512f' not in open('/proc/cpuinfo').read(), reason='this CPU does not compute with bfloat16')
def test_bfloat16_trains_nearly_as_float32_does_and_may_resume_with_its_checkpoints(run, plain, tmp_path):
    path, expected, loss = plain
    flags = (*FLAGS, '--precision=bfloat16', '--num_towers=2')
    _, result, log = run(*flags)
    found = list(losses(log).values())
    np.testing.assert_allclose(found, expected, rtol=0.02)
    assert found != expected
    assert result['eval']['loss'] == pytest.approx(loss, rel=0.02)
    assert all(value.dtype in (np.float32, np.int64) for value in read_weights(tmp_path / 'output').values())
    # A checkpoint of float32 is evaluated with rounded numbers, and one of bfloat16 resumed without.
    _, rounded, _ = run(*flags, '--schedule=evaluate', output_dir=path)
    assert rounded['eval']['loss'] == pytest.approx(loss, rel=0.01) and rounded['eval']['loss'] != loss
    assert run(*FLAGS, '--schedule=train', '--train_steps=4')[1] == {'global_step': 4}
