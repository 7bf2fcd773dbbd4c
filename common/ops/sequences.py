"""Convolutions over sequences."""

from collections.abc import Sequence
import itertools

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
    return max_over_windows_of_widths(sequences, [num_windows], [kernel], [bias], is_training)


def max_over_windows_of_widths(
    sequences: tf.Tensor,
    num_windows: Sequence[tf.Tensor],
    kernels: Sequence[tf.Tensor],
    biases: Sequence[tf.Tensor],
    is_training: bool,
) -> tf.Tensor:
    """Returns what `max_over_windows` returns for each kernel, concatenated: float32 [batch, sum of counts].

    Their gradients are computed together, in less time.

    Args:
      num_windows, kernels, biases: as in `max_over_windows`, one for each kernel; their widths may differ.
    """

    def activations(sequences, weights):
        kernels, biases = weights[: len(weights) // 2], weights[len(weights) // 2 :]
        return [_activations(sequences, *own) for own in zip(kernels, biases, num_windows)]

    weights = *kernels, *biases
    if not is_training or tf.config.list_physical_devices('GPU'):
        return tf.concat([tf.reduce_max(values, 1) for values in activations(sequences, weights)], 1)

    @tf.custom_gradient
    def maxima(sequences, *weights):
        # Not in bfloat16, of which maxima take twice the time: mixed precision casts no tf.bitcast.
        of_kernels = [tf.bitcast(values, values.dtype) for values in activations(sequences, weights)]
        found = [tf.reduce_max(values, 1) for values in of_kernels]

        def gradients(gradient):
            firsts = [_first(*own) for own in zip(of_kernels, found)]
            return _gradients(gradient, tf.concat(found, 1), firsts, sequences, weights[: len(found)])

        return tf.concat(found, 1), gradients

    return maxima(*map(tf.convert_to_tensor, (sequences, *weights)))


def _activations(sequences, kernel, bias, num_windows):
    """Returns the ReLU of each filter at each window, float32 [batch, windows, count]; 0 for windows that do not count."""
    rows = tf.expand_dims(sequences, 1)
    convolved = tf.squeeze(tf.nn.conv2d(rows, tf.expand_dims(kernel, 0), 1, 'VALID'), 1)
    activations = tf.nn.relu(tf.nn.bias_add(convolved, bias))
    counts = tf.sequence_mask(num_windows, tf.shape(activations)[1], activations.dtype)
    return activations * tf.expand_dims(counts, 2)  # A ReLU is never below 0.


def _first(windows, maxima):
    """Returns the first windows that have the maxima, int64 [batch, count], sooner than tf.argmax; the last one for NaN."""
    ranks = tf.range(tf.shape(windows)[1], 0, -1)[:, None]
    is_found = tf.equal(windows, tf.expand_dims(maxima, 1))
    found = tf.reduce_max(tf.cast(is_found, tf.int32) * ranks, 1)
    return tf.cast(tf.shape(windows)[1] - tf.maximum(found, 1), tf.int64)


def _gradients(gradient, maxima, firsts, sequences, kernels):
    """Returns the gradients of the sequences, the kernels and the biases.

    A sparse matrix [sum of width * count, batch * length] has, for each place in the window of a maximum, the gradient of its
    filter: its product with the elements of all sequences is the kernels' gradient, that of its transpose with the kernels is
    theirs.
    """
    batch, length = tf.unstack(tf.shape(sequences, out_type=tf.int64)[:2])
    shapes = [kernel.shape.as_list() for kernel in kernels]
    widths, counts = [width for width, _, _ in shapes], [count for _, _, count in shapes]
    sizes = [width * count for width, count in zip(widths, counts)]
    of_filters = tf.transpose(tf.where_v2(maxima <= 0, 0.0, gradient))  # [sum of counts, batch]; of NaN, too.
    entries = [_entries(*own, length) for own in zip(tf.split(of_filters, counts), firsts, widths, counts)]
    rows = [own + start for (own, _, _), start in zip(entries, itertools.accumulate(sizes, initial=0))]
    sparse = tf.raw_ops.SparseTensorToCSRSparseMatrix(
        indices=_pairs(tf.concat(rows, 0), tf.concat([columns for _, columns, _ in entries], 0)),
        values=tf.concat([values for _, _, values in entries], 0),
        dense_shape=tf.stack([sum(sizes), batch * length]),
    )
    # Not transpose_a, whose sums depend on the number of threads.
    transposed = tf.raw_ops.SparseMatrixTranspose(input=sparse, type=sequences.dtype)
    size = shapes[0][1]
    filters = tf.concat([tf.reshape(tf.transpose(kernel, [0, 2, 1]), [-1, size]) for kernel in kernels], 0)
    of_kernels = tf.split(tf.raw_ops.SparseMatrixMatMul(a=sparse, b=tf.reshape(sequences, [-1, size])), sizes)
    of_sequences = tf.raw_ops.SparseMatrixMatMul(a=transposed, b=filters)
    return (
        tf.reshape(of_sequences, tf.shape(sequences)),
        *[tf.transpose(tf.reshape(own, [width, count, size]), [0, 2, 1]) for own, (width, _, count) in zip(of_kernels, shapes)],
        *tf.split(tf.reduce_sum(of_filters, 1), counts),
    )


def _entries(of_filters, first, width, count, length):
    """Returns the rows and columns, int64 [n], and the values, float32 [n], of a kernel's part of the sparse matrix, in order.

    Args:
      of_filters: float32 [count, batch]; what dropout or ReLU has zeroed, often most of it, is left out.
      first: int64 [batch, count], the windows of the maxima.
    """
    places = tf.where_v2(tf.not_equal(of_filters, 0))
    filters, examples = tf.unstack(places, axis=1)
    starts = tf.gather_nd(tf.transpose(first), places) + examples * length
    offsets = tf.range(width, dtype=tf.int64)[:, None]
    rows, columns = filters + offsets * count, starts + offsets
    return tf.reshape(rows, [-1]), tf.reshape(columns, [-1]), tf.tile(tf.gather_nd(of_filters, places), [width])


def _pairs(first, second):
    """Returns tf.stack([first, second], 1) of int64 [count], in a fifth of its time: complex numbers are pairs of 64 bits."""
    pairs = tf.complex(*[tf.bitcast(values, tf.float64) for values in (first, second)])
    return tf.bitcast(tf.bitcast(pairs, tf.float64), tf.int64)
