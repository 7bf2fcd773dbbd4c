"""`merge` compared with a dense layer on tiled and concatenated tensors: time and memory of a training step.

    python -m benchmarks.merge

(After the guide Effective TensorFlow, chapter "Broadcasting the good and the ugly".)
"""

import json
import statistics
import sys
import time

import tf_estimator  # noqa: F401 - before TensorFlow

import tensorflow.compat.v1 as tf

from benchmarks.processes import compare, peak_memory
from estimator_trainer.common.ops.layers import merge

IMAGES, CONTEXT, UNITS = [32, 64, 64, 64], [32, 1, 1, 256], 64
ROUNDS, STEPS = 3, 20


def tiled(tensors: list[tf.Tensor], units: int) -> tf.Tensor:
    """A dense layer on tiled and concatenated tensors."""
    images, context = tensors
    context = tf.tile(context, [1, *images.shape.as_list()[1:3], 1])
    return tf.layers.dense(tf.concat([images, context], axis=3), units)


FORMS = {'tiled': tiled, 'merge': merge}


def measure(name: str) -> dict[str, float]:
    """Returns the milliseconds per step, the median of STEPS, and the increase of peak memory in MB."""
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = [tf.get_variable('images', IMAGES), tf.get_variable('context', CONTEXT)]
        loss = tf.reduce_sum(tf.square(FORMS[name](tensors, UNITS)))
        # Sums, since TensorFlow may prune ops that only a control dependency needs.
        step = [tf.reduce_sum(gradient) for gradient in tf.gradients(loss, tf.trainable_variables())]
        session.run(tf.global_variables_initializer())
        before = peak_memory()
        seconds = []
        for _ in range(STEPS):
            start = time.perf_counter()
            session.run(step)
            seconds.append(time.perf_counter() - start)
    return {'milliseconds': 1000 * statistics.median(seconds), 'megabytes': peak_memory() - before}


def main() -> None:
    results = compare('benchmarks.merge', list(FORMS), ROUNDS)
    print(f'images {IMAGES}, context {CONTEXT}, {UNITS} units; forward and backward\n')
    print('| form | ms a step | MB |\n| --- | --- | --- |')
    for name, result in results.items():
        print(f'| {name} | {result["milliseconds"]:.0f} | {result["megabytes"]:.0f} |')
    ratios = [results['tiled'][key] / results['merge'][key] for key in ('milliseconds', 'megabytes')]
    print(f'| ratio | {ratios[0]:.2f} | {ratios[1]:.2f} |')


if __name__ == '__main__':
    if len(sys.argv) == 1:
        main()
    else:
        print(json.dumps(measure(sys.argv[1])))
