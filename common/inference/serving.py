"""Exported models: their signatures, and whether a model can be exported."""

from collections.abc import Callable
import itertools
import os
import re

import tensorflow.compat.v1 as tf

from common.data.input_pipeline import make_input_fn
from common.data.source import DataSource
from common.errors import UsageError
from common.storage.restore import make_session, restore

PREDICT = tf.estimator.ModeKeys.PREDICT


def make_serving_input_fn(source: DataSource) -> Callable[[], tf.estimator.export.ServingInputReceiver]:
    """Creates the serving_input_receiver_fn for `Estimator.export_saved_model`.

    The exported model has two groups of signatures. The default takes raw tensors: {'image': uint8 [batch, image_size,
    image_size, num_channels]} if the dataset module has `image_features`, else the features themselves. The other,
    'examples:...', takes {'examples': string [batch]}, serialized tf.train.Example.
    """

    params = source.params

    def serving_input_receiver_fn():
        feature_specs = make_input_fn(source, PREDICT, 'eval')().element_spec
        for name, spec in feature_specs.items():
            if not spec.shape[1:].is_fully_defined():
                raise UsageError(f'--schedule=export: the feature {name} must have a fixed shape, not {spec.shape[1:]}')
        if source.has_images():
            raw = {'image': _optional('image', [params.image_size, params.image_size, params.num_channels], tf.uint8)}
            from_raw = source.module.image_features(params, raw['image'])
        else:
            raw = {name: _optional(name, spec.shape.as_list()[1:], spec.dtype) for name, spec in feature_specs.items()}
            from_raw = raw
        serialized = _optional('examples', [], tf.string)
        from_serialized = _parse_serialized(source, serialized, feature_specs)
        # Each signature feeds one of the two, and the other stays empty, so that one network serves both.
        features = {name: tf.concat([from_raw[name], from_serialized[name]], axis=0) for name in feature_specs}
        return tf.estimator.export.ServingInputReceiver(features, raw, {'examples': {'examples': serialized}})

    return serving_input_receiver_fn


def check_exportable(
    estimator: tf.estimator.Estimator,
    serving_input_fn: Callable[[], tf.estimator.export.ServingInputReceiver],
    checkpoint_path: str,
) -> None:
    """Raises UsageError if the model calls Python functions, which exist only in this process; RunError like `restore`."""
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        spec = estimator.model_fn(serving_input_fn().features, None, PREDICT, estimator.config)
        session, saver = make_session(spec, estimator.config)
        with session:
            restore(saver, session, checkpoint_path)
        definition = graph.as_graph_def()
    for node in itertools.chain(definition.node, *(function.node_def for function in definition.library.function)):
        if node.op in ('PyFunc', 'PyFuncStateless', 'EagerPyFunc'):
            raise UsageError(
                f'--schedule=export: {node.name} is a Python function, which only this process could run: '
                'build it from TensorFlow ops'
            )


def remove_leftovers(export_dir: str) -> None:
    """Deletes the temporary directories of killed exports. No other process may be exporting there."""
    for path in tf.io.gfile.glob(os.path.join(export_dir, 'temp-*')):
        if re.fullmatch(r'temp-\d+', os.path.basename(path)):
            tf.io.gfile.rmtree(path)


def _optional(name, shape, dtype):
    """Returns a placeholder for a batch of values of this shape; by default the batch is empty."""
    name = re.sub(r'[^A-Za-z0-9_.]', '_', name).lstrip('_') or None  # A feature's name may be invalid as an op name.
    return tf.placeholder_with_default(tf.zeros([0] + shape, dtype), [None] + shape, name)


def _parse_serialized(source, serialized, feature_specs):
    """Parses serialized examples: by the dataset module if it reads serialized records, else by the features' specs."""
    records = source.read('eval')
    if getattr(records.element_spec, 'dtype', None) != tf.string:
        stored = {
            name: tf.io.FixedLenFeature(spec.shape[1:], _stored_dtype(spec.dtype)) for name, spec in feature_specs.items()
        }
        parsed = tf.io.parse_example(serialized, stored)
        return {name: tf.cast(parsed[name], spec.dtype) for name, spec in feature_specs.items()}
    if source.parses_batches():
        return source.module.parse_batch(PREDICT, source.params, serialized)[0]
    return tf.map_fn(
        lambda record: source.module.parse(PREDICT, source.params, record)[0],
        serialized,
        fn_output_signature={name: tf.TensorSpec(spec.shape[1:], spec.dtype) for name, spec in feature_specs.items()},
    )


def _stored_dtype(dtype):
    """Returns the one of the three dtypes of a tf.train.Example that stores values of this dtype."""
    if dtype == tf.string:
        return tf.string
    return tf.float32 if dtype.is_floating else tf.int64
