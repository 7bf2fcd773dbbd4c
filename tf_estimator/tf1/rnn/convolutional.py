"""LSTMs of pictures, by convolutions."""

from tf_estimator.tf1.rnn.base import LSTMStateTuple, lstm_step

import tensorflow.compat.v1 as tf


class ConvLSTMCell(tf.nn.rnn_cell.RNNCell):
    """An LSTM of pictures, by convolutions. (X. Shi et al.: Convolutional LSTM Network, 2015.)

    Args:
      conv_ndims: 1, 2 or 3.
      input_shape: of a picture, with its channels last.
      skip_connection: whether the inputs are joined to the outputs.
    """

    def __init__(
        self,
        conv_ndims,
        input_shape,
        output_channels,
        kernel_shape,
        use_bias=True,
        skip_connection=False,
        forget_bias=1.0,
        initializers=None,
        name='conv_lstm_cell',
    ):
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise ValueError(f'Invalid input_shape {input_shape} for conv_ndims={conv_ndims}')
        self._sides, self._depth, self._joined = [*input_shape[:-1]], output_channels, input_shape[-1] * skip_connection
        self._kernel, self._use_bias, self._forget_bias = [*kernel_shape], use_bias, forget_bias

    @property
    def output_size(self):
        return tf.TensorShape([*self._sides, self._depth + self._joined])

    @property
    def state_size(self):
        return LSTMStateTuple(*[tf.TensorShape([*self._sides, self._depth])] * 2)

    def call(self, inputs, state):
        c, h = state
        joined, depth = tf.concat([inputs, h], -1), 4 * self._depth
        kernel = tf.get_variable('kernel', [*self._kernel, tf.compat.dimension_value(joined.shape[-1]), depth], inputs.dtype)
        gates = tf.nn.convolution(joined, kernel, padding='SAME')
        if self._use_bias:
            gates += tf.get_variable('biases', [depth], inputs.dtype, tf.zeros_initializer())
        i, j, f, o = tf.split(gates, 4, -1)
        c, h = lstm_step(c, i, tf.tanh(j), f, o, self._forget_bias)
        return tf.concat([h, inputs], -1) if self._joined else h, LSTMStateTuple(c, h)


class Conv1DLSTMCell(ConvLSTMCell):
    def __init__(self, name='conv_1d_lstm_cell', **options):
        super().__init__(1, name=name, **options)


class Conv2DLSTMCell(ConvLSTMCell):
    def __init__(self, name='conv_2d_lstm_cell', **options):
        super().__init__(2, name=name, **options)


class Conv3DLSTMCell(ConvLSTMCell):
    def __init__(self, name='conv_3d_lstm_cell', **options):
        super().__init__(3, name=name, **options)
