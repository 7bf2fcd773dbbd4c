"""The inputs of exported files, and batches of them from a split."""

from collections.abc import Callable, Iterator, Mapping
import contextlib
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.inference.evaluated_input import open_input, running_queues
from estimator_trainer.common.inference.signatures import (
    DEFAULT,
    EXAMPLES,
    PREDICT,
    Signature,
    feature_specs,
    signatures_of,
)
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import get_specs, make_input_fn
from estimator_trainer.common.plugins.dataset_contract import EXAMPLE_ID
from estimator_trainer.common.plugins.estimator_contract import named
from estimator_trainer.common.records.elements import iterate, opened

_ROUNDING = 0.51 / 255  # Of a pixel in [0, 1].

Batches = Iterator[dict[str, np.ndarray]]


class Inputs(NamedTuple):
    """A signature, and a function from a split's name to batches {name: array [batch, ...]} of its inputs, in order.

    is_raw tells whether its inputs are as in the dataset's own data, not prepared.
    """

    signature: Signature
    batches: Callable[[str], Batches]
    is_raw: bool = False


def of_saved_model(source: DataSource, split: str) -> tuple[str, Inputs | None]:
    """Returns the name of a signature, and its inputs.

    They are serialized examples if the records are such; else what the default signature takes: the features, or the pixels
    that lead to them. Other raw inputs cannot be had from the records: None.
    """
    if source.has_input_fn():
        return DEFAULT, _of_features(source)
    if getattr(get_specs(source).records, 'dtype', None) == tf.string:
        return EXAMPLES, Inputs(
            signatures_of(source)[EXAMPLES], lambda split: ({'examples': batch} for batch in _records(source, split))
        )
    features = _of_features(source)
    if not source.has_images() and not source.takes_raw():
        return DEFAULT, features
    raw = _of_raw(source, features)
    return DEFAULT, raw if raw and _agree(raw, features, split) else None


def of_numbers(source: DataSource, split: str) -> Inputs:
    """Returns the inputs of a format without texts and parsing.

    They are pictures, uint8 [batch, image_size, image_size, num_channels], or columns of numbers, if the records of a split
    lead from them to its features; else the features.

    Raises:
      UsageError: a feature is a text.
    """
    features = _of_features(source)
    for name, spec in features.signature.specs.items():
        if spec.dtype == tf.string:
            raise UsageError(
                f'--format: the feature {name} is a text, which ONNX and TFLite files do not take: choose saved_model'
            )
    raw = None if source.has_input_fn() else _of_raw(source, features)
    return raw if raw and _agree(raw, features, split) else features


def _of_features(source):
    if source.has_input_fn():
        return Inputs(signatures_of(source)[DEFAULT], lambda split: _batches_of_input_fn(source, split))
    return Inputs(Signature(feature_specs(source), dict), lambda split: _batches(source, split))


def _of_raw(source: DataSource, features: Inputs) -> Inputs | None:
    default = signatures_of(source)[DEFAULT]
    if source.has_images():
        return Inputs(default, lambda split: map(_to_pixels, features.batches(split)), is_raw=True)
    if source.takes_raw() and not any(spec.dtype == tf.string for spec in default.specs.values()):
        return Inputs(default, lambda split: _columns(source, default.specs, split), is_raw=True)
    return None


def _batches(source, split):
    with opened(make_input_fn(source, PREDICT, split)) as (session, dataset):
        for batch in iterate(session, dataset):
            yield {name: value for name, value in batch.items() if name != EXAMPLE_ID}


def _batches_of_input_fn(source, split):
    with tf.Graph().as_default(), tf.Session() as session:
        found = open_input(source.make_batches(split))
        features = named(found.features, 'features')
        session.run([tf.local_variables_initializer(), found.initializer, tf.tables_initializer()])
        with running_queues(session), contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                yield session.run(features)


def _records(source, split):
    with opened(lambda: source.read(split).batch(source.params.eval_batch_size)) as (session, dataset):
        yield from iterate(session, dataset)


def _columns(source, specs, split):
    """Yields the columns of serialized examples; a missing number is NaN."""
    stored = {
        name: tf.io.FixedLenFeature(spec.shape[1:], tf.float32, np.full(spec.shape[1:], np.nan, np.float32))
        for name, spec in specs.items()
    }

    def make():
        records = source.read(split).batch(source.params.eval_batch_size)
        return records.map(lambda batch: tf.io.parse_example(batch, stored))

    with opened(make) as (session, dataset):
        yield from iterate(session, dataset)


def _to_pixels(features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {'image': np.clip(np.round(features['image'] * 255), 0, 255).astype(np.uint8)}


def _agree(raw: Inputs, features: Inputs, split: str) -> bool:
    """Whether raw inputs lead to the features of a split's first batch; without its data, that is assumed."""
    try:
        wanted = next(features.batches(split))
    except Exception:  # Modules may raise any.
        return True
    try:
        found = _convert(raw.signature, next(raw.batches(split)))
    except Exception:  # They are stored otherwise.
        return False
    return all(
        found[name].shape == value.shape and np.allclose(found[name], value, rtol=0, atol=_ROUNDING)
        for name, value in wanted.items()
    )


def _convert(signature, batch):
    """Returns the features of a batch of a signature's inputs, as arrays."""
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(signature.to_features({name: tf.constant(value) for name, value in batch.items()}))
