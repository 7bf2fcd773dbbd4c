"""Early stopping's variable, which checkpoints of before lack: it is in none, and each training begins with False."""

import functools

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import early_stopping

_SCOPE = 'signal_early_stopping'
STOP = f'{_SCOPE}/STOP'


def mend() -> None:
    every = early_stopping._MultiWorkerEarlyStoppingHook
    early_stopping._get_or_create_stop_var = functools.partial(_make_variable, tf.bool)
    every._get_or_create_stop_var_with_aggregation = lambda self: _make_variable(
        tf.int32,
        synchronization=tf.VariableSynchronization.ON_WRITE,
        aggregation=tf.VariableAggregation.SUM,
    )
    for hook in (early_stopping._StopOnPredicateHook, every):
        hook.begin = _with_initializer(hook.begin)
        hook.after_create_session = _initialize
    early_stopping._CheckForStoppingHook.begin = _begin


def _make_variable(dtype, **distribution):
    with tf.variable_scope(_SCOPE, reuse=tf.AUTO_REUSE):
        return tf.get_variable('STOP', [], dtype, tf.zeros_initializer(), trainable=False, collections=[_SCOPE], **distribution)


def _with_initializer(begin):
    @functools.wraps(begin)
    def begun(self):
        begin(self)
        self._initializer = self._stop_var.initializer
        self._stop_op = tf.group(tf.distribute.get_strategy().experimental_local_results(self._stop_op))  # Of each replica.

    return begun


def _initialize(hook, session, coord):
    session.run(hook._initializer)


def _begin(hook):
    """Makes a task that is not the chief read False until the chief has initialized the variable."""
    variable = early_stopping._get_or_create_stop_var()
    hook._stop_var = tf.cond(tf.is_variable_initialized(variable), variable.read_value, lambda: False)
