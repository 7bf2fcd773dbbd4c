"""Clusters described by TF_CONFIG or Slurm, and invalid descriptions."""

import json

from estimator_trainer.common.cluster import tf_config
from tests.shared import refused

CLUSTER = {'chief': ['a:1'], 'worker': ['b:1', 'c:1']}
TWO, THREE = ['a:1', 'b:1'], ['a:1', 'b:1', 'c:1']
SLURM = dict(SLURM_JOB_ID='21900', SLURM_STEP_ID='0', SLURM_STEP_NUM_TASKS='4', SLURM_STEP_NODELIST='n[1-2]')
SLURM |= dict(SLURM_STEP_TASKS_PER_NODE='2(x2)', SLURMD_NODENAME='n2', SLURM_LOCALID='0')
JOBS = 'chief, worker, ps, evaluator'
EXAMPLES = dict.fromkeys(['a', 'a:', ':1', 'a:0', 'a:65536', 'a:b', 'a:\u0663', 'a b:1'], 'host:2222') | {
    'grpc://a:1': 'host:2222 (omit grpc://)',
    'grpc://[::1]:1': '[::1]:2222 (omit grpc://)',
    '::1:2222': '[::1]:2222',
}


def text_of(cluster, kind='', index=0, **others):
    return json.dumps({'cluster': cluster, 'task': {'type': kind, 'index': index}, **others})


def test_a_task_knows_its_place_and_one_task_is_no_cluster():
    for cluster, job, index, others, expected in (
        (CLUSTER, 'chief', 0, {'environment': 'cloud'}, ('chief', False, THREE)),  # From a TFJob.
        (CLUSTER, 'evaluator', 0, {}, ('evaluator 0', False, THREE)),
        ({**CLUSTER, 'evaluator': ['d:1']}, 'worker', '1', {'job': {}}, ('worker 1', True, THREE)),  # From Vertex AI.
        ({'ps': ['p:1'], 'evaluator': ['e:1'], **CLUSTER}, 'ps', 0, {}, ('ps 0', False, [*THREE, 'p:1'])),
        ({'master': ['a:1'], 'worker': ['b:1']}, 'master', 0, {'model_dir': '/nowhere'}, ('chief', False, TWO)),  # Old.
        ({'worker': ['a:1', '[::1]:65535']}, 'worker', 0, {}, ('worker 0', False, ['a:1', '[::1]:65535'])),
        ({'worker': TWO, 'chief': []}, 'worker', 1, {}, ('worker 1', True, TWO)),
        ({}, 'evaluator', 0, {}, ('evaluator 0', False, [])),
    ):
        found = tf_config.read({'TF_CONFIG': text_of(cluster, job, index, **others)})
        members = [found.addresses[job][i] for job, i in found.members]
        assert (found.name, found.is_worker, members, found.source) == (*expected, 'TF_CONFIG')
    host = ['host:2222']
    alone = (text_of({'master': host}, 'master', model_dir='/nowhere'), text_of({'worker': host}, 'worker', '0'))
    for text in (*alone, '{"task": {"type": "master", "index": 0}}', '{}', ''):
        environ = {'TF_CONFIG': text, 'HOME': '/'}
        assert tf_config.read(environ) is None and environ == {'HOME': '/'}  # The Estimator would read it.
    assert tf_config.read({**SLURM, 'SLURM_STEP_NUM_TASKS': '1'}) is None
    assert tf_config.read({'SLURM_PROCID': '0', 'SLURM_NTASKS': '4'}) is None  # A batch script.


def test_invalid_descriptions_of_a_cluster_are_rejected():
    for message, texts in (
        (' is not JSON ', ['9' * 5000, '[' * 100000]),
        (": 'task' is given twice", ['{"task": {}, "task": {}}']),
        (' is not a JSON object', ['[]']),
        (': its cluster is not an object of lists of hosts', ['{"cluster": [""]}', text_of({'ps': ''}), text_of({'ps': [1]})]),
        (': its task is not an object of a type and an index', ['{"task": "worker"}', '{"task": {"type": 1}}']),
        *((f": its task's index {i} is not an integer from 0", [f'{{"task": {{"index": {i}}}}}']) for i in (-1, 'true', 0.5)),
        (': its task\'s index "\\u0663" is not an integer from 0', ['{"task": {"index": "\\u0663"}}']),
        (': its task is worker 2, and the cluster has 2 of this type', [text_of(CLUSTER, 'worker', 2)]),
        (': its task is worker 1, and the cluster has 1 of this type', [text_of({'worker': ['a:1']}, 'worker', 1)]),
        (f': its task has the type trainer, which is not one of {JOBS}', [text_of(CLUSTER, 'trainer')]),
        (': its task has no type, which says which task of the cluster this one is', [text_of(CLUSTER, '')]),
        (f': its cluster has the job trainer, which is not one of {JOBS}', [text_of({'trainer': ['a:1']}, 'worker')]),
        (': its cluster has 2 chiefs', [text_of({'chief': ['a:1'], 'master': ['b:1']}, 'chief')]),
        (': its cluster has parameter servers, ps, and no chief or worker', [text_of({'ps': TWO}, 'ps')]),
        (': the address a:1 is given to several tasks', [text_of({'worker': ['a:1', 'a:1']}, 'worker')]),
        *((f': the address {a} is not a host and a port, such as {b}', [text_of({'chief': [a]})]) for a, b in EXAMPLES.items()),
    ):
        start, fix = f'TF_CONFIG{message}', ': correct it, or unset it to train on one machine'
        for text in texts:
            found = refused(tf_config.read, {'TF_CONFIG': text})
            assert found.startswith(start) and found.endswith(fix) and ('JSON ' in message or found == start + fix)


def test_tasks_of_a_slurm_step_are_workers_in_the_order_of_hosts_and_corrupt_variables_are_rejected():
    for nodes, per_node, own, expected in (
        ('n[1-2]', '2(x2)', 'n2', ['n1:10000', 'n1:10001', 'n2:10000', 'n2:10001']),
        ('n[9-10],m-[01-02]', '1(x4)', 'm-01', ['n9:10000', 'n10:10000', 'm-01:10000', 'm-02:10000']),
        ('b[02,1],a', '2,1(x2)', 'b1', ['b02:10000', 'b02:10001', 'b1:10000', 'a:10000']),
    ):
        changes = dict(SLURM_STEP_NODELIST=nodes, SLURM_STEP_TASKS_PER_NODE=per_node, SLURMD_NODENAME=own)
        found = tf_config.read({**SLURM, **changes})
        assert (found.name, found.is_worker, found.addresses) == ('worker 2', True, {'worker': expected})
    assert found.source == 'Slurm' and not tf_config.read({**SLURM, 'SLURMD_NODENAME': 'n1'}).is_worker
    assert tf_config.read({**SLURM, 'TF_CONFIG': text_of(CLUSTER, 'chief')}).name == 'chief'
    for name, values, message in (
        ('SLURM_STEP_NUM_TASKS', ['5', '0'], "Slurm's variables contradict each other (SLURM_STEP_NUM_TASKS={} SLURM_STEP_NO"),
        ('SLURM_LOCALID', ['2', '-1'], "Slurm's variables contradict each other ("),
        ('SLURMD_NODENAME', ['n3', ''], "Slurm's variables contradict each other ("),
        ('SLURM_STEP_NODELIST', ['n[2-1]', 'n1,n1', 'n[1-3]', ''], "Slurm's variables contradict each other ("),
        ('SLURM_STEP_NUM_TASKS', ['two'], "one of Slurm's variables cannot be read ("),
        ('SLURM_STEP_NODELIST', ['n[1-'], "one of Slurm's variables cannot be read (n[1- is not a list of hosts): "),
        ('SLURM_STEP_TASKS_PER_NODE', ['x'], "one of Slurm's variables cannot be read (x is not a list of tasks per host): "),
        ('SLURM_JOB_ID', [None], 'SLURM_JOB_ID is missing: '),
    ):
        for value in values:
            environ = {key: text for key, text in {**SLURM, name: value}.items() if text is not None}
            found = refused(tf_config.read, environ)
            assert found.startswith(message.format(value))
            assert found.endswith(': start the tasks with srun, or unset SLURM_STEP_NUM_TASKS to train on one machine')


def test_jobs_of_an_array_and_steps_of_a_job_have_other_ports():
    def ports(job, step):
        found = tf_config.read({**SLURM, 'SLURM_JOB_ID': str(job), 'SLURM_STEP_ID': str(step)})
        return {int(address.rpartition(':')[2]) for address in found.addresses['worker']}

    for jobs, steps in ((range(10**6, 10**6 + 500), range(1)), (range(40), range(8))):
        found = [ports(job, step) for job in jobs for step in steps]
        assert len(set.union(*found)) == sum(map(len, found))
        assert all(10000 <= port < 32000 for port in set.union(*found))
