"""tf.contrib.opt: optimizers."""

import contextlib

import tensorflow.compat.v1 as tf
from tensorflow.python.training.saving import saveable_object_util


def extend_with_decoupled_weight_decay(base_optimizer):
    """Returns a subclass of an optimizer with the arguments weight_decay, first, and those of the base.

    Before each update, variables lose weight_decay times themselves; with a sparse gradient, only the rows that have one. (I.
    Loshchilov, F. Hutter: Decoupled Weight Decay Regularization, 2019.)
    """

    class Decayed(base_optimizer):  # type: ignore[misc, valid-type]
        def __init__(self, weight_decay, *args, **kwargs):
            self._weight_decay, self._decayed_names = weight_decay, None
            super().__init__(*args, **kwargs)

        def minimize(self, loss, global_step=None, var_list=None, *args, decay_var_list=None, **kwargs):
            self._select(decay_var_list)
            return super().minimize(loss, global_step, var_list, *args, **kwargs)

        def apply_gradients(self, grads_and_vars, global_step=None, name=None, decay_var_list=None):
            self._select(decay_var_list)
            return super().apply_gradients(grads_and_vars, global_step, name)

        def _select(self, variables):
            if variables is not None:  # A variable of a distribution strategy has one in each replica.
                self._decayed_names = {part.name for variable in variables for part in getattr(variable, 'values', [variable])}

        def _after_decay(self, gradient, variable, rows=None):
            """Returns the context of the update of a variable by a gradient, which is that of these rows."""
            if self._decayed_names is not None and variable.name not in self._decayed_names:
                return contextlib.nullcontext()
            rate = self._weight_decay() if callable(self._weight_decay) else self._weight_decay
            rate = tf.cast(rate, variable.dtype.base_dtype)
            with tf.control_dependencies([gradient]):
                if rows is None:
                    decayed = variable.assign_sub(rate * variable)
                else:
                    decayed = tf.scatter_sub(variable, rows, rate * tf.gather(variable, rows))
            return tf.control_dependencies([decayed])

        def _apply_dense(self, grad, var):
            with self._after_decay(grad, var):
                return super()._apply_dense(grad, var)

        def _resource_apply_dense(self, grad, var):
            with self._after_decay(grad, var):
                return super()._resource_apply_dense(grad, var)

        def _apply_sparse(self, grad, var):
            with self._after_decay(grad.values, var, grad.indices):
                return super()._apply_sparse(grad, var)

        def _resource_apply_sparse(self, grad, var, indices):
            with self._after_decay(grad, var, indices):
                return super()._resource_apply_sparse(grad, var, indices)

    return Decayed


class AdamWOptimizer(extend_with_decoupled_weight_decay(tf.train.AdamOptimizer)):  # type: ignore[misc]
    def __init__(
        self, weight_decay, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, use_locking=False, name='AdamW'
    ):
        super().__init__(weight_decay, learning_rate, beta1, beta2, epsilon, use_locking, name)


class MomentumWOptimizer(extend_with_decoupled_weight_decay(tf.train.MomentumOptimizer)):  # type: ignore[misc]
    def __init__(self, weight_decay, learning_rate, momentum, use_locking=False, name='MomentumW', use_nesterov=False):
        super().__init__(weight_decay, learning_rate, momentum, use_locking, name, use_nesterov)


class _Adam(tf.train.AdamOptimizer):
    def _state(self, var):
        """Returns the moments of a variable, and the numbers of its update: the rate, beta1, beta2 and epsilon."""
        beta1_power, beta2_power, *numbers = (
            tf.cast(value, var.dtype.base_dtype)
            for value in (*self._get_beta_accumulators(), self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t)
        )
        numbers[0] *= tf.sqrt(1 - beta2_power) / (1 - beta1_power)
        return self.get_slot(var, 'm'), self.get_slot(var, 'v'), *numbers


class LazyAdamOptimizer(_Adam):
    """Adam that, for sparse gradients, updates only the moments of the rows that have one."""

    def _apply_sparse(self, grad, var):
        m, v, rate, beta1, beta2, epsilon = self._state(var)
        rows, values = grad.indices, grad.values
        m_rows = beta1 * tf.gather(m, rows) + (1 - beta1) * values
        v_rows = beta2 * tf.gather(v, rows) + (1 - beta2) * tf.square(values)
        updates = [tf.scatter_update(m, rows, m_rows), tf.scatter_update(v, rows, v_rows)]
        return tf.group(tf.scatter_sub(var, rows, rate * m_rows / (tf.sqrt(v_rows) + epsilon)), *updates)

    def _resource_apply_sparse(self, grad, var, indices):
        return self._apply_sparse(tf.IndexedSlices(grad, indices), var)


class NadamOptimizer(_Adam):
    """Adam with Nesterov's momentum. (T. Dozat: Incorporating Nesterov Momentum into Adam, 2016.)"""

    def _apply_dense(self, grad, var):
        m, v, rate, beta1, beta2, epsilon = self._state(var)
        m, v = m.assign(beta1 * m + (1 - beta1) * grad), v.assign(beta2 * v + (1 - beta2) * tf.square(grad))
        return tf.group(var.assign_sub(rate * (beta1 * m + (1 - beta1) * grad) / (tf.sqrt(v) + epsilon)))

    _resource_apply_dense = _apply_dense

    def _apply_sparse_shared(self, grad, var, indices, scatter_add):
        m, v, rate, beta1, beta2, epsilon = self._state(var)
        with tf.control_dependencies([m.assign(beta1 * m), v.assign(beta2 * v)]):
            m, v = scatter_add(m, indices, (1 - beta1) * grad), scatter_add(v, indices, (1 - beta2) * tf.square(grad))
        moments = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        return tf.group(scatter_add(var, indices, -rate * moments / (tf.sqrt(tf.gather(v, indices)) + epsilon)))


class AdaMaxOptimizer(tf.train.AdamOptimizer):
    """Adam with a decaying maximum of gradients. (D. Kingma, J. Ba: Adam, 2015.) Only rows with a sparse gradient change."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, use_locking=False, name='AdaMax'):
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _get_beta_accumulators(self):
        return self._get_non_slot_variable('beta1_power', tf.get_default_graph())

    def _create_slots(self, var_list):
        self._create_non_slot_variable(self._beta1, 'beta1_power', min(var_list, key=lambda variable: variable.name))
        for variable in var_list:
            self._zeros_slot(variable, 'm', self._name)
            self._zeros_slot(variable, 'v', self._name)

    def _apply_dense(self, grad, var, read=tf.identity, write=tf.assign, subtract=tf.assign_sub):
        power, rate, beta1, beta2, epsilon = (
            tf.cast(value, var.dtype.base_dtype)
            for value in (self._get_beta_accumulators(), self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t)
        )
        m, v = self.get_slot(var, 'm'), self.get_slot(var, 'v')
        mean, largest = beta1 * read(m) + (1 - beta1) * grad, tf.maximum(beta2 * read(v), tf.abs(grad))
        update = rate / (1 - power) * mean / (largest + epsilon)
        return tf.group(write(m, mean), write(v, largest), subtract(var, update))

    _resource_apply_dense = _apply_dense

    def _apply_sparse(self, grad, var):
        rows = grad.indices
        return self._apply_dense(
            grad.values,
            var,
            lambda slot: tf.gather(slot, rows),
            lambda slot, values: tf.scatter_update(slot, rows, values),
            lambda variable, values: tf.scatter_sub(variable, rows, values),
        )

    def _resource_apply_sparse(self, grad, var, indices):
        return self._apply_sparse(tf.IndexedSlices(grad, indices), var)

    def _finish(self, update_ops, name_scope):
        power = self._get_beta_accumulators()
        with tf.control_dependencies(update_ops):
            return tf.group(power.assign(power * self._beta1_t), name=name_scope)


class LARSOptimizer(tf.train.MomentumOptimizer):
    """Momentum with a rate for each variable by its norm; sparse gradients have the rate itself.

    (Y. You, I. Gitman, B. Ginsburg: Large Batch Training of Convolutional Networks, 2017.)

    Args:
      eeta: the norm of an update relative to that of its variable, at a rate of 1.
      skip_list: parts of the names of variables with the rate itself and without decay.
    """

    def __init__(
        self,
        learning_rate,
        momentum=0.9,
        weight_decay=0.0001,
        eeta=0.001,
        epsilon=0.0,
        name='LARSOptimizer',
        skip_list=None,
        use_nesterov=False,
    ):
        if momentum < 0 or weight_decay < 0:
            raise ValueError(f'momentum={momentum} and weight_decay={weight_decay} should not be negative')
        super().__init__(learning_rate, momentum, name=name, use_nesterov=use_nesterov)
        self._weight_decay, self._eeta, self._epsilon, self._skip_list = weight_decay, eeta, epsilon, skip_list or ()

    def compute_lr(self, grad, var):
        """Returns the rate of a variable, and its gradient with the decay."""
        rate = tf.cast(self._learning_rate_tensor, grad.dtype)
        if any(part in var.name for part in self._skip_list):
            return rate, grad
        of_variable, of_gradient = tf.norm(var), tf.norm(grad)
        ratio = self._eeta * of_variable / (of_gradient + self._weight_decay * of_variable + self._epsilon)
        ratio = tf.where((of_variable > 0) & (of_gradient > 0), ratio, tf.ones_like(ratio))
        return rate * ratio, grad + self._weight_decay * var

    def _apply_dense(self, grad, var):
        rate, grad = self.compute_lr(grad, var)
        momentum, slot = tf.cast(self._momentum_tensor, grad.dtype), self.get_slot(var, 'momentum')
        sum_ = slot.assign(momentum * slot + rate * grad)
        return tf.group(var.assign_sub(momentum * sum_ + rate * grad if self._use_nesterov else sum_))

    _resource_apply_dense = _apply_dense


class MovingAverageOptimizer(tf.train.Optimizer):
    """An optimizer that also keeps moving averages of the variables.

    Args:
      opt: what computes and applies the gradients.
      average_decay: the averages move by 1 - average_decay of the difference in each step.
      num_updates: the number of steps, for a smaller decay at first; see tf.train.ExponentialMovingAverage.
      sequential_update: whether averages follow the update of the variables.
    """

    def __init__(self, opt, average_decay=0.9999, num_updates=None, sequential_update=True):
        super().__init__(False, 'MovingAverage')
        self._optimizer, self._is_sequential = opt, sequential_update
        self._averages = tf.train.ExponentialMovingAverage(average_decay, num_updates)
        self._pairs = None

    def compute_gradients(self, *args, **kwargs):
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        pairs = list(grads_and_vars)
        train_op = self._optimizer.apply_gradients(pairs, global_step, name)
        variables = [variable for gradient, variable in pairs if gradient is not None]
        with tf.control_dependencies([train_op] if self._is_sequential else []):
            averaged = self._averages.apply(variables)
        self._pairs = [(variable, self._averages.average(variable)) for variable in variables]
        return tf.group(train_op, averaged)

    def get_slot(self, var, name):
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self):
        return self._optimizer.get_slot_names()

    def swapping_saver(self, var_list=None, name='swapping_saver', **kwargs):
        """Returns a saver that saves the averages under the names of the variables, and vice versa; call it after minimize.

        Args:
          var_list: variables, or {name: variable or a list of its partitions}; by default all.
        """
        if self._pairs is None:
            raise RuntimeError('Must call apply_gradients or minimize before creating the swapping_saver')
        saved = tf.global_variables() if var_list is None else var_list
        saved = (
            saved if isinstance(saved, dict) else saveable_object_util.op_list_to_dict(saved, convert_variable_to_tensor=False)
        )
        found = {variable.op.name for variable in tf.nest.flatten(saved)}
        swapped: dict[str, tf.Variable] = {}
        for pair in self._pairs:
            names = [variable.op.name for variable in pair]
            if found.issuperset(names):
                swapped.update(zip(names, reversed(pair)))
        saved = tf.nest.map_structure(lambda variable: swapped.get(variable.op.name, variable), saved)
        return tf.train.Saver(saved, name=name, **kwargs)
