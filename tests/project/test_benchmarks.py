"""The benchmarks run, and read what they measure from the right lines."""

import dataclasses
import glob
import importlib
import os
import resource
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest

from benchmarks import bare_loop, command_line, image_pipeline, resume, training, whole_runs
from estimator_trainer.datasets import mnist
from tests import forked
from tests.shared import ROOT


@pytest.mark.parametrize('name', [os.path.basename(path)[:-3] for path in glob.glob(f'{ROOT}/benchmarks/*.py')])
def test_every_benchmark_finds_what_it_imports(name):
    importlib.import_module(f'benchmarks.{name}')


@mock.patch.multiple(training, WARM_UP=4, ROWS=100)
def test_what_the_trainer_reaches_is_read_from_its_log_and_a_table_is_written(tmp_path, data_dir, monkeypatch):
    def start(*args, **options):
        process = forked.Popen(*args, **options)
        return processes.setdefault(process.pid, process)

    # Processes start without importing TensorFlow; their memory is that of this one.
    processes, usage = {}, resource.getrusage(resource.RUSAGE_SELF)
    monkeypatch.setattr(subprocess, 'Popen', start)
    monkeypatch.setattr(os, 'wait4', lambda pid, options: (pid, processes[pid].wait(), usage))
    task = dataclasses.replace(training.TASKS['mlp'], dataset='mnist', hparams='hidden_units=[8]', steps=12, batch_size=32)
    result = training.train(task, [], data_dir)
    assert result.keys() == {'examples_per_second', 'megabytes', 'parameters', 'loss'}
    assert result['parameters'] == 785 * 8 + 9 * 10
    assert result['megabytes'] > 100 and 0 < result['loss'] < 3 and result['examples_per_second'] > 0
    task.write(str(tmp_path))
    with np.load(tmp_path / 'data.npz') as data:
        assert len(data['labels']) == 100 and np.all(data['categorical'].max(0) < data['sizes'])


def measure_mnist(directory, data_dir):
    read_idx = mnist.read_idx
    with mock.patch.multiple(whole_runs, TRAINING_IMAGES=6000, TEST_IMAGES=1000):
        yield whole_runs.read(data_dir, 5)['examples_per_second']
        yield whole_runs.evaluate_forward(data_dir)['seconds']
    with mock.patch.object(mnist, 'read_idx', lambda name: read_idx(name)[:100]):
        yield whole_runs.convert()['seconds']


def measure_data(directory, data_dir):
    with mock.patch.multiple(resume, COUNT=500, BYTES=100):
        yield resume.convert(directory)['seconds']
        yield resume.verify(directory)['seconds']
        yield from resume.train(directory, 0.9, 2).values()  # At 90 % of an epoch.
    with mock.patch.multiple(image_pipeline, WIDTH=60, HEIGHT=40, RESIZED=12, CROPPED=8, BATCH_SIZE=4):
        image_pipeline.generate(f'{directory}/pictures', 12)
        yield from image_pipeline.measure(f'{directory}/pictures', 2).values()


def measure_commands_and_loops(directory, data_dir):
    code = 'import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass'
    yield command_line.cpu_seconds([sys.executable, '-c', code]) - 0.3
    program = 'import sys; print("loss = 0.5, step = 1", file=sys.stderr)'
    with mock.patch.object(command_line, 'TRAINER', [sys.executable, '-c', program]):
        yield command_line.seconds_to_first_step(data_dir)
    yield from (bare_loop.measure(name, 200)['steps_per_second'] for name in bare_loop.INPUTS)


@pytest.mark.parametrize('measure', [measure_mnist, measure_data, measure_commands_and_loops])
def test_a_short_measurement_finds_something(measure, tmp_path, data_dir):
    assert all(value > 0 for value in measure(str(tmp_path), data_dir))
