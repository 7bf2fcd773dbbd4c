"""All that a schedule needs, as one plain object."""

import dataclasses
import math
import types
import typing

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.hooks import StopOnSignal
from common.input_fn import count_examples, make_input_fn
from common.model_fn import make_model_fn
from common.numerics import check_numerics
from common.schedules import EVALUATING, TRAINING

ModeKeys = tf.estimator.ModeKeys


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What the functions of common/schedules.py work on.

    train_steps is the global step at which training ends, eval_steps the number of evaluation batches, in the schedules
    that train and evaluate. predict_input is a pattern of image files to predict instead of predict_split.
    """

    estimator: tf.estimator.Estimator
    dataset: types.ModuleType
    params: typing.Mapping
    data_dir: str
    train_input_fn: typing.Callable
    eval_input_fn: typing.Callable
    train_steps: int
    eval_steps: int
    predict_split: str
    predict_input: str
    stop: StopOnSignal


def make_experiment(model, dataset, params, data_dir, output_dir, stop, devices, session_config, *, schedule, eval_steps,
                    save_checkpoints_steps, save_summary_steps, keep_checkpoint_max, debug_numerics, predict_split,
                    predict_input):
    """Builds the Estimator and its input functions.

    Args:
      model, dataset: modules, see README.md; the dataset has been prepared.
      params: HParams.
      data_dir, output_dir: str.
      stop: StopOnSignal.
      devices, session_config: what `common.parallel.tower_devices` returned.
      schedule: str. The splits that it has no use for are not touched.
      eval_steps: int, evaluation batches; 0 is the whole split.
      save_checkpoints_steps: int, or None for once an epoch.
      save_summary_steps: int, steps between log lines and points in TensorBoard.
      keep_checkpoint_max: int, 0 keeps all.
      debug_numerics: bool, whether to stop at the first op that makes a NaN or an infinity.
      predict_split, predict_input: see Experiment.

    Returns:
      Experiment.

    Raises:
      UsageError: the towers do not divide the batch, or an endless dataset is to be trained on for epochs.
      RunError: the training split is empty.
    """
    _check_batch(params, len(devices))
    num_examples, train_steps = 0, 1
    if schedule in TRAINING or schedule == 'continuous_eval':
        num_examples = count_examples(dataset, 'train', data_dir, params)
        if schedule != 'dry_run':
            train_steps = _train_steps(params, num_examples)
    if schedule == 'dry_run':
        eval_steps = 1
    elif schedule in EVALUATING and not eval_steps:
        eval_steps = _eval_steps(params, count_examples(dataset, 'eval', data_dir, params))
    config = tf.estimator.RunConfig(
        model_dir=output_dir,
        tf_random_seed=params.seed,
        session_config=session_config,
        save_checkpoints_steps=save_checkpoints_steps or _epoch_steps(params, num_examples),
        save_summary_steps=save_summary_steps,
        log_step_count_steps=save_summary_steps,
        keep_checkpoint_max=keep_checkpoint_max)
    model_fn = make_model_fn(model, devices, train_steps)
    if debug_numerics:
        model_fn = check_numerics(model_fn)
    return Experiment(
        estimator=tf.estimator.Estimator(model_fn, config=config, params=params),
        dataset=dataset,
        params=params,
        data_dir=data_dir,
        train_input_fn=make_input_fn(dataset, ModeKeys.TRAIN, 'train', data_dir, params, num_examples),
        eval_input_fn=make_input_fn(dataset, ModeKeys.EVAL, 'eval', data_dir, params),
        train_steps=train_steps,
        eval_steps=eval_steps,
        predict_split=predict_split,
        predict_input=predict_input,
        stop=stop)


def _check_batch(params, towers):
    if towers and params.batch_size % towers:
        below = params.batch_size // towers * towers
        sizes = f'{below} or {below + towers}' if below else f'{towers}'
        raise UsageError(f'batch_size={params.batch_size} does not divide by {towers} towers: the nearest that does is '
                         f'--hparams=batch_size={sizes}')


def _train_steps(params, num_examples):
    if params.train_steps:
        return params.train_steps
    if num_examples == tf.data.experimental.INFINITE_CARDINALITY:
        raise UsageError(f'--dataset={params.dataset} has no end, so that it has no epochs: give --train_steps')
    steps = math.ceil(params.num_epochs * num_examples / params.batch_size)
    if not steps:
        raise UsageError(f'num_epochs={params.num_epochs} leaves nothing to train: give more, or --train_steps')
    return steps


def _eval_steps(params, num_examples):
    if num_examples == tf.data.experimental.INFINITE_CARDINALITY:
        raise UsageError(f'--dataset={params.dataset}: the split eval has no end: give --eval_steps')
    return math.ceil(num_examples / params.eval_batch_size)


def _epoch_steps(params, num_examples):
    """Returns the steps between checkpoints where none are asked for: an epoch, or 1,000 where there are no epochs."""
    if num_examples <= 0:
        return 1000
    return math.ceil(num_examples / params.batch_size)
