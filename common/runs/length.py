"""The length of a run: examples, steps, and steps between checkpoints and evaluations."""

import fractions
import math
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.options.schedule import SCHEDULES
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.options.values import MAX_STEPS
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.length_groups import WINDOW
from estimator_trainer.common.pipeline.size import count_examples
from estimator_trainer.common.training.recalibration import NUM_BATCHES
from estimator_trainer.hparams.build import HParams

_MANY = 30  # Checkpoints of a run.
_STEPS = 1000  # Between checkpoints where epochs are undefined.


class RunLength(NamedTuple):
    """Lengths of a run.

    num_examples is that of train_split, 0 or negative if infinite or not counted; trained_examples are those of an epoch, see
    --overfit_batches; train_steps is the global step at which training ends; save_steps and eval_every_steps are the steps
    between checkpoints and evaluations.
    """

    num_examples: int
    trained_examples: int
    train_steps: int
    save_steps: int
    eval_every_steps: int


def measure(source: DataSource, options: Options) -> RunLength:
    """Returns the lengths of a run; counts examples only if the schedule needs it.

    Raises:
      UsageError: epochs are undefined for an infinite dataset, or amount to no step or too many.
      RunError: the split is empty.
    """
    params, schedule = source.params, SCHEDULES[options.schedule]
    num_examples, train_steps = 0, 1
    if source.has_input_fn():
        train_steps = 1 if schedule.is_dry_run or not (schedule.trains or schedule.follows) else _given_steps(params)
    elif schedule.trains or schedule.follows:
        is_short = schedule.is_dry_run or schedule.follows and params.train_steps
        num_examples = count_examples(source, params.train_split, 1 if is_short else needed_examples(params))
        if not schedule.is_dry_run:
            train_steps = _train_steps(params, num_examples)
    epoch_steps = math.ceil(num_examples / params.batch_size) if num_examples > 0 else _STEPS
    if num_examples and not schedule.is_dry_run and not params.train_steps and train_steps < params.min_steps:
        if schedule.trains:
            _warn_of_few(params, num_examples)
        epoch_steps = math.ceil(epoch_steps * params.min_steps / train_steps)  # As many checkpoints as without.
        train_steps = params.min_steps
    save_steps = options.save_checkpoints_steps or epoch_steps
    if schedule.trains and not options.save_checkpoints_steps and train_steps > _MANY * save_steps:
        tf.logging.warning(
            'This run saves a checkpoint every %d steps, %d in all, and may evaluate each: a larger --save_checkpoints_steps, '
            'such as %d, is faster.',
            *(save_steps, train_steps // save_steps, math.ceil(train_steps / 10)),
        )
    trained_examples = of_batches(num_examples, params, options.overfit_batches)
    return RunLength(num_examples, trained_examples, train_steps, save_steps, options.eval_every_steps or save_steps)


def _given_steps(params):
    if params.train_steps:
        return params.train_steps
    raise UsageError(f'--dataset={params.dataset} has input_fn(), so epochs are undefined: set --train_steps')


def _warn_of_few(params, num_examples):
    tf.logging.warning(
        'Epochs of %d examples are short: this run has %d of them, to reach min_steps=%d, rather than %g: --num_epochs '
        'overrides this.',
        *(num_examples, params.min_steps * params.batch_size // num_examples, params.min_steps, params.num_epochs),
    )


def needed_examples(params: HParams) -> int | None:
    """Returns the number of examples that training may read, with the shuffle buffer; None if epochs determine it."""
    if not params.train_steps:
        return None
    # Grouping by length reads entire windows, and averaged weights have statistics of batches that follow the last step.
    more = params.group_by_length * WINDOW + (NUM_BATCHES if params.swa_start else 0)
    return params.examples_at(params.train_steps + more) + params.shuffle_buffer


def _train_steps(params, num_examples):
    if params.train_steps:
        return params.train_steps
    if num_examples == tf.data.experimental.INFINITE_CARDINALITY:
        raise UsageError(f'--dataset={params.dataset} is infinite, so epochs are undefined: set --train_steps')
    first, seen = params.batch_start
    epochs = fractions.Fraction(str(params.num_epochs))  # Exact: 1.1 epochs of 100 examples are 110.
    steps = first + (epochs * num_examples - seen) / params.batch_size
    if steps > MAX_STEPS:
        raise UsageError(f'num_epochs={params.num_epochs} makes more than {MAX_STEPS} steps: lower it, or set --train_steps')
    steps = math.ceil(steps)
    if not steps:
        raise UsageError(f'num_epochs={params.num_epochs} leaves nothing to train: raise it, or set --train_steps')
    return steps


def of_batches(num_examples: int, params: HParams, overfit_batches: int) -> int:
    """Returns the number of the examples that training takes in an epoch, those of the first --overfit_batches."""
    if not overfit_batches:
        return num_examples
    wanted = min(overfit_batches * params.batch_size, MAX_STEPS)
    return wanted if num_examples < 0 else min(wanted, num_examples)  # Negative: infinite, or more than needed.
