"""common/ops/sequences.py: maxima over windows and their gradients are those of NumPy, and of the convolution."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.sequences import max_over_windows, max_over_windows_of_widths
from tests.evaluated import evaluate

WIDTH, SIZE, COUNT = 2, 3, 5
RANDOM = np.random.RandomState(1)
SEQUENCES = RANDOM.normal(size=[7, 6, SIZE]).astype(np.float32)
SEQUENCES[2, 3:5] = SEQUENCES[2, :2]  # Equal windows.
NUM_WINDOWS = np.array([5, 1, 5, 3, 2, 4, 5], np.int32)  # The last elements of most sequences do not count.
KERNEL = RANDOM.normal(size=[WIDTH, SIZE, COUNT]).astype(np.float32)
BIAS = np.array([0, 0.5, -0.5, -100, 0], np.float32)  # One filter finds nothing.
WANTED = RANDOM.normal(size=[7, COUNT]).astype(np.float32) * (RANDOM.uniform(size=[7, COUNT]) < 0.5)  # As of dropout.


def in_numpy():
    """Returns the maxima, and the gradients of sum(WANTED * maxima), by loops over sequences and filters."""
    maxima, of_sequences, of_kernel = np.zeros([7, COUNT]), np.zeros(SEQUENCES.shape), np.zeros(KERNEL.shape)
    of_bias = np.zeros(COUNT)
    for i in range(7):
        for k in range(COUNT):
            windows = [SEQUENCES[i, j : j + WIDTH] for j in range(NUM_WINDOWS[i])]
            found = [np.sum(window * KERNEL[:, :, k]) + BIAS[k] for window in windows]
            maxima[i, k], best = max(np.max(found), 0), int(np.argmax(found))
            if maxima[i, k] > 0:
                of_sequences[i, best : best + WIDTH] += WANTED[i, k] * KERNEL[:, :, k]
                of_kernel[:, :, k] += WANTED[i, k] * windows[best]
                of_bias[k] += WANTED[i, k]
    return maxima, of_sequences, of_kernel, of_bias


def of_variables(is_training):
    """Returns the maxima, the gradients, and the number of the graph's gradients of convolutions."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        arrays = [tf.Variable(array, use_resource=True) for array in (SEQUENCES, KERNEL, BIAS)]
        maxima = max_over_windows(arrays[0], tf.constant(NUM_WINDOWS), *arrays[1:], is_training)
        gradients = tf.gradients(tf.reduce_sum(maxima * WANTED), arrays)
        session.run(tf.global_variables_initializer())
        backward = sum(op.type.startswith('Conv2DBackprop') for op in graph.get_operations())
        return [*session.run([maxima, *gradients])], backward


@pytest.mark.parametrize('is_training, backward', [(True, 0), (False, 2)])
def test_maxima_and_their_gradients_are_those_of_numpy_and_training_convolves_only_forward(is_training, backward):
    found, count = of_variables(is_training)
    assert count == backward
    for array, expected in zip(found, in_numpy(), strict=True):
        if array.shape == SEQUENCES.shape and not is_training:
            array[2] = expected[2]  # Reductions share the gradient between equal windows, which alone changes.
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-5)


def test_filters_of_several_widths_have_the_maxima_and_the_gradients_of_each_alone():
    arrays, widths = [SEQUENCES], (1, 2, 4)
    for width in widths:
        arrays += [np.float32(RANDOM.normal(size=shape)) for shape in ([width, SIZE, COUNT + width], [COUNT + width])]
    num_windows = [np.maximum(NUM_WINDOWS - width + 2, 1) for width in widths]
    wanted = np.float32(RANDOM.normal(size=[7, 3 * COUNT + sum(widths)]))
    with tf.Graph().as_default(), tf.Session() as session:
        given = [tf.constant(array) for array in arrays]
        together = max_over_windows_of_widths(given[0], num_windows, given[1::2], given[2::2], True)
        alone = tf.concat([max_over_windows(given[0], *own, True) for own in zip(num_windows, given[1::2], given[2::2])], 1)
        results = [session.run([maxima, *tf.gradients(maxima * wanted, given)]) for maxima in (together, alone)]
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_places_of_maxima_in_long_sequences_are_found_in_bfloat16_too():
    sequences = np.zeros([3, 700, 32], np.float32)
    places = [699, 257, 516]  # Not exact in bfloat16.
    sequences[range(3), places] = RANDOM.uniform(1, 2, [3, 32])
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 = 1
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        given = tf.placeholder(tf.float32, [None, None, 32])
        kernel, weights = tf.ones([1, 32, 16]), tf.ones([16, 2])
        maxima = max_over_windows(given, tf.fill([3], 700), kernel, tf.zeros([16]), True)
        found = session.run(tf.gradients(tf.matmul(maxima, weights), given)[0], {given: sequences})
    expected = np.zeros_like(sequences)
    expected[range(3), places] = 32  # 16 filters of weight 1, and two sums of them.
    np.testing.assert_array_equal(found, expected)


def test_gradients_are_the_same_bits_whatever_the_number_of_threads():
    sequences, kernel, wanted = (np.float32(RANDOM.normal(size=shape)) for shape in ([64, 30, 24], [3, 24, 40], [64, 40]))
    results = []
    for threads in (1, 2, 5):
        counts = {'intra_op_parallelism_threads': threads, 'inter_op_parallelism_threads': threads}
        config = tf.ConfigProto(**counts, use_per_session_threads=True)
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            given = [tf.placeholder(tf.float32, array.shape) for array in (sequences, kernel)]
            maxima = max_over_windows(given[0], tf.fill([64], 28), given[1], tf.zeros([40]), True)
            gradients = tf.gradients(tf.reduce_sum(maxima * wanted), given)
            results.append(session.run(gradients, dict(zip(given, (sequences, kernel)))))
    for others in results[1:]:
        assert all(np.array_equal(one, other) for one, other in zip(results[0], others, strict=True))


def test_towers_and_unknown_batch_sizes_give_the_same():
    def compute(sequences, num_windows):
        return max_over_windows(sequences, num_windows, tf.constant(KERNEL), tf.constant(BIAS), True)

    np.testing.assert_allclose(evaluate(compute, SEQUENCES, NUM_WINDOWS), in_numpy()[0], rtol=1e-4, atol=1e-5)


def test_nothing_found_has_no_gradients_and_nan_shows():
    with tf.Graph().as_default(), tf.Session() as session:
        sequences, bias = tf.placeholder(tf.float32, [None, None, SIZE]), tf.constant(np.full(COUNT, -100, np.float32))
        maxima = max_over_windows(sequences, tf.fill([2], 4), tf.constant(KERNEL), bias, True)
        gradients = tf.gradients(maxima, [sequences, bias])
        found, *of_inputs = session.run([maxima, *gradients], {sequences: SEQUENCES[:2, :5]})
        assert not found.any() and not any(gradient.any() for gradient in of_inputs)
        one_is_nan = SEQUENCES[:2, :5].copy()
        one_is_nan[0, 3, 0] = np.nan
        assert np.isnan(session.run(maxima, {sequences: one_is_nan})).all(1).tolist() == [True, False]
        of_nan = tf.gradients(maxima * np.nan, [bias, sequences])
        of_bias, of_sequences = session.run(of_nan, {sequences: one_is_nan[::-1]})  # The last one, too.
        assert np.isnan(of_bias).all() and np.isnan(of_sequences[1]).any()
