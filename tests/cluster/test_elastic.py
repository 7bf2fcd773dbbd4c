"""Training that goes on without a task that is lost, and takes it back."""

import json
import signal
import subprocess
from unittest import mock

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common import locks
from estimator_trainer.common.cluster import elastic
from estimator_trainer.common.cluster import task as cluster_tasks
from estimator_trainer.common.cluster.assembly import Assembly
from estimator_trainer.common.cluster.membership import Formation, Hello
from estimator_trainer.common.cluster.probe import ANSWERS, FOREIGN, LOST
from estimator_trainer.common.cluster.sightings import Sightings
from estimator_trainer.common.cluster.task import ConnectionLost, Restart
from estimator_trainer.common.cluster.tf_config import ClusterConfig
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.runs import cluster_task
from estimator_trainer.common.storage import checkpoints
from estimator_trainer.hparams.build import HParams
from tests.cluster.tasks import addresses, wait_until
from tests.shared import ROOT, assert_equal, refused


@pytest.fixture(scope='module')
def task():
    """Worker 2, which trains with worker 0 and the chief; worker 1 does not."""
    config = ClusterConfig(addresses(chief=1, worker=3), 'worker', 2)
    return elastic.ElasticTask(Formation(config, (1, 3, 0)), Hello(3, (), {}), 60.0, None)


def restart_of(error):
    assert isinstance(error, Restart)
    return str(error), json.loads(error.environ['CLUSTER_EXPECTED_TASKS'])


def test_a_task_is_a_worker_of_those_that_train(task):
    assert (task.name, task.index, task.count, task.full_count) == ('worker 2', 1, 3, 4)
    assert list(task.members) == ['worker 0', 'worker 2', 'chief'] and not task.is_chief


def test_a_loss_restarts_with_those_left_unless_nobody_is_lost_and_nothing_was_done(task, monkeypatch):
    sightings = Sightings()
    first, _, chief = task._addresses
    monkeypatch.setattr(task._watch, 'sightings', sightings)
    monkeypatch.setattr(task, '_search', lambda error: sightings)
    cause = tf.errors.AbortedError(None, None, 'disk full')
    assert not isinstance(task.loss(cause), Restart)
    sightings.see({first: LOST, chief: 'answers'}, 5, 6)
    told = f'worker 0 ({first}) is lost: the others restart from the latest checkpoint'
    assert restart_of(task.loss()) == (told, [3, 0])
    sightings.see({first: FOREIGN, chief: 'answers'}, 7, 8)  # It has restarted already.
    assert restart_of(task.loss())[0] == told
    sightings.complete_step(9, 1)
    assert restart_of(task.loss(cause)) == ('another task has failed: the others restart from the latest checkpoint', [1, 3, 0])
    monkeypatch.setattr(elastic.SynchronousTask, 'loss', lambda self, error: ConnectionLost('it was lost for 25 s'))
    assert restart_of(task.loss()) == ('it was lost for 25 s', [1, 3, 0])


def test_a_task_that_differs_ends_and_the_others_restart_without_it(task):
    facts = {'the checksum of the training data': '1'}
    with pytest.raises(Restart) as caught:
        task._compare([facts, facts, {}], facts)
    text, expected = restart_of(caught.value)
    assert text.startswith('chief (127.0.0.1:') and 'was started otherwise' in text and expected == [1, 3]
    assert refused(task._compare, [{}, facts, {}], facts).startswith('worker 0 has the checksum of the training data=None')
    assert task._compare([facts] * 3, facts) is None


def test_all_restart_with_a_task_that_returns_and_if_they_do_not_meet_or_another_part_trains(task, monkeypatch):
    assert restart_of(task.take_back())[1] == restart_of(task.give_way(RunError('it is locked')))[1] == [1, 3, 0]
    for error, expected in (
        (RunError('worker 0 cannot be reached'), 'not all that had agreed to train are there: trying again'),
        (Restart('it is lost'), 'it is lost'),
        (UsageError('it differs'), 'it differs'),
    ):
        monkeypatch.setattr(elastic.SynchronousTask, 'meet', mock.Mock(side_effect=error))
        with pytest.raises((Restart, UsageError), match=f'^{expected}$') as caught:
            task.meet({})
        assert isinstance(caught.value, UsageError) == isinstance(error, UsageError)


def test_one_that_has_not_yet_ended_its_assembly_is_waited_for(task, monkeypatch):
    rounds = [dict.fromkeys(task._addresses[::2], state) for state in (FOREIGN, FOREIGN, LOST, ANSWERS)]
    monkeypatch.setattr(task, '_states', lambda awaited: rounds.pop(0))
    monkeypatch.setattr(cluster_tasks.Watch, 'start', lambda self, addresses: None)
    task._wait_and_watch(range(3), range(3))
    assert not rounds
    monkeypatch.setattr(task, '_states', lambda awaited: dict.fromkeys(task._addresses[::2], FOREIGN))
    monkeypatch.setattr(task, '_foreign_seconds', 0.1)
    with pytest.raises(RunError, match="is not TensorFlow's"):
        task._wait_and_watch(range(3), range(3))


@pytest.fixture
def gather(tmp_path):
    """Gathers worker 0 of three: gather(flag=value) -> Gathered."""
    cluster = ClusterConfig(addresses(worker=3), 'worker', 0)

    def call(batch_size=12, **flags):
        flags = {'min_tasks': 1, 'cluster_timeout': 0.1, **flags}
        return cluster_task.gather(cluster, HParams({'batch_size': batch_size}), Options(**flags), str(tmp_path))

    return call


def test_a_batch_must_have_an_example_for_each_task_even_if_one_begins_alone(gather):
    assert refused(gather, batch_size=2) == 'batch_size=2 is too small for 3 tasks: use --hparams=batch_size=3, or fewer tasks'
    assert refused(gather, batch_size=5, num_towers=2).startswith('batch_size=5 is too small for 3 tasks of 2 towers')


def test_without_locks_more_than_half_must_train(gather, monkeypatch):
    monkeypatch.setattr(locks, 'are_supported', lambda directory: False)
    assert '--min_tasks=1: --output_dir=' in (message := refused(gather)) and message.endswith(
        'would both train: use at least 2'
    )
    with pytest.raises(RunError, match=r'fewer than 2 tasks \(--min_tasks\): worker 1 .*, worker 2 '):
        gather(min_tasks=2)


def test_a_task_says_what_it_was_started_with_and_where_it_can_be_left_alone(gather, monkeypatch):
    monkeypatch.setenv('CLUSTER_EXPECTED_TASKS', '[0]')
    found = gather()
    assert found.formation.members == (0,) and found.own.expected == (0,)
    facts = found.own.facts
    assert (facts['batch_size'], facts['min_tasks'], facts['TF_CONFIG'].count('127.0.0.1:')) == ('12', '1', 3)


def test_a_task_that_was_started_before_the_run_began_takes_its_hyper_parameters_by_a_restart(gather, tmp_path, monkeypatch):
    def differ(self):
        (tmp_path / 'checkpoint').touch()
        raise UsageError('chief has task=""')

    monkeypatch.setattr(Assembly, 'form', differ)
    monkeypatch.setattr(checkpoints, 'has_checkpoint', lambda directory: (tmp_path / 'checkpoint').exists())
    with pytest.raises(Restart, match='chief has task="": trying again, as the run has begun meanwhile'):
        gather()
    assert refused(gather) == 'chief has task=""'


def test_overwriting_is_refused():
    config = ClusterConfig({'worker': ['a:1', 'b:1'], 'evaluator': ['c:1']}, 'worker', 1)
    assert cluster_task.is_elastic(Options(min_tasks=1), config) and not cluster_task.is_elastic(Options(), config)
    evaluator = ClusterConfig(config.addresses, 'evaluator', 0)
    assert not cluster_task.is_elastic(Options(min_tasks=1), evaluator)
    message = refused(cluster_task.is_elastic, Options(min_tasks=1, overwrite=True), config)
    assert message == '--overwrite with --min_tasks: a restarted task would delete the run: delete it yourself first'


def test_a_worker_goes_on_without_the_chief_and_with_it_when_it_is_back_to_the_same_weights(train, tmp_path):
    """The loss of the chief is the hardest: another one takes its place, and keeps it; alone, it needs no collectives."""
    flags = ('--schedule=train', '--save_checkpoints_steps=5', '--train_steps=1000000', '--min_tasks=1')
    environ = {'TINY_SECONDS': '0.02', 'PYTHONPATH': ROOT}
    run = train(2, *flags, directory=tmp_path, environ=environ, popen=subprocess.Popen)  # Processes that can restart.
    record = run.output_dir / 'tasks.jsonl'

    def lines():
        return [json.loads(line) for line in record.read_text().splitlines()]

    run.wait_for_step('chief0', 7)
    run.send('chief0', signal.SIGKILL)
    wait_until(lambda: len(lines()) == 2)
    run.start('chief')
    wait_until(lambda: len(lines()) == 3)
    run.wait_for_step('worker0', lines()[2]['from_step'] + 1)
    run.send('worker0', signal.SIGTERM)
    assert run.wait() == [128 + signal.SIGTERM] * 2
    assert [line['tasks'] for line in lines()] == [['chief', 'worker 0'], ['worker 0'], ['worker 0', 'chief']]
    assert 0 == lines()[0]['from_step'] < lines()[1]['from_step'] < lines()[2]['from_step']
    assert 'waiting to take part from the next checkpoint on' in run.log('chief0')
    assert 'Traceback' not in ''.join(map(run.log, run.processes)) and 'began otherwise' not in run.log('worker0')
    found = run.weights()
    undisturbed = train(2, '--schedule=train', f'--train_steps={found["global_step"]}')
    assert undisturbed.wait() == [0, 0]
    assert_equal(found, undisturbed.weights(), 1e-5)
