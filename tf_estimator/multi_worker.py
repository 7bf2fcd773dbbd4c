"""`train_distribute` over the tasks of TF_CONFIG: `tf.estimator.train_and_evaluate` with MultiWorkerMirroredStrategy.

TensorFlow has kept the coordinator that starts a task's server and configures its strategy, but not its connection to an
Estimator, the module tensorflow.python.distribute.estimator_training; this module replaces it.
"""

import copy
from typing import Any, NoReturn

from tensorflow.python.distribute import distribute_coordinator, distribute_coordinator_context
from tensorflow.python.training.server_lib import ClusterSpec

_INDEPENDENT = distribute_coordinator.CoordinatorMode.INDEPENDENT_WORKER  # Each task is a process with its own TF_CONFIG.


def init_run_config(config: Any, tf_config: dict[str, Any]) -> None:
    """Completes a RunConfig with a distribution strategy; tf_config is the content of TF_CONFIG."""
    _take_experimental(config)
    cluster = tf_config.get('cluster', {})
    if config._train_distribute and cluster and 'master' not in cluster:
        # The coordinator sets the remaining facts about this task when it starts.
        config._init_distributed_setting_from_environment_var({})
        config._cluster_spec = ClusterSpec(cluster)
        config._distribute_coordinator_mode = _INDEPENDENT
        if tf_config.get('task', {}).get('type') == 'evaluator':
            config._train_distribute = None  # A RunConfig is copied, which fails for a strategy in eager mode.
    else:
        config._distribute_coordinator_mode = None
        config._init_distributed_setting_from_environment_var(tf_config)
        config._maybe_overwrite_session_config_for_distributed_training()


def _take_experimental(config):
    """Takes the strategies of RunConfig's argument experimental_distribute."""
    distribute = config._experimental_distribute
    if distribute is None:
        return
    if distribute.remote_cluster:
        raise ValueError(
            'experimental_distribute.remote_cluster needs TensorFlow 2.15 or older: start the program once a task, with '
            'TF_CONFIG.'
        )
    for name in ('train_distribute', 'eval_distribute'):
        strategy = getattr(distribute, name)
        if strategy and getattr(config, f'_{name}'):
            raise ValueError(f'Both {name} and experimental_distribute.{name} are set: drop one of them.')
        if strategy:
            setattr(config, f'_{name}', strategy)


def should_run_distribute_coordinator(config: Any) -> bool:
    """Whether train_and_evaluate must use the coordinator."""
    return getattr(config, '_distribute_coordinator_mode', None) == _INDEPENDENT


def train_and_evaluate(estimator: Any, train_spec: Any, eval_spec: Any, executor_class: Any) -> None:
    """Trains, or evaluates each checkpoint, according to this process's task in TF_CONFIG."""

    def train(strategy):
        local = _of_this_task(estimator)
        local._train_distribution = local._config._train_distribute = strategy
        local.train(train_spec.input_fn, hooks=list(train_spec.hooks), max_steps=train_spec.max_steps)

    def evaluate(strategy):
        local = _of_this_task(estimator)
        local._eval_distribution = local._config._eval_distribute = strategy
        executor_class(local, train_spec, eval_spec)._start_continuous_evaluation()

    config = estimator.config
    distribute_coordinator.run_distribute_coordinator(
        train,
        config.train_distribute,
        evaluate,
        config.eval_distribute,
        mode=_INDEPENDENT,
        session_config=config.session_config,
    )


def _of_this_task(estimator):
    """Returns the Estimator with the coordinator's facts about this task in its RunConfig."""
    estimator = copy.copy(estimator)
    config = estimator._config = copy.copy(estimator._config)
    task = distribute_coordinator_context.get_current_worker_context()
    config._task_type, config._task_id, config._is_chief = task.task_type, task.task_id, task.is_chief
    config._master = config._evaluation_master = task.master_target
    is_evaluator = task.task_type == 'evaluator'  # Not part of the training cluster.
    config._cluster_spec = ClusterSpec({}) if is_evaluator else task.cluster_spec
    tasks = {job: len(addresses) for job, addresses in config._cluster_spec.as_dict().items()}
    config._num_ps_replicas = tasks.get('ps', 0)
    config._num_worker_replicas = tasks.get('chief', 0) + tasks.get('worker', 0)
    order = [job for job in ('chief', *sorted(tasks.keys() - {'chief', 'ps'}), 'ps') if job in tasks]  # RunConfig's.
    config._global_id_in_cluster = None
    if task.task_type is None:  # The only task, if the strategy controls the devices of all.
        config._global_id_in_cluster = 0
    elif not is_evaluator:
        config._global_id_in_cluster = task.task_id + sum(tasks[job] for job in order[: order.index(task.task_type)])
    config._distribute_coordinator_mode = None  # Otherwise train() and evaluate() would recurse to here.
    return estimator


def refuse(*unused_args: Any) -> NoReturn:
    """Replaces Estimator.train and evaluate with a strategy over several tasks."""
    raise ValueError(
        'With a distribution strategy over the tasks of TF_CONFIG, train and evaluate by tf.estimator.train_and_evaluate.'
    )
