"""Towers and --precision, compared with a run without them."""

import numpy as np
import pytest

from tests.shared import SMALL, losses, read_weights

FLAGS = (SMALL[0], '--train_steps=3', '--save_summary_steps=1', '--eval_steps=1')


@pytest.mark.skipif('avx512f' not in open('/proc/cpuinfo').read(), reason='this CPU does not compute with bfloat16')
def test_bfloat16_trains_nearly_as_float32_does_and_may_resume_with_its_checkpoints(run, tmp_path):
    path = tmp_path / 'plain'
    _, result, log = run(*FLAGS, output_dir=path)
    expected, loss = list(losses(log).values()), result['eval']['loss']
    assert len(expected) == 3
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
    code, result, log = run(*FLAGS, '--schedule=train', '--train_steps=4', '--num_towers=1', '--precision=float32')
    assert (code, result) == (0, {'global_step': 4})
    changes = 'num_towers was 2, now it is 1; precision was "bfloat16", now it is "float32"'
    assert f'WARNING This run began otherwise: {changes}. Its result differs' in log
