"""Warnings of losses that jump."""

import pytest

from estimator_trainer.common.training.loss_watch import LossWatch

LEVEL = [1.0] * 50


@pytest.mark.parametrize(
    'losses, steps',
    [
        ([*LEVEL, 10.0, *LEVEL], [51]),
        ([*LEVEL, 9.9, *LEVEL], []),
        ([*LEVEL, 20.0, 30.0, 40.0, *LEVEL, 20.0], [51, 104]),  # Once for each jump.
        ([*LEVEL, *[50.0] * 200], [51]),
        ([1.0, 100.0, 1e4], []),  # The beginning.
        ([100.0, *[0.01] * 2000, 0.2], []),  # Batches of a trained model differ.
        ([*[-1.0] * 50, 10.0], [51]),
        ([*[1.0, -0.99] * 50, 0.9, 5.0], []),  # Of a GAN: the mean of its values is almost zero.
        ([*LEVEL, *[20.0, *LEVEL] * 12], [51 + 51 * i for i in range(10)]),  # Small batches differ without end.
    ],
)
def test_each_jump_to_ten_times_the_running_mean_is_named_once(tmp_path, caplog, losses, steps):
    watch = LossWatch(str(tmp_path))
    watch.begin(0)
    for step, loss in enumerate(losses, 1):
        watch.see(step, loss)
    flags = [record.getMessage().partition('--schedule=replay --step=')[2].split()[:2] for record in caplog.records]
    assert flags == [[str(step), f'--output_dir={tmp_path}'] for step in steps]


def test_after_a_resume_the_first_loss_of_the_run_decides_what_is_small(tmp_path, caplog):
    (tmp_path / 'metrics.csv').write_text('global_step,split,mode,loss\n1,train,train,2.5\n')
    watch = LossWatch(str(tmp_path))
    watch.begin(100)
    watch.see(120, 0.01, 0.01, 50)
    watch.see(151, 0.2)
    assert not caplog.records
    watch.see(152, 0.3)
    assert caplog.text.count('--step=152 ') == 1


def test_of_a_loop_the_highest_loss_counts_against_the_mean_before(tmp_path, caplog):
    watch = LossWatch(str(tmp_path))
    watch.begin(0)
    watch.see(7, 3.0, 1.0, 50)
    watch.see(70, 10.0, 1.5, 50)
    watch.see(120, 14.0, 1.0, 50)
    watch.see(170, 16.0, 1.0, 50)
    assert [int(record.getMessage().partition('--step=')[2].split()[0]) for record in caplog.records] == [70, 170]
