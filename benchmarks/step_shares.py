"""The time of an AlexNet training step by kind of op, from TensorFlow's trace of a step without hooks.

    python -m benchmarks.step_shares

One op runs at a time, on all cores, so that the times add up.
"""

import collections
import re
import statistics
import tempfile
import time

import tf_estimator  # noqa: F401 - before TensorFlow

import tensorflow.compat.v1 as tf

from estimator_trainer.common.options.table import Options
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import make_input_fn
from estimator_trainer.common.training.model_fn import ModelFn
from estimator_trainer.common.training.session_config import make_session_config
from estimator_trainer.datasets import mnist
from estimator_trainer.hparams import build
from estimator_trainer.models import alexnet

PRECISIONS = ('float32', 'bfloat16')
WARM_UP, STEPS, TRACED = 50, 200, 10
IMAGES = 60000
KINDS = {
    'convolutions forward': r'Conv2D$',
    'convolutions, gradient of the input': r'Conv2DBackpropInput',
    'convolutions, gradient of the filters': r'Conv2DBackpropFilter',
    'matrix products': r'MatMul',
    'max-pooling': r'MaxPool',
    'ReLU, biases': r'Relu|Bias',
    'Adam': r'Adam',
    'casts': r'^Cast',
    'waiting for the input': r'IteratorGetNext',
    'other ops': r'',
}


def kind(op_type: str) -> str:
    """Returns the first of KINDS that matches."""
    return next(name for name, pattern in KINDS.items() if re.search(pattern, op_type))


def measure(precision: str, data_dir: str) -> dict[str, float]:
    """Returns {kind: milliseconds per step}, with 'between ops' for the remaining time."""
    params = build.make_hparams('alexnet', alexnet.get_params(), 'mnist', mnist.get_params(), '', '')
    session_config = make_session_config([], Options(precision=precision, inter_op_threads=1))
    config = tf.estimator.RunConfig(data_dir, session_config=session_config, tf_random_seed=1)
    with tf.Graph().as_default(), tf.Session(config=config.session_config) as session:
        mode = tf.estimator.ModeKeys.TRAIN
        batches = tf.data.make_initializable_iterator(
            make_input_fn(DataSource(mnist, data_dir, params), mode, 'train', IMAGES, True)()
        )
        train_op = ModelFn(alexnet, [], Options(), total_steps=1000)(*batches.get_next(), mode, params, config).train_op
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(batches.initializer)
        seconds = []
        for _ in range(WARM_UP + STEPS):
            start = time.perf_counter()
            session.run(train_op)
            seconds.append(time.perf_counter() - start)
        milliseconds = collections.Counter(dict.fromkeys(KINDS, 0.0))
        for _ in range(TRACED):
            metadata = tf.RunMetadata()
            session.run(train_op, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
            for device in metadata.step_stats.dev_stats:
                for node in device.node_stats:
                    op_type = re.search(r' = (\w+)', node.timeline_label)
                    milliseconds[kind(op_type[1] if op_type else '')] += (
                        (node.op_end_rel_micros - node.op_start_rel_micros) / 1000 / TRACED
                    )
    step = 1000 * statistics.median(seconds[WARM_UP:])
    return {**milliseconds, 'between ops': step - sum(milliseconds.values()), 'a step': step}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        mnist.prepare(directory, mnist.get_params())
        results = [measure(precision, directory) for precision in PRECISIONS]
    print(f'| what | {", ms | ".join(PRECISIONS)}, ms |\n| --- | --- | --- |')
    for name in results[0]:
        print(f'| {name} | {" | ".join(f"{result[name]:.1f}" for result in results)} |')


if __name__ == '__main__':
    main()
