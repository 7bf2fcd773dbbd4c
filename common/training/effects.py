"""The hyper-parameters of the framework that have an effect on a training."""

from collections.abc import Collection

from estimator_trainer.common.errors import UsageError
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.defaults import DEFAULTS

_ALWAYS = {'train_steps', 'num_epochs', 'train_split', 'eval_batch_size'}
_OF_BATCHES = {'batch_size', 'shuffle_buffer', 'cache', 'group_by_length'}
_OF_IMAGES = {name for name in DEFAULTS if name.startswith('augment_')}


def check_effects(params: HParams, names_read: Collection[str], makes_step: bool, makes_batches: bool) -> None:
    """Raises UsageError if a hyper-parameter differs from its default although nothing uses it.

    Args:
      names_read: what the modules have read.
      makes_step: whether the model module makes the training step, in place of the framework.
      makes_batches: whether the dataset module makes the batches.
    """
    if makes_step:
        unused = {*DEFAULTS} - _ALWAYS - (set() if makes_batches else _OF_BATCHES | _OF_IMAGES)
    else:
        unused = _OF_BATCHES if makes_batches else set()
    defaults = HParams(DEFAULTS)
    for name in DEFAULTS:
        if name in unused and name not in names_read and params[name] != defaults[name]:
            kind, made = ('dataset', 'the batches') if name in _OF_BATCHES else ('model', 'the training step')
            raise UsageError(
                f'--{kind}={params[kind]}: {name}={params[name]} has no effect, as the module makes {made} and does not read '
                f'it: omit it, or use params.{name} there'
            )
