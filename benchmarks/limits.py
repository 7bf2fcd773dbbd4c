"""The physical limits of training speed: what large products, convolutions and copies reach on this machine.

    python -m benchmarks.limits

TensorFlow runs products and convolutions on all cores, in GFLOP/s; all cores copy at once, in GB/s that they read and write.
The best of several runs counts. A network cannot train faster than its own products and convolutions would take at this rate,
nor its operations on single numbers, such as ReLU, than copies of what they read and write.
"""

from collections.abc import Callable
import concurrent.futures
import json
import time

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import tensorflow.compat.v1 as tf

from benchmarks.processes import instruction_sets
from estimator_trainer.common import processor

REPETITIONS = 30
SIZE = 2048  # Of square matrices.
IMAGES, WIDTH, CHANNELS = 64, 28, 128  # Of a convolution of 3 by 3, with as many filters as channels.
ARRAYS, BYTES = 40, 2**21  # Of a copy by each core: as large as activations of a network, and all larger than its cache.


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
        return round(count / _least_seconds(lambda: session.run(result.op)) / 1e9)


def gigabytes() -> int:
    """Returns the rate at which all cores read and write memory at once, in GB/s."""
    cores = range(processor.num_cores())
    pairs = [[(np.ones(BYTES, np.uint8), np.ones(BYTES, np.uint8)) for _ in range(ARRAYS)] for _ in cores]

    def copy(core):
        for source, target in pairs[core]:
            np.copyto(target, source)

    with concurrent.futures.ThreadPoolExecutor(len(cores)) as threads:
        return round(2 * len(cores) * ARRAYS * BYTES / _least_seconds(lambda: [*threads.map(copy, cores)]) / 1e9)


def _least_seconds(run: Callable[[], object]) -> float:
    """Returns what the fastest of several runs took."""
    seconds = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    rates = {
        dtype.name: {'product': gigaflops(product, dtype), 'convolution': gigaflops(convolution, dtype)}
        for dtype in (tf.float32, tf.bfloat16)
    }
    print(json.dumps({'instruction_sets': instruction_sets(), **rates, 'memory': gigabytes()}))


if __name__ == '__main__':
    main()
