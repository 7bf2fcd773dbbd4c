"""The tables of docs/scaling.md that are worked out."""

import os
import re

import pytest

from tests.shared import ROOT

with open(os.path.join(ROOT, 'docs', 'scaling.md')) as page:
    TEXT = page.read()
UNITS = {'KB': 1e3, 'MB': 1e6, 'GB': 1e9}
ROWS = re.findall(r'^\| (\d+) (.B) \| (\S+) s \| (\S+) Gbit/s \| (\S+) ms \| (.*) \|$', TEXT, re.MULTILINE)


@pytest.mark.parametrize('row', ROWS, ids=' '.join)
def test_the_throughput_follows_from_the_formula(row):
    number, unit, seconds, gigabits, milliseconds, values = row
    size, compute, bandwidth = float(number) * UNITS[unit], float(seconds), float(gigabits) * 1e9 / 8
    assert float(milliseconds) == pytest.approx(2000 * size / bandwidth)
    for tasks, value in zip((2, 4, 8, 16, 64), values.split(' | '), strict=True):
        step = compute + 2 * (tasks - 1) / tasks * size / bandwidth
        assert float(value) == pytest.approx(tasks * compute / step, abs=0.051)


def test_three_sizes_of_models_and_two_networks_are_worked_out():
    assert len({row[:2] for row in ROWS}) == 3 and len({row[3] for row in ROWS}) == 2 and len(ROWS) == 6
