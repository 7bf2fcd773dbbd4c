"""The points of a space: their number, order and identity, and what a grid requires."""

import math

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState
import pytest

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.sweep.sampling import check_grid, make_sampler, num_left, size

SPACE = {
    'kind': CategoricalDistribution(['b', 'a']),
    'rate': FloatDistribution(0.1, 0.3, step=0.1),
    'one': FloatDistribution(2, 2),
}


def asked(space, kind, count, seed=0):
    """Returns the parameters of trials, of which every third fails."""
    study = optuna.create_study()
    points = []
    for i in range(count):
        study.sampler = make_sampler(kind, space, seed, i)
        trial = study.ask(space)
        points.append(tuple(trial.params.values()))
        study.tell(trial, *((None, TrialState.PRUNED) if i % 3 == 2 else (1.0,)))
    return points


@pytest.mark.parametrize(
    'expected, distribution',
    [
        (3, CategoricalDistribution(['a', 'b', 'a', 'c'])),
        (5, IntDistribution(4, 8)),
        (3, IntDistribution(2, 8, step=3)),
        (8, IntDistribution(1, 8, log=True)),
        (4, FloatDistribution(0, 0.9, step=0.3)),
        (1, FloatDistribution(0.5, 0.5)),
        (math.inf, FloatDistribution(0, 1)),
    ],
)
def test_the_size_of_a_space_is_the_product_of_the_numbers_of_values(expected, distribution):
    assert size({'x': distribution}) == expected and size({'x': distribution, 'y': IntDistribution(1, 2)}) == 2 * expected


def test_a_grid_is_in_order_with_exact_fractions():
    assert asked(SPACE, 'grid', 6) == [(kind, rate, 2) for kind in 'ba' for rate in (0.1, 0.2, 0.3)]


def test_no_point_of_a_finite_space_repeats_whatever_the_sampler_draws():
    space = {'x': IntDistribution(0, 4), 'kind': CategoricalDistribution(['a', 'b']), 'z': FloatDistribution(0, 0.2, step=0.1)}
    points = asked(space, 'tpe', 30)
    assert len({(x, kind, round(z, 6)) for x, kind, z in points}) == 30 and points[:10] != sorted(points[:10])


def test_the_points_of_large_ranges_are_made_one_by_one():
    space = {'x': IntDistribution(0, 10**12), 'y': FloatDistribution(0, 1, step=1e-9)}
    assert asked(space, 'grid', 3) == [(0, 0.0), (0, 1e-9), (0, 2e-9)]


def test_an_infinite_space_is_sampled_as_by_optuna():
    seed = np.random.SeedSequence([5, 0]).generate_state(1)[0]
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=int(seed), constant_liar=True))
    space = {'x': FloatDistribution(0, 1), 'kind': CategoricalDistribution(['a', 'b'])}
    expected = [tuple(study.ask(space).params.values()) for _ in range(3)]
    study = optuna.create_study(sampler=make_sampler('tpe', space, 5, 0))
    assert [tuple(study.ask(space).params.values()) for _ in range(3)] == expected


def test_the_seed_the_number_and_the_results_before_decide_what_a_trial_draws():
    space = {'x': FloatDistribution(0, 1), 'kind': CategoricalDistribution(['a', 'b'])}
    points = asked(space, 'tpe', 14)  # From the 11th on, by the results.
    assert asked(space, 'tpe', 14) == points and len({*points}) == 14
    assert not {x for x, _ in asked(space, 'tpe', 14, seed=1)} & {x for x, _ in points}


def test_running_trials_take_points_and_dropped_ones_give_them_back():
    study = optuna.create_study(sampler=make_sampler('grid', SPACE, 0, 0))
    trial = study.ask(SPACE)
    assert num_left(study, SPACE) == 5 and study.ask(SPACE).params['rate'] == 0.2
    study.tell(trial, state=TrialState.FAIL)
    assert num_left(study, SPACE) == 5 and study.ask(SPACE).params['rate'] == 0.1


def test_a_grid_requires_steps():
    check_grid(SPACE, 'space.json')
    for distribution, problem in (
        (FloatDistribution(0, 1), 'is a range without "step": add one, or give a list of choices for --sampler=grid'),
        (IntDistribution(1, 64, log=True), 'is a logarithmic range: give a list of choices for --sampler=grid'),
    ):
        with pytest.raises(UsageError, match=f'^space.json: x {problem}$'):
            check_grid({**SPACE, 'x': distribution}, 'space.json')
