"""The op of a training step: learning rate, gradients, optimizer, and their summaries."""

from collections.abc import Mapping
import functools
import math
import re
import types
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import graphs
from estimator_trainer.common.cluster.training_task import Means
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.plugins import loss_contract, model_contract
from estimator_trainer.common.training import learning_rate, optimizer
from estimator_trainer.common.training.minimize import Objective, minimize
from estimator_trainer.hparams.build import HParams

_MAX_IN_HISTOGRAM = 100000


def make_train_op(
    model: types.ModuleType,
    loss: tf.Tensor,
    losses: Mapping[str, tf.Tensor],
    metrics: Mapping[str, Any],
    wait: tf.Operation,
    total_steps: int,
    options: Options,
    params: HParams,
    means: Means,
) -> tf.Operation:
    """Returns the op that runs a training step.

    Args:
      model: the model module, which may define its own optimizer and learning rate, and the variables of its losses.
      loss: float32 scalar, of this process's share of the batch.
      losses: {name: float32 [batch]}, whose mean is in `loss`, with the regularization losses.
      metrics: {name: (value, update_op)}, computed with the weights before the step.
      wait: an op that precedes the step.
      total_steps: the step at which training ends.

    Raises:
      UsageError: the optimizer is incompatible with the learning rate, or --freeze leaves nothing to train.
    """
    step = tf.train.get_or_create_global_step()
    own_optimizer, own_rate = (getattr(model, name, None) for name in ('optimizer', 'learning_rate'))
    make_optimizer = functools.partial(model_contract.make_optimizer, model) if own_optimizer else optimizer.by_name
    schedule = functools.partial(model_contract.learning_rate, model) if own_rate else learning_rate.by_name
    if own_rate and not own_optimizer and params.optimizer == 'ftrl':
        raise UsageError(f'--model={params.model}: optimizer=ftrl needs a constant learning rate, without learning_rate()')
    with tf.name_scope('schedule'):
        rate = learning_rate.learning_rate(step, total_steps, params, schedule)
    tf.summary.scalar('learning_rate', rate)
    tf.add_to_collection(learning_rate.RATES, rate)
    for variable in tf.trainable_variables():
        tf.summary.histogram(f'weights/{variable.op.name}', _sample(variable))
    reads = _weight_reads([*tf.get_collection(tf.GraphKeys.SUMMARIES), *(update for _, update in metrics.values())])
    with tf.control_dependencies([*tf.get_collection(tf.GraphKeys.UPDATE_OPS), wait, *reads]):
        trained = _unfrozen(tf.trainable_variables(), options.freeze)
        objectives = _objectives(model, loss, losses, trained, params)
        return minimize(objectives, rate, step, params, options.precision == 'float16', means, make_optimizer)


def _sample(variable):
    """Returns the weights for a histogram; of many, evenly spaced ones, as it takes 35 ns per weight."""
    every = max((variable.shape.num_elements() or 0) // _MAX_IN_HISTOGRAM, 1)
    if every == 1:
        return variable
    while math.gcd(every, int(variable.shape[-1])) > 1:  # Columns of a matrix would be left out.
        every += 1
    return tf.reshape(variable, [-1])[::every]


def _objectives(model, loss, losses, trained, params):
    """Returns what to minimize: the loss, or, if the model defines `variables`, each loss over its own variables."""
    if not getattr(model, 'variables', None):
        return [Objective(loss, trained)]
    penalty = tf.losses.get_regularization_loss()  # Of its gradient, each loss uses that of its variables.
    of_losses = loss_contract.loss_variables(model, losses, tf.trainable_variables(), params)
    steps = loss_contract.loss_steps(model, losses, params)
    objectives, start = [], 0
    for name, loss_of_examples in losses.items():
        variables = [variable for variable in of_losses[name] if variable in trained]
        turn, cycle = (range(start, start + steps[name]), sum(steps.values())) if steps else (range(1), 1)
        objectives.append(Objective(tf.reduce_mean(loss_of_examples) + penalty, variables, name, turn, cycle))
        start = turn.stop
    return [objective for objective in objectives if objective.variables]  # The others' are frozen.


def _unfrozen(variables, freeze):
    if not freeze:
        return variables
    frozen = [variable for variable in variables if re.search(freeze, variable.op.name)]
    if not frozen or len(frozen) == len(variables):
        raise UsageError(
            f'--freeze={freeze}: matches {"all" if frozen else "none"} of the variables: '
            f'{", ".join(variable.op.name for variable in variables)}'
        )
    tf.logging.info('Frozen: %s', ', '.join(variable.op.name for variable in frozen))
    return [variable for variable in variables if variable not in frozen]


def _weight_reads(tensors):
    """Returns the ops that read weights for `tensors`, which must run before the step updates the weights."""
    handles = {variable.handle.op for variable in tf.trainable_variables() if hasattr(variable, 'handle')}
    reads = [
        op
        for op in graphs.ancestors(tensors)
        if op.type == 'ReadVariableOp' and op.inputs[0].op in handles and not op.control_inputs
    ]
    return sorted(reads, key=lambda op: op.name)
