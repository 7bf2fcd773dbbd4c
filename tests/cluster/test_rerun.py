"""A cluster's run, trained again: verified and replayed to the bit, whose sums and batch norm depend on the tasks' shares."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import UsageError
from tests import forked
from tests.cluster import tiny_data
from tests.cluster.conftest import HPARAMS
from tests.shared import ROOT, rows

SIZE = 13
HPARAMS = f'{HPARAMS.replace("12", str(SIZE))},normalizes=true,gradient_accumulation_steps=3'
FLAGS = ('--schedule=train', '--train_steps=14', '--save_checkpoints_steps=5', '--keep_checkpoint_max=0')


@pytest.fixture(scope='module')
def trained(train):
    """The directory of a run of two tasks, which share the sums of gradients in the middle of accumulations, at steps 5 and 10.

    Only the checkpoints of the steps 0 and 14 are left.
    """
    run = train(2, *FLAGS, f'--hparams={HPARAMS}')
    assert run.wait() == [0, 0]
    for path in [path for step in (5, 10) for path in run.output_dir.glob(f'model.ckpt-{step}.*')]:
        path.unlink()
    return run.output_dir


@pytest.fixture(autouse=True)
def _forked(monkeypatch):
    monkeypatch.setattr(subprocess, 'Popen', forked.Popen)
    monkeypatch.chdir(ROOT)


def test_a_part_is_verified_by_as_many_tasks(trained):
    (found,) = api.load(str(trained)).verify('all')['intervals']
    assert found == {'steps': [0, 14], 'text': 'equal', 'largest_difference': 0.0}


def test_each_task_s_share_of_a_step_is_looked_at_and_the_losses_are_the_same(trained, tmp_path):
    result = api.load(str(trained)).replay('7:8', str(tmp_path / 'replay'))
    assert (result['from_step'], result['compared_losses'], result['first_difference']) == (0, 8, None)
    with open(result['lines']) as file:
        lines = [json.loads(line) for line in file]
    targets = _targets()
    for step in (7, 8):
        (of_step,) = [line for line in lines if line['kind'] == 'step' and line['step'] == step]
        examples = [line for line in lines if line['kind'] == 'example' and line['step'] == step]
        assert len({line['where'] for line in examples}) == SIZE
        assert [line['label'] for line in examples] == pytest.approx([targets[line['example']] for line in examples], abs=1e-5)
        assert np.mean([line['loss'] for line in examples]) == pytest.approx(of_step['loss'], rel=1e-6)
        assert np.mean([(line['label'] - line['y']) ** 2 for line in examples]) == pytest.approx(of_step['loss'], rel=1e-3)
        assert all(line['gradient_norm'] > 0 for line in examples)
        assert of_step['loss_as_inspected'] == of_step['loss']
        by_name = {line['name']: line for line in lines if line['kind'] == 'variable' and line['step'] == step}
        # The sixth step and the ninth one update the weights.
        assert by_name['hidden']['gradient']['norm'] > 0 and by_name['hidden']['update']['norm'] == 0
    logged = {row['global_step']: row['step_loss'] for row in rows(trained / 'metrics.csv', mode='train')}
    assert [str(np.float32(line['loss'])) for line in lines if line['kind'] == 'loss'] == [logged[str(i)] for i in range(1, 9)]


def test_what_its_tasks_need_is_named(trained, tmp_path):
    with pytest.raises(UsageError, match='was trained by 2 processes, which need the names of its modules in place of objects'):
        api.load(str(trained), tiny_data, tiny_data).replay(3, str(tmp_path / 'replay'))
    copied = tmp_path / 'run'
    shutil.copytree(trained, copied)
    settings = json.loads((copied / 'flags.json').read_text())
    (copied / 'flags.json').write_text(json.dumps({**settings, 'asynchronous': True}))
    with pytest.raises(UsageError, match='after step 0 it was trained with parameter servers'):
        api.load(str(copied)).replay(3, str(tmp_path / 'replay'))


def _targets():
    random = np.random.RandomState(0)
    found = []
    for _ in range(100):
        found.append(np.tanh(random.uniform(-1, 1, 3)).sum())
        random.randint(0, tiny_data.WORDS, 4), random.randint(0, 2, 4)
    return found
