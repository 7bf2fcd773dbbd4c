"""An LSTM that reads at any times."""

from tf_estimator.tf1.rnn.base import LSTM
from tf_estimator.tf1.rnn.dense import linear

import tensorflow.compat.v1 as tf


class PhasedLSTMCell(LSTM):
    """An LSTM whose units open in phases of periods that they learn. (D. Neil, M. Pfeiffer, S. Liu: Phased LSTM, 2016.)

    Its inputs are pairs of times, [batch, 1], and features, [batch, size].

    Args:
      leak: how open a closed unit is, relative to the phase.
      ratio_on: the part of a period for which a unit opens and closes again.
      period_init_min, period_init_max: the least and the greatest first period.
    """

    def __init__(
        self,
        num_units,
        use_peepholes=False,
        leak=0.001,
        ratio_on=0.1,
        trainable_ratio_on=True,
        period_init_min=1.0,
        period_init_max=1000.0,
        reuse=None,
    ):
        super().__init__(num_units, reuse)
        self._has_peepholes, self._leak, self._ratio, self._is_ratio_learned = use_peepholes, leak, ratio_on, trainable_ratio_on
        self._periods = period_init_min, period_init_max

    def build(self, _):
        self.built = True

    def _phase(self, time):
        """Returns where in its period each unit is, from 0 to 1, and the ratio_on."""

        def any_period(shape, dtype=tf.float32, partition_info=None):
            return tf.exp(tf.random_uniform(shape, *(tf.log(tf.cast(end, dtype)) for end in self._periods), dtype))

        def any_phase(shape, dtype=tf.float32, partition_info=None):
            return tf.random_uniform(shape, 0, period.initial_value, dtype)

        period = tf.get_variable('period', [self._num_units], initializer=any_period)
        phase = tf.get_variable('phase', [self._num_units], initializer=any_phase)
        how = tf.constant_initializer(self._ratio)
        ratio = tf.get_variable('ratio_on', [self._num_units], initializer=how, trainable=self._is_ratio_learned)
        shifted, period = time - tf.cast(phase, time.dtype), tf.cast(period, time.dtype)
        rest = tf.stop_gradient(tf.floormod(shifted, period) - shifted) + shifted  # Has no gradient of whole periods.
        return tf.cast(rest / period, tf.float32), ratio

    def call(self, inputs, state):
        (time, x), (c_last, h_last), units = inputs, state, self._num_units
        with tf.variable_scope('mask_gates'):
            i, f = tf.split(tf.sigmoid(linear([x, h_last, *[c_last] * self._has_peepholes], 2 * units, True)), 2, 1)
        with tf.variable_scope('new_input'):
            c = f * c_last + i * tf.tanh(linear([x, h_last], units, True))
        with tf.variable_scope('output_gate'):
            h = tf.tanh(c) * tf.sigmoid(linear([x, h_last, *[c] * self._has_peepholes], units, True))
        phase, ratio = self._phase(time)
        rising = 2 * phase / ratio
        is_open = tf.where(phase < ratio, 2 - rising, self._leak * phase)
        is_open = tf.where(phase < 0.5 * ratio, rising, is_open)
        c, h = is_open * c + (1 - is_open) * c_last, is_open * h + (1 - is_open) * h_last
        return self._ended(c, h)
