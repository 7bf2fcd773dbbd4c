"""Search spaces: files, values, mistakes."""

import json

import optuna
import pytest

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.sweep.space import decode, make_space, read_space
from estimator_trainer.hparams import build, merge

PARAMS = build.make_hparams('m', {'filters': [16, 32], 'units': 10, 'activation': 'relu', 'rate': 0.5, 'norm': False}, 'd', {})


def space_of(tmp_path, space, fixed=()):
    path = tmp_path / 'space.json'
    path.write_text(space if isinstance(space, str) else json.dumps(space))
    return make_space(read_space(str(path)), f'--space={path}', PARAMS, fixed)


def drawn(tmp_path, space, count=200):
    """Returns a list of dicts of values sampled by Optuna, as values of hyper-parameters."""
    space = space_of(tmp_path, space)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    trials = [study.ask(space) for _ in range(count)]
    return [{name: decode(name, value, PARAMS) for name, value in trial.params.items()} for trial in trials]


def test_a_range_holds_both_ends_and_its_steps_and_is_drawn_from_evenly_on_its_scale(tmp_path):
    values = {trial['units'] for trial in drawn(tmp_path, {'units': {'low': 2, 'high': 8, 'step': 3}})}
    assert values == {2, 5, 8} and all(type(value) is int for value in values)
    for scale, bounds in ({'log': True}, [1e-4, 1e-3, 1e-2, 1e-1]), ({}, [1, 2, 3, 4]):
        found = [trial['rate'] for trial in drawn(tmp_path, {'rate': {'low': bounds[0], 'high': bounds[-1], **scale}}, 600)]
        assert bounds[0] <= min(found) and max(found) <= bounds[-1]
        for low, high in zip(bounds, bounds[1:]):
            assert 150 < sum(low <= value < high for value in found) < 250


def test_choices_come_as_the_hyperparameters_take_them(tmp_path):
    space = {'filters': [[8], [16, 32]], 'activation': ['relu', 'elu'], 'norm': [True, False]}
    space |= {'units': [3, 7], 'rate': [1, 0.5], 'class_weights': ['balanced', [1.0, 2.0]]}
    space |= {'loss_weights': [{'a': 2}, {'a': 0.5, 'b': 1}]}
    trials = drawn(tmp_path, space, 50)
    for name, choices in space.items():
        assert sorted({json.dumps(trial[name]) for trial in trials}) == sorted(json.dumps(choice) for choice in choices)
    merged = build.HParams(merge.apply(PARAMS, 'test', trials[0]))
    assert merged.filters in ((8,), (16, 32)) and type(merged.rate) is float
    assert decode('class_weights', '[1.0, 2.0]', {**PARAMS, 'class_weights': 'balanced'}) == [1, 2]
    assert decode('activation', '[1]', PARAMS) == '[1]'


@pytest.mark.parametrize(
    'message, spaces',
    [
        ('is not JSON', ['{']),
        ('names no hyper-parameter', [{}]),
        ('unknown hyper-parameter unit, did you mean units?', [{'unit': [1]}, {'unit': {'low': 1, 'high': 2}}]),
        ('units=x must be an integer', [{'units': [1, 'x']}]),
        ('units=2.5 must be an integer', [{'units': {'low': 1, 'high': 2.5}}]),
        ('units must be a list of choices, or a range such as {"low": 1, "high": 8}', [{'units': []}, {'units': 3}]),
        ('units must be a list of choices, or a range', [{'units': {'low': 3}}, {'units': {'low': 3, 'high': 4, 'lgo': True}}]),
        ('units: ', [{'units': {'low': 4, 'high': 3}}]),
        ('units: The distribution is specified by [1, 4] and step=2', [{'units': {'low': 1, 'high': 4, 'step': 2}}]),
        ('rate: ', [{'rate': {'low': 0, 'high': 1, 'log': True}}]),
        ('rate: "log" must be true or false', [{'rate': {'low': 1, 'high': 2, 'log': 1}}]),
        ('rate=inf must be a number', ['{"rate": {"low": 0, "high": Infinity}}']),
        ('norm=False is not a number: use a list of choices', [{'norm': {'low': 0, 'high': 1}}]),
        ('filters=8 must be a list such as [16, 32]', [{'filters': [8, 16]}]),
        ('model has its own flag, --model', [{'model': ['alexnet']}]),
        ('num_epochs is also set by a flag: remove one of the two', [{'num_epochs': [1.0]}]),
    ],
)
def test_mistakes_in_a_space_are_reported(tmp_path, message, spaces):
    for space in spaces:
        with pytest.raises(UsageError) as error:
            space_of(tmp_path, space, ['num_epochs'])
        assert str(error.value).startswith('--space') and 'space.json' in str(error.value) and message in str(error.value)
    with pytest.raises(UsageError) as error:
        space_of(tmp_path, {'unit': [1], 'rate': [0.1], 'model': ['alexnet'], 'units': []}, ['num_epochs'])
    assert [text.split(': ')[1].split(' ')[0] for text in error.value.args] == ['unknown', 'model', 'units']
