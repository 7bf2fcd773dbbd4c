"""Optimizers by name, and what a training step does with the gradients."""

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.training import moving_average


class AdamWOptimizer(tf.train.AdamOptimizer):
    """Adam that takes learning_rate * weight_decay of the weights off before each step, but of no biases and other vectors.

    (I. Loshchilov, F. Hutter: Decoupled Weight Decay Regularization, 2019.)

    Args:
      learning_rate: float32 scalar tensor.
      weight_decay: float; 0 is Adam.
      *args: of tf.train.AdamOptimizer.
    """

    def __init__(self, learning_rate, weight_decay, *args):
        super().__init__(learning_rate, *args)
        self._factor = learning_rate * weight_decay if weight_decay else None

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        gradients, variables = zip(*grads_and_vars)
        decayed = []
        if self._factor is not None:
            with tf.control_dependencies(gradients):  # They are of the weights as they were.
                decayed = [tf.assign_sub(variable, self._factor * variable) for variable in variables if _is_decayed(variable)]
        with tf.control_dependencies(decayed):
            return super().apply_gradients(zip(gradients, variables), global_step, name)


def _adam_args(params):
    return params.adam_beta1, params.adam_beta2, params.adam_epsilon


OPTIMIZERS = {
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


LOSS_SCALING_VARIABLES = ('current_loss_scale', 'good_steps')  # As TensorFlow names them.


def check(params):
    """Raises UsageError if the optimizer is none that there is, or its numbers leave nothing to train."""
    if params.optimizer not in OPTIMIZERS:
        raise UsageError(f'optimizer={params.optimizer} is not one of {", ".join(OPTIMIZERS)}')
    for name in ('ema_decay', 'adam_beta1', 'adam_beta2'):
        if getattr(params, name) >= 1:
            raise UsageError(f'{name}={getattr(params, name)} must be less than 1, such as 0.999')
    # FTRL's weights are the rate times what it has summed up: where the rate falls to 0, so do they.
    if params.optimizer == 'ftrl' and (params.learning_rate_schedule != 'constant' or params.warmup_steps):
        raise UsageError('optimizer=ftrl needs a constant learning rate: give learning_rate_schedule=constant,warmup_steps=0')
    if params.optimizer == 'adagrad' and not params.adagrad_initial_accumulator:
        raise UsageError('adagrad_initial_accumulator=0.0 must be more than 0')


def minimize(loss, variables, rate, step, params, loss_scaling=False):
    """Makes the op of a training step, which ends by counting it.

    The gradients are summed over gradient_accumulation_steps steps; at the last of them their mean is clipped to the norm
    gradient_clip_norm and changes the weights. weight_decay shrinks the weights, but no biases and no other vectors: by
    rate * weight_decay of them a step for adamw, through the gradient of weight_decay / 2 * weights^2 for the other
    optimizers. Moving averages of the weights follow.

    float16 holds no gradients below 6e-8. Loss scaling keeps them above: the gradients are of the loss times a number, by
    which they are then divided; it doubles every 2,000 steps, and is halved instead of changing the weights where a gradient
    is not finite. (P. Micikevicius et al.: Mixed Precision Training, 2018.)

    Args:
      loss: float32 scalar tensor.
      variables: list of the tf.Variables to train.
      rate: float32 scalar tensor, the learning rate.
      step: int64 scalar variable, the global step.
      params: HParams.
      loss_scaling: bool.

    Returns:
      tf.Operation.

    Raises:
      UsageError: the loss depends on no variable.
    """
    optimizer = OPTIMIZERS[params.optimizer](rate, params)
    if loss_scaling:
        optimizer = tf.mixed_precision.MixedPrecisionLossScaleOptimizer(optimizer, tf.mixed_precision.DynamicLossScale())
    pairs = []
    if variables:
        pairs = optimizer.compute_gradients(loss, variables, colocate_gradients_with_ops=True)
    pairs = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    if not pairs:
        raise UsageError(f'--model={params.model}: its loss depends on no variable that could be trained')
    gradients, variables = zip(*((_merge_duplicates(gradient), variable) for gradient, variable in pairs))
    tf.summary.scalar('gradient_norm', tf.global_norm(gradients))

    def update(gradients):
        return _update(optimizer, gradients, variables, step, params)

    count = params.gradient_accumulation_steps
    updated = update(gradients) if count == 1 else _accumulate(gradients, variables, step, count, update)
    with tf.control_dependencies([updated]):
        return tf.assign_add(step, 1).op


def _merge_duplicates(gradient):
    """Adds up what an embedding's gradient has for the same row, as its norm needs; any other one stays as it is."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def _update(optimizer, gradients, variables, step, params):
    """Returns the op that changes the variables by their gradients."""
    if params.gradient_clip_norm:
        gradients, _ = tf.clip_by_global_norm(gradients, params.gradient_clip_norm)
    if params.weight_decay and params.optimizer != 'adamw':
        gradients = [
            tf.convert_to_tensor(gradient) + params.weight_decay * variable if _is_decayed(variable) else gradient
            for gradient, variable in zip(gradients, variables)
        ]
    applied = optimizer.apply_gradients(zip(gradients, variables))
    if not params.ema_decay:
        return applied
    with tf.control_dependencies([applied]):
        return moving_average.update(step, params)


def _is_decayed(variable):
    return variable.shape.rank > 1


def _accumulate(gradients, variables, step, count, update):
    """Returns the op that adds the gradients up, and at every count-th step calls `update` with their mean."""
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

    def update_and_begin_anew():
        with tf.control_dependencies([update([total / count for total in sums])]):
            return tf.group(*[tf.assign(total, tf.zeros_like(total)) for total in sums])

    added = [tf.assign_add(total, tf.convert_to_tensor(gradient)) for total, gradient in zip(sums, gradients)]
    with tf.control_dependencies(added):
        return tf.cond(tf.equal((step + 1) % count, 0), update_and_begin_anew, tf.no_op)
