"""Effects of settings, on runs whose metric is known to depend on some of them."""

import numpy as np
import pytest

from estimator_trainer.common.report.effects import grouped, measure, text_of


def test_a_setting_with_an_optimum_explains_most_and_one_without_effect_nothing():
    random = np.random.default_rng(0)
    rate, units = 10 ** random.uniform(-4, 0, 40), random.integers(1, 9, 40)
    kind = [['sgd', 'adam'][i] for i in random.integers(0, 2, 40)]
    badness = (np.log10(rate) + 2) ** 2 + 0.3 * np.array([one == 'sgd' for one in kind]) + 0.01 * random.normal(size=40)
    badness[rate > 0.5] = np.inf  # Diverged.
    found = measure({'units': units.tolist(), 'rate': rate.tolist(), 'kind': kind}, badness)
    assert [found[0].name, found[0].is_clear] == ['rate', True] and found[0].share > 0.6 and found[0].chance < 0.001
    assert not any(one.is_clear for one in found[1:] if one.name == 'units')
    low, high = map(float, found[0].best.split(' to '))
    assert 0.003 < low < high < 0.05


def test_the_share_is_epsilon_squared_by_hand():
    # Ranks 1 to 8: the groups have the means 2.5 and 6.5; of the sum of squares, 42, they leave 10.
    (found,) = measure({'x': ['a'] * 4 + ['b'] * 4}, np.array([1.0, 2, 3, 4, 50, 60, 70, np.inf]))
    assert found.share == pytest.approx(1 - (10 / 6) / (42 / 7)) and found.best == 'a'
    assert found.chance == pytest.approx(2 / 70, abs=0.015)  # Of 70 ways to choose four, two tell them apart.


def test_chance_alone_is_seldom_clear():
    random, clear = np.random.default_rng(0), 0
    for _ in range(100):
        settings = {name: random.random(20).tolist() for name in 'abcd'} | {'e': random.choice(['x', 'y', 'z'], 20).tolist()}
        clear += any(one.is_clear for one in measure(settings, random.normal(size=20)))
    assert clear <= 12, clear  # 5 are expected, with a standard deviation of 2.2.


@pytest.mark.parametrize(
    'values, texts',
    [
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], ['1 to 5', '6 to 10']),
        ([None, 1, 2, 3, 4, 5, None, 6], ['–', '1 to 3', '4 to 6']),
        ([0.1] * 5 + [0.2] * 5, ['0.1', '0.2']),
        ([True, False, None], ['true', 'false', '–']),
        ([[1, 2], [1, 2], 'x'], ['[1, 2]', 'x']),
    ],
)
def test_the_groups_of_values(values, texts):
    groups, found = grouped(values)
    assert found == texts and {*groups.tolist()} == {*range(len(texts))}
    assert all(text_of(value) == found[group] for value, group in zip(values, groups) if 'to' not in found[group])


def test_settings_that_tell_nothing_have_no_effect():
    assert measure({'path': [f'{i}.csv' for i in range(10)], 'same': [1] * 10}, np.arange(10.0)) == []
    (constant,) = measure({'x': [1, 2] * 5}, np.ones(10))
    assert (constant.share, constant.chance, constant.is_clear) == (0, 1, False)
