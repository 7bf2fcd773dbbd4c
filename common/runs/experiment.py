"""All that a schedule needs, as one plain object."""

import dataclasses
import math
import types
import typing

import tensorflow.compat.v1 as tf

from common.data.data_size import count_examples, fits_cache
from common.data.input_pipeline import make_input_fn
from common.errors import UsageError
from common.inference.evaluator import Evaluator
from common.monitoring.profiler import parse_steps
from common.quiet import quiet
from common.runs.options import MAX_STEPS, Options
from common.runs.schedules import EVALUATING, TRAINING
from common.runs.stop import StopOnSignal
from common.storage import checkpoints
from common.storage.metrics import Goal, parse_goal
from common.training.model_fn import TrainingPlan, make_model_fn
from common.training.numerics import check_numerics

ModeKeys = tf.estimator.ModeKeys


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What the functions of common/runs/schedules.py work on.

    train_steps is the global step at which training ends. There is an evaluator for each of the splits to evaluate, in the
    schedules that do so; goal judges the first one's metrics.
    """

    estimator: tf.estimator.Estimator
    dataset: types.ModuleType
    params: typing.Mapping
    data_dir: str
    train_input_fn: typing.Callable
    train_steps: int
    eval_every_steps: int
    evaluators: typing.Sequence[Evaluator]
    goal: Goal
    options: Options
    stop: StopOnSignal


def make_experiment(model, dataset, params, data_dir, output_dir, stop, devices, session_config, options):
    """Builds the Estimator, its input functions and its evaluators.

    Args:
      model, dataset: modules, see README.md; the dataset has been prepared.
      params: HParams.
      data_dir, output_dir: str.
      stop: StopOnSignal.
      devices: what `common.training.parallel.tower_devices` returned.
      session_config: what `common.training.session_config.make_session_config` returned.
      options: Options. The splits that its schedule has no use for are not touched.

    Returns:
      Experiment.

    Raises:
      UsageError: the towers do not divide the batch, or an endless dataset is to be trained on for epochs, or there is no
        such split or metric.
      RunError: a split is empty, or not even its shuffling fits into memory.
    """
    _check_batch(params, len(devices))
    goal = parse_goal(options.best_metric)
    num_examples, train_steps = 0, 1
    if options.schedule in TRAINING or options.schedule == 'continuous_eval':
        num_examples = count_examples(dataset, 'train', data_dir, params, _needed_examples(params, options))
        if options.schedule != 'dry_run':
            train_steps = _train_steps(params, num_examples)
    trained_examples = _trained_examples(num_examples, params, options)
    is_long = options.schedule in ('train', 'train_and_evaluate')
    cache = is_long and fits_cache(dataset, data_dir, params, trained_examples)
    save_steps = options.save_checkpoints_steps or _epoch_steps(params, num_examples)
    eval_every_steps = options.eval_every_steps or save_steps
    config = tf.estimator.RunConfig(
        model_dir=output_dir,
        tf_random_seed=params.seed,
        session_config=session_config,
        save_summary_steps=0,  # The hooks that write them and the log are in common/monitoring/summaries.py.
        log_step_count_steps=None,
        keep_checkpoint_max=options.keep_checkpoint_max,
    )
    has_weights = checkpoints.has_checkpoint(output_dir)
    if options.warm_start_from and has_weights:
        tf.logging.info('--warm_start_from is not used: %s has a checkpoint of its own to go on from.', output_dir)
    plan = TrainingPlan(
        total_steps=train_steps,
        epoch_steps=max(num_examples, 0) / params.batch_size,
        summary_steps=options.save_summary_steps,
        checkpoint_periods=[save_steps, eval_every_steps],
        warm_start_from='' if has_weights else options.warm_start_from,
        freeze=options.freeze,
        profiled_steps=options.profile_steps and parse_steps(options.profile_steps),
        steps_per_loop=options.steps_per_loop,
        loss_scaling=options.precision == 'float16',
    )
    model_fn = make_model_fn(model, devices, plan)
    if options.debug_numerics:
        model_fn = check_numerics(model_fn)
    with quiet():  # It would print all of its configuration.
        estimator = tf.estimator.Estimator(model_fn, config=config, params=params)
    evaluators = []
    if options.schedule in EVALUATING:
        evaluators = [
            Evaluator(
                estimator,
                make_input_fn(dataset, ModeKeys.EVAL, split, data_dir, params),
                split,
                _eval_steps(dataset, split, data_dir, params, options),
            )
            for split in options.eval_splits
        ]
        _check_goal(goal, evaluators[0], options.best_metric)
    return Experiment(
        estimator=estimator,
        dataset=dataset,
        params=params,
        data_dir=data_dir,
        train_input_fn=make_input_fn(
            dataset, ModeKeys.TRAIN, 'train', data_dir, params, trained_examples, cache, is_part=bool(options.overfit_batches)
        ),
        train_steps=train_steps,
        eval_every_steps=eval_every_steps,
        evaluators=evaluators,
        goal=goal,
        options=options,
        stop=stop,
    )


def _check_goal(goal, evaluator, text):
    # Every model has a loss, so that no graph need be built to know.
    if goal.metric != 'loss' and goal.metric not in evaluator.metric_names():
        raise UsageError(
            f'--best_metric={text}: there is no metric {goal.metric}; the metrics are: {", ".join(evaluator.metric_names())}'
        )


def _check_batch(params, towers):
    if towers and params.batch_size % towers:
        below = params.batch_size // towers * towers
        sizes = f'{below} or {below + towers}' if below else f'{towers}'
        raise UsageError(
            f'batch_size={params.batch_size} does not divide by {towers} towers: the nearest that does is '
            f'--hparams=batch_size={sizes}'
        )


def _needed_examples(params, options):
    """Returns how many examples a training may read, those that wait to be shuffled too; None where epochs decide."""
    if options.schedule == 'dry_run' or options.schedule == 'continuous_eval' and params.train_steps:
        return 1
    return params.train_steps * params.batch_size + params.shuffle_buffer if params.train_steps else None


def _train_steps(params, num_examples):
    if params.train_steps:
        return params.train_steps
    if num_examples == tf.data.experimental.INFINITE_CARDINALITY:
        raise UsageError(f'--dataset={params.dataset} has no end, so that it has no epochs: give --train_steps')
    steps = params.num_epochs * num_examples / params.batch_size
    if steps > MAX_STEPS:
        raise UsageError(f'num_epochs={params.num_epochs} makes more than {MAX_STEPS} steps: give fewer, or --train_steps')
    steps = math.ceil(steps)
    if not steps:
        raise UsageError(f'num_epochs={params.num_epochs} leaves nothing to train: give more, or --train_steps')
    return steps


def _eval_steps(dataset, split, data_dir, params, options):
    if options.eval_steps or options.schedule == 'dry_run':
        count_examples(dataset, split, data_dir, params, at_most=1)  # It may not be there, or be empty.
        return 1 if options.schedule == 'dry_run' else options.eval_steps
    num_examples = count_examples(dataset, split, data_dir, params)
    if num_examples == tf.data.experimental.INFINITE_CARDINALITY:
        raise UsageError(f'--dataset={params.dataset}: the split {split} has no end: give --eval_steps')
    return math.ceil((num_examples + 1) / params.eval_batch_size)  # So that it is seen that there are no more.


def _trained_examples(num_examples, params, options):
    if not options.overfit_batches:
        return num_examples
    few = min(options.overfit_batches * params.batch_size, MAX_STEPS)
    return few if num_examples < 0 else min(few, num_examples)  # It has no end, or more than are needed.


def _epoch_steps(params, num_examples):
    """Returns the steps between checkpoints where none are asked for: an epoch, or 1,000 where there are no epochs."""
    if num_examples <= 0:
        return 1000
    return math.ceil(num_examples / params.batch_size)
