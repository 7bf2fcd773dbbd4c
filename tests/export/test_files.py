"""ONNX and TFLite files: their outputs, quantization, ops that are lacking, and the op that differs."""

import importlib.util

from google.protobuf.message import EncodeError
import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.export import network as networks
from estimator_trainer.common.export import onnx_file, saved_model, tflite_file
from estimator_trainer.common.export.diagnosis import first_difference
from estimator_trainer.common.inference.signatures import Signature
from tests.export.networks import KERNEL, convolutional, expected, images, network
from tests.linear import input_fn, make_estimator
from tests.shared import refused


@pytest.fixture(params=[onnx_file, tflite_file], ids=['onnx', 'tflite'])
def module(request):
    if any(importlib.util.find_spec(name) is None for name in request.param.PACKAGES):
        pytest.skip(f'needs {request.param.PACKAGES}')
    return request.param


def test_a_file_computes_what_numpy_does_for_any_batch(module):
    run = module.opened(module.convert(convolutional(), None, []))
    for count in (1, 3):
        found, wanted = run(images(count)), expected(images(count))
        assert found.keys() == wanted.keys()
        np.testing.assert_allclose(found['scores'], wanted['scores'], rtol=1e-4, atol=1e-5)
        assert found['class'].tolist() == wanted['class'].tolist()


@pytest.mark.parametrize('quantize, tolerance', [('float16', 0.01), ('int8', 0.1)])
def test_a_quantized_file_is_smaller_and_computes_almost_the_same(module, quantize, tolerance):
    weights = np.random.RandomState(3).normal(size=[500, 300]).astype(np.float32)
    product = network(lambda x: {'y': tf.matmul(x, tf.constant(weights))}, x=tf.TensorSpec([None, 500], tf.float32))
    batch = {'x': np.random.RandomState(4).normal(size=[8, 500]).astype(np.float32)}
    plain, small = (module.convert(product, kind, [batch]) for kind in (None, quantize))
    assert len(small) < len(plain) * {'float16': 0.6, 'int8': 0.35}[quantize]
    wanted = batch['x'] @ weights
    assert 0 < np.abs(module.opened(small)(batch)['y'] - wanted).max() < tolerance * np.abs(wanted).max()


def test_numbers_outside_of_products_of_an_onnx_file_may_be_larger_than_float16_has_them():
    pytest.importorskip('onnxruntime')
    onnx = pytest.importorskip('onnx')

    def build(x):
        scaled = tf.where_v2(tf.math.is_finite(x), x / 1e5, -tf.ones_like(x))
        product = tf.matmul(scaled, tf.constant([[0.5], [0.25]]), name='multiply')
        return {'y': product * 1e6, 'scaled': scaled, 'double': 2 * scaled, 'finite': tf.math.is_finite(x)}

    file, batch = network(build, x=tf.TensorSpec([None, 2], tf.float32)), {'x': np.float32([[1e5, 2e5], [123456, np.inf]])}
    content = onnx_file.convert(file, 'float16', [])
    onnx.checker.check_model(onnx.load_from_string(content))  # Its nodes are sorted.
    found = onnx_file.opened(content)(batch)
    np.testing.assert_allclose(found['scaled'], [[1, 2], [1.23456, -1]], rtol=1e-6)
    np.testing.assert_allclose(found['double'], [[2, 4], [2.46912, -2]], rtol=1e-6)
    assert found['finite'].tolist() == [[True, True], [True, False]]
    np.testing.assert_allclose(found['y'][:, 0], [1e6, 1e6 * (0.61728 - 0.25)], rtol=2e-3)
    assert 'multiply:0' in {name for names, _ in onnx_file.traced(content, file, batch) for name in names}


def test_inputs_keep_odd_names_types_and_unknown_lengths(module):
    specs = {'body height': tf.TensorSpec([None], tf.float32), 'ids/é': tf.TensorSpec([None, None], tf.int32)}
    file = network(lambda **x: {'sum': x['body height'] + tf.cast(tf.reduce_sum(x['ids/é'], 1), tf.float32)}, **specs)
    run = module.opened(module.convert(file, None, []))
    found = run({'body height': np.float32([0.5, 1]), 'ids/é': np.int32([[1, 2, 3], [4, 5, 6]])})
    assert found['sum'].tolist() == [6.5, 16]


def test_names_of_inputs_that_tensorflow_cannot_make_parameters_of_a_function_are_refused(monkeypatch):
    names = ['x', '1st', 'Größe', '价格', 'a-b', 'class', 'area (m²)', 'a b', 'a/b', 'is']
    assert saved_model.refused(names) == ['a-b', 'class', 'area (m²)', 'a b', 'a/b', 'is']
    assert saved_model.refused(['x', '1st', 'Größe', '价格', 'a-b']) == []

    def fail(path):
        raise ValueError("'class' is not a valid parameter name")

    monkeypatch.setattr(tf2.lite.TFLiteConverter, 'from_saved_model', fail)  # As TensorFlow 2.21 does, but not 2.15.
    file = network(lambda **x: {'y': 2 * x['class']}, **{'class': tf.TensorSpec([None], tf.float32)})
    assert 'converter makes Python names of inputs, which fails for class: ' in refused(tflite_file.convert, file, None, [])


def test_a_choice_does_not_depend_on_what_is_not_chosen(module):
    def choose(x):
        return {'y': tf.where_v2(tf.math.is_nan(x) | (x > 2), tf.zeros_like(x), tf.log(2 - x))}

    run = module.opened(module.convert(network(choose, x=tf.TensorSpec([None], tf.float32)), None, []))
    assert run({'x': np.float32([np.nan, 1, 3])})['y'].tolist() == [0, 0, 0]


def test_an_op_that_a_format_lacks_is_named_in_a_line(module, capfd):
    # Whose names are refused, too, in ONNX: to change them would be in vain.
    lacking = network(lambda x: {'x': tf.math.betainc(x, x, x, name='beta')}, x=tf.TensorSpec([None], tf.float32))
    name = {onnx_file: 'ONNX', tflite_file: 'TFLite'}[module]
    message = refused(module.convert, lacking, None, [])
    assert f'{name} lacks the TensorFlow ops Betainc (beta): build the model from others, or choose --format=saved_m' in message
    assert '\n' not in message and capfd.readouterr().err == ''


def test_an_input_with_the_name_of_a_prediction_is_named_where_a_format_does_not_allow_it(module):
    spec = tf.TensorSpec([None], tf.float32)
    file = network(lambda value, x: {'value': value + x, 'y': x}, value=spec, x=spec)
    if module is onnx_file:
        assert refused(module.convert, file, None, []).startswith(
            '--format=onnx: an input and a prediction are both named value, which an ONNX file does not allow: rename either'
        )
    else:
        run = module.opened(module.convert(file, None, []))
        assert run({'value': np.float32([1]), 'x': np.float32([2])})['value'].tolist() == [3]


def test_a_model_beyond_the_limit_of_a_file_is_refused_in_a_line(monkeypatch, tmp_path):
    estimator = make_estimator(tmp_path)
    estimator.train(input_fn(), steps=1)
    signature = Signature({'x': tf.TensorSpec([None, 2], tf.float32)}, dict)
    assert networks.freeze(estimator, signature, estimator.latest_checkpoint()).inputs.keys() == {'x'}
    monkeypatch.setattr(networks, '_MAX_BYTES', 100)
    message = refused(networks.freeze, estimator, signature, estimator.latest_checkpoint())
    assert message == '--format: the weights of the model exceed 2 GB, the limit of ONNX and TFLite files: choose saved_model'


def test_an_onnx_file_beyond_its_limit_is_refused_in_a_line(monkeypatch):
    pytest.importorskip('onnxruntime')

    def fail(*_):
        raise EncodeError('Failed to serialize proto')

    monkeypatch.setattr(onnx_file, '_to_int8', fail)
    assert 'exceed 2 GB' in refused(onnx_file.convert, convolutional(), 'int8', [])


def test_the_op_is_found_whose_values_begin_to_differ(module):
    content = module.convert(convolutional(KERNEL * np.float32(1.1)), None, [])
    good, batch = convolutional(), images(2)
    found = first_difference(good, batch, module.traced(content, good, batch), 0.01)
    assert found in ('convolve', 'Relu')  # TFLite fuses them.
    same = module.traced(module.convert(good, None, []), good, batch)
    assert first_difference(good, batch, same, 0.001) == ''
