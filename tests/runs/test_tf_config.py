"""TF_CONFIG: one task trains on this machine, several are refused."""

import json

import pytest

from common.errors import UsageError
from common.runs import tf_config
import sweep
from tests.runs.shared import POLYNOMIAL
from tests.weights import read_weights

CLUSTER = {'chief': ['a:1'], 'worker': ['b:1', 'c:1'], 'ps': ['d:1']}
WRONG = [
    ('{', 'TF_CONFIG is not JSON '),
    ('9' * 5000, 'TF_CONFIG is not JSON '),
    ('[' * 100000, 'TF_CONFIG is not JSON '),
    ('[]', 'TF_CONFIG is not a JSON object: unset it'),
    ('"chief"', 'TF_CONFIG is not a JSON object: unset it'),
    ('{"cluster": ["a:1"]}', 'TF_CONFIG: its cluster is not an object of lists of hosts'),
    ('{"cluster": {"worker": "a:1"}}', 'TF_CONFIG: its cluster is not an object of lists of hosts'),
    ('{"cluster": {"worker": [1]}}', 'TF_CONFIG: its cluster is not an object of lists of hosts'),
    ('{"task": "worker"}', 'TF_CONFIG: its task is not an object of a type and an index'),
    ('{"task": {"type": 1}}', 'TF_CONFIG: its task is not an object of a type and an index'),
    ('{"task": {"type": "worker", "index": -1}}', 'TF_CONFIG: its task is not an object of a type and an index'),
]


@pytest.mark.parametrize(
    'task, tasks',
    [
        ({'type': 'worker', 'index': 1}, 4),
        ({'type': 'ps', 'index': 0}, 4),
        ({'type': 'evaluator', 'index': 0}, 5),
        ({'type': 'worker', 'index': '2'}, 5),
        ({}, 4),
    ],
)
def test_the_tasks_of_a_cluster_are_counted_with_the_own_one(task, tasks):
    environ = {'TF_CONFIG': json.dumps({'cluster': CLUSTER, 'task': task})}
    with pytest.raises(UsageError, match=f'TF_CONFIG names {tasks} tasks, and trainer.py trains on one machine: unset it'):
        tf_config.clear_local(environ)


@pytest.mark.parametrize('text, message', WRONG, ids=[text[:40] for text, _ in WRONG])
def test_a_tf_config_that_describes_no_cluster_is_named(text, message):
    with pytest.raises(UsageError) as error:
        tf_config.clear_local({'TF_CONFIG': text})
    assert str(error.value).startswith(message) and 'trainer.py trains on one machine' in str(error.value)


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
def test_one_task_trains_on_this_machine_as_without_a_cluster(run, tmp_path, monkeypatch, config):
    assert run(*POLYNOMIAL, '--train_steps=3', output_dir=tmp_path / 'expected')[0] == 0
    for schedule in ('train_and_evaluate', 'evaluate', 'predict', 'export'):
        monkeypatch.setenv('TF_CONFIG', config and json.dumps(config))
        code, result, _ = run(*POLYNOMIAL, '--train_steps=3', f'--schedule={schedule}')
        assert code == 0 and result['global_step'] == 3
    found, expected = read_weights(tmp_path / 'output'), read_weights(tmp_path / 'expected')
    assert found.keys() == expected.keys() and all((found[name] == expected[name]).all() for name in expected)


@pytest.mark.parametrize('schedule', ['train_and_evaluate', 'evaluate', 'continuous_eval', 'predict', 'export', 'dry_run'])
def test_several_tasks_are_refused_before_anything_is_made(run, tmp_path, monkeypatch, schedule):
    monkeypatch.setenv('TF_CONFIG', json.dumps({'cluster': CLUSTER, 'task': {'type': 'chief', 'index': 0}}))
    code, _, err = run(*POLYNOMIAL, f'--schedule={schedule}', f'--data_dir={tmp_path}/data')
    assert (code, err) == (2, 'trainer.py: TF_CONFIG names 4 tasks, and trainer.py trains on one machine: unset it\n')
    assert list(tmp_path.iterdir()) == []


def test_sweeps_refuse_several_tasks_too(execute, tmp_path, monkeypatch):
    monkeypatch.setenv('TF_CONFIG', json.dumps({'cluster': CLUSTER, 'task': {'type': 'chief', 'index': 0}}))
    code, _, err = execute(
        sweep.main, ['sweep.py', *POLYNOMIAL, f'--space={tmp_path}/space.json', f'--output_dir={tmp_path}/output']
    )
    assert (code, err) == (2, 'sweep.py: TF_CONFIG names 4 tasks, and trainer.py trains on one machine: unset it\n')
    assert list(tmp_path.iterdir()) == []
