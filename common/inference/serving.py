"""Exported models: their signatures, and checks before the export."""

from collections.abc import Callable, Mapping
import itertools
import os
import re

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import names_in
from estimator_trainer.common.inference.signatures import DEFAULT, feature_specs, join, placeholders, signatures_of
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.storage.restore import make_saver, make_session, restore

PREDICT = tf.estimator.ModeKeys.PREDICT


def make_serving_input_fn(source: DataSource) -> Callable[[], tf.estimator.export.ServingInputReceiver]:
    """Creates the serving_input_receiver_fn for `Estimator.export_saved_model`.

    It is that of the dataset module, if it has one. Otherwise, the exported model has the signatures of `signatures_of`: the
    default, and 'NAME:serving_default' for each other.
    """
    if hasattr(source.module, 'serving_input_receiver_fn'):
        return lambda: source.module.serving_input_receiver_fn(source.params)

    def serving_input_receiver_fn():
        for name, spec in feature_specs(source).items():
            if not spec.shape[2:].is_fully_defined():
                raise UsageError(
                    f'--schedule=export: the feature {name} must have a shape whose first dimension alone is unknown, '
                    f'not {spec.shape[1:]}'
                )
        with tf.name_scope('inputs'):  # A variable of the model may have the name of a feature.
            signatures = signatures_of(source)
            inputs = placeholders(signatures)
            features = join(signatures.values(), inputs.values())
        default = inputs.pop(DEFAULT)
        if isinstance(features, tuple):
            raise UsageError('--schedule=export: the features are a tuple, which an export cannot have: return a dict')
        receiver = tf.estimator.export.ServingInputReceiver
        return (receiver if isinstance(features, Mapping) else tf.estimator.export.TensorServingInputReceiver)(
            features, default, inputs
        )

    return serving_input_receiver_fn


def request_specs(source: DataSource) -> dict[str, tf.TensorSpec]:
    """Returns {name: tf.TensorSpec [batch, ...]} of the default signature; {} for a receiver of the dataset module's own."""
    return {} if hasattr(source.module, 'serving_input_receiver_fn') else dict(signatures_of(source)[DEFAULT].specs)


def check_exportable(
    estimator: tf.estimator.Estimator,
    serving_input_fn: Callable[[], tf.estimator.export.ServingInputReceiver],
    checkpoint_path: str,
) -> None:
    """Checks a model before its export.

    Raises:
      UsageError: the model calls Python functions, which exist only in this process.
      RunError: as for `restore`.
    """
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        spec = estimator.model_fn(serving_input_fn().features, None, PREDICT, estimator.config)
        saver = make_saver(spec)
        with make_session(estimator.config) as session:
            restore(saver, session, checkpoint_path)
        definition = graph.as_graph_def()
    check_without_python(definition)


def check_without_python(definition: tf.GraphDef) -> None:
    """Raises UsageError if a graph calls Python functions."""
    for node in itertools.chain(definition.node, *(function.node_def for function in definition.library.function)):
        if node.op in ('PyFunc', 'PyFuncStateless', 'EagerPyFunc'):
            raise UsageError(
                f'--schedule=export: {node.name} is a Python function, which only this process could run: '
                'build it from TensorFlow ops'
            )


def remove_leftovers(export_dir: str) -> None:
    """Deletes the temporary directories of killed exports. No other process may export there meanwhile."""
    for name in names_in(export_dir):
        if re.fullmatch(r'temp-\d+', name):
            tf.io.gfile.rmtree(os.path.join(export_dir, name))
