"""Predictions compared with Keras, PyTorch and ONNX Runtime: many images, and single ones.

    python -m benchmarks.answers [--rounds=3]

The AlexNet of benchmarks.training predicts the 10,000 images of MNIST's test split, given as uint8 arrays, and then a single
one 2,000 times; each contender has its own process, with the best of two batch sizes. The second table times commands from
their start until a file has the predictions of all images, one JSON object per line. The first run creates the virtual
environments of the peers in .venv-peers.
"""

import argparse
import csv
import functools
import itertools
import os
import sys
import tempfile
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import tensorflow.compat.v2 as tf

from benchmarks.peers.answer_times import latencies, measure
from benchmarks.processes import (
    instruction_sets,
    make_environments,
    median_of_rounds,
    run_module,
    run_peer,
    run_trainer,
    timed,
)
from benchmarks.training import write_arrays, write_table
from estimator_trainer.common.commands import api

BATCH_SIZES = (125, 1000)
OURS = {'Predictor': 'predictor', 'Run.predict': 'run', 'the exported model, by tf.saved_model.load': 'saved_model'}
PEERS = {
    'Keras predict': ('keras', 'keras_answers.py', 'predict'),
    'Keras model(x)': ('keras', 'keras_answers.py', 'call'),
    'Keras tf.function(model)': ('keras', 'keras_answers.py', 'function'),
    'PyTorch inference_mode': ('torch', 'torch_answers.py', 'eager'),
    'PyTorch inference_mode, torch.compile': ('torch', 'torch_answers.py', 'compiled'),
}


def prepare(directory: str) -> dict[str, str]:
    """Trains for one step and exports; returns the flags of the run."""
    flags = {'output_dir': os.path.join(directory, 'output'), 'data_dir': os.path.join(directory, 'data')}
    run = api.train('alexnet', 'mnist', train_steps=1, schedule='train', **flags)
    os.rename(run.export(), os.path.join(directory, 'export'))
    write_arrays(os.path.join(directory, 'data.npz'), 't10k')
    return flags


def answer(how: str, directory: str, batch_size: int) -> str:
    """Measures one of this project's Python APIs; returns the JSON object of `measure`."""
    with np.load(os.path.join(directory, 'data.npz')) as data:
        images = data['images']
    if how in ('predictor', 'run'):
        run = api.load(os.path.join(directory, 'output'))
        return measure(run.predict if how == 'run' else run.predictor().predict, images, batch_size)
    loaded = tf.saved_model.load(os.path.join(directory, 'export'))
    signature = loaded.signatures['serving_default']

    def predict(batch):
        return {name: value.numpy() for name, value in signature(image=tf.constant(batch)).items()}

    return measure(predict, images, batch_size)


def prepare_rows(directory: str) -> None:
    """Trains a perceptron on a table for one step, in the directory with its train.csv."""
    write_table(directory, 20000)
    hparams = {'table_file': os.path.join(directory, 'train.csv'), 'target': 'target'}
    flags = {'output_dir': os.path.join(directory, 'output'), 'data_dir': os.path.join(directory, 'data')}
    api.train('mlp', 'table', train_steps=1, schedule='train', hparams=hparams, **flags)


def answer_rows(directory: str) -> str:
    """Measures `Run.predict` of single rows; returns the JSON object of `latencies`."""
    with open(os.path.join(directory, 'train.csv'), encoding='utf-8', newline='') as file:
        table = list(itertools.islice(csv.DictReader(file), 100))
    rows = [{name: value if name.startswith('c') else float(value) for name, value in row.items()} for row in table]
    return latencies(api.load(os.path.join(directory, 'output')).predict, rows)


def best(run: Any) -> dict[str, float]:
    """Returns the highest speed and the lowest latencies of the batch sizes."""
    results = [run(batch_size) for batch_size in BATCH_SIZES]
    speed = max(result['images_per_second'] for result in results)
    return {'images_per_second': speed, **{key: min(result[key] for result in results) for key in ('p50', 'p99')}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=3)
    rounds = parser.parse_args().rounds
    make_environments()
    with tempfile.TemporaryDirectory() as directory:
        flags = prepare(directory)
        data, export = (os.path.join(directory, name) for name in ('data.npz', 'export'))
        runs = {
            name: functools.partial(best, functools.partial(run_module, 'benchmarks.answers', how, directory))
            for name, how in OURS.items()
        }
        peers = {**PEERS, 'the exported model, by ONNX Runtime': ('onnx', 'onnx_answers.py', export)}
        for name, (environment, script, variant) in peers.items():
            runs[name] = functools.partial(
                best, lambda size, call=(environment, script), variant=variant: run_peer(*call, data, size, variant)
            )
        answers = median_of_rounds(runs, rounds)
        trainer = [f'--{name}={value}' for name, value in flags.items()]
        predict = ['--schedule=predict', '--model=alexnet', '--dataset=mnist', '--hparams=eval_batch_size=1000']
        lines = os.path.join(directory, 'predictions.jsonl')
        folder = os.path.join(directory, 'table')
        os.mkdir(folder)
        prepare_rows(folder)
        rows = median_of_rounds(
            {
                'Run.predict': lambda: run_module('benchmarks.answers', 'rows', folder),
                'PyTorch inference_mode': lambda: run_peer('torch', 'torch_rows.py', os.path.join(folder, 'train.csv')),
            },
            rounds,
        )
        commands = median_of_rounds(
            {
                'trainer.py --schedule=predict': lambda: timed(lambda: run_trainer(*trainer, *predict)),
                'Keras predict': lambda: run_peer('keras', 'keras_answers.py', data, 1000, f'lines={lines}'),
                'PyTorch inference_mode': lambda: run_peer('torch', 'torch_answers.py', data, 1000, f'lines={lines}'),
            },
            rounds,
        )
    print(f'{instruction_sets()}; {rounds} rounds\n')
    print('| predictions by | images/s | of Keras predict | ms, p50 | ms, p99 |\n| --- | --- | --- | --- | --- |')
    keras = answers['Keras predict']['images_per_second']
    for name, found in answers.items():
        speed = found['images_per_second']
        print(f'| {name} | {speed:,.0f} | {speed / keras:.2f} | {found["p50"]:.3f} | {found["p99"]:.3f} |')
    print('\n| a row of a table, by | ms, p50 | ms, p99 |\n| --- | --- | --- |')
    for name, found in rows.items():
        print(f'| {name} | {found["p50"]:.3f} | {found["p99"]:.3f} |')
    print('\n| command | s |\n| --- | --- |')
    for name, found in commands.items():
        print(f'| {name} | {found["seconds"]:.1f} |')


if __name__ == '__main__':
    if sys.argv[1:2] == ['rows']:
        print(answer_rows(sys.argv[2]))
    elif sys.argv[1:2] and sys.argv[1] in OURS.values():
        print(answer(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    else:
        main()
