"""The Predictor of a Python program, which takes what the files of --input have."""

from collections.abc import Callable
import functools
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.inference import pictures, rows
from estimator_trainer.common.inference.predictor import Predictor
from estimator_trainer.common.inference.signatures import DEFAULT, EXAMPLES, join, signatures_of
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.targets import class_names_of


def make_predictor(
    estimator: tf.estimator.Estimator,
    source: DataSource,
    checkpoint_path: str,
    follows_best: bool = False,
    find_run: Callable[[], Any] = lambda: None,
) -> Predictor:
    """Returns a Predictor of a model's checkpoint that takes pictures, rows of raw inputs, or the dataset's features.

    Args:
      checkpoint_path, follows_best, find_run: see Predictor.
    """
    make = functools.partial(
        Predictor, estimator, checkpoint_path=checkpoint_path, follows_best=follows_best, find_run=find_run
    )
    names, signatures = class_names_of(source.params.metadata), signatures_of(source)
    default = signatures[DEFAULT]
    if source.has_images():
        used = [default, *([signatures[EXAMPLES]] if source.reads_input() else [])]
        specs = {name: spec for signature in used for name, spec in signature.specs.items()}
        make_batch = pictures.batch_maker(source)
        return make(
            specs, make_features=lambda inputs: join(used, [inputs] * len(used)), make_batch=make_batch, class_names=names
        )
    readers = source.module.cell_readers(source.params) if hasattr(source.module, 'cell_readers') else {}
    raw = rows.batch_maker(default.specs, readers) if source.takes_raw() else None
    if raw and hasattr(source.module, 'take_rows'):
        raw = _with_rows(source, raw)
    return make(default.specs, make_features=default.to_features, make_batch=raw, class_names=names)


def _with_rows(source, make_batch):
    """Returns a function as of `rows.batch_maker`, which also takes rows of which several are of one example."""

    def make(inputs):
        try:
            found = source.module.take_rows(source.params, inputs)
        except (UsageError, RunError) as error:
            raise ValueError(str(error)) from None
        return (rows.Batch(*found), False) if found else make_batch(inputs)

    return make


def example_predictor(estimator: tf.estimator.Estimator, source: DataSource, checkpoint_path: str) -> Predictor:
    """Returns a Predictor of a model's checkpoint that takes {'examples': serialized tf.train.Examples [batch]}."""
    signature, names = signatures_of(source)[EXAMPLES], class_names_of(source.params.metadata)
    return Predictor(estimator, signature.specs, checkpoint_path, signature.to_features, class_names=names)
