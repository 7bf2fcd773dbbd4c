"""Runs of the trainer, of PyTorch and of NCCL, each in a process of its own."""

import importlib.util
import json
import os
from pathlib import Path
import subprocess
import sys

import numpy as np
import tensorflow.compat.v1 as tf

from benchmarks.processes import ROOT, steps_per_second
from benchmarks.training import WARM_UP
from tools.gpu_check import all_reduce
from tools.gpu_check.checks import SPEED_BATCH, START, STEPS, Outcome, Run
from tools.gpu_check.table import Absent, Failure

_SECONDS = 180  # For each process.
_EXACT = {'NVIDIA_TF32_OVERRIDE': '0'}  # Else TensorFloat-32 would make the largest difference.
_HPARAMS = '--hparams=learning_rate_schedule=constant,warmup_steps=0'
_SMOOTH = ('--model=tools.gpu_check.smooth_net', f'{_HPARAMS},optimizer=sgd,learning_rate=0.1,batch_size=64')
_ALEXNET = ('--model=alexnet', f'{_HPARAMS},augment_shift=0,learning_rate=0.001,batch_size={SPEED_BATCH}')


class Execution:
    """Executes runs, each once.

    Args:
      directory: with the data of pictures.py; outputs are written below it.
      gpus: how many this machine has; 0 for the CPU.
    """

    def __init__(self, directory: Path, gpus: int):
        self._directory, self._gpus = directory, gpus
        self._steps = WARM_UP + (1000 if gpus else 100)
        self._outcomes: dict[Run, Outcome] = {}

    def __call__(self, run: Run) -> Outcome:
        """Returns the outcome of a run; raises Failure or Absent."""
        if run not in self._outcomes:
            self._outcomes[run] = getattr(self, f'_{run.program}')(run)
        return self._outcomes[run]

    def _start(self, run):
        return Outcome(self._weights_after(1, run))

    def _weights(self, run):
        self(START)
        return Outcome(self._weights_after(STEPS, run, f'--warm_start_from={self._output_dir(START)}'))

    def _weights_after(self, steps, run, *flags):
        self._train(run, *_with_hparams(_SMOOTH, run.hparams), f'--train_steps={steps}', *flags, environ=_EXACT)
        reader = tf.train.load_checkpoint(str(self._output_dir(run)))
        shapes = reader.get_variable_to_shape_map()  # Scalars are steps, and the scale of the loss in float16.
        return {name: reader.get_tensor(name) for name, shape in shapes.items() if shape}

    def _speed(self, run):
        steps = f'--train_steps={self._steps + 1}'
        log = self._train(run, *_with_hparams(_ALEXNET, run.hparams), steps, f'--save_summary_steps={WARM_UP}')
        rate = steps_per_second(log)
        if not rate:
            raise Failure('the log has no speed')
        return Outcome(speed=rate * SPEED_BATCH)

    def _torch(self, run):
        if not importlib.util.find_spec('torch'):
            raise Absent('not installed')
        script = os.path.join(ROOT, 'benchmarks', 'peers', 'torch_nets.py')
        data = self._directory / 'data.npz'
        arguments = ['alexnet', str(data), str(self._steps), str(SPEED_BATCH), run.variant]
        return Outcome(speed=_last_line(self._process(run, script, *arguments))['examples_per_second'])

    def _all_reduce(self, run):
        path = str(self._directory / 'sum.npy')
        devices = [f'/gpu:{i}' for i in range(2)]
        speed = _last_line(self._process(run, '-m', 'tools.gpu_check.all_reduce', path, *devices))['gigabytes_per_second']
        return Outcome({'sum': np.load(path)}, speed, 'GB/s')

    def _sum(self, unused_run):
        return Outcome({'sum': np.broadcast_to(all_reduce.vectors(2, all_reduce.SIZE).sum(0), [2, all_reduce.SIZE])})

    def _train(self, run, *flags, environ=()):
        """Returns the log of the trainer, or of the chief."""
        directory = self._output_dir(run)
        paths = (f'--data_dir={self._directory}', f'--output_dir={directory}')
        self._process(run, 'trainer.py', '--dataset=mnist', '--schedule=train', *paths, *flags, *run.flags, environ=environ)
        of_chief = directory / 'cluster' / 'worker-0.log'
        return (of_chief if of_chief.exists() else self._log(run)).read_text()

    def _process(self, run, *arguments, environ=()):
        """Returns the stdout of Python with arguments; raises Failure with the last line of its log, which is kept."""
        hidden = {} if self._gpus and not run.on_cpu else {'CUDA_VISIBLE_DEVICES': '-1'}
        with open(self._log(run), 'w') as log:
            try:
                return subprocess.run(
                    [sys.executable, *arguments],
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    check=True,
                    cwd=ROOT,
                    env={**os.environ, **dict(environ), **hidden},
                    timeout=_SECONDS,
                ).stdout
            except subprocess.TimeoutExpired:
                raise Failure(f'not done after {_SECONDS} s') from None
            except subprocess.CalledProcessError as error:
                lines = self._log(run).read_text().strip().splitlines()
                raise Failure(lines[-1].removeprefix('trainer.py: ') if lines else f'exit code {error.returncode}') from None

    def _output_dir(self, run):
        return self._directory / 'runs' / str(abs(hash(run)))

    def _log(self, run):
        return self._directory / f'{abs(hash(run))}.log'


def _with_hparams(flags, hparams):
    """Adds hyper-parameters to the last flag."""
    return (*flags[:-1], ','.join(filter(None, (flags[-1], hparams))))


def _last_line(text):
    return json.loads(text.splitlines()[-1])
