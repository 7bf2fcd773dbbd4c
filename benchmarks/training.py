"""Training AlexNet on MNIST, compared with Keras, PyTorch and Lightning: examples per second and memory.

    python -m benchmarks.training

The network, the data, the batch size of 128 and Adam are the same for all. trainer.py has its usual hooks and summaries; the
peers are in benchmarks/peers. Their virtual environments are created in .venv-peers at the first run. Runs alternate, each in
its own process; the table shows medians. Speed is measured after a warm-up of 100 steps.
"""

import os
import re
import tempfile
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np

from benchmarks.processes import make_environments, median_of_rounds, run_peer, run_trainer
from datasets import mnist

ROUNDS, STEPS, BATCH_SIZE, EVERY = 3, 600, 128, 100
FLAGS = {
    'trainer.py': [],
    'trainer.py --num_towers=2': ['--num_towers=2'],
    'trainer.py --num_towers=4': ['--num_towers=4'],
    'trainer.py --precision=bfloat16': ['--precision=bfloat16'],
    'trainer.py --precision=bfloat16 --num_towers=2 --steps_per_loop=20': [
        '--precision=bfloat16',
        '--num_towers=2',
        '--steps_per_loop=20',
    ],
}
PEERS = {
    'Keras fit': ('keras', 'keras_fit.py', 'float32'),
    'Keras fit, 10 steps per execution': ('keras', 'keras_fit.py', 'loop'),
    'Keras fit, mixed_bfloat16': ('keras', 'keras_fit.py', 'bfloat16'),
    'Keras fit, mixed_bfloat16, 10 steps per execution': ('keras', 'keras_fit.py', 'bfloat16_loop'),
    'PyTorch': ('torch', 'torch_loop.py', 'float32'),
    'PyTorch, channels_last, fused Adam': ('torch', 'torch_loop.py', 'channels_last'),
    'PyTorch, channels_last, fused Adam, bfloat16': ('torch', 'torch_loop.py', 'bfloat16'),
    'Lightning, channels_last, fused Adam': ('torch', 'lightning_fit.py', 'float32'),
    'Lightning, channels_last, fused Adam, bf16-mixed': ('torch', 'lightning_fit.py', 'bfloat16'),
}


def train(flags: list[str], data_dir: str) -> dict[str, Any]:
    """Runs the trainer; returns the same measurements that the peers print."""
    run = run_trainer(
        '--model=alexnet',
        '--dataset=mnist',
        '--schedule=train',
        f'--data_dir={data_dir}',
        f'--train_steps={STEPS + 1}',
        f'--save_summary_steps={EVERY}',
        f'--hparams=batch_size={BATCH_SIZE},learning_rate=0.001,learning_rate_schedule=constant,warmup_steps=0,augment_shift=0',
        *flags,
    )
    return {
        'examples_per_second': run['steps_per_second'] * BATCH_SIZE,
        'megabytes': run['megabytes'],
        'parameters': int(re.search(r'total +([\d,]+)', run['log'])[1].replace(',', '')),
        'loss': float(re.findall(r'Loss for final step: (\S+?)\.?$', run['log'], re.MULTILINE)[-1]),
    }


def write_arrays(path: str, split: str = 'train') -> None:
    """Writes MNIST's split 'train' or 't10k' as an .npz file, for the peers."""
    np.savez(
        path,
        images=mnist.read_idx(f'{split}-images-idx3-ubyte')[..., None],
        labels=mnist.read_idx(f'{split}-labels-idx1-ubyte').astype(np.int32),
    )


def main() -> None:
    make_environments()
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'mnist.npz')
        write_arrays(path)
        mnist.prepare(directory, mnist.get_params())
        runs = {name: lambda flags=flags: train(flags, directory) for name, flags in FLAGS.items()}
        runs.update(
            {
                name: lambda peer=peer, script=script, variant=variant: run_peer(peer, script, path, STEPS, BATCH_SIZE, variant)
                for name, (peer, script, variant) in PEERS.items()
            }
        )
        results = median_of_rounds(runs, ROUNDS)
    assert len({result['parameters'] for result in results.values()}) == 1, 'The nets differ.'

    print(f'AlexNet on MNIST, batch {BATCH_SIZE}, {STEPS} steps, {ROUNDS} rounds\n')
    print('| trainer | examples/s | of PyTorch | MB | last loss |\n| --- | --- | --- | --- | --- |')
    for name, result in results.items():
        ratio = result['examples_per_second'] / results['PyTorch']['examples_per_second']
        print(
            f'| {name} | {result["examples_per_second"]:,.0f} | {ratio:.2f} | {result["megabytes"]:,.0f} | '
            f'{result["loss"]:.3f} |'
        )
    speeds = {name: result['examples_per_second'] for name, result in results.items()}
    for precision, mark in (('float32', False), ('bfloat16', True)):
        (ours, trainer), (theirs, peer) = (
            max((speed, name) for name, speed in speeds.items() if (name in FLAGS) == is_ours and ('bf' in name) == mark)
            for is_ours in (True, False)
        )
        print(f'\n{precision}: {trainer} against {peer}: {ours / theirs:.2f}')


if __name__ == '__main__':
    main()
