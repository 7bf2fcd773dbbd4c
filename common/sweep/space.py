"""Search spaces of hyper-parameters, as in JSON files."""

from collections.abc import Collection, Mapping
import functools
import json
from typing import Any
import warnings

from optuna import distributions

from estimator_trainer.common.errors import UsageError, check_all
from estimator_trainer.common.files import read_json
from estimator_trainer.hparams.merge import apply
from estimator_trainer.hparams.text import default_of

_KEYS = ('low', 'high', 'log', 'step')


def read_space(path: str) -> dict[str, Any]:
    """Returns the JSON object in the file of --space; raises UsageError if there is none."""
    try:
        return read_json(path)
    except ValueError as error:
        raise UsageError(f'--space: {error}') from None


def make_space(
    values: Mapping[str, Any], origin: str, params: Mapping[str, Any], fixed: Collection[str] = ()
) -> dict[str, distributions.BaseDistribution]:
    """Returns the space of values such as {"learning_rate": {"low": 1e-4, "high": 0.01, "log": true}, "units": [16, 32]}.

    A list contains choices. A number may have a range instead, with inclusive bounds: "log" makes it logarithmic, "step" sets
    increments from "low" on.

    Args:
      origin: begins the messages of errors.
      params: the hyper-parameters that the space's values replace.
      fixed: names of hyper-parameters set by flags, which must not be searched.

    Returns:
      {name: distribution}; `decode` converts sampled values to the hyper-parameters' types.

    Raises:
      UsageError: the values are not a valid space for these hyper-parameters; with the mistakes of all.
    """
    if not values:
        raise UsageError(f'{origin}: names no hyper-parameter')
    space = {}

    def add(name):
        if name in ('model', 'dataset'):
            raise UsageError(f'{origin}: {name} has its own flag, --{name}')
        if name in fixed:
            raise UsageError(f'{origin}: {name} is also set by a flag: remove one of the two')
        space[name] = _distribution(origin, params, name, values[name])

    check_all(functools.partial(add, name) for name in values)
    return space


def decode(name: str, value: Any, params: Mapping[str, Any]) -> Any:
    """Converts a sampled value to the hyper-parameter's value: lists and {name: number} are sampled as JSON."""
    is_json = isinstance(value, str) and value.startswith(('[', '{'))  # Not a word in their place.
    return json.loads(value) if is_json and isinstance(default_of(params, name), (tuple, list)) else value


def _distribution(origin, params, name, values):
    if isinstance(values, list) and values:
        for value in values:
            apply(params, origin, {name: value})
        return distributions.CategoricalDistribution([json.dumps(v) if isinstance(v, (list, dict)) else v for v in values])
    if not isinstance(values, dict) or not {'low', 'high'} <= values.keys() <= set(_KEYS):
        raise UsageError(
            f'{origin}: {name} must be a list of choices, or a range such as {{"low": 1, "high": 8}}, '
            'optionally with "log": true or "step": 1'
        )
    if type(params.get(name, 0)) not in (int, float):
        raise UsageError(f'{origin}: {name}={params[name]} is not a number: use a list of choices')
    for key in values.keys() - {'log'}:
        apply(params, origin, {name: values[key]})
    if type(values.get('log', False)) is not bool:
        raise UsageError(f'{origin}: {name}: "log" must be true or false')
    kind = distributions.IntDistribution if type(params[name]) is int else distributions.FloatDistribution
    with warnings.catch_warnings():
        warnings.simplefilter('error')  # Optuna only warns if the range is not divisible by "step".
        try:
            return kind(**values)
        except (ValueError, UserWarning) as error:
            raise UsageError(f'{origin}: {name}: {" ".join(str(error).split())}') from None
