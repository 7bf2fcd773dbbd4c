"""The Experiment: all inputs of a schedule."""

from collections.abc import Callable, Sequence
import dataclasses
import functools
import math

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.training_task import ALONE
from estimator_trainer.common.errors import UsageError, check_all
from estimator_trainer.common.inference import labeled_files
from estimator_trainer.common.inference.evaluator import Evaluator
from estimator_trainer.common.monitoring.status_file import StatusFile
from estimator_trainer.common.monitoring.times import Times
from estimator_trainer.common.options.schedule import SCHEDULES
from estimator_trainer.common.pipeline.input import make_input_fn
from estimator_trainer.common.pipeline.labels import read_labels
from estimator_trainer.common.pipeline.share import Share
from estimator_trainer.common.pipeline.size import count_examples, fits_cache
from estimator_trainer.common.runs import chosen_checkpoint, parallelism
from estimator_trainer.common.runs.estimators import make_estimators
from estimator_trainer.common.runs.length import measure
from estimator_trainer.common.runs.plan import Plan
from estimator_trainer.common.storage import checkpoints
from estimator_trainer.common.storage.objective import Objective, parse_objective
from estimator_trainer.common.training import exact_program
from estimator_trainer.common.training.parallel import tower_devices
from estimator_trainer.common.training.reproducibility import seeded
from estimator_trainer.common.training.session_config import make_session_config
from estimator_trainer.common.training.training import Training
from estimator_trainer.hparams.build import HParams

ModeKeys = tf.estimator.ModeKeys


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment(Plan):
    """The argument of the functions of common/runs/schedules.py: a plan, and what it needs.

    train_steps is the global step at which training ends. evaluators has one per split to evaluate, or one of the files of
    --input, none for schedules that do not evaluate; objective compares the metrics of the first. rehearse returns an Estimator
    whose training graph can be built although no other task of a cluster builds its own. record is called once the session of
    a run has started: a resumed one keeps the flags and hyper-parameters that it goes on with only then.
    """

    estimator: tf.estimator.Estimator
    rehearse: Callable[[], tf.estimator.Estimator]
    train_input_fn: Callable[[], tf.data.Dataset]
    train_steps: int
    eval_every_steps: int
    evaluators: Sequence[Evaluator]
    objective: Objective
    status: StatusFile
    times: Times
    threshold: float | None = None  # See `decision.decided`.
    record: Callable[[], None] = lambda: None


def make_experiment(plan: Plan, config: tf.estimator.RunConfig, status: StatusFile | None = None) -> Experiment:
    """Builds the Estimator, its input functions and its evaluators.

    Args:
      plan: splits that its schedule does not need are not read.
      config: from `common.training.session_config.make_run_config` for its options.
      status: of the training, if there is one.

    Raises:
      UsageError: a batch has no example for each tower of each task, epochs are undefined for an infinite
        dataset, or there is no such split or metric.
      RunError: a split is empty, or not even its shuffle buffer fits into memory.
    """
    model, source, options, task = plan.model, plan.source, plan.options, plan.task
    params, schedule = plan.params, plan.schedule
    has_checkpoint = checkpoints.has_checkpoint(config.model_dir) and not options.overwrite
    is_resumed = schedule.trains and has_checkpoint
    if is_resumed and task.decides_alone:
        options = parallelism.began_with(options, config.model_dir)
    towers = len(tower_devices(options))
    share = Share(task.index, task.count, has_whole_batches=not task.shares_steps)
    length = measure(source, options)
    counts = _counted(source, options, lambda: check_batch(params, task.batch_parts, towers, is_resumed))
    objective = parse_objective(options.best_metric)
    train_input_fn, plain_input_fn = _train_input_fns(source, options, length.trained_examples, share, task)
    if schedule.trains and not is_resumed:
        options = parallelism.chosen(options, model, source, train_input_fn, length.train_steps, task)
    options, devices = _warm_started(options, config.model_dir, has_checkpoint), tower_devices(options)
    if schedule.trains and task.decides_alone:
        config = config.replace(session_config=make_session_config(options))
    status, times = status or StatusFile(), Times()
    training = _make_training(plan, options, length, status=status, times=times, plain_input_fn=plain_input_fn)
    estimator, evaluated = make_estimators(model, source, devices, training, config)

    def rehearse():
        alone = dataclasses.replace(training, task=ALONE), config.replace(device_fn=None)
        return estimator if task.decides_alone else make_estimators(model, source, devices, *alone)[0]

    return Experiment(
        **vars(dataclasses.replace(plan, options=options)),
        status=status,
        times=times,
        estimator=estimator,
        rehearse=rehearse,
        train_input_fn=train_input_fn,
        train_steps=length.train_steps,
        eval_every_steps=length.eval_every_steps,
        evaluators=_make_evaluators(evaluated, source, objective, options, counts, len(devices)) if schedule.evaluates else [],
        objective=objective,
    )


def _make_training(plan, options, length, **others):
    source = plan.source
    return Training(
        options=options,
        stop=plan.stop,
        task=plan.task,
        on_metrics=plan.on_metrics,
        total_steps=length.train_steps,
        num_examples=max(length.num_examples, 0),
        checkpoint_periods=[*filter(None, [length.save_steps, length.eval_every_steps, options.keep_checkpoint_every])],
        has_input_fn=source.has_input_fn(),
        given=source.given,
        vectors=source.vectors,
        modules=[plan.model, source.module],
        **others,
    )


def _warm_started(options, output_dir, has_checkpoint):
    """Returns the options of a run with the checkpoint of its warm start; without one if the run has its own."""
    if options.warm_start_from and has_checkpoint:
        tf.logging.info('--warm_start_from is not used: %s has its own checkpoint to resume from.', output_dir)
        return dataclasses.replace(options, warm_start_from='')
    if options.warm_start_from and SCHEDULES[options.schedule].trains:
        return dataclasses.replace(options, warm_start_from=chosen_checkpoint.weights_of(options.warm_start_from))
    return options


def _train_input_fns(source, options, num_examples, share, task):
    """Returns the input_fn of the training, and `plain_input_fn` of `Training`."""
    schedule, is_part = SCHEDULES[options.schedule], bool(options.overfit_batches)
    may_cache = schedule.trains and not schedule.is_dry_run and not source.has_input_fn()
    cache = may_cache and fits_cache(source, num_examples, share.count)
    labels = None
    if source.params.oversample and schedule.trains and not source.has_input_fn():
        labels = read_labels(source, 'oversample=true')
        num_examples = num_examples if num_examples > 0 else len(labels)  # A dry run does not count them.
        labels = labels[:num_examples]
    make = functools.partial(make_input_fn, source, ModeKeys.TRAIN, source.params.train_split, num_examples, is_part=is_part)
    input_fn = make(cache, share=share, labels=labels)
    if source.has_input_fn():
        if task.batch_parts > 1:
            return exact_program.resumed(input_fn, source.params.seed), None
        return input_fn if task.has_scaffold else exact_program.recorded(input_fn), None
    return input_fn, make(cache and labels is not None, labels=labels)  # What is oversampled may need to be in memory.


def _make_evaluators(estimator, source, objective, options, counts, towers):
    """Returns an Evaluator of --input, or of each split; raises UsageError if these do not have the metric of the objective."""
    if options.input:
        return [labeled_files.make_evaluator(estimator, source, options.input, options.eval_steps, towers)]
    evaluators = [
        Evaluator(estimator, make_input_fn(source, ModeKeys.EVAL, split), split, *_eval_steps(source, count, options, towers))
        for split, count in counts.items()
    ]
    # Every model has a loss; to know the other metrics, the graph must be built.
    if objective.metric != 'loss':
        with seeded(source.params.seed):  # What it draws is not taken from the initial weights.
            names = evaluators[0].metric_names()
        if objective.metric not in names:
            known = ', '.join(names)
            raise UsageError(
                f'--best_metric={options.best_metric}: there is no metric {objective.metric}; the metrics are: {known}'
            )
    return evaluators


def check_batch(params: HParams, tasks: int, towers: int, is_resumed: bool = False) -> None:
    """Raises UsageError if a batch has no example for each tower of each task; towers may be 0."""
    flag = 'override_hparams' if is_resumed and tasks == 1 else 'hparams'  # A cluster cannot resume with another batch_size.
    shares = tasks * max(towers, 1)
    if params.batch_size < shares:
        parts = [f'{tasks} tasks'] * (tasks > 1) + [f'{towers} towers'] * bool(towers)
        others = ', or fewer tasks' if tasks > 1 else ''
        raise UsageError(
            f'batch_size={params.batch_size} is too small for {" of ".join(parts)}: use --{flag}=batch_size={shares}{others}'
        )


def _counted(source, options, check):
    """Returns {split: number of its examples, or a negative cardinality} for the splits to evaluate, after another check.

    Raises:
      UsageError: the check fails, or there is no such split; with the mistakes of all.
      RunError: a split is empty.
    """
    counts = {}

    def count(split):
        counts[split] = tf.data.experimental.UNKNOWN_CARDINALITY
        if not source.has_input_fn():  # Otherwise the Evaluator sees whether it ends.
            counts[split] = count_examples(source, split, at_most=1 if _max_eval_steps(options) else None)
        if not _max_eval_steps(options) and counts[split] == tf.data.experimental.INFINITE_CARDINALITY:
            raise UsageError(f'--dataset={source.params.dataset}: the split {split} is infinite: set --eval_steps')

    splits = options.eval_splits if SCHEDULES[options.schedule].evaluates and not options.input else ()
    check_all([check, *(functools.partial(count, split) for split in splits)])
    return counts


def _max_eval_steps(options):
    return 1 if SCHEDULES[options.schedule].is_dry_run else options.eval_steps


def _eval_steps(source, num_examples, options, towers):
    """Returns the maximum number of batches to evaluate, the required one, and the examples per tower in the largest."""
    size, steps = source.params.eval_batch_size, _max_eval_steps(options)
    if source.has_input_fn():
        return steps, 1, 1
    largest = math.ceil((size if num_examples < 0 else min(size, num_examples)) / max(towers, 1))
    if steps:
        return steps, 1, largest
    return math.ceil((num_examples + 1) / size), math.ceil(num_examples / size), largest  # One more, to reach the end.
