"""What the tests share. Every test writes below a directory of its own; only the converted MNIST is made once.

Nothing here imports TensorFlow before a test needs it.
"""

import functools
import gc
import json
import logging
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from tests import fork_server
import trainer

# A small AlexNet, so that a run takes a second.
SMALL = ('--hparams=filters=[4,8],dense_units=16,batch_size=32,drop_rate=0.0,augment_shift=0,warmup_steps=0', '--eval_steps=1')
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def pytest_configure(config):
    """Imports what the tests import, with tf.estimator in place; not where processes of xdist are handed the tests."""
    if hasattr(config, 'workerinput') or not getattr(config.option, 'numprocesses', None):
        gc.disable()
        import tf_estimator  # noqa: F401, I001 - before TensorFlow
        import tensorflow  # noqa: F401

        # Graphs have many objects, which the collector would go through again and again.
        gc.freeze()
        gc.enable()
        gc.set_threshold(100_000, 20, 20)


@functools.cache
def _shares_fixtures(module):
    return "scope='module'" in pathlib.Path(ROOT, module).read_text()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Runs the tests of a module whose fixtures they share in one process, and others wherever one is free."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            module = nodeid.partition('::')[0]
            return module if _shares_fixtures(module) else nodeid

    return Scheduling(config, log) if config.getvalue('dist') == 'load' else None


@pytest.fixture(scope='session', autouse=True)
def heed_sighup():
    """The tests send SIGHUP, also where they run under nohup, which has it ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def own_log():
    """Gives each test TensorFlow's log as it is at first, whatever tests before it, or libraries that they call, have set."""
    logger = logging.getLogger('tensorflow')
    logger.setLevel(logging.NOTSET)
    logger.propagate, logger.disabled = True, False
    logging.getLogger().setLevel(logging.WARNING)
    logging.disable(logging.NOTSET)


@pytest.fixture(scope='session')
def data_dir(tmp_path_factory):
    """A data_dir with the first tenth of MNIST, converted: a training keeps it in memory, which takes a while for all of it."""
    from datasets import mnist

    directory = str(tmp_path_factory.mktemp('data'))
    read_idx = mnist.read_idx
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mnist, 'read_idx', lambda name: read_idx(name)[: 6000 if name.startswith('train') else 1000])
        mnist.prepare(directory, mnist.get_params())
    return directory


@pytest.fixture(scope='session')
def whole_mnist(tmp_path_factory):
    """A data_dir with all of MNIST."""
    from datasets import mnist

    directory = str(tmp_path_factory.mktemp('whole'))
    mnist.prepare(directory, mnist.get_params())
    return directory


@pytest.fixture
def execute(capsys, monkeypatch):
    """Calls a program's main: execute(main, [program, flag, ...]) -> (exit code, JSON of stdout or None, stderr)."""

    import tensorflow.compat.v1 as tf

    def call(main, argv):
        capsys.readouterr()
        for handler in tf.get_logger().handlers:
            monkeypatch.setattr(handler, 'stream', sys.stderr)  # Of this test: capsys gives each its own.
        code = main(argv)
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else None, err

    return call


@pytest.fixture
def run(execute, data_dir, tmp_path):
    """Calls the trainer's main: run('--schedule=train') -> (exit code, JSON of stdout or None, stderr)."""

    def call(*flags, output_dir=str(tmp_path / 'output')):
        return execute(trainer.main, ['trainer.py', f'--data_dir={data_dir}', f'--output_dir={output_dir}', *flags])

    return call


@pytest.fixture
def start(data_dir, tmp_path):
    """Starts the trainer as a process of its own: start('--schedule=train') -> subprocess.Popen.

    With is_fresh=True it imports TensorFlow by itself.
    """
    processes = []

    def call(*flags, output_dir=str(tmp_path / 'output'), is_fresh=False):
        command = [
            sys.executable,
            os.path.join(ROOT, 'trainer.py'),
            f'--data_dir={data_dir}',
            f'--output_dir={output_dir}',
            *flags,
        ]
        popen = subprocess.Popen if is_fresh else fork_server.Popen
        processes.append(popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path))
        return processes[-1]

    yield call
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def session():
    """A session on a graph of the test's own, with four CPU devices."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={'CPU': 4})) as session:
        yield session


@pytest.fixture
def trained(tmp_path):
    """An Estimator of tests/linear.py with the checkpoints of steps 2 and 4."""
    from tests.linear import input_fn, make_estimator

    estimator = make_estimator(tmp_path)
    estimator.train(input_fn(), max_steps=2)
    estimator.train(input_fn(), max_steps=4)
    return estimator
