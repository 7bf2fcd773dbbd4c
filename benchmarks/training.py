"""Training compared with Keras, PyTorch, Lightning and JAX: examples per second and memory.

    python -m benchmarks.training [--rounds=3] [alexnet | resnet | mlp | seq2seq | text_cnn]

- alexnet: MNIST, batches of 128, Adam.
- resnet: 50,000 pictures of 32 by 32 pixels in color, mirrored and shifted at random, batches of 128, momentum.
- mlp: a table of a million rows, 10 numeric and 8 categorical columns, batches of 1,024, Adam.
- seq2seq: sums of two numbers as text, batches of 128, Adam.
- text_cnn: 50,000 texts of 40 words of a vocabulary of 5,000, two classes, batches of 128, Adam.

The sizes of the networks, the batches and the optimizer are the same for all. trainer.py reads its TFRecord files, and has its
usual hooks and summaries; the peers in benchmarks/peers have all data in memory, already decoded, and gather whole batches.
The first run creates their virtual environments in .venv-peers. Runs alternate, each in its own process; the table shows
medians. Speed is measured after a warm-up of 100 steps, including compilation by torch.compile and XLA. The loss is that of the
last batch, Keras's the mean over all steps.

The last column is the share of the limit: the network's operations a second, of those of large products and convolutions in the
same precision, see benchmarks/limits.py.

The differences favor the peers: their GRUs do not mask the padding of the texts. PyTorch's GRU applies its reset gate after the
matrix product, and torch.compile does not compile it. Weight decay is a penalty in the loss here, decoupled from the gradients
in Keras.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
import csv
import dataclasses
import multiprocessing
import os
import re
import tempfile
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np

from benchmarks.processes import instruction_sets, make_environments, median_of_rounds, run_module, run_peer, run_trainer
from estimator_trainer.common.formats import image_records
from estimator_trainer.common.records import records
from estimator_trainer.datasets import mnist

WARM_UP = 100
PICTURES, ROWS = 50000, 1000000
TEXTS, WORDS, VOCABULARY = 50000, 40, 5000
BFLOAT16 = '--precision=bfloat16'
TOWERS = '--num_towers=2'
SINGLE = '--intra_op_threads=1'
VARIANTS = ((), (SINGLE,), (TOWERS, SINGLE), (BFLOAT16,), (BFLOAT16, TOWERS, SINGLE))


@dataclasses.dataclass(frozen=True)
class Task:
    """A benchmark of one network.

    Attributes:
      model: of trainer.py, and the name of the peers' network.
      dataset: of trainer.py.
      hparams: of trainer.py, where {data_dir} is the directory with the data.
      write: function that writes the data to a directory: for trainer.py, and data.npz for the peers.
      megaflops: floating-point operations of its products and convolutions, forward and backward, in millions an example.
      batch_size: global.
      steps: per run.
      tolerance: maximum relative difference of the numbers of weights.
      peers: additional peers of this task, in the form of `_peers`.
    """

    model: str
    dataset: str
    hparams: str
    write: Callable[[str], None]
    megaflops: float
    batch_size: int = 128
    steps: int = 1000
    tolerance: float = 0.0
    peers: Mapping[str, tuple[str, Sequence[str], str]] = dataclasses.field(default_factory=dict)


def write_arrays(path: str, split: str = 'train') -> None:
    """Writes MNIST's split 'train' or 't10k' as an .npz file, for the peers."""
    np.savez(
        path,
        images=mnist.read_idx(f'{split}-images-idx3-ubyte')[..., None],
        labels=mnist.read_idx(f'{split}-labels-idx1-ubyte').astype(np.int32),
    )


def _write_mnist(directory):
    write_arrays(os.path.join(directory, 'data.npz'))
    mnist.prepare(directory, mnist.get_params())


def _write_pictures(directory):
    """Writes noise in the form of CIFAR-10, with a brighter quarter that identifies the class."""
    random = np.random.default_rng(1)
    images = random.integers(0, 200, [PICTURES, 32, 32, 3], np.uint8)
    labels = random.integers(0, 10, PICTURES, np.int32)
    images[:, ::2, ::2] += (5 * labels).astype(np.uint8)[:, None, None, None]
    np.savez(os.path.join(directory, 'data.npz'), images=images, labels=labels)
    counts = {'train': PICTURES, 'eval': 10}
    splits = {name: image_records.Examples(images[:count], labels[:count].astype(np.uint8)) for name, count in counts.items()}
    records.write(os.path.join(directory, 'cifar10'), splits)


def write_table(directory: str, rows: int = ROWS) -> None:
    """Writes a table whose categories follow Zipf's law, like words."""
    random = np.random.default_rng(1)
    sizes = np.array([5, 20, 50, 100, 300, 1000, 3000, 10000])
    numeric = np.round(random.normal(size=[rows, 10]), 4).astype(np.float32)
    categorical = (random.zipf(1.3, [rows, 8]) % sizes).astype(np.int32)
    scores = numeric[:, :3].sum(1) + (categorical[:, 0] == 1) + categorical[:, 3] % 2 + random.normal(size=rows)
    labels = (scores > 1).astype(np.int32)
    np.savez(os.path.join(directory, 'data.npz'), numeric=numeric, categorical=categorical, labels=labels, sizes=sizes)
    with open(os.path.join(directory, 'train.csv'), 'w', encoding='utf-8', newline='') as file:
        writer = csv.writer(file)
        writer.writerow([*(f'number{i}' for i in range(10)), *(f'category{i}' for i in range(8)), 'target'])
        for numbers, categories, label in zip(numeric.tolist(), categorical.tolist(), labels.tolist(), strict=True):
            writer.writerow([*(f'{number:.4f}' for number in numbers), *(f'c{category}' for category in categories), label])


def _write_sums(directory):
    """Writes the texts of datasets/addition.py as bytes, padded with 0."""
    random = np.random.default_rng(1)
    numbers = random.integers(0, 10 ** random.integers(1, 4, [100000, 2]))
    texts = {
        'sources': ([f'{a}+{b}' for a, b in numbers], 7),
        'targets': ([str(a + b) for a, b in numbers], 5),  # With the end token.
    }
    arrays = {
        name: np.array([list(text.encode().ljust(length, b'\0')) for text in lines], np.uint8)
        for name, (lines, length) in texts.items()
    }
    np.savez(os.path.join(directory, 'data.npz'), **arrays)


def _write_texts(directory):
    """Writes texts of equal length, whose class depends on how often one half of the vocabulary occurs."""
    random = np.random.default_rng(1)
    words = random.zipf(1.1, [TEXTS, WORDS]) % VOCABULARY
    labels = ((words % 2).mean(1) > 0.5).astype(np.int32)
    np.savez(os.path.join(directory, 'data.npz'), texts=words.astype(np.int32), labels=labels)
    with open(os.path.join(directory, 'train.txt'), 'w', encoding='utf-8') as file:
        for label, text in zip(labels.tolist(), words.tolist(), strict=True):
            file.write(f'class{label}\t{" ".join(f"w{word}" for word in text)}\n')


def _peers(net):
    """Returns the peers of every network, {name: (environment, the script and its first argument, variant)}."""
    keras, torch = ['keras_nets.py', net], ['torch_nets.py', net]
    return {
        'Keras fit': ('keras', keras, 'float32'),
        'Keras fit, 10 steps per execution': ('keras', keras, 'float32_loop'),
        'Keras fit, 10 steps per execution, 1 thread per op': ('keras', keras, 'float32_loop_single'),
        'Keras fit, XLA': ('keras', keras, 'float32_jit'),
        'PyTorch': ('torch', torch, 'float32'),
        'PyTorch, channels_last, fused optimizer': ('torch', torch, 'float32_fused'),
        'PyTorch, torch.compile': ('torch', torch, 'float32_compiled'),
        'PyTorch, channels_last, fused optimizer, torch.compile': ('torch', torch, 'float32_fused_compiled'),
        'Keras fit, mixed_bfloat16': ('keras', keras, 'bfloat16'),
        'Keras fit, mixed_bfloat16, 10 steps per execution': ('keras', keras, 'bfloat16_loop'),
        'Keras fit, mixed_bfloat16, 10 steps per execution, 1 thread per op': ('keras', keras, 'bfloat16_loop_single'),
        'PyTorch, channels_last, fused optimizer, bfloat16': ('torch', torch, 'bfloat16_fused'),
        'PyTorch, channels_last, fused optimizer, torch.compile, bfloat16': ('torch', torch, 'bfloat16_fused_compiled'),
    }


def _alexnet_peers():
    lightning, jax = ['lightning_fit.py'], ['jax_alexnet.py']
    return {
        'Lightning, channels_last, fused optimizer': ('torch', lightning, 'float32'),
        'Lightning, channels_last, fused optimizer, bf16-mixed': ('torch', lightning, 'bfloat16'),
        'JAX': ('jax', jax, 'float32'),
        'JAX, bfloat16': ('jax', jax, 'bfloat16'),
    }


_ADAM = 'learning_rate=0.001,learning_rate_schedule=constant,warmup_steps=0'
_MOMENTUM = 'learning_rate=0.1,learning_rate_schedule=constant,augment_flip=True,augment_shift=4'

TASKS = {
    task.model: task
    for task in (
        Task('alexnet', 'mnist', f'{_ADAM},augment_shift=0', _write_mnist, 48, peers=_alexnet_peers()),
        Task('resnet', 'cifar10', _MOMENTUM, _write_pictures, 244, steps=300),
        # Categories that occur at most once have no embedding.
        Task(
            'mlp',
            'table',
            f'table_file={{data_dir}}/train.csv,target=target,{_ADAM}',
            write_table,
            0.31,
            batch_size=1024,
            steps=1600,
            tolerance=0.01,
        ),
        Task('seq2seq', 'addition', _ADAM, _write_sums, 11, tolerance=0.01),  # PyTorch's GRU has more biases.
        # Two ids are for padding and unknown words.
        Task('text_cnn', 'text', f'text_file={{data_dir}}/train.txt,{_ADAM}', _write_texts, 37, tolerance=0.01),
    )
}


def train(task: Task, flags: Sequence[str], data_dir: str) -> dict[str, Any]:
    """Runs the trainer; returns the same measurements as the peers."""
    run = run_trainer(
        f'--model={task.model}',
        f'--dataset={task.dataset}',
        f'--hparams={task.hparams.format(data_dir=data_dir)},batch_size={task.batch_size}',
        '--schedule=train',
        f'--data_dir={data_dir}',
        f'--train_steps={task.steps + 1}',
        f'--save_summary_steps={WARM_UP}',
        *flags,
    )
    return {
        'examples_per_second': run['steps_per_second'] * task.batch_size,
        'megabytes': run['megabytes'],
        'parameters': int(re.search(r'total +([\d,]+)', run['log'])[1].replace(',', '')),
        'loss': float(re.findall(r'Loss for final step: (\S+?)\.?$', run['log'], re.MULTILINE)[-1]),
    }


def _in_another_process(write, directory):
    # Children inherit the peak memory of the process that starts them.
    process = multiprocessing.get_context('spawn').Process(target=write, args=(directory,))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError('the data cannot be written')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('task', nargs='?', default='alexnet', choices=TASKS)
    parser.add_argument('--rounds', type=int, default=3)
    arguments = parser.parse_args()
    task = TASKS[arguments.task]
    make_environments()
    ours = {' '.join(['trainer.py', *flags]): flags for flags in VARIANTS}
    with tempfile.TemporaryDirectory() as directory:
        _in_another_process(task.write, directory)
        path = os.path.join(directory, 'data.npz')
        runs = {name: lambda flags=flags: train(task, flags, directory) for name, flags in ours.items()}
        for name, (environment, (script, *net), variant) in {**_peers(task.model), **task.peers}.items():
            command = [environment, script, *net, path, task.steps, task.batch_size, variant]
            runs[name] = lambda command=command: run_peer(*command)
        results = median_of_rounds(runs, arguments.rounds)
    sizes = [result['parameters'] for result in results.values()]
    assert max(sizes) <= (1 + task.tolerance) * min(sizes), f'The nets differ: {sizes}'

    limits = run_module('benchmarks.limits')
    print(f'{instruction_sets()}; batches of {task.batch_size}, {task.steps} steps, {arguments.rounds} rounds')
    print(f'GFLOP/s of large operations, float32: {limits["float32"]}, bfloat16: {limits["bfloat16"]}\n')
    print('| trainer | examples/s | of PyTorch | MB | last loss | of the limit |\n| --- | --- | --- | --- | --- | --- |')
    speeds = {name: result['examples_per_second'] for name, result in results.items()}
    for name, result in results.items():
        limit = max(limits['bfloat16' if 'bf' in name else 'float32'].values()) * 1e3 / task.megaflops
        print(
            f'| {name} | {speeds[name]:,.0f} | {speeds[name] / speeds["PyTorch"]:.2f} | {result["megabytes"]:,.0f} | '
            f'{result["loss"]:.3f} | {speeds[name] / limit:.0%} |'
        )
    for precision, is_bfloat16 in (('float32', False), ('bfloat16', True)):
        known = {name: speed for name, speed in speeds.items() if ('bf' in name) == is_bfloat16}
        if known:
            trainer, peer = (
                max((name for name in known if (name in ours) == is_ours), key=known.__getitem__) for is_ours in (True, False)
            )
            print(f'\n{precision}: {trainer} against {peer}: {known[trainer] / known[peer]:.2f}')


if __name__ == '__main__':
    main()
