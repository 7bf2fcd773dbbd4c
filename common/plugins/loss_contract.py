"""Checks of what a model module says about several losses, as specified in docs/modules.md."""

from collections.abc import Collection, Sequence
import re
import types

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, show
from estimator_trainer.common.plugins.contract import check_dict
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.text import nearest


def loss_variables(
    model: types.ModuleType, losses: Collection[str], variables: Sequence[tf.Variable], params: HParams
) -> dict[str, list[tf.Variable]]:
    """Returns the variables that each loss is for, by the regular expressions of a model module's `variables`.

    Args:
      losses: the names of the losses; '' is that of an unnamed one.
      variables: all trainable variables.

    Raises:
      UsageError: an expression matches no variable, a variable is not for exactly one loss, or entries and losses differ.
    """
    source = f'--model={params.model}: variables()'
    if '' in losses:
        raise UsageError(f'{source} needs losses with names: model() must return them as a dict')
    entries = model.variables(params)
    check_dict(source, 'its entries', entries)
    _check_names(source, entries, losses)
    found = {name: _matching(source, name, entries[name], variables) for name in losses}
    for variable in variables:
        owners = [name for name in losses if variable in found[name]]
        if len(owners) != 1:
            what = f'the losses {", ".join(owners)} are all' if owners else 'no loss is'
            raise UsageError(f'{source}: {what} for the variable {variable.op.name}: it must be that of one loss')
    return found


def _check_names(source, entries, losses):
    """Raises UsageError unless there is one entry for each loss."""
    for name in entries:
        if name not in losses:
            raise UsageError(f'{source} names a loss {name}, but model() returns {", ".join(losses)}{nearest(name, losses)}')
    for name in losses:
        if name not in entries:
            raise UsageError(f'{source} has no entry for the loss {name} of model()')


def _matching(source, name, expressions, variables):
    """Returns the variables whose names match an expression, or one of a list."""
    expressions = [expressions] if isinstance(expressions, str) else expressions
    if not isinstance(expressions, (list, tuple)) or not expressions or not all(isinstance(item, str) for item in expressions):
        raise UsageError(f'{source}: {name} must be a regular expression, or a list of such, not {show(expressions)}')
    found = set()
    for expression in expressions:
        try:
            matching = {variable.op.name for variable in variables if re.search(expression, variable.op.name)}
        except re.error as error:
            raise UsageError(f'{source}: {expression} is not a regular expression: {error}') from None
        if not matching:
            names = ', '.join(variable.op.name for variable in variables)
            raise UsageError(f'{source}: {expression}, of the loss {name}, matches none of the trainable variables: {names}')
        found |= matching
    return [variable for variable in variables if variable.op.name in found]


def loss_steps(model: types.ModuleType, losses: Collection[str], params: HParams) -> dict[str, int]:
    """Returns the steps of each loss, in the order of `losses`, of a model module's `loss_steps`; {} if it defines none.

    Raises:
      UsageError: they are not positive integers, one for each loss.
    """
    if not getattr(model, 'loss_steps', None):
        return {}
    source = f'--model={params.model}: loss_steps()'
    steps = model.loss_steps(params)
    check_dict(source, 'its entries', steps)
    _check_names(source, steps, losses)
    for name, count in steps.items():
        if type(count) is not int or count < 1:
            raise UsageError(f'{source}: {name} must be an integer of at least 1, not {show(count)}')
    return {name: steps[name] for name in losses}
