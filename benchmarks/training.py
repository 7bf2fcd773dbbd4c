"""Training AlexNet on MNIST beside Keras, PyTorch and Lightning: examples a second and memory, in one go.

    python -m benchmarks.training

The net, the data, the batch of 128 and Adam are the same for all; the framework's part is trainer.py with its usual hooks
and summaries, the peers are in benchmarks/peers. Their virtual environments are made in .venv-peers, once. The contenders
run in turn, each in a process of its own, and the table shows medians. The speed is that of the steps after the first 100.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

import common.tf_estimator  # Before TensorFlow.
import numpy as np

from benchmarks.processes import median_of_rounds
from datasets import mnist

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ENVIRONMENTS = {'keras': ['tensorflow', 'keras'], 'torch': ['torch', 'lightning', 'numpy']}
CONTENDERS = {
    'trainer.py': ('trainer', None, 'float32'),
    'trainer.py --precision=bfloat16': ('trainer', None, 'bfloat16'),
    'Keras fit': ('keras', 'keras_fit.py', 'float32'),
    'Keras fit, 10 steps an execution': ('keras', 'keras_fit.py', 'loop'),
    'Keras fit, mixed_bfloat16': ('keras', 'keras_fit.py', 'bfloat16'),
    'PyTorch': ('torch', 'torch_loop.py', 'float32'),
    'PyTorch, channels_last, fused Adam': ('torch', 'torch_loop.py', 'channels_last'),
    'PyTorch, channels_last, fused Adam, bfloat16': ('torch', 'torch_loop.py', 'bfloat16'),
    'Lightning, channels_last, fused Adam': ('torch', 'lightning_fit.py', 'float32'),
    'Lightning, channels_last, fused Adam, bf16-mixed': ('torch', 'lightning_fit.py', 'bfloat16'),
}
ROUNDS, STEPS, BATCH_SIZE, EVERY = 3, 600, 128, 100


def make_environment(name):
    """Returns the Python of a peer's virtual environment, which is made where it is not there."""
    directory = os.path.join(ROOT, '.venv-peers', name)
    python = os.path.join(directory, 'bin', 'python')
    done = os.path.join(directory, 'installed')
    if not os.path.exists(done):
        subprocess.run([sys.executable, '-m', 'venv', directory], check=True)
        subprocess.run([python, '-m', 'pip', 'install', '-q', *ENVIRONMENTS[name]], stdout=sys.stderr, check=True)
        open(done, 'w', encoding='utf-8').close()
    return python


def run_trainer(precision, data_dir):
    """Returns what the trainer reached; the Estimator logs the speed of every EVERY steps."""
    command = [sys.executable, os.path.join(ROOT, 'trainer.py'), '--model=alexnet', '--dataset=mnist', '--schedule=train',
               f'--train_steps={STEPS + 1}', f'--save_summary_steps={EVERY}', f'--precision={precision}',
               f'--hparams=batch_size={BATCH_SIZE},learning_rate=0.001,learning_rate_schedule=constant,warmup_steps=0,'
               'max_shift=0', f'--data_dir={data_dir}']
    with tempfile.TemporaryDirectory() as output_dir:
        # By wait4, as the other processes' memory is not this one's.
        process = subprocess.Popen([*command, f'--output_dir={output_dir}'], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        log = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(log)
    rates = [float(rate) for rate in re.findall(r'global_step/sec: (\S+)', log)][1:]
    return {'examples_per_second': BATCH_SIZE * len(rates) / sum(1 / rate for rate in rates),
            'megabytes': usage.ru_maxrss / 1024,
            'parameters': int(re.search(r'total +([\d,]+)', log)[1].replace(',', '')),
            'loss': float(re.findall(r'Loss for final step: (\S+?)\.?$', log, re.MULTILINE)[-1])}


def run_peer(environment, script, variant, path):
    command = [make_environment(environment), os.path.join(ROOT, 'benchmarks', 'peers', script), path, str(STEPS),
               str(BATCH_SIZE), variant]
    output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    return json.loads(output.splitlines()[-1])


def main():
    for name in ENVIRONMENTS:
        make_environment(name)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'mnist.npz')
        np.savez(path, images=mnist.read_idx('train-images-idx3-ubyte')[..., None],
                 labels=mnist.read_idx('train-labels-idx1-ubyte').astype(np.int32))
        mnist.prepare(directory, mnist.get_params())
        runs = {name: lambda script=script, environment=environment, variant=variant:
                run_peer(environment, script, variant, path) if script else run_trainer(variant, directory)
                for name, (environment, script, variant) in CONTENDERS.items()}
        results = median_of_rounds(runs, ROUNDS)
    assert len({result['parameters'] for result in results.values()}) == 1, 'The nets differ.'

    print(f'AlexNet on MNIST, batch {BATCH_SIZE}, {STEPS} steps, {ROUNDS} rounds\n')
    print('| trainer | examples/s | of PyTorch | MB | last loss |\n| --- | --- | --- | --- | --- |')
    for name, result in results.items():
        ratio = result['examples_per_second'] / results['PyTorch']['examples_per_second']
        print(f'| {name} | {result["examples_per_second"]:,.0f} | {ratio:.2f} | {result["megabytes"]:,.0f} | '
              f'{result["loss"]:.3f} |')
    speeds = {name: result['examples_per_second'] for name, result in results.items()}
    keras = max(speed for name, speed in speeds.items() if name.startswith('Keras') and 'bfloat16' not in name)
    peer = max((speed, name) for name, speed in speeds.items() if not name.startswith('trainer'))
    print(f'\ntrainer.py against Keras in float32 at its best: {speeds["trainer.py"] / keras:.2f}')
    print(f'trainer.py --precision=bfloat16 against the best peer, {peer[1]}: '
          f'{speeds["trainer.py --precision=bfloat16"] / peer[0]:.2f}')


if __name__ == '__main__':
    main()
