"""The hyper-parameters of the framework that have an effect on a run."""

from collections.abc import Collection, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.defaults import DEFAULTS, TABLE
from estimator_trainer.hparams.text import to_text

_OF_EVALUATION = 'eval_batch_size'  # Which an input_fn may read.
_ALWAYS = {'train_steps', 'num_epochs', 'min_steps', 'train_split', _OF_EVALUATION}
_OF_PREDICTION = {'decision_threshold'}
_OF_BATCHES = {'batch_size', 'shuffle_buffer', 'cache', 'group_by_length', 'oversample'}
_NEEDS = {'swa_every': 'swa_start'}  # What reads a hyper-parameter only with another.
_REPLACED_BY = {'optimizer': 'optimizer', 'learning_rate_schedule': 'learning_rate'}  # A function of the model module.


def unused(names_read: Collection[str], makes_batches: bool) -> list[str]:
    """Returns the names of the framework's hyper-parameters without effect.

    Args:
      names_read: what the modules, and the framework in a training step, have read.
      makes_batches: whether the dataset module makes the batches, in place of the framework.
    """
    used = {*_ALWAYS, *names_read, *(() if makes_batches else _OF_BATCHES)}
    return [name for name in DEFAULTS if name not in used]


def used(params: HParams, names_read: Collection[str], makes_batches: bool) -> dict[str, Any]:
    """Returns the framework's hyper-parameters that have an effect, and all others; arguments as for `unused`."""
    left = unused(names_read, makes_batches)
    return {name: value for name, value in params.items() if name not in left}


def check_effects(
    model: Any,
    params: HParams,
    names_read: Collection[str],
    makes_batches: bool,
    given: Mapping[str, str],
    has_begun: bool = False,
    unmentioned: Collection[str] = (),
) -> None:
    """Checks that hyper-parameters have an effect if they were given, or if a module takes over what they are for.

    Only warns of those of a set, which may be for other models, too. A run that has begun goes on: it warns of --hparams.

    Args:
      model: the model module; None if it makes the training step.
      names_read, makes_batches: as for `unused`.
      given: {name: where it was given}, from `build.origins`.
      has_begun: whether the run resumes.
      unmentioned: names of the modules' own that nothing has read or can read, see `unmentioned`.

    Raises:
      UsageError: some have none.
    """
    params, defaults, mistakes = HParams(params), HParams(DEFAULTS), []  # A copy, as what reads params may be recorded.
    of_training = (name for name in unused(names_read, makes_batches) if name not in _OF_PREDICTION)
    for name in (*of_training, *unmentioned):
        replaced = _replaced(name, model, params, makes_batches)
        if replaced and params[name] != defaults[name]:
            mistakes.append(replaced)
        elif name in given:
            line = f'{given[name]}: {name}={to_text(params[name])} has no effect{_reason(name, model, params)}'
            if given[name] == '--override_hparams' or given[name] == '--hparams' and not has_begun:
                mistakes.append(line)
            elif given[name] == '--hparams' or not has_begun:
                tf.logging.warning('%s', line)
    if mistakes:
        raise UsageError(*mistakes)


def warn_of_unread(
    model: Any, params: HParams, names_read: Collection[str], makes_batches: bool, given: Mapping[str, str]
) -> None:
    """Warns of given hyper-parameters for the modules that nothing has read in a run and its evaluations.

    Not of those that are for predictions.

    Args:
      makes_batches: as for `unused`.
    """
    of_framework = {*DEFAULTS} - {_OF_EVALUATION} if makes_batches else DEFAULTS
    of_inference = getattr(model, 'INFERENCE_HPARAMS', ())
    for name in given:
        if not (name in of_framework or name in of_inference or name in names_read):
            tf.logging.warning(
                '%s: %s=%s has had no effect: neither training nor evaluation has read it.',
                *(given[name], name, to_text(params[name])),
            )


def _replaced(name, model, params, makes_batches):
    """Returns what is wrong if a module makes what a hyper-parameter of the framework is for; '' if none does."""
    if name not in DEFAULTS:
        return ''
    if name in _OF_BATCHES and makes_batches:
        kind, made = 'dataset', 'the batches'
    elif model is None:
        kind, made = 'model', 'the training step'
    else:
        return ''
    return (
        f'--{kind}={params[kind]}: {name}={params[name]} has no effect, as the module makes {made} and does not read '
        f'it: omit it, or use params.{name} there'
    )


def _reason(name, model, params):
    """Returns why a hyper-parameter has no effect, and the cure."""
    if name not in TABLE:
        return f', as neither --model={params.model} nor --dataset={params.dataset} reads it: omit it'
    choice, *values = TABLE[name].only_with or (name,)
    function = _REPLACED_BY.get(choice, '')
    if getattr(model, function, None):
        return f', as --model={params.model} has its own {function}(), which does not read it: omit it'
    if values:
        return f' with {choice}={params[choice]}: omit it, or give {choice}={" or ".join(values)}'
    if name in _NEEDS:
        return f' without {_NEEDS[name]}: give that, or omit it'
    return ', as nothing reads it: omit it'
