"""Who trains in an elastic cluster, as a function of who is there."""

import os

import pytest

from estimator_trainer.common.cluster import elastic, membership, tf_config
from estimator_trainer.common.cluster.membership import REFORM_SECONDS, Formation, Hello, next_members
from tests.shared import refused

ADDRESSES = {'chief': ['a:1'], 'worker': ['b:1', 'c:1', 'd:1'], 'evaluator': ['e:1']}
NEW = ()
LONG = 1000.0


def members(expected, needed=2, waited=0.0, timeout=600.0):
    """Returns who trains of four tasks, {index: those it expects} of those that are there."""
    return next_members({i: Hello(i, each, {}) for i, each in expected.items()}, 4, needed, waited, timeout)


def test_all_train_once_they_are_there_or_enough_after_the_timeout():
    started = {2: NEW, 0: NEW, 1: NEW}
    assert members({**started, 3: NEW}) == (0, 1, 2, 3)
    assert members(started) == members(started, waited=600) == ()
    assert members(started, waited=601) == members(started, timeout=5, waited=6) == (0, 1, 2)
    assert members({0: NEW}, waited=LONG) == ()
    assert members({3: NEW}, needed=1, waited=LONG) == (3,)


def test_those_that_are_left_train_as_soon_as_they_have_restarted_and_wait_shortly_for_another():
    left = [0, 1, 3]
    assert members({0: left, 3: left, 1: left}) == (0, 1, 3)
    assert members({0: left, 3: left}, waited=REFORM_SECONDS) == ()
    assert members({0: left, 3: left}, waited=REFORM_SECONDS + 1) == (0, 3)
    assert members({0: left, 3: left}, waited=6, timeout=5) == (0, 3)
    assert members({0: [0], 3: left}) == ()  # Another one knows of more that are left.
    assert members({0: [0], 1: [0, 1]}, needed=3, waited=LONG) == ()


def test_who_has_trained_stays_chief_when_another_returns():
    left = [1, 2, 3]
    assert members({0: NEW, 1: left, 2: left, 3: left}) == (1, 2, 3, 0)
    assert members({0: [0, 1, 2, 3], 1: left, 2: left, 3: left}) == (0, 1, 2, 3)


def test_those_that_train_are_a_cluster_with_their_names():
    formation = Formation(tf_config.ClusterConfig(ADDRESSES, 'worker', 2, 'Slurm'), (1, 3, 0))
    config = formation.config
    assert config.addresses == {'worker': ['b:1', 'd:1', 'a:1'], 'evaluator': ['e:1']}
    assert (config.job, config.index, config.name, config.source) == ('worker', 1, 'worker 2', 'Slurm')
    assert [config.name_of(*task) for task in config.trainers] == ['worker 0', 'worker 2', 'chief']
    assert config.is_worker and formation.absent == ['c:1']
    first = Formation(tf_config.ClusterConfig(ADDRESSES, 'worker', 0), (1, 3, 0)).config
    assert not first.is_worker and first.name_of('evaluator', 0) == 'evaluator 0'


def test_a_hello_of_another_program_is_no_hello():
    hello = Hello(1, (0, 1), {'batch_size': '12'})
    assert Hello.parse({'task': 1, 'expected': [0, 1], 'facts': {'batch_size': '12'}, 'accepts': True}) == hello
    for wrong in ({}, [], 'a', {'task': '1', 'expected': [], 'facts': {}}, {'task': 1, 'expected': 2, 'facts': {}}):
        with pytest.raises(ValueError):
            Hello.parse(wrong)


def test_the_flag_is_refused_where_it_does_not_go():
    assert membership.check(4, 4, 0) is None
    assert refused(membership.check, 2, 4, 1).startswith('--min_tasks is incompatible with parameter servers')
    assert refused(membership.check, 1, 1, 0).startswith('--min_tasks=1: one task trains')
    assert refused(membership.check, 5, 4, 0) == '--min_tasks=5: the cluster has only 4 tasks that train: use at most 4'
    assert refused(membership.check_config, 2, None).startswith('--min_tasks=2 is for the tasks of a cluster: ')
    with_server = tf_config.ClusterConfig({'worker': ['a:1', 'b:1'], 'ps': ['c:1']}, 'worker', 0)
    assert refused(membership.check_config, 2, with_server).startswith('--min_tasks is incompatible with parameter servers')


def test_a_restarted_process_knows_with_whom_it_trains_again(monkeypatch):
    for text, tasks in {'[1, 3]': (1, 3), '': (), '{': (), '3': ()}.items():
        monkeypatch.setenv('CLUSTER_EXPECTED_TASKS', text)
        assert elastic.expected(os.environ) == tasks and 'CLUSTER_EXPECTED_TASKS' not in os.environ
    assert elastic.expected(os.environ) == ()
