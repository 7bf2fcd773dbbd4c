"""Requests and answers of the REST API."""

import base64
import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.serving import rest
from estimator_trainer.common.serving.rest import Inputs, Signature, read_request, write_response


def spec(dtype, *shape):
    return tf.TensorSpec([None, *shape], dtype)


def b64(content):
    return {'b64': base64.b64encode(content).decode()}


TABLE = Inputs({'age': spec(tf.float32), 'city': spec(tf.string)}, ignored=('id', 'weight'))
CAFE = Inputs({'caf\xe9': spec(tf.float32)}, ignored=['\xe9t\xe9'])
TEXT = Inputs({'text': spec(tf.string)})
VECTOR = Inputs({'x': spec(tf.float32, 2)})
PICTURE = Inputs({'image': spec(tf.uint8, 2, 2, 1)}, ('image',))


def signatures(inputs):
    return dict.fromkeys(['serving_default', 'pictures:serving_default'], Signature(inputs, {'class': spec(tf.int64)}))


ROW, NO_CITY = {'age': 39, 'city': 'Rome'}, {'age': 39, 'cty': 'Rome'}


@pytest.mark.parametrize(
    'inputs, content, columns',
    [
        (TABLE, {'instances': [ROW, {'age': None, 'city': ''}]}, {'age': [39, None], 'city': ['Rome', '']}),
        (TABLE, {'instances': [{**ROW, 'id': 7, 'weight': 2}]}, {'age': [39], 'city': ['Rome']}),
        (CAFE, {'instances': [{'cafe\u0301': 3}, {'caf\xe9': 4}]}, {'caf\xe9': [3, 4]}),
        (CAFE, {'inputs': {'cafe\u0301': [3], 'e\u0301t\xe9': 1}}, {'caf\xe9': [3]}),
        (TABLE, {'inputs': {'age': [1.5, 2], 'city': ['a', 'b']}}, {'age': [1.5, 2], 'city': ['a', 'b']}),
        (TABLE, {'inputs': {'age': [1], 'city': [b64(b'\xff')], 'id': 3}}, {'age': [1], 'city': [b'\xff']}),
        (
            TABLE,
            {'instances': [ROW], 'parameters': {}, 'instance_id': 7, 'outputs': 1, 'input_names': 2, 'k' * 10**6: 3},
            {'age': [39], 'city': ['Rome']},
        ),  # Others are ignored.
        (TABLE, {'instances': [ROW], 'signature_name': ''}, {'age': [39], 'city': ['Rome']}),
        (TEXT, {'instances': ['good', {'b64': 'YQ=='}]}, {'text': ['good', b'a']}),
        (TEXT, {'instances': [{'text': 'good'}]}, {'text': ['good']}),
        (TEXT, {'inputs': ['good', 'bad']}, {'text': ['good', 'bad']}),
        (TEXT, {'signature_name': 'serving_default', 'inputs': {'text': ['good']}}, {'text': ['good']}),
        (VECTOR, {'instances': [[1, 2], [3, 4]]}, {'x': [[1, 2], [3, 4]]}),
        (VECTOR, {'inputs': {'x': [[1, 2]]}}, {'x': [[1, 2]]}),
        (PICTURE, {'instances': [{'image': b64(b'GIF')}]}, {'image': [b'GIF']}),
        (PICTURE, {'instances': [[[0, 255]]], 'signature_name': 'pictures:serving_default'}, {'image': [[[0, 255]]]}),
    ],
)
def test_examples_by_row_and_by_column_become_columns(inputs, content, columns):
    request = read_request(json.dumps(content).encode(), signatures(inputs))
    found = {name: [v.tolist() if isinstance(v, np.ndarray) else v for v in values] for name, values in request.columns.items()}
    assert (found, request.by_row) == (columns, 'instances' in content)


def test_nan_is_a_number_as_in_tensorflow_serving():
    assert np.isnan(read_request(b'{"instances": [{"age": NaN, "city": ""}]}', signatures(TABLE)).columns['age'][0])


@pytest.mark.parametrize(
    'inputs, content, message',
    [
        (TABLE, b'\xff', "the request is not JSON: 'utf-8' codec can't decode byte 0xff"),
        (TABLE, b'{"instances": ', 'the request is not JSON: Expecting value'),
        (TABLE, b'[' * 100_000, 'the request is not JSON: maximum recursion depth'),
        (TABLE, b'{"inputs": 1, "inputs": 2}', "the request: 'inputs' is given twice"),
        (TABLE, [], 'the request must be an object with "instances" or "inputs", not a list of 0'),
        (TABLE, {'examples': []}, """with "instances" or "inputs", not the keys 'examples'"""),
        (TABLE, {'instances': [], 'inputs': {}}, """not the keys 'instances', 'inputs'"""),
        (TABLE, {'instance': [ROW]}, "the request has the unknown key 'instance', did you mean instances?"),
        (TABLE, {'instances': [ROW], 'signature_nam': 'x'}, "unknown key 'signature_nam', did you mean signature_name?"),
        (TABLE, {'instances': [ROW], 'signature_name': 0}, 'there is no signature 0; there are: serving_default'),
        (TABLE, {'instances': {}}, '"instances" must be a list of examples, not a dict'),
        (TABLE, {'instances': []}, '"instances" must be a list of examples, not an empty one'),
        (
            TABLE,
            {'instances': [ROW], 'signature_name': 'x'},
            "there is no signature 'x'; there are: serving_default, pictures:serving_default",
        ),
        (TABLE, {'instances': [ROW, 3]}, 'instance 1 must be an object with the inputs age, city, not an int'),
        (TABLE, {'instances': [NO_CITY]}, "age, city, but instance 0 has no city and has the unknown 'cty'"),
        (TABLE, {'inputs': NO_CITY}, """age, city, but "inputs" has no city and has the unknown 'cty'"""),
        (TABLE, {'inputs': ROW}, 'the input age must be a list with a value for each example, not an int'),
        (TABLE, {'inputs': {'age': [], 'city': []}}, 'with a value for each example, not an empty one'),
        (TABLE, {'inputs': {'age': [1, 2], 'city': ['a']}}, 'age, city have batches of different sizes: [1, 2]'),
        (TABLE, {'instances': [{'age': [1], 'city': ''}]}, 'the input age must be float32 (None,), not a list of 1'),
        (TABLE, {'instances': [{'age': {'b64': ''}, 'city': ''}]}, 'the input age must be float32 (None,), not a dict'),
        (TEXT, {'instances': [{'text': {'b64': 'a!'}}]}, 'the input text: "b64" is not in base64'),
        (TEXT, {'instances': [{'text': {'b64': 1}}]}, 'text must be text, or bytes as {"b64": "..."}, not {\'b64\': 1}'),
        (TEXT, {'inputs': 'good'}, 'the input text must be a list with a value for each example, not a str'),
        (VECTOR, {'instances': [1, 2]}, 'the input x must be float32 (None, 2), not a NumPy array of int64 (2,)'),
        (VECTOR, {'instances': [[1, 2], [3]]}, 'must be float32 (None, 2), not lists of different lengths'),
        (VECTOR, {'instances': [[1, 2, 3]]}, 'the input x must be float32 (None, 2), not a NumPy array of int64 (1, 3)'),
        (TABLE, {'instances': [{'age': True, 'city': ''}]}, 'the input age must be float32 (None,), not a bool'),
        (TEXT, b'{"instances": [%s%s]}' % (b'[' * 900, b']' * 900), 'the input text must be string (None,), not a list of 1'),
        (VECTOR, {'instances': [[1, 2], [0.5, False]]}, 'the input x must be float32 (None, 2), not a bool'),
        (PICTURE, {'instances': [[[[1], [2]], [[True], [4]]]]}, 'the input image must be uint8 (None, 2, 2, 1), not a bool'),
        (PICTURE, {'instances': ['/etc/passwd']}, 'picture 0 must be {"b64": "..."}, the file in base64, or lists of pixels'),
        (PICTURE, {'instances': [[[1], [2, 3]]]}, 'the input image: picture 0 has rows of different lengths'),
    ],
)
def test_a_wrong_request_says_what_was_expected_and_what_came(inputs, content, message):
    with pytest.raises(ValueError) as caught:
        read_request(content if isinstance(content, bytes) else json.dumps(content).encode(), signatures(inputs))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    'predictions, by_row, content',
    [
        (
            {'class': np.array([1, 0]), 'p': np.array([[0.1, 0.9], [1, 0]], np.float32)},
            True,
            '{"predictions": [{"class": 1, "p": [0.1, 0.9]}, {"class": 0, "p": [1.0, 0.0]}]}',
        ),
        (
            {'class': np.array([1]), 'class_name': np.array(['Ä'], object)},
            False,
            '{"outputs": {"class": [1], "class_name": ["Ä"]}}',
        ),
        ({'y': np.array([[1.5], [np.nan]])}, True, '{"predictions": [[1.5], [NaN]]}'),
        ({'y': np.array([np.inf, 2.5], tf.bfloat16.as_numpy_dtype)}, False, '{"outputs": [Infinity, 2.5]}'),
        ({'t': np.array([b'a', b'\xff'], object)}, True, '{"predictions": ["a", {"b64": "/w=="}]}'),
        ({'ok': np.array([True]), 'n': np.float32(3)}, False, '{"outputs": {"ok": [true], "n": 3.0}}'),
    ],
)
def test_predictions_become_json_of_either_form(predictions, by_row, content):
    assert write_response(predictions, by_row).decode() == content


def test_the_metadata_has_types_and_shapes_of_all_signatures():
    found = rest.metadata('m', 7, signatures(PICTURE))
    assert found['model_spec'] == {'name': 'm', 'signature_name': '', 'version': '7'}
    described = found['metadata']['signature_def']['signature_def']
    sizes = [{'size': size, 'name': ''} for size in ('-1', '2', '2', '1')]
    image = {'dtype': 'DT_UINT8', 'tensor_shape': {'dim': sizes, 'unknown_rank': False}, 'name': 'image'}
    assert {*described} == {*signatures(PICTURE)} and described['serving_default']['inputs'] == {'image': image}
    assert described['serving_default']['outputs']['class']['dtype'] == 'DT_INT64'
    assert rest.status(7)['model_version_status'][0]['version'] == '7'
