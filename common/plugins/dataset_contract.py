"""Checks of the results of a dataset module's functions, as specified in docs/modules.md."""

from collections.abc import Mapping
import json
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, describe, show
from estimator_trainer.common.plugins.contract import (
    COMPOSITE,
    DENSE,
    check_dict,
    check_pair,
    not_a_tensor_error,
    unknown_shape_error,
)
from estimator_trainer.hparams.build import HParams

PREDICT = tf.estimator.ModeKeys.PREDICT
EXAMPLE_ID = 'example_id'  # A feature that identifies examples in predictions; models do not see it.


def check_metadata(metadata: Any, params: HParams) -> dict[str, Any]:
    """Returns a dataset module's `metadata` as read back from JSON: tuples become lists.

    Raises:
      UsageError: it is not a dict that JSON can represent, or class_names is not a list of num_classes distinct texts.
    """
    source = f'--dataset={params.dataset}: metadata()'
    check_dict(source, 'its items', metadata)
    try:
        metadata = json.loads(json.dumps(metadata, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f'{source} must return what JSON can represent: {error}') from None
    names = metadata.get('class_names', [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise UsageError(f'{source}: class_names must be a list of distinct strings, not {show(names)}')
    num_classes = metadata.get('num_classes', len(names))
    if names and num_classes != len(names):
        raise UsageError(f'{source}: num_classes is {show(num_classes)}, but there are {len(names)} class_names')
    return metadata


@tf.autograph.experimental.do_not_convert
def check_parsed(
    function: str, parsed: Any, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Checks features and labels parsed by a dataset module, and returns them as tensors; no labels in PREDICT.

    Args:
      function: 'parse' or 'parse_batch'.
      mode: a tf.estimator.ModeKeys.
      params: hyper-parameters, which name the dataset.

    Raises:
      UsageError: they are not a pair of dicts of tensors.
    """
    source = f'--dataset={params.dataset}: {function}()'
    features, labels = check_pair(source, '(features, labels)', parsed)
    min_rank = int(function == 'parse_batch')
    features = _tensors(source, 'feature', features, mode, min_rank)
    _check_id(source, features.get(EXAMPLE_ID), min_rank)
    if mode == PREDICT:
        return features, None
    if labels is None:
        raise UsageError(f'{source} must return labels in training and evaluation, not None: an empty dict if there are none')
    labels = _tensors(source, 'label', labels, mode, min_rank)
    return _check_batch_sizes(source, features, labels) if function == 'parse_batch' else (features, labels)


def _check_id(source, value, rank):
    if value is None or isinstance(value, DENSE) and value.shape.rank in (None, rank) and _is_id(value.dtype):
        return
    shape = '[batch]' if rank else '[]'
    raise UsageError(
        f'{source}: the feature {EXAMPLE_ID} must be a string or an integer of shape {shape}, not {describe(value)}'
    )


def _is_id(dtype):
    return dtype == tf.string or dtype.is_integer


def _check_batch_sizes(source, features, labels):
    """Returns features and labels after checking that they have one batch size, statically or at run time."""
    dense = [value for value in [*features.values(), *labels.values()] if isinstance(value, DENSE) and value.shape.rank]
    sizes = [value.shape[0] for value in dense]
    if None not in sizes and len(set(sizes)) > 1:
        raise UsageError(f'{source} must return features and labels of one batch, not of {", ".join(map(str, sizes))} examples')
    if None not in sizes or len(sizes) < 2:
        return features, labels
    counts = tf.stack([tf.shape(value)[0] for value in dense])
    text = f'{source} must return features and labels of one batch'
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(tf.equal(counts, counts[0])), [text])]):
        return tf.nest.map_structure(tf.identity, (features, labels), expand_composites=True)


def _tensors(source, kind, values, mode, min_rank):
    """Converts the values of a dict to tensors; keeps sparse and ragged ones, except in PREDICT."""
    check_dict(source, f'{kind}s', values)
    tensors = {}
    for name, value in values.items():
        if isinstance(value, COMPOSITE) and mode != PREDICT:
            tensors[name] = value  # A model may accept them, but a predictor is fed arrays.
            continue
        try:
            tensors[name] = tf.convert_to_tensor(value)
        except (TypeError, ValueError, AttributeError):
            raise not_a_tensor_error(source, kind, name, value) from None
        rank = tensors[name].shape.rank
        if rank is None and mode == PREDICT:
            raise unknown_shape_error(source, kind, name)
        if rank is not None and rank < min_rank:
            raise UsageError(f'{source}: the {kind} {name} must be of shape [batch, ...], not {tensors[name].shape}')
    return tensors


def check_raw_specs(specs: Any, params: HParams) -> dict[str, tf.TensorSpec]:
    """Returns a dataset module's `raw_specs`; raises UsageError if they are not {name: tf.TensorSpec [batch, ...]}."""
    source = f'--dataset={params.dataset}: raw_specs()'
    if not isinstance(specs, Mapping):
        raise UsageError(f'{source} must return specs as a dict, not {describe(specs)}')
    for name, spec in specs.items():  # A name may be any, such as that of a column with a line break.
        if not isinstance(spec, tf.TensorSpec) or not spec.shape.rank or spec.shape[0] is not None:
            raise UsageError(f'{source}: {name} must be a tf.TensorSpec of shape [None, ...], not {show(spec)}')
    return dict(specs)


@tf.autograph.experimental.do_not_convert
def check_raw_features(features: Any, specs: Mapping[str, tf.TensorSpec], params: HParams) -> dict[str, tf.Tensor]:
    """Returns the features from a dataset module's `from_raw`.

    Args:
      features: what it returned.
      specs: {name: tf.TensorSpec [batch, ...]} of the features that the module parses.

    Raises:
      UsageError: they are not tensors of these names, types and shapes.
    """
    source = f'--dataset={params.dataset}: from_raw()'
    tensors = _tensors(source, 'feature', features, PREDICT, 1)
    for name, spec in specs.items():
        found = tensors.get(name)
        if found is None or found.dtype != spec.dtype or not spec.shape.is_compatible_with(found.shape):
            now = 'is missing' if found is None else f'is {describe(found)}'
            raise UsageError(f'{source}: the feature {name} {now}, but parsing makes it {spec.dtype.name} {spec.shape}')
    return {name: tensors[name] for name in specs}


def check_divisible(features: Mapping[str, Any], labels: Mapping[str, Any], params: HParams) -> None:
    """Raises UsageError if the features and labels cannot be split among towers."""
    source = f'--dataset={params.dataset} with towers'
    for kind, values in (('feature', features), ('label', labels)):
        for name, value in values.items():
            if not isinstance(value, DENSE):
                raise not_a_tensor_error(source, kind, name, value)
            if value.shape.rank is None:
                raise unknown_shape_error(source, kind, name)
