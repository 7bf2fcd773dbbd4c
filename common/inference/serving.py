"""Exported models: their signatures, and checks before the export."""

from collections.abc import Callable, Mapping
import itertools
import os
import re
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import names_in
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import get_specs, parser
from estimator_trainer.common.plugins.dataset_contract import EXAMPLE_ID
from estimator_trainer.common.storage.restore import make_saver, make_session, restore

PREDICT = tf.estimator.ModeKeys.PREDICT


def make_serving_input_fn(source: DataSource) -> Callable[[], tf.estimator.export.ServingInputReceiver]:
    """Creates the serving_input_receiver_fn for `Estimator.export_saved_model`.

    The exported model has two groups of signatures. The default takes raw tensors: {'image': uint8 [batch, image_size,
    image_size, num_channels]} if the dataset module computes its features from images, else the features themselves. The other,
    'examples:...', takes {'examples': string [batch]}, serialized tf.train.Example.
    """

    def serving_input_receiver_fn():
        specs = get_specs(source)
        feature_specs = {name: spec for name, spec in specs.features.items() if name != EXAMPLE_ID}
        for name, spec in feature_specs.items():
            if not spec.shape[2:].is_fully_defined():
                raise UsageError(
                    f'--schedule=export: the feature {name} must have a shape whose first dimension alone is unknown, '
                    f'not {spec.shape[1:]}'
                )
        with tf.name_scope('inputs'):  # A variable of the model may have the name of a feature.
            if source.has_images():
                raw = {'image': _optional('image', source.image_shape(), tf.uint8)}
                from_raw = source.module.image_features(source.params, raw['image'])
            else:
                raw = {name: _optional(name, spec.shape.as_list()[1:], spec.dtype) for name, spec in feature_specs.items()}
                from_raw = raw
            serialized = _optional('examples', [], tf.string)
            from_serialized = _parse_serialized(source, serialized, specs.records, feature_specs)
            # Each signature feeds one of the two and leaves the other empty, so that one network serves both.
            features = {name: _join(from_raw[name], from_serialized[name]) for name in feature_specs}
        return tf.estimator.export.ServingInputReceiver(features, raw, {'examples': {'examples': serialized}})

    return serving_input_receiver_fn


def check_exportable(
    estimator: tf.estimator.Estimator,
    serving_input_fn: Callable[[], tf.estimator.export.ServingInputReceiver],
    checkpoint_path: str,
) -> dict[str, tf.TensorSpec]:
    """Checks a model before its export.

    Returns:
      {name: tf.TensorSpec [batch, ...]}, the inputs of the default signature.

    Raises:
      UsageError: the model calls Python functions, which exist only in this process.
      RunError: as for `restore`.
    """
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        receiver = serving_input_fn()
        inputs = {name: tf.TensorSpec(tensor.shape, tensor.dtype) for name, tensor in receiver.receiver_tensors.items()}
        spec = estimator.model_fn(receiver.features, None, PREDICT, estimator.config)
        saver = make_saver(spec)
        with make_session(estimator.config) as session:
            restore(saver, session, checkpoint_path)
        definition = graph.as_graph_def()
    for node in itertools.chain(definition.node, *(function.node_def for function in definition.library.function)):
        if node.op in ('PyFunc', 'PyFuncStateless', 'EagerPyFunc'):
            raise UsageError(
                f'--schedule=export: {node.name} is a Python function, which only this process could run: '
                'build it from TensorFlow ops'
            )
    return inputs


def remove_leftovers(export_dir: str) -> None:
    """Deletes the temporary directories of killed exports. No other process may export there meanwhile."""
    for name in names_in(export_dir):
        if re.fullmatch(r'temp-\d+', name):
            tf.io.gfile.rmtree(os.path.join(export_dir, name))


def _optional(name, shape, dtype):
    """Returns a placeholder for a batch of values of this shape; by default the batch is empty."""
    name = re.sub(r'[^A-Za-z0-9_.]', '_', name).lstrip('_') or None  # A feature's name may be invalid as an op name.
    return tf.placeholder_with_default(tf.zeros([0] + [size or 0 for size in shape], dtype), [None] + shape, name)


def _join(raw, parsed):
    """Concatenates two batches; the empty one may have another length."""
    if not parsed.shape[1:].is_fully_defined():
        empty = tf.equal(tf.shape(raw)[0], 0)
        shape = tf.where(empty, tf.shape(parsed), tf.shape(raw))[1:]
        raw, parsed = (tf.reshape(batch, tf.concat([tf.shape(batch)[:1], shape], 0)) for batch in (raw, parsed))
    return tf.concat([raw, parsed], axis=0)


def _parse_serialized(source, serialized, record_spec, feature_specs):
    """Parses serialized examples: by the dataset module if it reads serialized records, else by the features' specs."""
    if getattr(record_spec, 'dtype', None) == tf.string:
        return parse_records(source, feature_specs, serialized)
    parsed = tf.io.parse_example(serialized, {name: _stored_feature(spec) for name, spec in feature_specs.items()})
    return {name: tf.cast(parsed[name], spec.dtype) for name, spec in feature_specs.items()}


def parse_records(source: DataSource, feature_specs: Mapping[str, tf.TensorSpec], records: Any) -> dict[str, tf.Tensor]:
    """Parses a batch of records outside of an input pipeline.

    Args:
      feature_specs: {name: tf.TensorSpec [batch, ...]} of the features to return.
      records: a nest of tensors [batch, ...].

    Returns:
      {name: tensor [batch, ...]}; examples of variable size are padded to the largest.
    """
    parse = parser(source, PREDICT)

    def parse_one(records):
        features = parse(tf.constant(0, tf.int64), records)
        return {name: features[name] for name in feature_specs}

    if source.parses_batches():
        return parse_one(records)
    signature = {name: _parsed_signature(spec) for name, spec in feature_specs.items()}
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
