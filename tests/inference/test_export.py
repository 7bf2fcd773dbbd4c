"""Exported models: signatures for datasets of every kind, example requests, model card."""

import base64
import io
import json
import types

from google.protobuf import empty_pb2, unknown_fields
import numpy as np
from PIL import Image
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from tensorflow.core.framework import tensor_pb2

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.inference import requests, serving
from estimator_trainer.common.inference.model_card import to_markdown
from estimator_trainer.common.inference.signatures import DEFAULT, signatures_of
from estimator_trainer.common.ops.python_op import python_op
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records import records
from estimator_trainer.hparams import build
from tests.linear import make_estimator
from tests.shared import refused

SPEC = {'x': tf.io.FixedLenFeature([2], tf.float32), 'n': tf.io.FixedLenFeature([], tf.int64)}


def doubled(features, labels, mode, params):
    """Returns the input times a variable, so that a checkpoint is required."""
    factor = tf.get_variable('factor', initializer=2.0)
    y = features['x'] * factor + tf.cast(features['n'], tf.float32)[:, None]
    return {'y': y}, None if labels is None else 0 * tf.reduce_sum(y, 1)


def parse_with(parse_example):
    def parse(mode, params, serialized):
        parsed = parse_example(serialized, SPEC)
        return {'x': parsed['x'], 'n': tf.cast(parsed['n'], tf.int32)}, {}

    return parse


def examples(*_):
    return tf.data.Dataset.from_tensor_slices([records.encode({'x': [1.0, 2.0], 'n': 3})] * 4)


def tensors(*_):
    return tf.data.Dataset.from_tensor_slices({'x': np.ones([4, 2], np.float32), 'n': np.arange(4, dtype=np.int32)})


DATASETS = {
    'records parsed one by one': dict(read=examples, parse=parse_with(tf.io.parse_single_example)),
    'records parsed in batches': dict(read=examples, parse_batch=parse_with(tf.io.parse_example)),
    'tensors made in memory': dict(read=tensors, parse=lambda mode, params, record: (record, {})),
}


def make(tmp_path, dataset, model):
    """Returns a trained Estimator, the serving_input_fn of its export, and the specs of its default signature."""
    estimator = make_estimator(tmp_path, model=types.SimpleNamespace(model=model))
    estimator.train(lambda: tensors().batch(4).map(lambda features: (features, {})), steps=1)
    source = DataSource(types.SimpleNamespace(**dataset), '', estimator.params)
    return estimator, serving.make_serving_input_fn(source), signatures_of(source)[DEFAULT].specs


@pytest.mark.parametrize('kind', DATASETS)
def test_both_signatures_of_an_export_agree_for_any_batch(tmp_path, kind):
    estimator, serving_input_fn, specs = make(tmp_path, DATASETS[kind], doubled)
    serving.check_exportable(estimator, serving_input_fn, estimator.latest_checkpoint())
    assert specs == {'x': tf.TensorSpec([None, 2], tf.float32), 'n': tf.TensorSpec([None], tf.int32)}
    path = estimator.export_saved_model(str(tmp_path / 'export'), serving_input_fn)
    signatures = tf2.saved_model.load(path.decode()).signatures
    for count in (1, 3):
        x = np.random.RandomState(count).normal(size=[count, 2]).astype(np.float32)
        n = np.arange(count, dtype=np.int32)
        serialized = tf2.constant([records.encode({'x': x[i], 'n': n[i]}) for i in range(count)])
        raw = signatures['serving_default'](x=tf2.constant(x), n=tf2.constant(n))
        for found in (raw, signatures['examples:serving_default'](examples=serialized)):
            np.testing.assert_allclose(found['y'], 2 * x + n[:, None], rtol=1e-6)


def test_serialized_examples_of_any_length_are_padded_where_the_dataset_has_tensors(session):
    def read(*_):
        return tf.data.Dataset.from_tensor_slices([3, 1]).map(lambda n: {'pairs': tf.fill([n, 2], n)})

    dataset = types.SimpleNamespace(read=read, parse=lambda mode, params, record: (record, {}))
    receiver = serving.make_serving_input_fn(DataSource(dataset, '', build.make_hparams('m', {}, 'd', {})))()
    serialized = receiver.receiver_tensors_alternatives['examples']['examples']
    examples = [records.encode({'pairs': values}) for values in ([1, 2, 3, 4], [5, 6])]
    found = session.run(receiver.features['pairs'], {serialized: examples})
    assert found.tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]]]


def test_models_that_cannot_be_exported_are_named(tmp_path):
    def model(features, labels, mode, params):
        y = python_op(lambda x: x, lambda x, gradient: gradient)(tf.get_variable('w', initializer=1.0) * features['x'])
        return {'y': y}, None if labels is None else tf.reduce_sum(y, 1)

    estimator, serving_input_fn, _ = make(tmp_path, DATASETS['tensors made in memory'], model)
    with pytest.raises(UsageError, match='^--schedule=export: model/PyFunc is a Python function, which only this process'):
        serving.check_exportable(estimator, serving_input_fn, estimator.latest_checkpoint())
    grid = {'read': tensors, 'parse': lambda mode, params, record: ({'grid': tf.ones([record['n'], record['n']])}, {})}
    serving_input_fn = serving.make_serving_input_fn(DataSource(types.SimpleNamespace(**grid), '', estimator.params))
    assert 'the feature grid must have a shape whose first dimension' in refused(serving_input_fn)


def test_nested_features_of_an_input_fn_cannot_be_exported():
    batches = tf.data.Dataset.from_tensor_slices({'a': {'x': [1.0]}}).batch(1)
    dataset = types.SimpleNamespace(input_fn=lambda split, params: batches)
    message = refused(signatures_of, DataSource(dataset, '', build.make_hparams('m', {}, 'd', {})))
    assert message.startswith('--dataset=d: the feature a/x is within another')


def fields(content):
    """Returns (number, bytes) of the fields of a serialized message."""
    return [(field.field_number, field.data) for field in unknown_fields.UnknownFieldSet(empty_pb2.Empty.FromString(content))]


def read_request(record):
    """Returns {name: array} of a PredictionLog's request, by the field numbers of tensorflow_serving/apis."""
    ((log_number, log),) = fields(record)
    ((request_number, request),) = fields(log)
    (spec_number, spec), *inputs = fields(request)
    assert (log_number, request_number, spec_number) == (6, 1, 1) and fields(spec) == [(3, b'serving_default')]
    assert all(number == 2 for number, _ in inputs)
    entries = [dict(fields(entry)) for _, entry in inputs]
    return {entry[1].decode(): tf.make_ndarray(tensor_pb2.TensorProto.FromString(entry[2])) for entry in entries}


@pytest.mark.parametrize('model', ['alexnet', 'polynomial'])
def test_an_exported_model_answers_its_example_requests(run, trained_run, model):
    trained_run(model)
    path = run('--schedule=export')[1]['export']
    signature = tf2.saved_model.load(path).signatures['serving_default']
    request = json.load(open(f'{path}/assets.extra/request.json'))
    assert request.keys() == {'signature_name', 'instances'} and request['signature_name'] == 'serving_default'
    (instance,) = request['instances']
    _, specs = signature.structured_input_signature
    inputs = {name: tf2.constant([value], specs[name].dtype) for name, value in instance.items()}
    assert signature(**inputs)

    (record,) = tf.python_io.tf_record_iterator(f'{path}/assets.extra/tf_serving_warmup_requests')
    warmup = read_request(record)
    assert warmup.keys() == inputs.keys() == specs.keys()
    for name, value in warmup.items():
        np.testing.assert_array_equal(value, inputs[name])
        assert value.dtype == specs[name].dtype.as_numpy_dtype


def test_an_example_has_the_shape_and_type_of_the_inputs_and_may_be_long():
    specs = {'words': tf.TensorSpec([None, None], tf.string), 'x' * 300: tf.TensorSpec([None, 5000], tf.int64)}
    for example in (requests.make_example(specs), read_request(requests.prediction_log(requests.make_example(specs)))):
        assert example['words'].tolist() == [[b'']]
        assert example['x' * 300].tolist() == [[0] * 5000] and example['x' * 300].dtype == np.int64


def test_an_example_request_has_a_picture_where_one_is_required(tmp_path):
    specs = {'photo': tf.TensorSpec([None], tf.string, 'picture'), 'city': tf.TensorSpec([None], tf.string)}
    paths = requests.write_requests(str(tmp_path), specs)
    (instance,) = json.load(open(paths['request.json']))['instances']
    assert instance['city'] == '' and Image.open(io.BytesIO(base64.b64decode(instance['photo']['b64']))).size == (1, 1)
    (record,) = tf.python_io.tf_record_iterator(paths['tf_serving_warmup_requests'])
    assert read_request(record)['photo'].tolist() == [base64.b64decode(instance['photo']['b64'])]


CARD = {
    'global_step': 60,
    'hparams': dict(build.make_hparams('m', {'filters': [8, 16], 'learning_rate': 0.5}, 'my|data', {'raw_dir': 'a_b/*c*'})),
    'metrics': {'eval': {'accuracy': 0.9876543, 'loss': 2.0}, 'test': {'loss': float('nan')}},
    'data_sha256': 'ab12',
    'versions': {'python': '3.11.7'},
}


def test_a_card_has_all_that_identifies_a_model():
    facts = ['| Global step | 60 |', r'| 2 classes | cat, night owl \<b\> |', '| SHA-256 of the training data | ab12 |']
    hparams = [r'| dataset | my\|data |', '| seed | 1 |', r'| learning\_rate | 0.5 |', r'| filters | \[8, 16\] |']
    assert to_markdown(CARD, ['cat', 'night owl\n<b>']).split('\n\n') == [
        r'# m, trained on my\|data',
        '\n'.join(['|  |  |', '| --- | --- |', *facts]),
        '## Metrics',
        '| metric | eval | test |\n| --- | --- | --- |\n| accuracy | 0.987654 |  |\n| loss | 2 | nan |',
        '## Hyper-parameters',
        "Those that differ from the framework's defaults; model_card.json has all.",
        '\n'.join(['| name | value |', '| --- | --- |', '| model | m |', *hparams, r'| raw\_dir | a\_b/\*c\* |']),
        '## Versions',
        '| package | version |\n| --- | --- |\n| python | 3.11.7 |\n',
    ]
    # What is unknown, and many classes.
    card = to_markdown({**CARD, 'metrics': {}, 'data_sha256': None}, [f'c{i}' for i in range(101)])
    assert 'None: this step was not evaluated.' in card and '| SHA-256 of the training data | unknown |' in card
    assert '| 101 classes | c0, c1,' in card and 'c99, ... |' in card and 'c100' not in card
