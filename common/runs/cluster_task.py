"""The part of a process in the training of a cluster: its options, its Task, or to be a parameter server."""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import os
import sys
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import locks
from estimator_trainer.common.cluster.assembly import Assembly, SharedDirectory
from estimator_trainer.common.cluster.asynchronous import AsynchronousTask, ParameterServer
from estimator_trainer.common.cluster.elastic import ElasticTask, expected
from estimator_trainer.common.cluster.membership import Formation, Hello
from estimator_trainer.common.cluster.synchronous import SynchronousTask
from estimator_trainer.common.cluster.task import Restart
from estimator_trainer.common.cluster.tf_config import EVALUATOR, PS, ClusterConfig
from estimator_trainer.common.cluster.training_task import ALONE, Rehearsal, TrainingTask
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import dumps
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import Options, names_with
from estimator_trainer.common.runs.experiment import check_batch
from estimator_trainer.common.runs.plan import Plan
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import checkpoints, run_dir
from estimator_trainer.common.storage.status import State
from estimator_trainer.common.training.parallel import tower_devices
from estimator_trainer.common.training.session_config import make_session_config
from estimator_trainer.hparams.build import HParams


def options_of_task(plan: Plan, cluster: ClusterConfig) -> Options:
    """Returns the options of this task.

    Raises:
      UsageError: options, hyper-parameters or the model do not go with the cluster.
    """
    options = plan.options
    if options.schedule == 'find_learning_rate':
        raise UsageError('--schedule=find_learning_rate: run it in one process, without TF_CONFIG')
    if cluster.addresses.get(PS):
        _check_asynchronous(plan.model, plan.params, options)
    if options.overwrite and cluster.addresses.get(EVALUATOR):
        raise UsageError("--overwrite: the cluster's evaluator may read old checkpoints: delete the run yourself first")
    is_evaluator, has_evaluator = cluster.job == EVALUATOR, bool(cluster.addresses.get(EVALUATOR))
    if (is_evaluator or has_evaluator) and options.early_stopping_patience:
        raise UsageError('--early_stopping_patience needs evaluations by the chief: remove the evaluator from the cluster')
    if is_evaluator:
        if not has_evaluator and options.schedule == 'train_and_evaluate':
            tf.logging.warning(
                '%s: the cluster does not list the evaluator that this task is. Unless the chief has --schedule=train, both '
                'evaluate.',
                cluster.source,
            )
        if (count := len(cluster.addresses.get(EVALUATOR, ()))) > 1:
            tf.logging.warning('%s: each of the %d evaluators evaluates all checkpoints: one is enough.', cluster.source, count)
        return dataclasses.replace(options, schedule='continuous_eval')
    is_only_training = cluster.is_worker or has_evaluator
    return dataclasses.replace(options, schedule='train') if is_only_training else options


def _check_asynchronous(model, params, options):
    """Raises UsageError if an option, a hyper-parameter or the model requires synchronous steps."""
    is_given = {
        '--keep_checkpoint_every': options.keep_checkpoint_every > 0,
        '--steps_per_loop': options.steps_per_loop > 1,
        '--precision=float16': options.precision == 'float16',
        'gradient_accumulation_steps': params.gradient_accumulation_steps > 1,
        'group_by_length': params.group_by_length,
        f'loss_steps() of --model={params.model}': bool(getattr(model, 'loss_steps', None)),
    }
    given = [name for name, value in is_given.items() if value]
    if given:
        raise UsageError(f'{given[0]} is incompatible with parameter servers: omit it, or leave ps out of the cluster')


def is_idle(plan: Plan, cluster: ClusterConfig) -> bool:
    """Whether this task has no part in a schedule that does not train together."""
    evaluates_elsewhere = cluster.job == EVALUATOR and plan.options.schedule != 'continuous_eval'
    return cluster.is_worker or cluster.job == PS or evaluates_elsewhere


def serve(cluster: ClusterConfig, options: Options, stop: StopOnSignal) -> dict[str, Any]:
    """Runs a parameter server until training has ended."""
    number = ParameterServer(cluster, options.cluster_timeout).serve(stop)
    if number:
        sys.exit(128 + number)
    return {}


def is_elastic(options: Options, cluster: ClusterConfig) -> bool:
    """Whether this process trains with those of --min_tasks that are there.

    Raises:
      UsageError: other options do not go with the flag.
    """
    if options.min_tasks and options.overwrite:
        raise UsageError('--overwrite with --min_tasks: a restarted task would delete the run: delete it yourself first')
    return options.min_tasks > 0 and (cluster.job, cluster.index) in cluster.trainers


@dataclasses.dataclass(frozen=True)
class Gathered:
    """An elastic cluster's tasks, once they agree on who trains: `formation`, and what this one has said of itself: `own`."""

    formation: Formation
    own: Hello


def gather(cluster: ClusterConfig, params: HParams, options: Options, output_dir: str) -> Gathered | None:
    """Returns who trains; None if the others have finished without this task.

    Raises:
      UsageError: a batch has no example for each tower of all tasks, which may come later; or as of Assembly.form.
    """
    count = len(cluster.trainers)
    check_batch(params, count, len(tower_devices(options)))
    run_dir.ensure_writable(output_dir)
    needed = options.min_tasks
    if not locks.are_supported(output_dir) and needed <= count // 2:
        raise UsageError(
            f'--min_tasks={needed}: --output_dir={output_dir} is on a file system without locks, where two halves of the tasks '
            f'that lose each other would both train: use at least {count // 2 + 1}'
        )
    addresses = ' '.join(cluster.addresses[job][index] for job, index in cluster.trainers)
    index = cluster.trainers.index((cluster.job, cluster.index))
    own = Hello(index, expected(os.environ), {cluster.source: addresses, **_facts(params, options)})
    directory = SharedDirectory(
        output_dir,
        lambda: run_dir.lock(output_dir),
        lambda: run_dir.holder(output_dir),
        lambda: run_dir.read_status(output_dir).get('state') == State.FINISHED.value,
    )
    has_begun = checkpoints.has_checkpoint(output_dir)
    try:
        formation = Assembly(cluster, own, needed, options.cluster_timeout, directory).form()
    except UsageError as error:
        if not has_begun and checkpoints.has_checkpoint(output_dir):  # Which determines what this command does not give.
            raise Restart(f'{error}: trying again, as the run has begun meanwhile') from None
        raise
    return Gathered(formation, own) if formation else None


def _facts(params, options):
    """Returns what all tasks must agree on before they meet, {name: JSON}."""
    facts = {'TensorFlow': tf.__version__, **params}
    facts |= {name: getattr(options, name) for name in names_with(Trait.SAME_IN_TASKS)}
    facts['warm_start_from'] = 'given' if options.warm_start_from else 'not given'
    return {name: dumps(value) for name, value in facts.items()}


def task_of(
    plan: Plan, cluster: ClusterConfig | None, gathered: Gathered | None
) -> contextlib.AbstractContextManager[TrainingTask]:
    """Returns a context manager of this process's task; of a run in a cluster, it is entered once all have joined.

    Args:
      cluster: that of `gathered`, if the cluster is elastic.

    Raises:
      UsageError: as of `options_of_task`, in a dry run.
    """
    if not cluster or not plan.schedule.trains:
        return contextlib.nullcontext(ALONE)
    if plan.schedule.is_dry_run:
        options_of_task(plan, cluster)
        count = len(cluster.trainers)
        return contextlib.nullcontext(Rehearsal(count, 1 if cluster.addresses.get(PS) else count))
    is_alone = not gathered and len(cluster.members) == 1
    return contextlib.nullcontext(ALONE) if is_alone else joined(cluster, plan.params, plan.options, gathered)


@contextlib.contextmanager
def joined(
    cluster: ClusterConfig,
    params: HParams,
    options: Options,
    gathered: Gathered | None = None,
    synchronous: Callable[..., SynchronousTask] = SynchronousTask,
) -> Iterator[TrainingTask]:
    """Yields this process's Task once all have joined.

    Args:
      cluster: that of `gathered`, if the cluster is elastic.
      synchronous: makes the Task of a cluster without parameter servers that is not elastic.
    """
    arguments = options.cluster_timeout, make_session_config(options)
    task: AsynchronousTask | SynchronousTask
    if gathered:
        task = ElasticTask(gathered.formation, gathered.own, *arguments)
    else:
        task = (AsynchronousTask if cluster.addresses.get(PS) else synchronous)(cluster, *arguments)
    try:
        task.meet(_facts(params, options))
        yield task
    except locks.Held as error:
        raise task.give_way(error) from None
    finally:
        task.end_watch()
