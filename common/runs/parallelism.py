"""The towers and threads of a run: those of its flags, those it began with, or those that suit its model."""

from collections.abc import Callable
import contextlib
import dataclasses
import types
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.training_task import ALONE, TrainingTask
from estimator_trainer.common.inference.evaluated_input import aside
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.plugins.estimator_contract import named
from estimator_trainer.common.plugins.module_check import makes_step
from estimator_trainer.common.processor import num_cores
from estimator_trainer.common.runs import saved_flags
from estimator_trainer.common.training.model_fn import Features, Labels, build_networks
from estimator_trainer.common.training.parallelism import Parallelism, choose
from estimator_trainer.common.training.reproducibility import seeded
from estimator_trainer.common.training.session_config import has_threads_per_session

_STEPS_WORTH_A_CHOICE = 1000  # The model is built once more.


def began_with(options: Options, output_dir: str) -> Options:
    """Returns the options of a run that resumes: sums depend on towers and threads, so it keeps those that were chosen."""
    return _fill(options, Parallelism(**saved_flags.load(output_dir).get(saved_flags.PARALLELISM, {})))


def chosen(
    options: Options,
    model: types.ModuleType,
    source: DataSource,
    input_fn: Callable[[], Any],
    train_steps: int,
    task: TrainingTask = ALONE,
) -> Options:
    """Returns the options of a run that begins, with the towers and threads that the flags leave open.

    Args:
      input_fn: of the training batches.
      train_steps: its length; short ones, and all but those on the CPUs of one machine, keep the defaults.
    """
    is_open = not (options.num_towers or options.num_gpus or options.intra_op_threads)
    is_of_framework = task.decides_alone and not makes_step(model) and not source.has_input_fn()
    is_on_cpus = not tf.config.list_physical_devices('GPU')
    if not (is_open and is_of_framework and is_on_cpus and train_steps >= _STEPS_WORTH_A_CHOICE and has_threads_per_session()):
        return _fill(options, Parallelism())
    params, found = source.params, Parallelism()
    # The training reports the errors.
    with contextlib.suppress(Exception), seeded(params.seed), aside(input_fn, params.seed) as (graph, batch):
        features, labels = Features(named(batch.features, 'features')), Labels(named(batch.labels, 'label'))
        build_networks(model, [], features, labels, tf.estimator.ModeKeys.TRAIN, params)
        found = choose(graph, params.batch_size, num_cores(), getattr(model, 'INDEPENDENT_EXAMPLES', False))
    if found.num_towers > 1:
        tf.logging.info(
            'Each step trains %d towers on a part of the batch each: this is faster, rounds sums otherwise, and draws other '
            'random numbers; --num_towers=1 trains without.',
            found.num_towers,
        )
    elif found.intra_op_threads:
        tf.logging.info('Each op runs in one thread, as the products of the model are small: see --intra_op_threads.')
    return _fill(options, found)


def of(options: Options) -> dict[str, int]:
    """Returns what flags.json keeps."""
    return Parallelism(options.num_towers, options.intra_op_threads)._asdict()


def _fill(options, found):
    return dataclasses.replace(
        options,
        num_towers=options.num_towers or found.num_towers,
        intra_op_threads=options.intra_op_threads or found.intra_op_threads,
    )
