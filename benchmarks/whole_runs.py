"""End-to-end time: start-up, conversion, evaluations, and the time to a test accuracy of 0.99 on MNIST.

    python -m benchmarks.whole_runs

Keras and PyTorch run their own MNIST examples, evaluate after each epoch, and stop at 0.99. The first run creates their virtual
environments in .venv-peers.
"""

import os
import subprocess
import sys
import tempfile
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

import tensorflow.compat.v1 as tf

from benchmarks.processes import make_environments, median_of_rounds, run_peer, run_trainer, timed
from benchmarks.training import write_arrays
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import make_input_fn
from estimator_trainer.datasets import mnist
from estimator_trainer.hparams import build
from estimator_trainer.models import alexnet

ROUNDS, STEPS, EVAL_EVERY = 3, 1200, 400
TRAINING_IMAGES, TEST_IMAGES = 60000, 10000
MNIST = ('--model=alexnet', '--dataset=mnist')


def convert() -> dict[str, float]:
    """Times the conversion of MNIST to TFRecord files."""
    with tempfile.TemporaryDirectory() as directory:
        return timed(lambda: mnist.prepare(directory, mnist.get_params()))


def read(data_dir: str, steps: int = 2000) -> dict[str, float]:
    """Measures the input pipeline alone: batches of parsed training examples."""
    params = build.make_hparams('alexnet', alexnet.get_params(), 'mnist', mnist.get_params(), '', '')
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = make_input_fn(
            DataSource(mnist, data_dir, params), tf.estimator.ModeKeys.TRAIN, 'train', TRAINING_IMAGES, True
        )()
        batches = tf.data.make_initializable_iterator(dataset)
        image = batches.get_next()[0]['image'].op  # Running an op fetches nothing into Python.
        session.run(tf.global_variables_initializer())
        session.run(batches.initializer)
        session.run(image)
        return {
            'examples_per_second': steps
            * params.batch_size
            / timed(lambda: [session.run(image) for _ in range(steps)])['seconds']
        }


def evaluate_forward(data_dir: str) -> dict[str, float]:
    """Times the forward passes over the test split, after a warm-up."""
    params = build.make_hparams('alexnet', alexnet.get_params(), 'mnist', mnist.get_params(), '', '')
    mode = tf.estimator.ModeKeys.EVAL
    with tf.Graph().as_default(), tf.Session() as session:
        batches = tf.data.make_initializable_iterator(make_input_fn(DataSource(mnist, data_dir, params), mode, 'eval')())
        loss = alexnet.model(*batches.get_next(), mode, params)[1].op
        session.run(tf.global_variables_initializer())

        def whole_split():
            session.run(batches.initializer)
            for _ in range(TEST_IMAGES // params.eval_batch_size):
                session.run(loss)

        whole_split()
        return timed(whole_split)


def main() -> None:
    make_environments()
    with tempfile.TemporaryDirectory() as directory:
        data = f'--data_dir={directory}'
        arrays = [os.path.join(directory, f'{split}.npz') for split in ('train', 't10k')]
        for split, path in zip(('train', 't10k'), arrays):
            write_arrays(path, split)
        mnist.prepare(directory, mnist.get_params())
        training = [*MNIST, data, f'--train_steps={STEPS}', f'--save_checkpoints_steps={EVAL_EVERY}']
        results = median_of_rounds(
            {
                'conversion': convert,
                'input': lambda: read(directory),
                'import': lambda: timed(
                    lambda: subprocess.run([sys.executable, '-c', 'import tensorflow'], stderr=subprocess.PIPE, check=True)
                ),
                'one step': lambda: seconds(run_trainer(*MNIST, data, '--schedule=train', '--train_steps=1')),
                'training': lambda: seconds(run_trainer(*training, '--schedule=train')),
                'training and evaluations': lambda: seconds(run_trainer(*training)),
                'forward passes': lambda: evaluate_forward(directory),
                '0.99': lambda: reached(
                    run_trainer(
                        *MNIST,
                        data,
                        '--hparams_set=alexnet_mnist_quick',
                        '--precision=bfloat16',
                        '--num_towers=2',
                        '--steps_per_loop=20',
                    )
                ),
            },
            ROUNDS,
        )
        peers = median_of_rounds(
            {
                'Keras': lambda: run_peer('keras', 'keras_convnet.py', *arrays),
                'PyTorch': lambda: run_peer('torch', 'torch_convnet.py', *arrays),
            },
            1,
        )
    took = {name: result.get('seconds') for name, result in results.items()}
    forward = STEPS // EVAL_EVERY * took['forward passes']
    print(f"""| what | seen |
| --- | --- |
| MNIST to TFRecord, examples/s | {(TRAINING_IMAGES + TEST_IMAGES) / took['conversion']:,.0f} |
| input alone, parsed, examples/s | {results['input']['examples_per_second']:,.0f} |
| importing TensorFlow, s | {took['import']:.1f} |
| from the command to the end of a run of one step, s | {took['one step']:.1f} |
| {STEPS} steps, and an evaluation every {EVAL_EVERY}, s | {took['training and evaluations']:.1f} |
| {STEPS} steps alone, and the forward passes of the evaluations, s | {took['training']:.1f} + {forward:.1f} |
| ratio | {took['training and evaluations'] / (took['training'] + forward):.2f} |
| from the command to accuracy {results['0.99']['accuracy']:.4f}, s | {took['0.99']:.1f} |""")
    for name, result in peers.items():
        print(
            f"| {name}'s example to accuracy {result['accuracy']:.4f}, {result['epochs']:.0f} epochs, s | "
            f'{result["seconds"]:.1f}: ours takes {took["0.99"] / result["seconds"]:.2f} of it |'
        )


def seconds(run: dict[str, Any]) -> dict[str, float]:
    return {'seconds': run['seconds']}


def reached(run: dict[str, Any]) -> dict[str, float]:
    return {'seconds': run['seconds'], 'accuracy': run['result']['eval']['accuracy']}


if __name__ == '__main__':
    main()
