"""Single tasks of a cluster: this process takes their roles by TF_CONFIG, one after the other."""

import hashlib
import json
import os

import pytest

from estimator_trainer.common.cluster.training_task import TrainingTask
from estimator_trainer.common.runs import rollback
from tests.cluster.tasks import tf_config
from tests.shared import POLYNOMIAL, ROOT

WITH_EVALUATOR = {'chief': ['a:1'], 'evaluator': ['b:1']}
PAIR = {'worker': ['a:1', 'b:1']}
WITH_SERVER = {'chief': ['a:1'], 'worker': ['b:1'], 'ps': ['c:1']}
PATIENCE = '--early_stopping_patience=2'
NEEDS_EVALUATIONS = '--early_stopping_patience needs evaluations by the chief: remove the evaluator from the cluster'
OLD_CHECKPOINTS = "--overwrite: the cluster's evaluator may read old checkpoints: delete the run yourself first"
NOT_WITH_SERVERS = 'is incompatible with parameter servers: omit it, or leave ps out of the cluster'
COME_AND_GO = 'is incompatible with parameter servers, whose workers come and go: omit it'
OF_CLUSTER = 'is for the tasks of a cluster: give --local_cluster, or set TF_CONFIG, or omit it'


@pytest.fixture
def run_as(run, monkeypatch):
    """Runs the trainer as a task: run_as(cluster, job, flag, ...) -> (exit code, JSON of stdout or None, stderr)."""

    def call(cluster, job, *flags):
        monkeypatch.setenv('TF_CONFIG', tf_config(cluster, job))
        return run(*POLYNOMIAL, '--train_steps=3', *flags)

    return call


def test_an_evaluator_evaluates_for_a_chief_without_workers_and_the_chief_runs_other_schedules_alone(
    run_as, tmp_path, monkeypatch
):
    code, result, log = run_as(WITH_EVALUATOR, 'chief')
    assert (code, result) == (0, {'global_step': 3}) and 'Saving dict' not in log
    assert not (tmp_path / 'output' / 'results.json').exists()
    assert json.loads((tmp_path / 'output' / 'flags.json').read_text())['schedule'] == 'train_and_evaluate'  # As given.
    code, found, log = run_as(WITH_EVALUATOR, 'evaluator')
    assert code == 0 and found['global_step'] == 3 and found['eval'] and 'WARNING' not in log
    assert json.loads((tmp_path / 'output' / 'results.json').read_text()) == found
    unknown = {'chief': WITH_EVALUATOR['chief']}  # TFJob omits the evaluator, even in the evaluator's own TF_CONFIG.
    for flag, is_warned in (('--schedule=train_and_evaluate', True), ('--schedule=train', False)):
        code, result, log = run_as(unknown, 'evaluator', flag)
        assert (code, result) == (0, found) and (
            'WARNING TF_CONFIG: the cluster does not list the evaluator' in log
        ) == is_warned
    _, result, log = run_as({**WITH_EVALUATOR, 'evaluator': ['d:1', 'e:1']}, 'evaluator')
    assert result == found and 'TF_CONFIG: each of the 2 evaluators evaluates all checkpoints: one is enough.' in log
    assert run_as(WITH_EVALUATOR, 'chief', '--from_step=0')[1] == {'global_step': 3}
    with monkeypatch.context() as patch:
        waited = []
        patch.setattr(rollback, 'wait', lambda *arguments: waited.append(arguments))
        assert run_as(WITH_EVALUATOR, 'evaluator', '--from_step=0')[1] == found and len(waited) == 1
    assert run_as(WITH_EVALUATOR, 'evaluator', '--from_step=0')[1] == found  # The chief has gone back.
    assert run_as({'master': ['a:1']}, 'master')[1] == found  # Like a host with the only task.
    code, result, _ = run_as(WITH_SERVER, 'chief', '--schedule=evaluate')
    assert code == 0 and result['global_step'] == 3
    for job in ('worker', 'ps', 'evaluator'):
        code, result, log = run_as({**WITH_SERVER, 'evaluator': ['d:1']}, job, '--schedule=evaluate')
        assert (code, result) == (0, {}) and '--schedule=evaluate: the chief runs it alone.' in log


def test_tasks_compare_the_code_of_the_model_the_dataset_and_the_trainer(run_as, monkeypatch):
    found = {}
    monkeypatch.setattr(TrainingTask, 'start', lambda task, facts: found.update(facts()))
    assert run_as(WITH_EVALUATOR, 'chief')[0] == 0  # It trains alone, and tells nobody.
    for kind in ('models', 'datasets'):
        with open(os.path.join(ROOT, kind, 'polynomial.py'), 'rb') as file:
            expected = hashlib.sha256(file.read()).hexdigest()
        assert found[f'the checksum of the code of estimator_trainer.{kind}.polynomial'] == expected
    assert {f'the checksum of the code of {name}' for name in ('estimator_trainer', 'tf_estimator')} < found.keys()


def test_a_dry_run_of_the_chief_finds_what_its_cluster_does_not_support(run_as, tmp_path):
    code, result, log = run_as(PAIR, 'worker', '--schedule=dry_run')
    assert code == 0 and result['global_step'] == 1 and 'Input x: float32 (50,)' in log  # Its share.
    for cluster, job, flag, message in (
        (PAIR, 'worker', '--hparams=batch_size=1', 'batch_size=1 is too small for 2 tasks: use'),
        (WITH_EVALUATOR, 'chief', PATIENCE, NEEDS_EVALUATIONS),
        (WITH_SERVER, 'chief', '--steps_per_loop=2', f'--steps_per_loop {NOT_WITH_SERVERS}'),
        (
            PAIR,
            'worker',
            '--schedule=find_learning_rate',
            '--schedule=find_learning_rate: run it in one process, without TF_CONFIG',
        ),
    ):
        code, _, err = run_as(cluster, job, '--schedule=dry_run', flag)
        assert code == 2 and err.splitlines()[-1].startswith(f'trainer.py: {message}')
    assert not (tmp_path / 'output').exists()


def test_each_task_rejects_options_that_clusters_do_not_support(run_as, tmp_path):
    turns = '--model=tests.training.model_in_turns'
    for cluster, job, flag, message in (
        (WITH_EVALUATOR, 'chief', PATIENCE, NEEDS_EVALUATIONS),
        (WITH_EVALUATOR, 'evaluator', '--overwrite', OLD_CHECKPOINTS),
        (PAIR, 'worker', '--min_tasks=3', '--min_tasks=3: the cluster has only 2 tasks that train: use at most 2'),
        (WITH_SERVER, 'worker', '--min_tasks=1', f'--min_tasks {COME_AND_GO}'),
        (WITH_EVALUATOR, 'evaluator', '--min_tasks=1', '--min_tasks=1: one task trains: add workers, or omit it'),
        ({}, 'chief', '--min_tasks=1', f'--min_tasks=1 {OF_CLUSTER}'),
        (PAIR, 'evaluator', PATIENCE, NEEDS_EVALUATIONS),
        (WITH_SERVER, 'chief', '--steps_per_loop=2', f'--steps_per_loop {NOT_WITH_SERVERS}'),
        (WITH_SERVER, 'chief', '--keep_checkpoint_every=2', f'--keep_checkpoint_every {NOT_WITH_SERVERS}'),
        (WITH_SERVER, 'ps', '--precision=float16', f'--precision=float16 {NOT_WITH_SERVERS}'),
        (WITH_SERVER, 'worker', '--hparams=gradient_accumulation_steps=2', f'gradient_accumulation_steps {NOT_WITH_SERVERS}'),
        (WITH_SERVER, 'worker', '--hparams=group_by_length=true', f'group_by_length {NOT_WITH_SERVERS}'),
        (WITH_SERVER, 'worker', turns, f'loss_steps() of {turns} {NOT_WITH_SERVERS}'),
    ):
        assert run_as(cluster, job, flag, f'--data_dir={tmp_path}/data')[::2] == (2, f'trainer.py: {message}\n')
        assert list(tmp_path.iterdir()) == []
