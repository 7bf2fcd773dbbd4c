"""Everything that a schedule needs, in one object."""

from collections.abc import Callable, Sequence
import dataclasses
import math
import types
from typing import Any

import tensorflow.compat.v1 as tf

from common.cluster.training_task import ALONE, TrainingTask
from common.data.input_pipeline import make_input_fn
from common.data.length_groups import WINDOW
from common.data.share import Share
from common.data.size import count_examples, fits_cache
from common.data.source import DataSource
from common.errors import UsageError
from common.inference.evaluator import Evaluator
from common.options.schedule import SCHEDULES, Schedule
from common.options.table import Options
from common.options.values import MAX_STEPS
from common.quiet import quiet
from common.runs.stop import StopOnSignal
from common.storage import checkpoints
from common.storage.metrics import Objective, parse_objective
from common.training.model_fn import ModelFn
from common.training.numerics import check_numerics
from common.training.parallel import tower_devices

ModeKeys = tf.estimator.ModeKeys


@dataclasses.dataclass(frozen=True)
class Experiment:
    """The argument of the functions of common/runs/schedules.py.

    train_steps is the global step at which training ends. evaluators has one for each split to evaluate, and is empty for
    schedules that do not evaluate; objective compares the metrics of the first.
    """

    estimator: tf.estimator.Estimator
    source: DataSource
    train_input_fn: Callable[[], tf.data.Dataset]
    train_steps: int
    eval_every_steps: int
    evaluators: Sequence[Evaluator]
    objective: Objective
    options: Options
    stop: StopOnSignal
    task: TrainingTask = ALONE
    on_metrics: Callable[[dict[str, Any]], None] | None = None

    @property
    def schedule(self) -> Schedule:
        return SCHEDULES[self.options.schedule]


def make_experiment(
    model: types.ModuleType,
    source: DataSource,
    config: tf.estimator.RunConfig,
    options: Options,
    stop: StopOnSignal,
    task: TrainingTask = ALONE,
    on_metrics: Callable[[dict[str, Any]], None] | None = None,
) -> Experiment:
    """Builds the Estimator, its input functions and its evaluators.

    Args:
      model: a model module, see docs/modules.md.
      source: the dataset.
      config: what `common.training.session_config.make_run_config` returned for these options.
      options: splits that their schedule does not need are not read.
      stop: the hook that ends the training on a signal.
      task: this process's.
      on_metrics: see `common.runs.api.train`.

    Raises:
      UsageError: the batch size is not divisible by the number of tasks and towers, epochs are undefined for an infinite
        dataset, or there is no such split or metric.
      RunError: a split is empty, or not even its shuffle buffer fits into memory.
    """
    params, schedule = source.params, SCHEDULES[options.schedule]
    devices = tower_devices(options)
    is_resumed = schedule.trains and checkpoints.has_checkpoint(config.model_dir)
    share = Share(task.index, task.count, task.has_whole_batches)
    _check_batch(params, share.batch_parts, len(devices), is_resumed)
    objective = parse_objective(options.best_metric)
    num_examples, train_steps = 0, 1
    if schedule.trains or schedule.follows:
        num_examples = count_examples(source, params.train_split, _needed_examples(params, schedule))
        if not schedule.is_dry_run:
            train_steps = _train_steps(params, num_examples)
    trained_examples = _trained_examples(num_examples, params, options)
    cache = schedule.trains and not schedule.is_dry_run and fits_cache(source, trained_examples, share.count)
    save_steps = options.save_checkpoints_steps or _epoch_steps(params, num_examples)
    eval_every_steps = options.eval_every_steps or save_steps
    if options.warm_start_from and checkpoints.has_checkpoint(config.model_dir):
        tf.logging.info('--warm_start_from is not used: %s has its own checkpoint to resume from.', config.model_dir)
        options = dataclasses.replace(options, warm_start_from='')
    model_fn: Callable[..., tf.estimator.EstimatorSpec] = ModelFn(
        model,
        devices,
        options,
        total_steps=train_steps,
        num_examples=max(num_examples, 0),
        checkpoint_periods=[save_steps, eval_every_steps],
        task=task,
        stop=stop,
        on_metrics=on_metrics,
    )
    if options.debug_numerics:
        model_fn = check_numerics(model_fn)
    with quiet():  # The Estimator logs its entire configuration.
        estimator = evaluated = tf.estimator.Estimator(model_fn, config=config, params=params)
        if config.device_fn:  # Only the training uses the parameter servers.
            evaluated = tf.estimator.Estimator(model_fn, config=config.replace(device_fn=None), params=params)
    evaluators = []
    if schedule.evaluates:
        evaluators = [_make_evaluator(evaluated, source, split, schedule, options) for split in options.eval_splits]
        _check_objective(objective, evaluators[0], options.best_metric)
    return Experiment(
        estimator=estimator,
        source=source,
        train_input_fn=make_input_fn(
            source,
            ModeKeys.TRAIN,
            params.train_split,
            trained_examples,
            cache,
            is_part=bool(options.overfit_batches),
            share=share,
        ),
        train_steps=train_steps,
        eval_every_steps=eval_every_steps,
        evaluators=evaluators,
        objective=objective,
        options=options,
        stop=stop,
        task=task,
        on_metrics=on_metrics,
    )


def _make_evaluator(estimator, source, split, schedule, options):
    steps, at_least = _eval_steps(source, split, schedule, options)
    return Evaluator(estimator, make_input_fn(source, ModeKeys.EVAL, split), split, steps, at_least)


def _check_objective(objective, evaluator, text):
    # Every model has a loss; to know the other metrics, the graph must be built.
    if objective.metric != 'loss' and objective.metric not in evaluator.metric_names():
        raise UsageError(
            f'--best_metric={text}: there is no metric {objective.metric}; the metrics are: '
            f'{", ".join(evaluator.metric_names())}'
        )


def _check_batch(params, tasks, towers, is_resumed):
    flag = 'override_hparams' if is_resumed and tasks == 1 else 'hparams'  # A cluster cannot resume with another batch_size.
    shares = tasks * max(towers, 1)
    if params.batch_size % shares:
        below = params.batch_size // shares * shares
        sizes = f'{below} or {below + shares}' if below else f'{shares}'
        parts = [f'{tasks} tasks'] * (tasks > 1) + [f'{towers} towers'] * bool(towers)
        others = ', or another number of tasks' if tasks > 1 else ''
        raise UsageError(
            f'batch_size={params.batch_size} is not divisible by {" of ".join(parts)}: use --{flag}=batch_size={sizes}{others}'
        )


def _needed_examples(params, schedule):
    """Returns how many examples a training may read, including the shuffle buffer; None if epochs determine its length."""
    if schedule.is_dry_run or schedule.follows and params.train_steps:
        return 1
    if not params.train_steps:
        return None
    # Grouping by length reads whole windows.
    return params.examples_at(params.train_steps + params.group_by_length * WINDOW) + params.shuffle_buffer


def _train_steps(params, num_examples):
    if params.train_steps:
        return params.train_steps
    if num_examples == tf.data.experimental.INFINITE_CARDINALITY:
        raise UsageError(f'--dataset={params.dataset} is infinite, so epochs are undefined: set --train_steps')
    first, seen = params.batch_start
    steps = first + (params.num_epochs * num_examples - seen) / params.batch_size
    if steps > MAX_STEPS:
        raise UsageError(f'num_epochs={params.num_epochs} makes more than {MAX_STEPS} steps: lower it, or set --train_steps')
    steps = math.ceil(steps)
    if not steps:
        raise UsageError(f'num_epochs={params.num_epochs} leaves nothing to train: raise it, or set --train_steps')
    return steps


def _eval_steps(source, split, schedule, options):
    """Returns how many batches to evaluate at most, and how many there must be."""
    if schedule.is_dry_run or options.eval_steps:
        count_examples(source, split, at_most=1)  # Raises if the split is unknown or empty.
        return 1 if schedule.is_dry_run else options.eval_steps, 1
    num_examples = count_examples(source, split)
    if num_examples == tf.data.experimental.INFINITE_CARDINALITY:
        raise UsageError(f'--dataset={source.params.dataset}: the split {split} is infinite: set --eval_steps')
    size = source.params.eval_batch_size
    return math.ceil((num_examples + 1) / size), math.ceil(num_examples / size)  # One more, to reach the end of the split.


def _trained_examples(num_examples, params, options):
    if not options.overfit_batches:
        return num_examples
    wanted = min(options.overfit_batches * params.batch_size, MAX_STEPS)
    return wanted if num_examples < 0 else min(wanted, num_examples)  # Negative: infinite, or more than needed.


def _epoch_steps(params, num_examples):
    """Returns the default number of steps between checkpoints: an epoch, or 1,000 if epochs are undefined."""
    if num_examples <= 0:
        return 1000
    return math.ceil(num_examples / params.batch_size)
