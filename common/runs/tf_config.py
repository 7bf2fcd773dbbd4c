"""TF_CONFIG, the environment variable that describes a cluster: trainer.py trains on one machine."""

import json

from common.errors import UsageError

_CURE = 'unset it, as trainer.py trains on one machine'


def clear_local(environ):
    """Removes a TF_CONFIG of one task from an environment: the Estimator would want a chief in it, or its directory.

    Args:
      environ: os.environ, or a dict.

    Raises:
      UsageError: it is of several tasks, or is none.
    """
    text = environ.get('TF_CONFIG')
    if text:
        tasks = _count_tasks(text)
        if tasks > 1:
            raise UsageError(f'TF_CONFIG names {tasks} tasks, and trainer.py trains on one machine: unset it')
    environ.pop('TF_CONFIG', None)


def _count_tasks(text):
    """Returns how many tasks a cluster has, with the own one, which may be outside of it, as an evaluator is."""
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f'TF_CONFIG is not JSON ({error}): {_CURE}') from None
    if not isinstance(config, dict):
        raise UsageError(f'TF_CONFIG is not a JSON object: {_CURE}')
    cluster, task = config.get('cluster', {}), config.get('task', {})
    if not isinstance(cluster, dict) or not all(map(_is_hosts, cluster.values())):
        raise UsageError(f'TF_CONFIG: its cluster is not an object of lists of hosts: {_CURE}')
    if not isinstance(task, dict) or not isinstance(task.get('type', ''), str) or not str(task.get('index', 0)).isdecimal():
        raise UsageError(f'TF_CONFIG: its task is not an object of a type and an index: {_CURE}')
    is_outside = cluster and 'type' in task and int(task.get('index', 0)) >= len(cluster.get(task['type'], []))
    return sum(map(len, cluster.values())) + bool(is_outside)


def _is_hosts(value):
    return isinstance(value, list) and all(isinstance(host, str) for host in value)
