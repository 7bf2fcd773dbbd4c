"""The polynomial in a bare tf.while_loop, without a framework: python -m benchmarks.bare_loop INPUT STEPS"""

import json
import sys
import time

import tf_estimator  # noqa: F401 - before TensorFlow

import tensorflow.compat.v1 as tf

from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import make_input_fn
from estimator_trainer.datasets import polynomial
from estimator_trainer.hparams import build
from estimator_trainer.hparams.build import HParams

BATCH_SIZE, STEPS_PER_CALL = 100, 100


def trainer_input(params: HParams) -> tf.data.Dataset:
    """The input pipeline of trainer.py."""
    return make_input_fn(DataSource(polynomial, '', params), tf.estimator.ModeKeys.TRAIN, 'train', params.num_samples, True)()


def shuffled_input(params: HParams) -> tf.data.Dataset:
    """A typical tf.data pipeline, which shuffles single records."""
    records = polynomial.read('train', '', params)
    batches = records.cache().shuffle(params.num_samples).repeat().batch(BATCH_SIZE, drop_remainder=True)
    return batches.map(lambda record: ({'x': record['x']}, {'y': record['y']})).prefetch(tf.data.AUTOTUNE)


INPUTS = {'trainer': trainer_input, 'shuffled': shuffled_input}


def measure(name: str, steps: int) -> dict[str, float]:
    """Returns {'steps_per_second': ...}, measured after a warm-up of a tenth of the steps."""
    params = build.make_hparams('polynomial', {}, 'polynomial', polynomial.get_params(), '', f'batch_size={BATCH_SIZE}')
    with tf.Graph().as_default(), tf.Session() as session:
        batches = tf.data.make_initializable_iterator(INPUTS[name](params))
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable('w', [3, 1])
        optimizer = tf.train.AdamOptimizer(0.01)

        def body(i):
            features, labels = batches.get_next()
            x = features['x']
            y = tf.squeeze(tf.matmul(tf.stack([tf.square(x), x, tf.ones_like(x)], 1), w), 1)
            loss = tf.reduce_mean(tf.square(y - labels['y']))
            with tf.control_dependencies([optimizer.minimize(loss, step, [w])]):
                return i + 1

        loop = tf.while_loop(lambda i: i < STEPS_PER_CALL, body, [0], parallel_iterations=1)
        session.run(tf.global_variables_initializer())
        session.run(batches.initializer)  # The trainer's input reads the global step.
        warm_up, calls = steps // STEPS_PER_CALL // 10, steps // STEPS_PER_CALL
        for call in range(calls):
            if call == warm_up:
                start = time.perf_counter()
            session.run(loop)
        return {'steps_per_second': (calls - warm_up) * STEPS_PER_CALL / (time.perf_counter() - start)}


if __name__ == '__main__':
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
