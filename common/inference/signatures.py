"""The inputs that a model with its dataset takes outside of an input pipeline, and the ops that convert them to features."""

from collections.abc import Callable, Iterable, Mapping
import re
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import get_specs, parser
from estimator_trainer.common.plugins import dataset_contract
from estimator_trainer.common.plugins.dataset_contract import EXAMPLE_ID
from estimator_trainer.common.plugins.estimator_contract import named

PREDICT = tf.estimator.ModeKeys.PREDICT
DEFAULT, PICTURES, EXAMPLES = '', 'pictures', 'examples'  # The names of signatures.


class Signature(NamedTuple):
    """specs is {name: tf.TensorSpec [batch, ...]}; to_features converts such tensors to features, in a graph."""

    specs: Mapping[str, tf.TensorSpec]
    to_features: Callable[[dict[str, tf.Tensor]], Any]


def feature_specs(source: DataSource) -> dict[str, tf.TensorSpec]:
    """Returns {name: tf.TensorSpec [batch, ...]} of the features that the model sees in prediction."""
    return {name: spec for name, spec in named(get_specs(source).features, 'features').items() if name != EXAMPLE_ID}


def signatures_of(source: DataSource) -> dict[str, Signature]:
    """Returns {name: Signature}; all compute the features of `feature_specs`.

    The default takes {'image': uint8 [batch, image_size, image_size, num_channels]} if the dataset module computes its features
    from images; else the raw inputs of the module's `raw_specs`; else the features themselves. 'pictures' takes the raw inputs
    of a module that has both. 'examples' takes {'examples': string [batch]}, serialized tf.train.Example. A module with
    `input_fn` has the default alone, the features of its batches by name.
    """
    specs = feature_specs(source)
    if source.has_input_fn():
        return {DEFAULT: _of_batches(source, specs)}
    raw = _raw(source, specs) if source.takes_raw() else None
    found = {DEFAULT: raw or Signature(specs, dict)}
    if source.has_images():
        found[DEFAULT] = Signature({'image': tf.TensorSpec([None, *source.image_shape()], tf.uint8)}, _of_images(source, specs))
        if raw and all(spec.dtype == tf.string for spec in raw.specs.values()):
            found[PICTURES] = raw
    found[EXAMPLES] = Signature({'examples': tf.TensorSpec([None], tf.string)}, _of_examples(source, specs))
    return found


def _of_batches(source, specs):
    """Returns the Signature of the features of an `input_fn`, by name; raises UsageError if some are not dense tensors."""
    structure = get_specs(source).features
    for name in specs if isinstance(structure, Mapping) else ():
        if name not in structure:
            raise UsageError(
                f'--dataset={source.params.dataset}: the feature {name} is within another, which an export or run.predict '
                'cannot have: return a dict of tensors'
            )
    for name, spec in specs.items():
        if not isinstance(spec, tf.TensorSpec) or not spec.shape.rank:
            raise UsageError(
                f'--dataset={source.params.dataset}: the feature {name} is no dense tensor [batch, ...]: define '
                'serving_input_receiver_fn() for an export'
            )

    def to_features(inputs):
        return dict(inputs) if isinstance(structure, Mapping) else tf.nest.pack_sequence_as(structure, [*inputs.values()])

    return Signature(specs, to_features)


def _of_images(source, specs):
    def to_features(inputs):
        features = source.module.image_features(source.params, inputs['image'])
        return {name: features[name] for name in specs}

    return to_features


def _raw(source, specs):
    def to_features(inputs):
        features = source.module.from_raw(source.params, inputs)
        return dataset_contract.check_raw_features(features, specs, source.params)

    return Signature(source.raw_specs(), to_features)


def _of_examples(source, specs):
    """Parses serialized examples: by the dataset module if it reads serialized records, else by the features' specs."""

    def to_features(inputs):
        serialized = inputs['examples']
        if getattr(get_specs(source).records, 'dtype', None) == tf.string:
            return parse_records(source, specs, serialized)
        parsed = tf.io.parse_example(serialized, {name: _stored_feature(spec) for name, spec in specs.items()})
        return {name: tf.cast(parsed[name], spec.dtype) for name, spec in specs.items()}

    return to_features


def placeholders(signatures: Mapping[str, Signature]) -> dict[str, dict[str, tf.Tensor]]:
    """Returns {signature: {name: placeholder}}; each is an empty batch unless it is fed, so that one network serves all."""
    return {
        signature: {name: _optional(name, spec) for name, spec in found.specs.items()}
        for signature, found in signatures.items()
    }


def join(signatures: Iterable[Signature], inputs: Iterable[dict[str, tf.Tensor]]) -> Any:
    """Returns the features of the inputs of signatures, of which all but one are empty batches."""
    first, *others = (signature.to_features(of_one) for signature, of_one in zip(signatures, inputs))
    if not others:
        return first
    return {name: _join([value, *(features[name] for features in others)]) for name, value in first.items()}


def _optional(name, spec):
    """Returns a placeholder for a batch; by default the batch is empty."""
    name = re.sub(r'[^A-Za-z0-9_.]', '_', name).lstrip('_') or None  # The name of a feature may be invalid as an op name.
    shape = spec.shape.as_list()[1:]
    return tf.placeholder_with_default(tf.zeros([0] + [size or 0 for size in shape], spec.dtype), [None] + shape, name)


def _join(batches):
    """Concatenates batches, all but one of which are empty and may have another length."""
    first, *others = batches
    for other in others:
        if not first.shape[1:].is_fully_defined() or not other.shape[1:].is_fully_defined():
            empty = tf.equal(tf.shape(first)[0], 0)
            shape = tf.where(empty, tf.shape(other), tf.shape(first))[1:]
            first, other = (tf.reshape(batch, tf.concat([tf.shape(batch)[:1], shape], 0)) for batch in (first, other))
        first = tf.concat([first, other], axis=0)
    return first


def parse_records(source: DataSource, specs: Mapping[str, tf.TensorSpec], records: Any) -> dict[str, tf.Tensor]:
    """Parses a batch of records outside of an input pipeline.

    Args:
      specs: {name: tf.TensorSpec [batch, ...]} of the features to return.
      records: a nest of tensors [batch, ...].

    Returns:
      {name: tensor [batch, ...]}; examples of variable size are padded to the largest.
    """
    parse = parser(source, PREDICT)

    def parse_one(records):
        features = parse(tf.constant(0, tf.int64), records)
        return {name: features[name] for name in specs}

    if source.parses_batches():
        return parse_one(records)
    signature = {name: _parsed_signature(spec) for name, spec in specs.items()}
    parsed = tf.map_fn(parse_one, records, fn_output_signature=signature)
    return {name: value.to_tensor() if isinstance(value, tf.RaggedTensor) else value for name, value in parsed.items()}


def _parsed_signature(spec):
    """Returns the spec of one example's feature; ragged, for padding, if its size varies."""
    shape = spec.shape[1:]
    if shape.is_fully_defined():
        return tf.TensorSpec(shape, spec.dtype)
    return tf.RaggedTensorSpec(shape, spec.dtype, ragged_rank=0)


def _stored_feature(spec):
    shape, dtype = spec.shape[1:], _stored_dtype(spec.dtype)
    if shape.is_fully_defined():
        return tf.io.FixedLenFeature(shape, dtype)
    return tf.io.FixedLenSequenceFeature(shape[1:], dtype, allow_missing=True)


def _stored_dtype(dtype):
    """Returns the dtype in which a tf.train.Example stores values of this dtype."""
    if dtype == tf.string:
        return tf.string
    return tf.float32 if dtype.is_floating else tf.int64
