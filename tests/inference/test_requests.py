"""The requests that go with an exported model are of its signature."""

import json

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from tensorflow.core.framework import tensor_pb2

from common.data import records
from common.inference import requests
from tests.shared import read_weights


@pytest.fixture(scope='module')
def messages():
    """The messages of tensorflow_serving/apis that a log of a prediction consists of, by their numbers there."""
    file = descriptor_pb2.FileDescriptorProto(name='apis.proto', package='t', syntax='proto3')
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in {
        'ModelSpec': [('name', 1, 'string'), ('signature_name', 3, 'string')],
        'Input': [('key', 1, 'string'), ('value', 2, 'bytes')],  # An entry of a map; the value is a TensorProto.
        'PredictRequest': [('model_spec', 1, '.t.ModelSpec'), ('inputs', 2, '.t.Input')],
        'PredictLog': [('request', 1, '.t.PredictRequest')],
        'PredictionLog': [('predict_log', 6, '.t.PredictLog')],
    }.items():
        added = file.message_type.add(name=message)
        for name, number, kind in fields:
            label = kinds.LABEL_REPEATED if name == 'inputs' else kinds.LABEL_OPTIONAL
            scalar = {'string': kinds.TYPE_STRING, 'bytes': kinds.TYPE_BYTES}.get(kind)
            added.field.add(name=name, number=number, type=scalar or kinds.TYPE_MESSAGE, label=label)
            if not scalar:
                added.field[-1].type_name = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName('t.PredictionLog'))


@pytest.mark.parametrize('model', ['alexnet', 'polynomial'])
def test_an_exported_model_answers_the_requests_that_go_with_it(run, trained_run, messages, model):
    output_dir = trained_run(model)
    path = run('--schedule=export')[1]['export']
    signatures = tf2.saved_model.load(path).signatures
    signature = signatures['serving_default']
    request = json.load(open(f'{path}/assets.extra/request.json'))
    assert request.keys() == {'signature_name', 'instances'} and request['signature_name'] == 'serving_default'
    (instance,) = request['instances']
    _, specs = signature.structured_input_signature
    inputs = {name: tf2.constant([value], specs[name].dtype) for name, value in instance.items()}
    expected = {name: value.numpy() for name, value in signature(**inputs).items()}

    (record,) = tf.python_io.tf_record_iterator(f'{path}/assets.extra/tf_serving_warmup_requests')
    log = messages.FromString(record).predict_log.request
    assert log.model_spec.signature_name == 'serving_default' and log.SerializeToString()
    warmup = {item.key: tf2.constant(tf.make_ndarray(tensor_pb2.TensorProto.FromString(item.value))) for item in log.inputs}
    assert warmup.keys() == inputs.keys() == specs.keys()
    for name, value in signature(**warmup).items():
        np.testing.assert_array_equal(value, expected[name])
    if model == 'polynomial':
        w, x = read_weights(output_dir)['w'][:, 0], np.float32([-2, 0, 3])
        examples = tf2.constant([records.encode({'x': float(value)}) for value in x])
        for found in (signature(x=tf2.constant(x)), signatures['examples:serving_default'](examples=examples)):
            np.testing.assert_allclose(found['y'], w[0] * x**2 + w[1] * x + w[2], rtol=1e-5)


def test_an_example_has_the_shape_and_the_type_of_the_inputs():
    specs = {'words': tf.TensorSpec([None, None], tf.string), 'x': tf.TensorSpec([None, 3], tf.int64)}
    example = requests.make_example(specs)
    assert example['words'].tolist() == [[b'']] and example['x'].tolist() == [[0] * 3] and example['x'].dtype == np.int64


def test_a_long_message_has_its_length_in_several_bytes(messages):
    example = {'x' * 300: np.arange(5000, dtype=np.float32)}
    (found,) = messages.FromString(requests.prediction_log(example)).predict_log.request.inputs
    assert found.key == 'x' * 300
    np.testing.assert_array_equal(tf.make_ndarray(tensor_pb2.TensorProto.FromString(found.value)), example['x' * 300])
