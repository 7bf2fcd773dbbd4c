"""Fixtures of all tests. Every test writes below its own directory; converted data and trained runs are created once."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys

import pytest

import estimator_trainer  # noqa: F401 - before TensorFlow, which it makes use oneDNN.
from tests import forked
from tests.slurm import slurm  # noqa: F401 - a fixture.


def pytest_configure(config):
    """Imports TensorFlow, with tf.estimator, except in xdist's controller."""
    if hasattr(config, 'workerinput') or not getattr(config.option, 'numprocesses', None):
        import gc

        import tests.shared  # noqa: F401

        # The collector would repeatedly traverse the many objects of graphs.
        gc.freeze()
        gc.set_threshold(100_000, 20, 20)


@pytest.fixture(scope='session', autouse=True)
def heed_sighup():
    """Restores SIGHUP, which tests send, as nohup ignores it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def own_log():
    """Resets TensorFlow's log for each test, whatever earlier tests, or their libraries, have set."""
    logger = logging.getLogger('tensorflow')
    logger.setLevel(logging.NOTSET)
    logger.propagate, logger.disabled = True, False
    logging.getLogger().setLevel(logging.WARNING)
    logging.disable(logging.NOTSET)


@pytest.fixture(scope='session')
def data_dir(tmp_path_factory):
    """A data_dir with the first tenth of MNIST, converted, as loading all of it into memory takes a while."""
    from estimator_trainer.datasets import mnist

    directory = str(tmp_path_factory.mktemp('data'))
    read_idx = mnist.read_idx
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mnist, 'read_idx', lambda name: read_idx(name)[: 6000 if name.startswith('train') else 1000])
        mnist.prepare(directory, mnist.get_params())
    return directory


@pytest.fixture
def execute(capsys, monkeypatch):
    """Calls a program's main: execute(main, [program, flag, ...]) -> (exit code, JSON of stdout, its text or None, stderr)."""
    import tensorflow.compat.v1 as tf

    def call(main, argv):
        capsys.readouterr()
        for handler in tf.get_logger().handlers:
            monkeypatch.setattr(handler, 'stream', sys.stderr)  # Of this test: capsys gives each its own.
        code = main(argv)
        out, err = capsys.readouterr()
        return code, json.loads(out) if out.startswith('{') else out or None, err

    return call


@pytest.fixture
def run(execute, data_dir, tmp_path):
    """Calls the trainer's main: run('--schedule=train') -> (exit code, JSON of stdout or None, stderr)."""
    from estimator_trainer.common.commands import trainer

    def call(*flags, output_dir=str(tmp_path / 'output')):
        return execute(trainer.main, ['trainer.py', f'--data_dir={data_dir}', f'--output_dir={output_dir}', *flags])

    return call


@pytest.fixture
def start(data_dir, tmp_path):
    """Starts the trainer as a process of its own: start('--schedule=train') -> forked.Popen."""
    processes = []

    def call(*flags, output_dir=str(tmp_path / 'output')):
        flags = (f'--data_dir={data_dir}', f'--output_dir={output_dir}', *flags)
        command = [sys.executable, os.path.join(forked.ROOT, 'trainer.py'), *flags]
        processes.append(forked.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path))
        return processes[-1]

    yield call
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture(scope='session')
def _trained_once(tmp_path_factory, data_dir):
    """Returns the output_dir of a model trained once in this session; read-only."""
    from estimator_trainer.common.commands import trainer
    from tests.shared import MODELS

    directories = {}

    def call(model):
        if model not in directories:
            directories[model] = tmp_path_factory.mktemp('trained') / model
            flags = (f'--data_dir={data_dir}', f'--output_dir={directories[model]}', '--train_steps=20', *MODELS[model])
            assert trainer.main(['trainer.py', *flags, '--save_checkpoints_steps=10', '--eval_steps=5']) == 0
        return directories[model]

    return call


@pytest.fixture
def trained_run(_trained_once, tmp_path):
    """Copies a trained run: trained_run('alexnet' or 'polynomial') -> its output_dir.

    It has evaluated 20 steps, with checkpoints at 0, 10 and 20 and hyper-parameters as in tests.shared.MODELS; the fixtures
    `run` and `start` write there.
    """
    return lambda model: shutil.copytree(_trained_once(model), tmp_path / 'output')


@pytest.fixture
def session():
    """A session on the test's own graph, with four CPU devices."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={'CPU': 4})) as session:
        yield session


@pytest.fixture(scope='session')
def _linear_once(tmp_path_factory):
    """Returns the directory of an Estimator of tests/linear.py; read-only."""
    from tests.linear import input_fn, make_estimator

    directory = tmp_path_factory.mktemp('linear')
    estimator = make_estimator(directory)
    estimator.train(input_fn(), max_steps=2)
    estimator.train(input_fn(), max_steps=4)
    return directory


@pytest.fixture
def trained(_linear_once, tmp_path):
    """An Estimator of tests/linear.py with the checkpoints of steps 2 and 4."""
    from tests.linear import make_estimator

    shutil.copytree(_linear_once, tmp_path, dirs_exist_ok=True)
    return make_estimator(tmp_path)
