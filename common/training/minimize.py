"""The update of a training step: gradients of one or several losses, their means, clipping, accumulation, application."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import itertools
import re
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.training_task import Means
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.training import layer_rates, moving_average, observed
from estimator_trainer.common.training.gradients import (
    accumulate,
    in_one_type,
    is_remote,
    is_small,
    make_dense,
    merge_duplicates,
)
from estimator_trainer.common.training.optimizer import SAME_IF_DENSE, UPDATES_ALL_ROWS, by_name, is_decayed
from estimator_trainer.hparams.build import HParams

LOSS_SCALING_VARIABLES = ('current_loss_scale', 'good_steps')  # As TensorFlow names them.
MakeOptimizer = Callable[[tf.Tensor, HParams], tf.train.Optimizer]


@dataclasses.dataclass(frozen=True, eq=False)
class Objective:
    """A loss, and the variables that an optimizer of its own changes to minimize it.

    Attributes:
      loss: float32 scalar tensor.
      variables: trainable variables, none of another objective.
      name: of the loss; '' if it is the only one.
      turn: the objective's updates of each cycle, counted from 0.
      cycle: number of updates after which the turns repeat.
    """

    loss: tf.Tensor
    variables: Sequence[tf.Variable]
    name: str = ''
    turn: range = range(1)
    cycle: int = 1


class _Part(NamedTuple):
    """An objective's optimizer, its gradients, and the variables that they are of.

    updates_all_rows is whether the optimizer takes as many passes over a variable for a sparse gradient as for a dense one.
    """

    objective: Objective
    optimizer: tf.train.Optimizer
    gradients: tuple[Any, ...]
    variables: tuple[tf.Variable, ...]
    updates_all_rows: bool


def minimize(
    objectives: Sequence[Objective],
    rate: tf.Tensor,
    step: tf.Variable,
    params: HParams,
    loss_scaling: bool = False,
    means: Means | None = None,
    make_optimizer: MakeOptimizer = by_name,
) -> tf.Operation:
    """Returns the op of a training step, which increments the global step at the end.

    Gradients are accumulated over gradient_accumulation_steps steps; at the last of them their mean is clipped to the global
    norm gradient_clip_norm and applied. weight_decay applies to weights, not to biases and other vectors: decoupled for
    adamw (rate * weight_decay * weights is subtracted in each step), L2 regularization for the other optimizers (the
    gradient of weight_decay / 2 * weights^2 is added). Then the moving averages of the weights are updated.

    Each of several objectives has its own optimizer, norm and loss scale. All gradients are computed from the same weights;
    those of an objective whose turn it is not are dropped.

    float16 underflows for gradients below 6e-8. Dynamic loss scaling prevents that: the loss is multiplied by a scale, and
    the gradients are divided by it. The scale doubles every 2,000 steps; if a gradient is not finite, the scale is halved and
    the update skipped. (P. Micikevicius et al.: Mixed Precision Training, 2018.)

    Args:
      objectives: at least one.
      rate: float32 scalar tensor, the learning rate.
      step: int64 scalar, the global step.
      loss_scaling: whether to use dynamic loss scaling.
      means: of the gradients over the processes of a cluster.
      make_optimizer: function from a learning rate, float32 scalar, and the hyper-parameters to an optimizer.

    Raises:
      UsageError: a loss depends on none of its variables, or learning_rate_factors match none.
    """
    factors = layer_rates.variable_factors([variable for objective in objectives for variable in objective.variables], params)
    means = means or Means(objectives[0].loss)
    # Norms of few rows take less time, too, and gradients out of turn are dropped.
    keeps_sparse = means.sends_gradients or params.gradient_clip_norm > 0 or len(objectives) > 1
    parts = [_differentiate(own, rate, factors, params, loss_scaling, make_optimizer, keeps_sparse) for own in objectives]
    shared = means([gradient for part in parts for gradient in part.gradients], merge_duplicates)
    parts = [part._replace(gradients=own) for part, own in _split(shared, parts)]
    for part in parts:
        for pair in zip(part.gradients, part.variables):
            tf.add_to_collection(observed.GRADIENTS, pair)
        name = part.objective.name
        tf.summary.scalar(f'gradient_norm/{name}' if name else 'gradient_norm', tf.global_norm(in_one_type(part.gradients)))
    count = params.gradient_accumulation_steps
    # adamw decays the weights itself.
    decay = 0.0 if make_optimizer is by_name and params.optimizer == 'adamw' else params.weight_decay

    def update(gradients):
        return _update(list(_split(gradients, parts)), step, params, decay)

    gradients = tuple(gradient for part in parts for gradient in part.gradients)
    variables = tuple(variable for part in parts for variable in part.variables)
    updated = update(gradients) if count == 1 else accumulate(gradients, variables, step, count, means.of_sums, update)
    with tf.control_dependencies([updated, rate]):  # A step that only accumulates does not need the rate, but summaries do.
        return tf.assign_add(step, 1).op


def _differentiate(
    objective: Objective,
    rate: tf.Tensor,
    factors: Mapping[str, float],
    params: HParams,
    loss_scaling: bool,
    make_optimizer: MakeOptimizer,
    keeps_sparse: bool,
) -> _Part:
    """Returns the optimizer and the gradients of an objective.

    Args:
      factors: {name of a variable: factor of its learning rate}.
      keeps_sparse: whether sparse gradients of large variables are needed before they are applied.
    """
    variables = objective.variables
    with _scope(objective):
        optimizer = layer_rates.with_factors(make_optimizer, rate, {v.op.name: factors[v.op.name] for v in variables}, params)
        if loss_scaling:
            optimizer = tf.mixed_precision.MixedPrecisionLossScaleOptimizer(optimizer, tf.mixed_precision.DynamicLossScale())
    pairs = []
    if variables:
        pairs = optimizer.compute_gradients(objective.loss, variables, colocate_gradients_with_ops=True)
    pairs = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    if not pairs and objective.name:
        names = ', '.join(variable.op.name for variable in variables)
        raise UsageError(f'--model={params.model}: its loss {objective.name} depends on none of its variables: {names}')
    if not pairs:
        raise UsageError(f'--model={params.model}: its loss depends on no variable that could be trained')
    is_ours = make_optimizer is by_name
    may_be_dense, updates_all_rows = (is_ours and params.optimizer in names for names in (SAME_IF_DENSE, UPDATES_ALL_ROWS))
    may_be_dense |= params.gradient_accumulation_steps > 1  # Their sums are.

    def is_dense(variable):
        if updates_all_rows and not keeps_sparse:
            return not is_remote(variable)
        return may_be_dense and is_small(variable)

    gradients = tuple(
        make_dense(gradient, variable) if is_dense(variable) else merge_duplicates(gradient) for gradient, variable in pairs
    )
    return _Part(objective, optimizer, gradients, tuple(variable for _, variable in pairs), updates_all_rows)


def _scope(objective):
    """Returns the name scope of an optimizer's variables, so that those of several have names that do not depend on others."""
    if not objective.name:
        return contextlib.nullcontext()
    return tf.name_scope(f'optimizer/{re.sub("[^A-Za-z0-9_.-]", "_", objective.name)}/')


def _split(gradients: Sequence[Any], parts: Sequence[_Part]) -> Iterator[tuple[_Part, tuple[Any, ...]]]:
    """Yields each part with its gradients."""
    remaining = iter(gradients)
    for part in parts:
        yield part, tuple(itertools.islice(remaining, len(part.variables)))


def _update(parts, step, params, weight_decay):
    """Returns the op that applies the gradients of the objectives whose turn it is, and updates the moving averages."""
    own = [gradient for _, gradients in parts for gradient in gradients] if len(parts) > 1 else []
    with tf.control_dependencies(own):  # Those of one loss may depend on the variables of another.
        ops = [_apply_in_turn(part, gradients, step, params, weight_decay) for part, gradients in parts]
    applied = tf.group(*ops) if len(ops) > 1 else ops[0]
    if not params.ema_decay:
        return applied
    with tf.control_dependencies([applied]):
        count = params.gradient_accumulation_steps  # The averages move with each update of the weights.
        return moving_average.update(step // count if count > 1 else step, params)


def _apply_in_turn(part, gradients, step, params, weight_decay):
    """Returns the op that applies an objective's gradients if it is its turn."""
    turn, cycle = part.objective.turn, part.objective.cycle
    if len(turn) == cycle:
        return _apply(part, gradients, params, weight_decay)
    place = step // params.gradient_accumulation_steps % cycle
    is_due = (place >= turn.start) & (place < turn.stop)
    return tf.cond(is_due, lambda: tf.group(_apply(part, gradients, params, weight_decay)), tf.no_op)


def _apply(part, gradients, params, weight_decay):
    """Returns the op that applies an objective's gradients, clipped and with weight decay."""
    if params.gradient_clip_norm:
        clipped, _ = tf.clip_by_global_norm(in_one_type(gradients), params.gradient_clip_norm)
        gradients = [tf.cast(value, gradient.dtype) for value, gradient in zip(clipped, gradients)]
    if weight_decay:
        gradients = [
            tf.convert_to_tensor(gradient) + weight_decay * variable if is_decayed(variable) else gradient
            for gradient, variable in zip(gradients, part.variables)
        ]
    if part.updates_all_rows:
        gradients = [
            gradient if is_remote(variable) else make_dense(gradient, variable)
            for gradient, variable in zip(gradients, part.variables)
        ]
    with _scope(part.objective):
        return part.optimizer.apply_gradients(zip(gradients, part.variables))
