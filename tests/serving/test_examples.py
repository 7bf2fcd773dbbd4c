"""Requests of tf.train.Examples, and their answers."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.serving.examples import read_examples, write_results
from estimator_trainer.common.serving.rest import Inputs, Signature

CLASSIFY, REGRESS = 'tensorflow/serving/classify', 'tensorflow/serving/regress'
TEXTS = Inputs({'inputs': tf.TensorSpec([None], tf.string)})
SIGNATURES = {'serving_default': Signature(TEXTS, {}, CLASSIFY), 'regression': Signature(TEXTS, {}, REGRESS)}


def read(content, method=CLASSIFY):
    return read_examples(json.dumps(content).encode(), SIGNATURES, method)


def features(serialized):
    example = tf.train.Example.FromString(serialized)
    kinds = {name: feature.WhichOneof('kind') for name, feature in example.features.feature.items()}
    return {name: list(getattr(example.features.feature[name], kind).value) for name, kind in kinds.items()}


def test_values_and_lists_become_features_of_their_types_with_the_context():
    row = {'n': 3, 'x': [1, 2.5, 3.4028235e38], 'city': 'Rome', 'file': {'b64': '/w=='}}
    request = read({'context': {'year': 2024}, 'examples': [row, {'n': [1, 2]}]})
    assert (request.signature, request.by_row) == ('serving_default', True)
    first, second = map(features, request.columns['inputs'])
    assert first == {
        'n': [3],
        'x': [1.0, 2.5, float(np.finfo(np.float32).max)],
        'city': [b'Rome'],
        'file': [b'\xff'],
        'year': [2024],
    }
    assert second == {'n': [1, 2], 'year': [2024]}
    assert read({'signature_name': 'regression', 'examples': [{}]}, REGRESS).signature == 'regression'


@pytest.mark.parametrize(
    'content, message',
    [
        ({'instances': [1]}, """an object with "examples", not the keys 'instances'"""),
        ({'example': [{}]}, "the request has the unknown key 'example', did you mean examples?"),
        ({'examples': [{}], 'contexts': {}}, "the request has the unknown key 'contexts', did you mean context?"),
        ({'examples': []}, '"examples" must be a list of objects'),
        ({'examples': [3]}, '"examples" must be a list of objects'),
        ({'examples': [{}], 'context': 3}, '"examples" must be a list of objects'),
        ({'examples': [{'x': 1}], 'context': {'x': 1}}, """the feature 'x' is in "context" and in an example"""),
        ({'examples': [{'x': [1, 'a']}]}, "the feature 'x': its values must all be numbers, or all texts, not 1"),
        ({'examples': [{'x': None}]}, 'or all texts, not None'),
        ({'examples': [{'x': [1e39, 1]}]}, "the feature 'x': 1e+39 is too large for float32"),
        ({'examples': [{'x': float('inf')}]}, "the feature 'x': inf is too large for float32"),
        ({'examples': [{'x': 2**70}]}, "the feature 'x': "),
        ({'examples': [{'x': {'b64': '?'}}]}, '"b64" is not in base64'),
        ({'examples': [{}], 'signature_name': 'regression'}, 'the signature regression is for tensorflow/serving/regress'),
        ({'examples': [{}], 'signature_name': 'x'}, "there is no signature 'x'; there are: serving_default, regression"),
    ],
)
def test_a_wrong_request_says_what_was_expected(content, message):
    with pytest.raises(ValueError) as caught:
        read(content)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    'found, method, results',
    [
        ({'scores': [[0.25, 0.75]], 'classes': [[b'no', b'yes']]}, CLASSIFY, [[['no', 0.25], ['yes', 0.75]]]),
        ({'scores': [[0.25], [1]]}, CLASSIFY, [[['', 0.25]], [['', 1.0]]]),
        ({'classes': [[b'no']]}, CLASSIFY, [[['no', 0.0]]]),
        ({'outputs': [[0.5], [2]]}, REGRESS, [0.5, 2.0]),
    ],
)
def test_results_are_pairs_of_label_and_score_or_numbers(found, method, results):
    arrays = {name: np.array(value, object if name == 'classes' else np.float32) for name, value in found.items()}
    assert json.loads(write_results(arrays, method)) == {'results': results}
