"""Optimizers by name, and the application of gradients in a training step."""

from collections.abc import Callable, Sequence
import math

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.training_task import Means
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.training import layer_rates, moving_average
from estimator_trainer.hparams.build import HParams


class AdamWOptimizer(tf.train.AdamOptimizer):
    """Adam with decoupled weight decay: each step first subtracts learning_rate * weight_decay * weights.

    Biases and other vectors are not decayed. (I. Loshchilov, F. Hutter: Decoupled Weight Decay Regularization, 2019.)

    Args:
      learning_rate: float32 scalar tensor.
      weight_decay: 0 is plain Adam.
      *args: further arguments of tf.train.AdamOptimizer.
    """

    def __init__(self, learning_rate: tf.Tensor, weight_decay: float, *args: float):
        super().__init__(learning_rate, *args)
        self._factor = learning_rate * weight_decay if weight_decay else None

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        gradients, variables = zip(*grads_and_vars)
        decayed = []
        if self._factor is not None:
            with tf.control_dependencies(gradients):  # Computed from the weights before decay.
                decayed = [tf.assign_sub(variable, self._factor * variable) for variable in variables if _is_decayed(variable)]
        with tf.control_dependencies(decayed):
            return super().apply_gradients(zip(gradients, variables), global_step, name)


def _adam_args(params):
    return params.adam_beta1, params.adam_beta2, params.adam_epsilon


OPTIMIZERS: dict[str, Callable[[tf.Tensor, HParams], tf.train.Optimizer]] = {
    'adam': lambda rate, params: tf.train.AdamOptimizer(rate, *_adam_args(params)),
    'adamw': lambda rate, params: AdamWOptimizer(rate, params.weight_decay, *_adam_args(params)),
    'adagrad': lambda rate, params: tf.train.AdagradOptimizer(rate, params.adagrad_initial_accumulator),
    'ftrl': lambda rate, params: tf.train.FtrlOptimizer(
        rate, l1_regularization_strength=params.ftrl_l1, l2_regularization_strength=params.ftrl_l2
    ),
    'momentum': lambda rate, params: tf.train.MomentumOptimizer(rate, params.momentum),
    'rmsprop': lambda rate, params: tf.train.RMSPropOptimizer(rate, params.rmsprop_decay, epsilon=params.rmsprop_epsilon),
    'sgd': lambda rate, params: tf.train.GradientDescentOptimizer(rate),
}


_SAME_IF_DENSE = ('adam', 'adamw', 'adagrad', 'sgd')  # Rows with gradient 0 are updated like rows without one.
_MAX_DENSE = 2**18  # Elements; up to here Adam's one op for dense gradients is faster than its twelve for sparse ones.
LOSS_SCALING_VARIABLES = ('current_loss_scale', 'good_steps')  # As TensorFlow names them.


def check(params: HParams) -> None:
    """Raises UsageError if the optimizer is unknown or its hyper-parameters are invalid."""
    if params.optimizer not in OPTIMIZERS:
        raise UsageError(f'optimizer={params.optimizer} is not one of {", ".join(OPTIMIZERS)}')
    # FTRL's weights are proportional to the learning rate: as it decays to 0, so do the weights.
    if params.optimizer == 'ftrl' and (params.learning_rate_schedule != 'constant' or params.warmup_steps):
        raise UsageError('optimizer=ftrl needs a constant learning rate: give learning_rate_schedule=constant,warmup_steps=0')
    layer_rates.check(params)


def by_name(rate: tf.Tensor, params: HParams) -> tf.train.Optimizer:
    """Returns the optimizer named by the hyper-parameter `optimizer`."""
    return OPTIMIZERS[params.optimizer](rate, params)


def minimize(
    loss: tf.Tensor,
    variables: Sequence[tf.Variable],
    rate: tf.Tensor,
    step: tf.Variable,
    params: HParams,
    loss_scaling: bool = False,
    means: Means | None = None,
    make_optimizer: Callable[[tf.Tensor, HParams], tf.train.Optimizer] = by_name,
) -> tf.Operation:
    """Returns the op of a training step, which increments the global step at the end.

    Gradients are accumulated over gradient_accumulation_steps steps; at the last of them their mean is clipped to the global
    norm gradient_clip_norm and applied. weight_decay applies to weights, not to biases and other vectors: decoupled for
    adamw (rate * weight_decay * weights is subtracted in each step), L2 regularization for the other optimizers (the
    gradient of weight_decay / 2 * weights^2 is added). Then the moving averages of the weights are updated.

    float16 underflows for gradients below 6e-8. Dynamic loss scaling prevents that: the loss is multiplied by a scale, and
    the gradients are divided by it. The scale doubles every 2,000 steps; if a gradient is not finite, the scale is halved and
    the update skipped. (P. Micikevicius et al.: Mixed Precision Training, 2018.)

    Args:
      loss: float32 scalar tensor.
      rate: float32 scalar tensor, the learning rate.
      step: int64 scalar, the global step.
      loss_scaling: whether to use dynamic loss scaling.
      means: of the gradients over the processes of a cluster.
      make_optimizer: function from a learning rate, float32 scalar, and the hyper-parameters to an optimizer.

    Raises:
      UsageError: the loss depends on no trainable variable, or learning_rate_factors match none.
    """
    optimizer = layer_rates.with_factors(make_optimizer, rate, variables, params)
    is_decoupled = make_optimizer is by_name and params.optimizer == 'adamw'
    if loss_scaling:
        optimizer = tf.mixed_precision.MixedPrecisionLossScaleOptimizer(optimizer, tf.mixed_precision.DynamicLossScale())
    pairs = []
    if variables:
        pairs = optimizer.compute_gradients(loss, variables, colocate_gradients_with_ops=True)
    pairs = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    if not pairs:
        raise UsageError(f'--model={params.model}: its loss depends on no variable that could be trained')
    variables = tuple(variable for _, variable in pairs)
    may_be_dense = make_optimizer is by_name and params.optimizer in _SAME_IF_DENSE
    gradients = tuple(
        _make_dense(gradient, variable) if may_be_dense and _is_small(variable) else _merge_duplicates(gradient)
        for gradient, variable in pairs
    )
    gradients = tuple((means or Means(loss))(gradients, _merge_duplicates))
    tf.summary.scalar('gradient_norm', tf.global_norm(_in_one_type(gradients)))

    def update(gradients):
        return _update(optimizer, gradients, variables, step, params, 0.0 if is_decoupled else params.weight_decay)

    count = params.gradient_accumulation_steps
    updated = update(gradients) if count == 1 else _accumulate(gradients, variables, step, count, update)
    with tf.control_dependencies([updated, rate]):  # A step that only accumulates does not need the rate, but summaries do.
        return tf.assign_add(step, 1).op


def _is_small(variable):
    """Whether a dense gradient costs less than the ops of a sparse one; those of parameter servers are sent each step."""
    return (variable.shape.num_elements() or math.inf) <= _MAX_DENSE and '/job:ps' not in variable.device


def _make_dense(gradient, variable):
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, variable.shape[0])


def _merge_duplicates(gradient):
    """Sums slices of the same row in a sparse gradient, such as an embedding's, to correct its norm."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, segment_ids = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, segment_ids, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def _update(optimizer, gradients, variables, step, params, weight_decay):
    """Returns the op that applies the gradients to the variables."""
    if params.gradient_clip_norm:
        clipped, _ = tf.clip_by_global_norm(_in_one_type(gradients), params.gradient_clip_norm)
        gradients = [tf.cast(value, gradient.dtype) for value, gradient in zip(clipped, gradients)]
    if weight_decay:
        gradients = [
            tf.convert_to_tensor(gradient) + weight_decay * variable if _is_decayed(variable) else gradient
            for gradient, variable in zip(gradients, variables)
        ]
    applied = optimizer.apply_gradients(zip(gradients, variables))
    if not params.ema_decay:
        return applied
    with tf.control_dependencies([applied]):
        return moving_average.update(step, params)


def _in_one_type(gradients):
    """Returns gradients in the widest of their types, as required by tf.global_norm and tf.clip_by_global_norm."""
    widest = max((gradient.dtype for gradient in gradients), key=lambda dtype: dtype.size)
    return [tf.cast(gradient, widest) for gradient in gradients]


def _is_decayed(variable):
    return variable.shape.rank > 1


def _accumulate(gradients, variables, step, count, update):
    """Returns the op that accumulates the gradients, and at every count-th step applies `update` to their mean."""
    sums = [
        tf.get_variable(
            f'{variable.op.name}/accumulated_gradient',
            variable.shape,
            variable.dtype.base_dtype,
            tf.zeros_initializer(),
            trainable=False,
        )
        for variable in variables
    ]

    def update_and_reset():
        with tf.control_dependencies([update([total / count for total in sums])]):
            return tf.group(*[tf.assign(total, tf.zeros_like(total)) for total in sums])

    added = [tf.assign_add(total, tf.convert_to_tensor(gradient)) for total, gradient in zip(sums, gradients)]
    with tf.control_dependencies(added):
        return tf.cond(tf.equal((step + 1) % count, 0), update_and_reset, tf.no_op)
