"""What the functions of a dataset module return is checked, and what is wrong named."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.plugins import dataset_contract
from hparams.build import HParams

TRAIN, EVAL, PREDICT = tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL, tf.estimator.ModeKeys.PREDICT
PARAMS = HParams({'dataset': 'd'})
NAMES = 'under names that are printable text, not'
FEATURE = ': the feature a must be a tensor, not'
ID = ': the feature example_id must be a string or an integer of shape'
SHAPE = ': give it one, with tf.ensure_shape'


def check(parsed, mode=TRAIN, function='parse'):
    return dataset_contract.check_parsed(function, parsed, mode, PARAMS)


def sparse():
    return tf.sparse.eye(4)


def unknown():
    return tf.placeholder(tf.float32)


@pytest.mark.parametrize(
    'parsed, message',
    [
        (lambda: None, ' must return a pair (features, labels), not None'),
        (lambda: [{}], ' must return a pair (features, labels), not a list of 1'),
        (lambda: tf.zeros([2]), ' must return a pair (features, labels), not a tensor of float32 (2,)'),
        (lambda: (np.zeros(2), {}), ' must return features as a dict, not a NumPy array of float64 (2,)'),
        (lambda: ({}, [3]), ' must return labels as a dict, not a list of 1'),
        (lambda: ({1: 2.0}, {}), f' must return features {NAMES} 1'),
        (lambda: ({}, {'': 2.0}), f" must return labels {NAMES} ''"),
        (lambda: ({'a': None}, {}), f'{FEATURE} None'),
        (lambda: ({'a': object()}, {}), f'{FEATURE} an object'),
        (lambda: ({'a': {'b': 3}}, {}), f'{FEATURE} a dict: give each of its items a name beside a'),
        (lambda: ({}, None), ' must return labels in training and evaluation, not None: an empty dict if there are none'),
        (lambda: ({'example_id': 0.5}, {}), f'{ID} [], not a tensor of float32 ()'),
        (lambda: ({'example_id': [1]}, {}), f'{ID} [], not a tensor of int32 (1,)'),
        (lambda: ({'example_id': sparse()}, {}), f'{ID} [], not a SparseTensor'),
    ],
)
def test_what_parse_must_not_return_is_named(parsed, message):
    with tf.Graph().as_default():
        for mode in (TRAIN, EVAL):
            with pytest.raises(UsageError) as error:
                check(parsed(), mode)
            assert str(error.value) == f'--dataset=d: parse(){message}'


@pytest.mark.parametrize(
    'features, labels, message',
    [
        ({'a': 3}, {}, ': the feature a must be of shape [batch, ...], not ()'),
        ({}, {'a': 3}, ': the label a must be of shape [batch, ...], not ()'),
        ({'example_id': [['a']]}, {}, f'{ID} [batch], not a tensor of string (1, 1)'),
        ({'a': [1, 2, 3]}, {'b': [[1], [2], [3], [4]]}, ' must return features and labels of one batch, not of 3, 4 examples'),
    ],
)
def test_what_parse_batch_must_not_return_is_named(features, labels, message):
    with tf.Graph().as_default(), pytest.raises(UsageError) as error:
        check((features, labels), TRAIN, 'parse_batch')
    assert str(error.value) == f'--dataset=d: parse_batch(){message}'


def test_batches_of_a_size_that_is_only_known_later_are_checked_then(session):
    a, b = (tf.placeholder(tf.float32, [None, *shape]) for shape in ([2], []))
    features, labels = check(({'a': a, 's': sparse(), 'x': unknown()}, {'b': b}), TRAIN, 'parse_batch')
    feed = {a: np.ones([3, 2]), b: [1, 2, 3]}
    assert session.run(labels['b'], feed).tolist() == [1, 2, 3] and isinstance(features['s'], tf.SparseTensor)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r'--dataset=d: parse_batch\(\) must return features and labels of'
    ):
        session.run(features['a'], {**feed, b: [1, 2]})
    assert check(({'a': a}, {}), TRAIN, 'parse_batch')[0]['a'] is a  # There is nothing to compare.
    assert check(({'a': a}, {'b': b}), TRAIN)[0]['a'] is a


def test_a_prediction_needs_no_labels_but_dense_features_of_known_shape(session):
    assert check(({'a': [1]}, None), PREDICT)[1] is None
    for value, message in (
        (sparse(), f'{FEATURE} a SparseTensor: tf.sparse.to_dense(it) makes one'),
        (unknown(), f': the feature a has an unknown shape{SHAPE}'),
    ):
        assert set(check(({'a': value}, {'b': value}))[0]) == {'a'}
        with pytest.raises(UsageError) as error:
            check(({'a': value}, {}), PREDICT)
        assert str(error.value) == f'--dataset=d: parse(){message}'


def test_towers_need_dense_inputs_of_known_shape(session):
    dataset_contract.check_divisible({'a': tf.zeros([4])}, {'b': tf.zeros([4])}, PARAMS)
    for features, labels, message in (
        ({'a': sparse()}, {}, 'the feature a must be a tensor, not a SparseTensor: tf.sparse.to_dense(it) makes one'),
        ({}, {'b': unknown()}, f'the label b has an unknown shape{SHAPE}'),
    ):
        with pytest.raises(UsageError) as error:
            dataset_contract.check_divisible(features, labels, PARAMS)
        assert str(error.value) == f'--dataset=d with towers: {message}'


def test_ids_of_examples_are_texts_or_integers(session):
    for value in ('a', 3, tf.placeholder(tf.string)):
        assert 'example_id' in check(({'example_id': value}, {}))[0]
    assert 'example_id' in check(({'example_id': [3, 4]}, {}), TRAIN, 'parse_batch')[0]


@pytest.mark.parametrize(
    'metadata, message',
    [
        ([], ' must return its items as a dict, not a list of 0'),
        ({3: 4}, f' must return its items {NAMES} 3'),
        ({'a': {1, 2}}, ' must return what JSON can represent: Object of type set is not JSON serializable'),
        ({'a': float('nan')}, ' must return what JSON can represent: Out of range float values are not JSON compliant'),
        ({'class_names': 'ab'}, ": class_names must be a list of distinct strings, not 'ab'"),
        ({'class_names': [1, 2]}, ': class_names must be a list of distinct strings, not [1, 2]'),
        ({'class_names': ['a', 'a']}, ": class_names must be a list of distinct strings, not ['a', 'a']"),
        ({'class_names': ['a', 'b'], 'num_classes': 3}, ': num_classes is 3, but there are 2 class_names'),
    ],
)
def test_metadata_that_cannot_be_saved_or_right_is_named(metadata, message):
    with pytest.raises(UsageError) as error:
        dataset_contract.check_metadata(metadata, PARAMS)
    assert str(error.value).startswith(f'--dataset=d: metadata(){message}')


def test_metadata_is_as_json_gives_it_back():
    given = {'class_names': ('a', 'b'), 'num_classes': 2, 'mean': 0.5}
    assert dataset_contract.check_metadata(given, PARAMS) == {**given, 'class_names': ['a', 'b']}
    assert dataset_contract.check_metadata({'num_classes': 3}, PARAMS) == {'num_classes': 3}
