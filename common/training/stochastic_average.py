"""Stochastic weight averaging: the mean of the weights at regular steps, which generalizes better than any of them.

(P. Izmailov et al.: Averaging Weights Leads to Wider Optima and Better Generalization, 2018.)
"""

import re

import tensorflow.compat.v1 as tf
from tensorflow.python.training import slot_creator

from estimator_trainer.common.errors import UsageError
from estimator_trainer.hparams.build import HParams

_SLOT = 'StochasticWeightAverage'
_STATISTICS = re.compile(r'(^|/)moving_(mean|variance)(_\d+)?$')  # Of batch norm, as tf.layers and tf.keras name them.


def check(params: HParams) -> None:
    """Raises UsageError if weights would be averaged in two ways."""
    if params.swa_start and params.ema_decay:
        raise UsageError(
            f'swa_start={params.swa_start} excludes ema_decay={params.ema_decay:g}: both average the weights: omit one'
        )


def check_steps(params: HParams, epoch_steps: int, total_steps: int, is_asynchronous: bool) -> None:
    """Raises UsageError if the steps to average are undefined; warns if there are none.

    Args:
      epoch_steps: number of steps of an epoch; 0 if unknown.
      total_steps: the step at which training ends.
      is_asynchronous: whether processes do not train in step.
    """
    if is_asynchronous:
        raise UsageError('swa_start excludes parameter servers, as their workers do not train in step: use ema_decay')
    if not params.swa_every and not epoch_steps:
        raise UsageError('swa_every=0 is an epoch, but those are undefined here: set the number of steps')
    if not params.swa_every and params.batch_start != (0, 0):
        raise UsageError('swa_every=0 is an epoch, whose length changes with batch_size: do not override batch_size')
    if 1 < total_steps < params.swa_start:
        tf.logging.warning(
            'swa_start=%d: training ends at step %d, before any weights are averaged.', params.swa_start, total_steps
        )


def with_averages(train_op: tf.Operation, step: tf.Variable, every: int, params: HParams) -> tf.Operation:
    """Returns the op that runs a training step and then updates the averages of the trainable variables.

    At the steps swa_start + n · every, average = (n · average + value) / (n + 1). Before, the average is the value itself, so
    that evaluations see the weights. It is a function of the steps alone: nothing else must be saved.

    Args:
      train_op: increments the global step, `step`.
      every: number of steps.
    """
    with tf.name_scope('stochastic_average'):
        averages = {variable: _make_slot(variable) for variable in [*tf.trainable_variables(), *statistics()]}
        with tf.control_dependencies([train_op]):
            done = step.read_value() - params.swa_start
        count = tf.maximum(done // every, 0)
        weight = 1 / (tf.cast(count, tf.float64) + 1)

        def averaged_with(variable):
            share = tf.cast(weight, variable.dtype.base_dtype)
            return tf.assign(averages[variable], (1 - share) * averages[variable] + share * variable)

        def average():
            return tf.group(*map(averaged_with, tf.trainable_variables()))

        def follow():
            return tf.group(*(tf.assign(averages[variable], variable) for variable in statistics()))

        with tf.control_dependencies([done]):
            averaged = tf.cond((done < 0) | tf.equal(done % every, 0), average, tf.no_op)
            followed = tf.cond(done <= 0, follow, tf.no_op)  # Later, those that move are recomputed: see `Recalibration`.
            return tf.group(averaged, followed)


def _make_slot(variable):
    start = tf.cond(tf.is_variable_initialized(variable), variable.read_value, lambda: variable.initial_value)
    slot = slot_creator.create_slot(variable, start, _SLOT)
    assert slot.op.name == slot_name(variable)
    return slot


def slot_name(variable: tf.Variable) -> str:
    """Returns the name of a variable's average."""
    return f'{variable.op.name}/{_SLOT}'


def statistics() -> list[tf.Variable]:
    """Returns the variables of the default graph with the moving means and variances of batch norm."""
    trained = {variable.op.name for variable in tf.trainable_variables()}
    return [v for v in tf.global_variables() if _STATISTICS.search(v.op.name) and v.op.name not in trained]


def variables_to_restore() -> dict[str, tf.Variable]:
    """Returns {name in a checkpoint: variable} of the default graph, a model's for evaluation, with the averages."""
    averaged = [*tf.trainable_variables(), *statistics()]
    names = {variable.op.name for variable in averaged}
    others = {variable.op.name: variable for variable in tf.global_variables() if variable.op.name not in names}
    return others | {slot_name(variable): variable for variable in averaged}
