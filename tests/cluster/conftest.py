"""Fixtures of the tests of real clusters: tiny data, and a function that starts a run."""

import pytest

from tests.cluster.tasks import TINY, Run, addresses

HPARAMS = 'batch_size=12,optimizer=momentum,learning_rate=0.05'
STEPS = 50
FLAGS = (*TINY, f'--train_steps={STEPS}', '--save_checkpoints_steps=20', '--save_summary_steps=1', f'--hparams={HPARAMS}')


@pytest.fixture(scope='session')
def tiny_dir(tmp_path_factory):
    from tests.cluster import tiny_data  # Imports TensorFlow.

    return tiny_data.write(tmp_path_factory.mktemp('tiny'))


@pytest.fixture(scope='module')
def train(tmp_path_factory, tiny_dir):
    """Starts a run: train(number of training tasks, flag, ...) -> Run. One task is a process without a cluster."""
    runs = []

    def call(count, *flags, directory=None, servers=0, evaluators=0, **options):
        cluster = addresses(chief=1, worker=count - 1, ps=servers, evaluator=evaluators) if count + servers > 1 else {}
        directory = directory or tmp_path_factory.mktemp('run')
        runs.append(Run(directory, cluster, f'--data_dir={tiny_dir}', *FLAGS, *flags, **options))
        return runs[-1]

    yield call
    for run in runs:
        run.kill()
