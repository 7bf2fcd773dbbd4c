"""tf.contrib.opt: SciPy's algorithms, which minimize a loss by running its session."""

import functools

import numpy as np
import tensorflow.compat.v1 as tf


class ScipyOptimizerInterface:
    """Args:
    loss: a scalar.
    var_list: by default all trainable variables.
    equalities: scalars that shall be 0.
    inequalities: scalars that shall be at least 0.
    var_to_bounds: {variable: its least and largest values, which broadcast to its shape}.
    options: those of scipy.optimize.minimize.
    """

    def __init__(
        self, loss, var_list=None, equalities=None, inequalities=None, var_to_bounds=None, method='L-BFGS-B', **options
    ):
        if 'bounds' in options:
            raise ValueError('Bounds must be set using the var_to_bounds argument')
        if own := sorted({'jac', 'callback', 'constraints'} & {*options}):
            raise ValueError(f'{", ".join(own)} cannot be given: ScipyOptimizerInterface sets them')
        from scipy import optimize  # For this class only.

        self._search, self.optimizer_kwargs = optimize.minimize, {'method': method, **options}
        self._vars = tf.trainable_variables() if var_list is None else [*var_list]
        self._values = [tf.placeholder(variable.dtype.base_dtype, variable.shape) for variable in self._vars]
        self._updates = [variable.assign(value) for variable, value in zip(self._vars, self._values)]
        self._start, self._loss = _flat(self._vars), (loss, self._gradient(loss))
        kinds = (('eq', equalities or ()), ('ineq', inequalities or ()))
        self._constraints = [(kind, tensor, self._gradient(tensor)) for kind, tensors in kinds for tensor in tensors]
        if var_to_bounds is not None:
            ends: tuple[list, list] = [], []
            for variable in self._vars:
                for values, end in zip(ends, var_to_bounds.get(variable, (-np.inf, np.inf))):
                    values.extend(np.broadcast_to(end, variable.shape.as_list()).flat)
            self.optimizer_kwargs['bounds'] = [*zip(*ends)]

    def __init_subclass__(cls):
        if hasattr(cls, '_minimize'):
            raise NotImplementedError(f'{cls.__name__}._minimize is not called: only SciPy minimizes')

    def minimize(self, session=None, feed_dict=None, fetches=None, step_callback=None, loss_callback=None, **run_kwargs):
        """Sets the variables to those of the least loss.

        Args:
          fetches: tensors, whose values loss_callback gets whenever the loss is computed.
          step_callback: function of the variables, as one vector, after each step.
        """
        session = session or tf.get_default_session()

        def set_variables(x):
            parts = np.split(x, np.cumsum([variable.shape.num_elements() for variable in self._vars])[:-1])
            session.run(
                self._updates,
                {value: part.reshape(value.shape) for value, part in zip(self._values, parts)},
                **run_kwargs,
            )

        def compute(tensors, callback, x):
            set_variables(x)  # To feed them would not reach the ops that read resource variables.
            found, fetched = session.run([tensors, fetches or []], feed_dict)
            if callback:
                callback(*fetched)
            return found

        constraints = [
            {'type': kind, 'fun': functools.partial(compute, tensor, None), 'jac': functools.partial(compute, gradient, None)}
            for kind, tensor, gradient in self._constraints
        ]
        loss = functools.partial(compute, self._loss, loss_callback)
        result = self._search(
            loss, session.run(self._start), jac=True, callback=step_callback, constraints=constraints, **self.optimizer_kwargs
        )
        set_variables(result.x)
        tf.logging.info('Optimization terminated with the loss %f: %s', result.fun, result.message)

    def _gradient(self, value):
        return _flat(tf.gradients(value, self._vars, unconnected_gradients=tf.UnconnectedGradients.ZERO))


def _flat(tensors):
    return tf.concat([tf.cast(tf.reshape(tensor, [-1]), tf.float64) for tensor in tensors], 0)
