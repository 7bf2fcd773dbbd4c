"""Parallel coordinates: which axes there are, where lines go, and what is said of them."""

import math

import numpy as np
import pytest

from estimator_trainer.common.report.compared import Run, compare
from estimator_trainer.common.report.compared_settings import draw
from estimator_trainer.common.report.parallel import is_log


def run(name, loss, **settings):
    evaluations = [] if loss is None else [(100, {'loss': loss})]
    return Run(name, name, 'finished', 100, settings, None, evaluations, [], [])


def test_a_line_goes_through_the_settings_of_its_run():
    runs = [
        run('a', 0.5, rate=0.001, kind='x', seed=1),
        run('b', 0.1, rate=0.01, kind='<b>', seed=2),
        run('c', math.nan, rate=0.1, kind='x'),
    ]
    found = draw(compare([*runs, run('gone', None, rate=0.5, kind='y')], None))
    rate, kind, loss = found.lines.axes
    assert [axis.name for axis in found.lines.axes] == ['rate', 'kind', 'loss']
    assert [(y, text) for y, text, _ in rate.ticks] == [(280, '0.001'), (157, '0.01'), (34, '0.1')]  # Logarithmic.
    assert [text for _, text, _ in kind.ticks] == ['<b>', 'x'] and [text for _, text, _ in loss.ticks] == ['0.1', '0.5']
    worst, middle, best = found.lines.lines  # The best is drawn last.
    height = {text: y for y, text, _ in kind.ticks}
    assert best.path == f'M{rate.x},157L{kind.x},{height["<b>"]:g}L{loss.x},280' and best.level == 0
    assert worst.path == f'M{rate.x},34L{kind.x},{height["x"]:g}'  # Its loss is no number.
    assert (worst.text, middle.text) == ('c: rate 0.1, kind x, loss –', 'a: rate 0.001, kind x, loss 0.5')
    assert found.text == (
        'A line for each of 3 runs, through its settings and its loss, colored by its rank. Left out: 1 without loss. '
        'The best, b, has rate 0.01, kind <b>: loss 0.1.'
    )
    assert found.effects == [] and found.effects_text.endswith('takes at least 8 different ones; there are 3.')


def test_a_run_that_failed_before_its_first_evaluation_is_the_worst():
    runs = [run(f'{i}', float(i), rate=i) for i in range(6)] + [
        run(f'{i}', None, rate=i)._replace(state='failed') for i in (6, 7, 8)
    ]
    found = draw(compare(runs, None))
    assert found.lines.lines[0].text == '6: rate 6, loss –' and 'Left out' not in found.text
    (rate,) = found.effects
    assert rate.is_clear and rate.best == '0 to 4'


def test_seeds_are_no_choices_and_long_lists_of_values_no_axes():
    runs = [run(f'{i}', i + seed, units=i, path=f'{i}', seed=seed) for i in range(13) for seed in (0, 1)]
    found = draw(compare(runs, 'loss:max'))
    assert [axis.name for axis in found.lines.axes] == ['units', 'loss'] and found.omitted == ['path']
    assert 'among 13 different choices. More than chance would explain: units (' in found.effects_text
    assert 'The 6 best have units from 10 to 12.' in found.text
    assert [one.name for one in found.effects] == ['units'] and found.effects[0].best == '7 to 12'


@pytest.mark.parametrize(
    'runs',
    [
        [run('a', 1.0, x=1), run('b', 2.0, x=2)],
        [run(name, 1.0, x=1, seed=seed) for seed, name in enumerate('abc')],
        [run(name, math.nan, x=x) for x, name in enumerate('abc')],
        [run(name, None, x=x) for x, name in enumerate('abc')],
        [run(name, 1.0 + x, x=x, dataset=name) for x, name in enumerate('abc')],
    ],
)
def test_runs_that_tell_too_little_have_no_lines(runs):
    assert draw(compare(runs, None)) is None


def test_equal_metrics_and_missing_settings_have_lines():
    found = draw(compare([run('a', 1.0, x=1), run('b', 1.0), run('c', 1.0, x='y'), run('d', 1.0, x=[2])], None))
    assert [line.path.count('L') for line in found.lines.lines] == [1, 0, 1, 1]
    assert [text for *_, text in found.lines.axes[0].ticks] == ['1', '[2]', 'y']


@pytest.mark.parametrize(
    'values, expected',
    [
        ([1e-4, 1e-3, 1e-2], True),
        ([16, 32, 64, 128], True),
        ([128, 256, 384, 512], False),
        (np.linspace(0.001, 0.5, 50), False),
        (np.logspace(-4, -2, 50), True),
        ([0, 0.1, 10], False),
        ([1, 1000], False),
    ],
)
def test_axes_are_logarithmic_where_that_spreads_their_values(values, expected):
    assert is_log(np.array(values, float)) is expected
