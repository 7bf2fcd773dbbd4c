"""Early stopping's variable, which checkpoints of before lack: it is in none, and each run begins with False."""

import functools

from tf_estimator.mending import around

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import early_stopping

_SCOPE = 'signal_early_stopping'
STOP = f'{_SCOPE}/STOP'


_EveryHook = early_stopping._MultiWorkerEarlyStoppingHook


def _make_variable(dtype, **distribution):
    with tf.variable_scope(_SCOPE, reuse=tf.AUTO_REUSE):
        return tf.get_variable('STOP', [], dtype, tf.zeros_initializer(), trainable=False, collections=[_SCOPE], **distribution)


early_stopping._get_or_create_stop_var = functools.partial(_make_variable, tf.bool)
_EveryHook._get_or_create_stop_var_with_aggregation = lambda self: _make_variable(
    tf.int32,
    synchronization=tf.VariableSynchronization.ON_WRITE,
    aggregation=tf.VariableAggregation.SUM,
)


@around(early_stopping._StopOnPredicateHook, 'begin')
@around(_EveryHook, 'begin')
def _begin(begin, self):
    begin(self)
    self._initializer = self._stop_var.initializer
    self._stop_op = tf.group(tf.distribute.get_strategy().experimental_local_results(self._stop_op))  # Of each replica.


@around(early_stopping._StopOnPredicateHook, 'after_create_session')
@around(_EveryHook, 'after_create_session')
def _initialize(unused_after_create_session, self, session, coord):
    session.run(self._initializer)


@around(early_stopping._CheckForStoppingHook, 'begin')
def _begin_elsewhere(unused_begin, self):
    """Makes a task that is not the chief read False until the chief has initialized the variable."""
    variable = early_stopping._get_or_create_stop_var()
    self._stop_var = tf.cond(tf.is_variable_initialized(variable), variable.read_value, lambda: False)
