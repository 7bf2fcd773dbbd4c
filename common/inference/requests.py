"""Example requests for an exported model: JSON for HTTP, and warmup requests for TensorFlow Serving."""

import base64
from collections.abc import Mapping
import os

import numpy as np
from PIL import Image
import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import dumps, to_json
from estimator_trainer.common.formats import images
from estimator_trainer.common.formats.encoded import PICTURE

SIGNATURE = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def write_requests(directory: str, specs: Mapping[str, tf.TensorSpec]) -> dict[str, str]:
    """Writes files for assets.extra, and returns {name: path}.

    request.json is a request for the REST API; TensorFlow Serving replays tf_serving_warmup_requests before it accepts
    requests, as the first prediction is slow: see https://www.tensorflow.org/tfx/serving/saved_model_warmup.

    Args:
      directory: a local one.
      specs: {name: tf.TensorSpec [batch, ...]}, the inputs of the default signature.
    """
    example = make_example(specs)
    paths = {name: os.path.join(directory, name) for name in ('request.json', 'tf_serving_warmup_requests')}
    with open(paths['request.json'], 'w', encoding='utf-8') as file:
        instance = {name: _instance(specs[name], value[0]) for name, value in example.items()}
        file.write(f'{dumps({"signature_name": SIGNATURE, "instances": [instance]})}\n')
    with tf.io.TFRecordWriter(paths['tf_serving_warmup_requests']) as writer:
        writer.write(prediction_log(example))
    return paths


def make_example(specs: Mapping[str, tf.TensorSpec]) -> dict[str, np.ndarray]:
    """Returns a batch of one example of zeros, of empty strings, or of the file of a black picture.

    Dimensions of any size have one element.
    """

    def example(spec):
        shape = [1, *(size or 1 for size in spec.shape.as_list()[1:])]
        if spec.dtype == tf.string:
            return np.full(shape, images.to_png(Image.new('L', (1, 1))) if spec.name == PICTURE else b'', object)
        return np.zeros(shape, spec.dtype.as_numpy_dtype)

    return {name: example(spec) for name, spec in specs.items()}


def _instance(spec, value):
    """Returns a value as JSON for the REST API: bytes in base64."""
    return {'b64': base64.b64encode(value).decode()} if spec.name == PICTURE else to_json(value)


def prediction_log(example: Mapping[str, np.ndarray]) -> bytes:
    """Returns a serialized tensorflow.serving.PredictionLog with a request for the default signature.

    The message is encoded by hand, to avoid a dependency on the package that defines it:
    https://github.com/tensorflow/serving/tree/master/tensorflow_serving/apis.
    """
    inputs = b''.join(
        _field(2, _field(1, name.encode()) + _field(2, tf.make_tensor_proto(value).SerializeToString()))
        for name, value in example.items()
    )
    request = _field(1, _field(3, SIGNATURE.encode())) + inputs  # PredictRequest: model_spec.signature_name, inputs.
    return _field(6, _field(1, request))  # PredictionLog.predict_log.request.


def _field(number, content):
    """Returns a length-delimited field of a protocol buffer."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number):
    return bytes([number & 127 | 128]) + _varint(number >> 7) if number > 127 else bytes([number])
