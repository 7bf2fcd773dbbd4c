"""What the tests of real clusters share: tiny data, and a function that starts a training."""

import pytest

from tests.cluster.tasks import TINY, Run, addresses

HPARAMS = 'batch_size=12,optimizer=momentum,learning_rate=0.05'
STEPS = 50
RESTART = 'start all tasks again, and the training resumes from its latest checkpoint'
FLAGS = (*TINY, f'--train_steps={STEPS}', '--save_checkpoints_steps=20', '--save_summary_steps=1', f'--hparams={HPARAMS}')


@pytest.fixture(scope='session')
def tiny_dir(tmp_path_factory):
    """A data_dir with tiny data."""
    from tests.cluster import tiny_data  # It imports TensorFlow.

    path = tmp_path_factory.mktemp('tiny')
    tiny_data.write(path)
    return path


@pytest.fixture(scope='module')
def train(tmp_path_factory, tiny_dir):
    """Starts a training: train(number of tasks that train, flag, ...) -> Run. One task alone is a process without a cluster."""
    runs = []

    def call(count, *flags, directory=None, cluster=None, servers=0, evaluators=0, **options):
        if count + servers > 1:
            cluster = cluster or addresses(chief=1, worker=count - 1, ps=servers, evaluator=evaluators)
        directory = directory or tmp_path_factory.mktemp('run')
        runs.append(Run(directory, cluster or {}, f'--data_dir={tiny_dir}', *FLAGS, *flags, **options))
        return runs[-1]

    yield call
    for run in runs:
        run.kill()
