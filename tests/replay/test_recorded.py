"""Records of steps survive their file; shares become a whole; those that a killed process leaves are deleted."""

import functools
import os
import re
import tempfile
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common import processes
from estimator_trainer.common.replay import shares, workplace
from estimator_trainer.common.replay.culprits import Culprits
from estimator_trainer.common.replay.measures import measure
from estimator_trainer.common.replay.recorded import Recorded


def test_batches_of_any_type_and_the_losses_up_to_the_first_that_is_not_finite_come_back(tmp_path):
    recorded = Recorded(str(tmp_path))
    arrays = [
        np.float32([[1.5, np.nan]]),
        np.array([[b'a', b'\xff\x00']], object),
        b'scalar',
        np.zeros([0, 2], np.int64),
        np.array([True, False]),
        np.array([1.5], tf.bfloat16.as_numpy_dtype),
    ]
    recorded.save_batch(3, 1, arrays)
    found = recorded.take_batch(3, 1)
    assert [np.asarray(array).dtype.kind for array in found[2:3]] == ['O'] and found[2].item() == b'scalar'
    for array, other in zip([*arrays[:2], *arrays[3:]], [*found[:2], *found[3:]], strict=True):
        assert other.dtype == array.dtype
        np.testing.assert_array_equal(other, array)
    assert not [*tmp_path.iterdir()]
    for step, loss, is_finite in [(1, 0.1, True), (2, 1e-45, True), (3, np.nan, False), (4, 5, False)]:
        recorded.add_loss(step, np.float32(loss), is_finite)
    again = Recorded(str(tmp_path))
    assert not again.read_losses() and [*again.losses] == [1, 2, 3]
    assert again.losses[1] == np.float32(0.1) and again.losses[2] == np.float32(1e-45) and np.isnan(again.losses[3])


def test_shares_of_a_batch_are_put_in_its_order_and_padded_to_the_longest():
    batch = np.arange(14).reshape(7, 2)
    np.testing.assert_array_equal(shares._in_order([batch[task::3] for task in range(3)]), batch)
    found = shares._in_order([np.array([[b'a', b'b'], [b'c', b'd']], object), np.array([[b'e']], object)])
    assert found.tolist() == [[b'a', b'b'], [b'e', b''], [b'c', b'd']]
    assert shares._in_order([np.float32([1, 3]), np.float32([2])]).tolist() == [1, 2, 3] and shares._in_order([None]) is None


def test_culprits_of_shares_have_their_numbers_in_the_batch():
    def part(culprits, origin=None):
        return types.SimpleNamespace(culprits=culprits, origin=origin)

    first = Culprits([1, 2], np.array([0, 0, 0]), 0, True)  # Of the examples 0, 2 and 4; the other task has 1 and 3.
    found = shares._culprits([part(first, 'op'), part(None)], 5, False)
    assert (found.found, found.others.tolist(), found.good, found.are_all) == ([2, 4], [0, 1, 0, 3, 0], 0, True)
    assert not shares._culprits([part(first, 'op'), part(None, 'op')], 5, False).are_all
    assert shares._culprits([part(None, 'op'), part(None)], 5, False) is None
    found = shares._culprits([part(first, 'op'), part(None)], 5, True)  # Both tasks have looked at the whole batch.
    assert (found.found, found.others.tolist(), found.good) == ([1, 2], [0, 0, 0, 3, 4], 0)


def test_parts_of_consecutive_rows_count_by_their_sizes_and_an_empty_one_not_at_all():
    values = np.float32([1, 2, 4])
    scales = [functools.partial(shares._scaled, size, 3, True) for size in (2, 1)]
    assert shares._mean([values[:2].mean(), values[2]], scales) == pytest.approx(values.mean())
    assert shares._scaled(0, 1, True, np.float32(7)) == 0
    assert shares._arrays_in_rows([{'y': values[:1]}, {'y': values[:1]}], [1, 0])['y'].tolist() == [1]


def test_the_measure_of_parts_is_that_of_the_whole():
    values = np.float64([0, 1, -5, np.nan, 0, np.inf, 2])
    assert shares._whole([measure(values[:3]), measure(values[3:])]) == pytest.approx(measure(values))


def test_the_mean_of_losses_has_the_order_in_which_the_tasks_have_added_them():
    losses, scales = [np.float32(value) for value in (1, 1e-8, -1)], [lambda value: value] * 3
    assert shares._mean_loss(losses, scales, np.float32(1e-8)) == np.float32(1e-8)  # -1 + 1 + 1e-8.
    assert shares._mean_loss(losses, scales, np.float32(5)) == 0  # 1 + 1e-8 - 1.


def test_what_a_killed_process_leaves_is_deleted_by_the_next_one_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
    with workplace.temporary('/a run') as own, workplace.temporary('/another') as other:
        prefix = re.match('.*estimator_trainer-[0-9a-f]{16}(?=-)', own)[0]
        assert not other.startswith(prefix)
        ended, odd = f'{prefix}-{os.getpid()}-1-x', f'{prefix}-odd'
        of_ended_process = f'{prefix}-{2**31 - 1}-{processes.start_of(os.getpid())}-x'
        for path in (ended, of_ended_process, odd):
            os.mkdir(path)
        with workplace.temporary('/a run'):
            assert os.path.isdir(own) and os.path.isdir(other) and os.path.isdir(odd)
            assert not os.path.exists(ended) and not os.path.exists(of_ended_process)
    assert os.listdir(tmp_path) == [os.path.basename(odd)]
