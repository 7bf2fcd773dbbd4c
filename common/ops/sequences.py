"""Convolutions over sequences."""

import tensorflow.compat.v1 as tf


def max_over_windows(
    sequences: tf.Tensor, num_windows: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, is_training: bool
) -> tf.Tensor:
    """Convolves sequences, applies ReLU, and returns the maximum of each filter over the windows of a sequence.

    In training on CPUs, gradients are computed from the windows of the maxima alone, the first ones of equal ones: no other
    window changes the result. Their number does not depend on the length, so they take far less time than gradients of
    convolutions, above all for long sequences. They have no gradients of their own.

    (Max-over-time pooling of R. Collobert et al.: Natural Language Processing (Almost) from Scratch, 2011.)

    Args:
      sequences: float32 [batch, length, size]; at least one, as convolutions on CPUs return the wrong shape for none, and
        of a length of at least width.
      num_windows: int32 [batch], in [1, length - width + 1]: the windows that count, which are the first ones of each sequence.
      kernel: float32 [width, size, count], of static shape.
      bias: float32 [count].
      is_training: whether gradients will be computed.

    Returns:
      float32 [batch, count], at least 0.
    """
    has_gpus = bool(tf.config.list_physical_devices('GPU'))
    arguments = sequences, kernel, bias
    if not is_training or has_gpus:
        return tf.reduce_max(_activations(num_windows, *arguments), 1)

    @tf.custom_gradient
    def maximum(sequences, kernel, bias):
        activations = _activations(num_windows, sequences, kernel, bias)
        found = tf.reduce_max(activations, 1)
        return found, lambda gradient: _gradients(gradient, activations, found, sequences, kernel)

    return maximum(*map(tf.convert_to_tensor, arguments))


def _activations(num_windows, sequences, kernel, bias):
    """Returns the ReLU of each filter at each window, float32 [batch, windows, count]; 0 for windows that do not count."""
    rows = tf.expand_dims(sequences, 1)
    convolved = tf.squeeze(tf.nn.conv2d(rows, tf.expand_dims(kernel, 0), 1, 'VALID'), 1)
    activations = tf.nn.relu(tf.nn.bias_add(convolved, bias))
    counts = tf.sequence_mask(num_windows, tf.shape(activations)[1], activations.dtype)
    return activations * tf.expand_dims(counts, 2)  # A ReLU is never below 0.


def _gradients(gradient, activations, maxima, sequences, kernel):
    """Returns the gradients of the sequences, the kernel and the bias.

    A sparse matrix [width * count, batch * length] has, for each place in the window of a maximum, the gradient of its filter:
    its product with the elements of all sequences is the kernel's gradient, that of its transpose with the kernel is theirs.
    """
    batch, length = tf.unstack(tf.shape(sequences, out_type=tf.int64)[:2])
    width, size, count = kernel.shape.as_list()
    of_filters = tf.transpose(tf.where_v2(maxima <= 0, 0.0, gradient))  # [count, batch]; of NaN, too.
    starts = tf.transpose(tf.argmax(activations, 1)) + tf.range(batch) * length
    columns = starts + tf.range(width, dtype=tf.int64)[:, None, None]  # [width, count, batch], ascending in the last.
    rows = tf.broadcast_to(tf.range(width * count, dtype=tf.int64)[:, None], [width * count, batch])
    sparse = tf.raw_ops.SparseTensorToCSRSparseMatrix(
        indices=tf.stack([tf.reshape(rows, [-1]), tf.reshape(columns, [-1])], 1),
        values=tf.tile(tf.reshape(of_filters, [-1]), [width]),
        dense_shape=tf.stack([width * count, batch * length]),
    )
    # Not transpose_a, whose sums depend on the number of threads.
    transposed = tf.raw_ops.SparseMatrixTranspose(input=sparse, type=kernel.dtype)
    elements = tf.reshape(sequences, [-1, size])
    filters = tf.reshape(tf.transpose(kernel, [0, 2, 1]), [-1, size])
    of_kernel = tf.raw_ops.SparseMatrixMatMul(a=sparse, b=elements)
    of_sequences = tf.raw_ops.SparseMatrixMatMul(a=transposed, b=filters)
    return (
        tf.reshape(of_sequences, tf.shape(sequences)),
        tf.transpose(tf.reshape(of_kernel, [width, count, size]), [0, 2, 1]),
        tf.reduce_sum(of_filters, 1),
    )
