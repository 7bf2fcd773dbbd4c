"""The hyper-parameters of a run that goes on: those that may differ from the saved ones, and the history of those that do."""

from collections.abc import Sequence
import dataclasses
import functools
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import dumps
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.runs.plan import Plan
from estimator_trainer.common.storage import checkpoints, run_dir
from estimator_trainer.hparams import comparison, overrides
from estimator_trainer.hparams.build import HParams


def compare(plan: Plan, params: HParams, before: int | None = None) -> HParams:
    """Returns the hyper-parameters that a run has saved, if it may go on with others; see `comparison.compare`.

    Raises:
      UsageError: it may not.
    """
    free: Sequence[str] = ['eval_batch_size', 'decision_threshold', *getattr(plan.model, 'INFERENCE_HPARAMS', ())]
    advise = None
    if plan.schedule.trains:
        free = plan.overridden
        advise = functools.partial(overrides.advise, getattr(plan.model, 'OVERRIDABLE_HPARAMS', ()))
    return comparison.compare(params, run_dir.hparams_path(plan.output_dir), free, advise, before, plan.source.given)


def with_batch_start(plan: Plan) -> DataSource:
    """Returns the DataSource of a run that has begun, whose hyper-parameters know the step at which batch_size changed."""
    history = overrides.read_history(run_dir.hparams_path(plan.output_dir))
    return dataclasses.replace(plan.source, params=plan.params.with_batch_start(overrides.batch_start(history)))


def with_history(plan: Plan, params: HParams, back_to: int | None) -> tuple[HParams, list[dict[str, Any]], int]:
    """Returns hyper-parameters with the step at which batch_size changed, the history of a run's, and the step of the change.

    Args:
      back_to: the step to which the run goes back, without the changes since, or None.

    Raises:
      UsageError: the run may not go on with them.
    """
    path, step = run_dir.hparams_path(plan.output_dir), 0
    history: list[dict[str, Any]] = []
    if checkpoints.has_checkpoint(plan.output_dir) and not plan.options.overwrite:
        saved = compare(plan, params, back_to)
        latest = checkpoints.global_step(tf.train.latest_checkpoint(plan.output_dir))
        history, step = overrides.read_history(path), latest if back_to is None else back_to
        history = [entry for entry in history if back_to is None or entry['global_step'] < back_to]
        history = overrides.add_entry(history, saved, params, plan.overridden, step)
        for entry in history:
            for name, (old, new) in entry['hparams'].items():
                tf.logging.info('From step %d on: %s is %s; it was %s.', entry['global_step'], name, dumps(new), dumps(old))
    batch_start = overrides.batch_start(history)
    if batch_start != (0, 0) and (not plan.task.can_change_batch_size or params.group_by_length):
        how = 'with group_by_length' if plan.task.can_change_batch_size else 'in a cluster'
        raise UsageError(
            f'--override_hparams: batch_size changed at step {batch_start[0]}, after which this run cannot continue {how}: '
            'start over in another --output_dir'
        )
    return params.with_batch_start(batch_start), history, step
