"""TF_CONFIG, the environment variable that describes a cluster: trainer.py trains on one machine."""

from collections.abc import MutableMapping
import json

from common.errors import UsageError

_FIX = 'unset it, as trainer.py trains on one machine'


def clear_local(environ: MutableMapping[str, str]) -> None:
    """Removes a TF_CONFIG of one task from os.environ: the Estimator would require a chief in it, or use its model_dir.

    Raises:
      UsageError: it has several tasks, or is invalid.
    """
    text = environ.get('TF_CONFIG')
    if text:
        tasks = _count_tasks(text)
        if tasks > 1:
            raise UsageError(f'TF_CONFIG names {tasks} tasks, and trainer.py trains on one machine: unset it')
    environ.pop('TF_CONFIG', None)


def _count_tasks(text):
    """Returns the number of tasks, including this process's own, which may be outside of the cluster, such as an evaluator."""
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f'TF_CONFIG is not JSON ({error}): {_FIX}') from None
    if not isinstance(config, dict):
        raise UsageError(f'TF_CONFIG is not a JSON object: {_FIX}')
    cluster, task = config.get('cluster', {}), config.get('task', {})
    if not isinstance(cluster, dict) or not all(map(_is_hosts, cluster.values())):
        raise UsageError(f'TF_CONFIG: its cluster is not an object of lists of hosts: {_FIX}')
    if not isinstance(task, dict) or not isinstance(task.get('type', ''), str) or not str(task.get('index', 0)).isdecimal():
        raise UsageError(f'TF_CONFIG: its task is not an object of a type and an index: {_FIX}')
    is_outside = cluster and 'type' in task and int(task.get('index', 0)) >= len(cluster.get(task['type'], []))
    return sum(map(len, cluster.values())) + bool(is_outside)


def _is_hosts(value):
    return isinstance(value, list) and all(isinstance(host, str) for host in value)
