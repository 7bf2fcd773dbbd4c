"""Samplers of the next point of the search space: by earlier results, or in order; none of a finite space twice."""

from collections.abc import Iterator, Mapping
import itertools
import math
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from estimator_trainer.common.errors import UsageError

_DRAWS = 10  # Of the sampler, before it gets the first point that is left.
_TRIED = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED)

Space = Mapping[str, BaseDistribution]


def make_sampler(kind: str, space: Space, seed: int, trial: int) -> optuna.samplers.BaseSampler:
    """Returns the sampler of a trial: 'tpe' proposes a promising point, 'grid' the next one, the last hyper-parameter first.

    Args:
      seed: of the search; the sampler's follows from it and the trial's number.
    """
    draws = 0 if kind == 'grid' else _DRAWS
    seed = int(np.random.SeedSequence([seed, trial]).generate_state(1)[0])
    if size(space) == math.inf:
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    return _WithoutRepetition(space, draws, seed)


def check_grid(space: Space, origin: str) -> None:
    """Raises UsageError if a range of the space has no steps."""
    for name, distribution in space.items():
        cure = 'give a list of choices for --sampler=grid'
        if getattr(distribution, 'log', False):
            raise UsageError(f'{origin}: {name} is a logarithmic range: {cure}')
        if _num_values(distribution) == math.inf:
            raise UsageError(f'{origin}: {name} is a range without "step": add one, or {cure}')


def size(space: Space) -> float:
    """Returns the number of points of a space; infinity if a range of floats has no step."""
    return math.prod(map(_num_values, space.values()))


def tried(study: optuna.Study) -> list[FrozenTrial]:
    """Returns the trials of a study that have begun, but for those that it has dropped."""
    return study.get_trials(deepcopy=False, states=_TRIED)


def num_left(study: optuna.Study, space: Space) -> float:
    """Returns the number of points of a space that no trial has taken."""
    return size(space) - len(_taken(study, space))


class _WithoutRepetition(optuna.samplers.TPESampler):
    """Draws points until one is new, and takes the first new one in order after a number of draws."""

    def __init__(self, space: Space, draws: int, seed: int):
        super().__init__(seed=seed, constant_liar=True)
        self._space, self._draws = dict(space), draws

    def infer_relative_search_space(self, study, trial):
        return self._space

    def sample_relative(self, study, trial, search_space):
        taken = _taken(study, self._space)
        drawn = ({name: self._draw(study, trial, name) for name in self._space} for _ in range(self._draws))
        points = itertools.chain(drawn, _in_order(self._space))
        return next((point for point in points if _key(point, self._space) not in taken), {})

    def _draw(self, study, trial, name):
        distribution = self._space[name]
        if distribution.single():
            return _values(distribution)[0]
        return self.sample_independent(study, trial, name, distribution)


def _in_order(space: Space) -> Iterator[dict[str, Any]]:
    """Yields the points of a finite space, which may be many, the last hyper-parameter first."""
    if not space:
        yield {}
        return
    *others, last = space
    for point in _in_order({name: space[name] for name in others}):
        for value in _values(space[last]):
            yield {**point, last: value}


def _taken(study, space):
    """Returns the keys of the points of all trials but those that the study has dropped."""
    return {_key(trial.params, space) for trial in tried(study) if trial.params.keys() == space.keys()}


def _key(point, space):
    """Returns what identifies a point of a finite space, whatever the rounding of its floats."""
    indices = []
    for name, distribution in space.items():
        value = distribution.to_internal_repr(point[name])
        if not _is_choice(distribution):
            value = round((value - distribution.low) / (distribution.step or 1))  # A single float needs no step.
        indices.append(int(value))
    return tuple(indices)


def _num_values(distribution):
    if distribution.single():
        return 1
    if _is_choice(distribution):
        return len(_values(distribution))
    return round((distribution.high - distribution.low) / distribution.step) + 1 if distribution.step else math.inf


def _values(distribution):
    """Returns the values of a finite distribution, in order; those of a range are made one by one."""
    if _is_choice(distribution):
        return [*dict.fromkeys(distribution.choices)]
    if distribution.single():
        return [distribution.low]
    if isinstance(distribution.low, int):
        return range(distribution.low, distribution.high + 1, distribution.step)
    # Without the noise of binary fractions: 0.3, not 0.30000000000000004.
    return (float(f'{distribution.low + i * distribution.step:.12g}') for i in range(_num_values(distribution)))


def _is_choice(distribution):
    return isinstance(distribution, CategoricalDistribution)
