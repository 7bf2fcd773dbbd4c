"""The physical limit of training speed: what large matrix products and convolutions reach on this machine.

    python -m benchmarks.limits

TensorFlow runs them on all cores; the best of several runs counts. A network cannot train faster than its own products and
convolutions would take at this rate.
"""

from collections.abc import Callable
import json
import time

import tf_estimator  # noqa: F401 - before TensorFlow

import tensorflow.compat.v1 as tf

from benchmarks.processes import instruction_sets

REPETITIONS = 30
SIZE = 2048  # Of square matrices.
IMAGES, WIDTH, CHANNELS = 64, 28, 128  # Of a convolution of 3 by 3, with as many filters as channels.


def product(dtype: tf.DType) -> tuple[tf.Tensor, int]:
    """Returns a matrix product, and its number of floating-point operations."""
    matrix = tf.get_variable('matrix', [SIZE, SIZE], dtype, tf.ones_initializer())
    return tf.matmul(matrix, matrix), 2 * SIZE**3


def convolution(dtype: tf.DType) -> tuple[tf.Tensor, int]:
    """Returns a convolution, and its number of floating-point operations, those at the border included."""
    images = tf.get_variable('images', [IMAGES, WIDTH, WIDTH, CHANNELS], dtype, tf.ones_initializer())
    filters = tf.get_variable('filters', [3, 3, CHANNELS, CHANNELS], dtype, tf.ones_initializer())
    return tf.nn.conv2d(images, filters, 1, 'SAME'), 2 * IMAGES * WIDTH**2 * 9 * CHANNELS**2


def gigaflops(make: Callable[[tf.DType], tuple[tf.Tensor, int]], dtype: tf.DType) -> int:
    """Returns the rate of an operation, in GFLOP/s."""
    with tf.Graph().as_default(), tf.Session() as session:
        result, count = make(dtype)
        session.run(tf.global_variables_initializer())
        seconds = []
        for _ in range(REPETITIONS):
            start = time.perf_counter()
            session.run(result.op)
            seconds.append(time.perf_counter() - start)
    return round(count / min(seconds) / 1e9)


def main() -> None:
    rates = {
        dtype.name: {'product': gigaflops(product, dtype), 'convolution': gigaflops(convolution, dtype)}
        for dtype in (tf.float32, tf.bfloat16)
    }
    print(json.dumps({'instruction_sets': instruction_sets(), **rates}))


if __name__ == '__main__':
    main()
