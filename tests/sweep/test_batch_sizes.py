"""The search for a batch size, with sizes whose speed and memory are known."""

import pytest

from estimator_trainer.common.sweep import batch_sizes
from estimator_trainer.common.sweep.batch_sizes import Trial

BASE, EACH = 100, 1  # Bytes: of a process, and of an example.


def trial(size, seconds=None):
    return Trial(size, size / min(size, 100) if seconds is None else seconds, BASE + EACH * size)  # 100 per second at most.


def search(memory=1e9, most=10**6, try_size=trial, has_time=lambda: True):
    return batch_sizes.search(try_size, memory, most, has_time)


def test_sizes_grow_until_two_in_a_row_are_no_faster():
    found = search()
    assert [each.size for each in found] == [8, 16, 32, 64, 128, 256, 512]
    assert max(found, key=lambda each: each.speed).size == 128
    assert [each.size for each in search(most=100)] == [8, 16, 32, 64]


def test_a_size_that_would_not_fit_is_not_tried_and_the_largest_is_predicted():
    tried = []

    def try_size(size):
        tried.append(size)
        return trial(size)

    found = search(memory=210, try_size=try_size)  # Of which 168 may be taken: 100 + 64, but not 100 + 128.
    assert tried == [8, 16, 32, 64] and found[-1] == Trial(128, error='not tried: it would take about 228 bytes')
    assert batch_sizes.largest(found, 210, 10**6) == 64
    assert batch_sizes.largest(search(memory=2500), 2500, 10**6) == 1024  # 100 + 1024 <= 2000 < 100 + 2048.
    assert batch_sizes.largest(search(memory=1e9, most=300), 1e9, 300) == 256


def test_a_size_that_fails_ends_the_search_and_does_not_fit():
    found = search(try_size=lambda size: trial(size) if size < 64 else Trial(size, error='failed: out of memory'))
    assert [each.size for each in found] == [8, 16, 32, 64]
    assert batch_sizes.largest(found, 1e9, 10**6) == 32


def test_no_further_size_is_tried_when_the_time_is_up():
    times = iter([True, False])
    assert [each.size for each in search(has_time=lambda: next(times))] == [8, 16]
    (alone,) = search(has_time=lambda: False)
    assert batch_sizes.largest([alone], 1e9, 10**6) == 8  # By one size, nothing is predicted.


def test_the_table_has_speed_step_and_memory_or_what_failed():
    lines = batch_sizes.to_lines([Trial(8, 0.002, 5 * 10**8), Trial(16, error='failed: x')])
    assert [line.split() for line in lines] == [
        ['batch_size', 'examples/sec', 'ms/step', 'memory'],
        ['8', '4,000', '2.0', '500', 'MB'],
        ['16', 'failed:', 'x'],
    ]
    assert batch_sizes.to_json(Trial(8, 0.002, 5)) == {'batch_size': 8, 'examples/sec': 4000.0, 'memory': 5}
    assert batch_sizes.to_json(Trial(8, error='x')) == {'batch_size': 8, 'error': 'x'}
    assert batch_sizes.predict([trial(8)], 16) == 0 and batch_sizes.predict([trial(8), trial(16)], 64) == pytest.approx(164)
