"""The cluster that TF_CONFIG, or SLURM, describes, and what is wrong in it."""

import json

import pytest

from common.cluster import tf_config
from common.errors import UsageError
import sweep
from tests.shared import POLYNOMIAL, read_weights

CLUSTER = {'chief': ['a:1'], 'worker': ['b:1', 'c:1']}
SLURM = {
    'SLURM_PROCID': '2',
    'SLURM_STEP_NUM_TASKS': '4',
    'SLURM_STEP_NODELIST': 'n[1-2]',
    'SLURM_STEP_TASKS_PER_NODE': '2(x2)',
}
FIX = ': correct it, or unset it to train on one machine'
NO_HOSTS = f'its cluster is not an object of lists of hosts{FIX}'
NO_CLUSTER = 'TF_CONFIG or Slurm names a cluster, and sweep.py runs on one machine: unset it, or start one task'
NO_TASK = f'its task is not an object of a type and an index{FIX}'


def read(cluster=None, kind=None, index=None, **others):
    task = {key: value for key, value in {'type': kind, 'index': index}.items() if value is not None}
    config = {'cluster': CLUSTER if cluster is None else cluster, 'task': task, **others}
    return tf_config.read({'TF_CONFIG': json.dumps(config)})


@pytest.mark.parametrize(
    'cluster, job, index, others, expected',
    [
        # As a TFJob has it.
        (CLUSTER, 'chief', 0, {'environment': 'cloud'}, ('chief', False, ['a:1', 'b:1', 'c:1'])),
        (CLUSTER, 'worker', 1, {'environment': 'cloud'}, ('worker 1', True, ['a:1', 'b:1', 'c:1'])),
        (CLUSTER, 'evaluator', 0, {'environment': 'cloud'}, ('evaluator 0', False, ['a:1', 'b:1', 'c:1'])),
        # As Vertex AI has it.
        (
            {**CLUSTER, 'evaluator': ['d:1']},
            'worker',
            '1',
            {'job': {'python_module': ''}, 'environment': 'cloud'},
            ('worker 1', True, ['a:1', 'b:1', 'c:1']),
        ),
        # As Cloud ML Engine had it.
        ({'master': ['a:1'], 'worker': ['b:1']}, 'master', 0, {'model_dir': '/nowhere'}, ('chief', False, ['a:1', 'b:1'])),
        ({'master': ['a:1'], 'worker': ['b:1']}, 'worker', 0, {}, ('worker 0', True, ['a:1', 'b:1'])),
        # Without a chief.
        ({'worker': ['a:1', '[::1]:65535']}, 'worker', 0, {}, ('worker 0', False, ['a:1', '[::1]:65535'])),
        ({'worker': ['a:1', 'b:1'], 'chief': []}, 'worker', 1, {}, ('worker 1', True, ['a:1', 'b:1'])),
        ({}, 'evaluator', 0, {}, ('evaluator 0', False, [])),
    ],
)
def test_a_task_knows_its_place(cluster, job, index, others, expected):
    found = read(cluster, job, index, **others)
    trainers = [found.addresses[job][i] for job, i in found.trainers]
    assert (found.name, found.is_worker, trainers) == expected


def test_tf_config_is_removed_as_the_estimator_would_read_it():
    environ = {'TF_CONFIG': json.dumps({'cluster': CLUSTER, 'task': {'type': 'chief', 'index': 0}}), 'HOME': '/'}
    assert tf_config.read(environ) and environ == {'HOME': '/'}


@pytest.mark.parametrize(
    'text, message',
    [
        ('{', 'TF_CONFIG is not JSON '),
        ('9' * 5000, 'TF_CONFIG is not JSON '),
        ('[' * 100000, 'TF_CONFIG is not JSON '),
        ('[]', f'TF_CONFIG is not a JSON object{FIX}'),
        ('"chief"', f'TF_CONFIG is not a JSON object{FIX}'),
        ('{"cluster": ["a:1"]}', f'TF_CONFIG: {NO_HOSTS}'),
        ('{"cluster": {"worker": "a:1"}}', f'TF_CONFIG: {NO_HOSTS}'),
        ('{"cluster": {"worker": [1]}}', f'TF_CONFIG: {NO_HOSTS}'),
        ('{"task": "worker"}', f'TF_CONFIG: {NO_TASK}'),
        ('{"task": {"type": 1}}', f'TF_CONFIG: {NO_TASK}'),
        ('{"task": {"type": "worker", "index": -1}}', f"TF_CONFIG: its task's index -1 is not an integer from 0{FIX}"),
        ('{"task": {"type": "worker", "index": true}}', f"TF_CONFIG: its task's index true is not an integer from 0{FIX}"),
        ('{"task": {"type": "worker", "index": 0.5}}', f"TF_CONFIG: its task's index 0.5 is not an integer from 0{FIX}"),
        ('{"task": {"type": "worker", "index": null}}', f"TF_CONFIG: its task's index null is not an integer from 0{FIX}"),
    ],
    ids=lambda text: text[:40],
)
def test_a_text_that_describes_no_task_is_refused(text, message):
    with pytest.raises(UsageError) as error:
        tf_config.read({'TF_CONFIG': text})
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    'cluster, job, index, message',
    [
        (CLUSTER, 'worker', 2, f'its task is worker 2, and the cluster has 2 of this type{FIX}'),
        (CLUSTER, 'trainer', 0, f'its task has the type trainer, which is not one of chief, worker, ps, evaluator{FIX}'),
        (CLUSTER, None, 0, f'its task has no type, which says which task of the cluster this one is{FIX}'),
        (
            {'trainer': ['a:1', 'b:1']},
            'worker',
            0,
            f'its cluster has the job trainer, which is not one of chief, worker, ps, evaluator{FIX}',
        ),
        ({'chief': ['a:1', 'b:1']}, 'chief', 0, f'its cluster has 2 chiefs{FIX}'),
        ({'chief': ['a:1'], 'master': ['b:1']}, 'chief', 0, f'its cluster has 2 chiefs{FIX}'),
        (
            {'ps': ['p:1', 'p:2']},
            'ps',
            0,
            f'its cluster has parameter servers, ps, and no chief or worker{FIX}',
        ),
        ({'worker': ['a:1', 'a:1']}, 'worker', 0, f'the address a:1 is given to several tasks{FIX}'),
        *(
            (
                {'worker': ['a:1', address]},
                'worker',
                0,
                f'the address {address} is not a host and a port, such as host:2222{FIX}',
            )
            for address in ('a', 'a:', ':1', 'a:0', 'a:65536', 'a:b', 'a b:1', '')
        ),
        ({'worker': []}, 'worker', 0, f'its task is worker 0, and the cluster has 0 of this type{FIX}'),
        ({'worker': ['a:1']}, 'worker', 1, f'its task is worker 1, and the cluster has 1 of this type{FIX}'),
        *(
            (
                {'chief': [address]},
                'chief',
                0,
                f'the address {address} is not a host and a port, such as {example} (omit grpc://){FIX}',
            )
            for address, example in (('grpc://a:1', 'host:2222'), ('grpc://[::1]:1', '[::1]:2222'))
        ),
        ({'chief': ['::1:2222']}, 'chief', 0, f'the address ::1:2222 is not a host and a port, such as [::1]:2222{FIX}'),
    ],
)
def test_what_is_wrong_in_a_cluster_is_named(cluster, job, index, message):
    with pytest.raises(UsageError) as error:
        read(cluster, job, index)
    assert str(error.value) == f'TF_CONFIG: {message}'


@pytest.mark.parametrize(
    'nodes, per_node, expected',
    [
        ('n[1-2]', '2(x2)', ['n1:8888', 'n1:8889', 'n2:8888', 'n2:8889']),
        ('n[9-10],m-[01-02]', '1(x4)', ['n9:8888', 'n10:8888', 'm-01:8888', 'm-02:8888']),
        ('b[02,1],a', '2,1(x2)', ['b02:8888', 'b02:8889', 'b1:8888', 'a:8888']),
        ('n', '4', ['n:8888', 'n:8889', 'n:8890', 'n:8891']),
    ],
)
def test_the_tasks_of_a_slurm_step_are_workers_in_the_order_of_its_hosts(nodes, per_node, expected):
    environ = {**SLURM, 'SLURM_STEP_NODELIST': nodes, 'SLURM_STEP_TASKS_PER_NODE': per_node}
    found = tf_config.read(environ)
    assert (found.name, found.is_worker, found.addresses) == ('worker 2', True, {'worker': expected})
    assert found.source == 'Slurm'
    assert not tf_config.read({**environ, 'SLURM_PROCID': '0'}).is_worker


def test_a_host_without_a_task_trains_alone():
    assert read({'chief': ['a:1']}) is None and read({}) is None


def test_a_slurm_step_of_one_task_trains_alone():
    assert tf_config.read({**SLURM, 'SLURM_STEP_NUM_TASKS': '1'}) is None
    assert tf_config.read({'SLURM_PROCID': '0', 'SLURM_NTASKS': '4'}) is None  # A batch script.


def test_tf_config_takes_precedence_over_slurm():
    config = {'cluster': CLUSTER, 'task': {'type': 'chief', 'index': 0}}
    assert tf_config.read({**SLURM, 'TF_CONFIG': json.dumps(config)}).name == 'chief'


@pytest.mark.parametrize(
    'name, value, message',
    [
        ('SLURM_STEP_NUM_TASKS', 'two', "one of Slurm's variables cannot be read ("),
        (
            'SLURM_STEP_NUM_TASKS',
            '5',
            "Slurm's variables contradict each other (SLURM_STEP_NUM_TASKS=5 SLURM_STEP_NODELIST=n[1-2] ",
        ),
        ('SLURM_STEP_NUM_TASKS', '0', "Slurm's variables contradict each other ("),
        ('SLURM_PROCID', '4', "Slurm's variables contradict each other ("),
        ('SLURM_PROCID', '-1', "Slurm's variables contradict each other ("),
        ('SLURM_PROCID', 'x', "one of Slurm's variables cannot be read ("),
        ('SLURM_PROCID', None, 'SLURM_PROCID is missing: '),
        ('SLURM_STEP_NODELIST', 'n[1-', "one of Slurm's variables cannot be read (Invalid hostlist format"),
        ('SLURM_STEP_NODELIST', 'n[2-1]', "Slurm's variables contradict each other ("),
        ('SLURM_STEP_NODELIST', 'n1,n1', "Slurm's variables contradict each other ("),
        ('SLURM_STEP_NODELIST', 'n[1-3]', "Slurm's variables contradict each other ("),
        ('SLURM_STEP_NODELIST', '', "Slurm's variables contradict each other ("),
        ('SLURM_STEP_NODELIST', None, 'SLURM_STEP_NODELIST is missing: '),
        ('SLURM_STEP_TASKS_PER_NODE', 'x', "one of Slurm's variables cannot be read (Invalid tasks-per-node list format"),
        ('SLURM_STEP_TASKS_PER_NODE', None, 'SLURM_STEP_TASKS_PER_NODE is missing: '),
    ],
)
def test_damaged_slurm_variables_are_refused(name, value, message):
    environ = {key: text for key, text in {**SLURM, name: value}.items() if text is not None}
    with pytest.raises(UsageError) as error:
        tf_config.read(environ)
    assert str(error.value).startswith(message)
    assert str(error.value).endswith(': start the tasks with srun, or unset SLURM_STEP_NUM_TASKS to train on one machine')


@pytest.mark.parametrize(
    'config',
    [
        {'cluster': {'chief': ['host:2222']}, 'task': {'type': 'chief', 'index': 0}},
        {'cluster': {'master': ['host:2222']}, 'task': {'type': 'master', 'index': 0}, 'model_dir': '/nowhere'},
        {'cluster': {'worker': ['host:2222']}, 'task': {'type': 'worker', 'index': '0'}},
        {'task': {'type': 'master', 'index': 0}},
        {'environment': 'cloud'},
        {},
        '',
    ],
    ids=json.dumps,
)
def test_one_task_is_no_cluster(config):
    environ = {'TF_CONFIG': config and json.dumps(config)}
    assert tf_config.read(environ) is None and environ == {}


def test_one_task_trains_as_without_a_cluster(run, tmp_path, monkeypatch):
    assert run(*POLYNOMIAL, '--train_steps=3', output_dir=tmp_path / 'expected')[0] == 0
    for schedule in ('train_and_evaluate', 'evaluate', 'predict', 'export'):
        config = {'cluster': {'chief': ['host:2222']}, 'task': {'type': 'chief', 'index': 0}}
        monkeypatch.setenv('TF_CONFIG', json.dumps(config))
        code, result, _ = run(*POLYNOMIAL, '--train_steps=3', f'--schedule={schedule}')
        assert code == 0 and result['global_step'] == 3
    found, expected = read_weights(tmp_path / 'output'), read_weights(tmp_path / 'expected')
    assert found.keys() == expected.keys() and all((found[name] == expected[name]).all() for name in expected)


def test_a_wrong_tf_config_is_refused_before_anything_is_made(run, tmp_path, monkeypatch):
    monkeypatch.setenv('TF_CONFIG', json.dumps({'cluster': CLUSTER, 'task': {'type': 'worker', 'index': 2}}))
    code, _, err = run(*POLYNOMIAL, f'--data_dir={tmp_path}/data')
    assert (code, err) == (2, f'trainer.py: TF_CONFIG: its task is worker 2, and the cluster has 2 of this type{FIX}\n')
    assert list(tmp_path.iterdir()) == []


def test_sweeps_refuse_a_cluster(execute, tmp_path, monkeypatch):
    monkeypatch.setenv('TF_CONFIG', json.dumps({'cluster': CLUSTER, 'task': {'type': 'chief', 'index': 0}}))
    code, _, err = execute(
        sweep.main, ['sweep.py', *POLYNOMIAL, f'--space={tmp_path}/space.json', f'--output_dir={tmp_path}/output']
    )
    assert (code, err) == (2, f'sweep.py: {NO_CLUSTER}\n')
    assert list(tmp_path.iterdir()) == []
