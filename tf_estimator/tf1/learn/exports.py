"""The signature serving_default of the Estimators of tf.contrib.learn."""

import contextlib
import threading

from tf_estimator.tf1.learn.input_data import InputFnOps

import tensorflow.compat.v1 as tf

DEFAULT = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_export = threading.local()  # Of this thread: its key, and whether its only inputs are serialized tf.train.Examples.


@contextlib.contextmanager
def exporting(key):
    """Within the block, models of this thread have the outputs of a key as serving_default; without a key, the only ones."""
    _export.key, _export.is_of_examples = key, True
    try:
        yield
    finally:
        del _export.key, _export.is_of_examples


def receiver_fn_of(serving_input_fn):
    """Returns a function to the ServingInputReceiver of one to this or to InputFnOps."""

    def receiver_fn():
        found = serving_input_fn()
        if isinstance(found, InputFnOps):
            found = tf.estimator.export.ServingInputReceiver(found.features, found.default_inputs)
        inputs = found.receiver_tensors
        _export.is_of_examples = isinstance(inputs, dict) and [each.dtype for each in inputs.values()] == [tf.string]
        return found

    return receiver_fn


def with_default(outputs):
    """Returns the outputs of a model, {key: outputs}, with a serving_default, which EstimatorSpec needs if there are several.

    Raises:
      ValueError: an export of several has no key.
    """
    if len(outputs) < 2 or DEFAULT in outputs:
        return outputs
    if getattr(_export, 'key', DEFAULT) is None:
        raise ValueError(f'give the export a default_output_alternative_key: one of {sorted(outputs)}')
    return {**outputs, DEFAULT: next(iter(outputs.values()))}


def served(outputs, predictions=None):
    """Returns the outputs of a model with that of the export's key as serving_default.

    Args:
      predictions: of a canned model, which are the default if the inputs are not Examples, as its other outputs need these.

    Raises:
      ValueError: the model does not have the key.
    """
    key = getattr(_export, 'key', DEFAULT)
    if key not in (None, DEFAULT):
        if key not in outputs:
            raise ValueError(f'there is no default_output_alternative_key {key}, but {sorted(outputs.keys() - {DEFAULT})}')
        return {**outputs, DEFAULT: outputs[key]}
    if predictions is not None and not getattr(_export, 'is_of_examples', True):
        return {**outputs, DEFAULT: tf.estimator.export.PredictOutput(predictions)}
    return outputs
