"""Towers and --precision: what may differ from a training without, and what may not."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.shared import POLYNOMIAL, SMALL, losses, read_weights

pytestmark = pytest.mark.slow


def test_towers_train_and_evaluate_as_none(run, tmp_path):
    flags = (*SMALL[:1], '--train_steps=5', '--save_summary_steps=1', '--eval_steps=3')
    _, expected, log = run(*flags, output_dir=tmp_path / '1')
    expected_losses, expected_weights = losses(log), read_weights(tmp_path / '1')
    assert len(expected_losses) == 5
    for towers in (2, 4):
        code, result, log = run(*flags, f'--num_towers={towers}', output_dir=tmp_path / str(towers))
        assert code == 0
        np.testing.assert_allclose(list(losses(log).values()), list(expected_losses.values()), rtol=1e-5)
        assert result['eval']['loss'] == pytest.approx(expected['eval']['loss'], rel=1e-4)
        found = read_weights(tmp_path / str(towers))
        assert set(found) == set(expected_weights)
        for name, value in found.items():
            np.testing.assert_allclose(value, expected_weights[name], atol=1e-4, err_msg=name)


@pytest.mark.skipif('avx512f' not in open('/proc/cpuinfo').read(), reason='this CPU does not compute with bfloat16')
def test_bfloat16_trains_nearly_as_float32_does_and_may_resume_with_its_checkpoints(run, tmp_path):
    flags = (*SMALL[:1], '--train_steps=5', '--save_summary_steps=1', '--eval_steps=3')
    _, expected, log = run(*flags, output_dir=tmp_path / 'float32')
    expected_losses = list(losses(log).values())
    for towers in (1, 2):
        output_dir = tmp_path / str(towers)
        _, result, log = run(*flags, '--precision=bfloat16', f'--num_towers={towers}', output_dir=output_dir)
        np.testing.assert_allclose(list(losses(log).values()), expected_losses, rtol=0.02)
        assert list(losses(log).values()) != expected_losses
        assert result['eval']['loss'] == pytest.approx(expected['eval']['loss'], rel=0.02)
        assert all(value.dtype in (np.float32, np.int64) for value in read_weights(output_dir).values())
    flags = (SMALL[0], '--eval_steps=3', '--train_steps=40')
    code, result, _ = run(*flags, output_dir=output_dir)
    assert code == 0
    _, rounded, _ = run(*flags, '--precision=bfloat16', '--schedule=evaluate', output_dir=output_dir)
    assert rounded['eval']['loss'] == pytest.approx(result['eval']['loss'], rel=0.01)
    assert rounded['eval']['loss'] != result['eval']['loss']


def test_a_training_may_leave_float16_but_not_begin_it_midway(run, tmp_path, monkeypatch):
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind=None: ['GPU:0'])
    for precision in ('float32', 'float16'):
        assert (
            run(
                *POLYNOMIAL, '--schedule=train', '--train_steps=3', f'--precision={precision}', output_dir=tmp_path / precision
            )[0]
            == 0
        )
    checkpoint = tmp_path / 'float32' / 'model.ckpt-3'
    before = (tmp_path / 'float32' / 'model.ckpt-3.index').read_bytes()
    for schedule in ('train', 'train_and_evaluate'):
        code, _, err = run(
            *POLYNOMIAL, f'--schedule={schedule}', '--train_steps=6', '--precision=float16', output_dir=tmp_path / 'float32'
        )
        assert code == 1
        assert err.splitlines()[-1] == (
            f'trainer.py: {checkpoint}: was not trained with --precision=float16, and has no loss scale: use the '
            f'--precision it was trained with, or start from it in another --output_dir, with '
            f'--warm_start_from={checkpoint}'
        )
    assert (tmp_path / 'float32' / 'model.ckpt-3.index').read_bytes() == before
    assert run(*POLYNOMIAL, '--train_steps=6', output_dir=tmp_path / 'float16')[1]['global_step'] == 6
    assert run(*POLYNOMIAL, '--train_steps=4', '--precision=float16', f'--warm_start_from={checkpoint}')[1]['global_step'] == 4
