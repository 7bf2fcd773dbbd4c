"""What the functions of a dataset module return is checked, and what is wrong named."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.plugins import dataset_contract
from hparams.build import HParams
from tests.shared import refused

TRAIN, EVAL, PREDICT = tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL, tf.estimator.ModeKeys.PREDICT
PARAMS = HParams({'dataset': 'd'})
FEATURE = ': the feature a must be a tensor, not'
ID = ': the feature example_id must be a string or an integer of shape'
ONE_BATCH = ' must return features and labels of one batch, not of 3, 4 examples'
NAMES = ': class_names must be a list of distinct strings, not'


def check(parsed, mode=TRAIN, function='parse'):
    return dataset_contract.check_parsed(function, parsed, mode, PARAMS)


def sparse():
    return tf.sparse.eye(4)


def unknown():
    return tf.placeholder(tf.float32)


@pytest.mark.parametrize(
    'function, parsed, message',
    [
        ('parse', lambda: [{}], ' must return a pair (features, labels), not a list of 1'),
        ('parse', lambda: (np.zeros(2), {}), ' must return features as a dict, not a NumPy array of float64 (2,)'),
        ('parse', lambda: ({}, [3]), ' must return labels as a dict, not a list of 1'),
        ('parse', lambda: ({'a': None}, {}), f'{FEATURE} None'),
        ('parse', lambda: ({'a': object()}, {}), f'{FEATURE} an object'),
        ('parse', lambda: ({'a': {'b': 3}}, {}), f'{FEATURE} a dict: give each of its items a name beside a'),
        ('parse', lambda: ({}, None), ' must return labels in training and evaluation, not None: an empty dict if there'),
        ('parse', lambda: ({'example_id': 0.5}, {}), f'{ID} [], not a tensor of float32 ()'),
        ('parse', lambda: ({'example_id': [1]}, {}), f'{ID} [], not a tensor of int32 (1,)'),
        ('parse', lambda: ({'example_id': sparse()}, {}), f'{ID} [], not a SparseTensor'),
        ('parse_batch', lambda: ({'a': 3}, {}), ': the feature a must be of shape [batch, ...], not ()'),
        ('parse_batch', lambda: ({}, {'a': 3}), ': the label a must be of shape [batch, ...], not ()'),
        ('parse_batch', lambda: ({'example_id': [['a']]}, {}), f'{ID} [batch], not a tensor of string (1, 1)'),
        ('parse_batch', lambda: ({'a': [1, 2, 3]}, {'b': [[1], [2], [3], [4]]}), ONE_BATCH),
    ],
)
def test_what_a_parser_must_not_return_is_named(session, function, parsed, message):
    for mode in (TRAIN, EVAL):
        assert refused(check, parsed(), mode, function).startswith(f'--dataset=d: {function}(){message}')


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


def test_predictions_and_towers_need_dense_features_of_known_shape(session):
    assert check(({'a': [1]}, None), PREDICT)[1] is None
    dataset_contract.check_divisible({'a': tf.zeros([4])}, {'b': tf.zeros([4])}, PARAMS)
    for value, message in (
        (sparse(), 'must be a tensor, not a SparseTensor: tf.sparse.to_dense(it) makes one'),
        (unknown(), 'has an unknown shape: give it one, with tf.ensure_shape'),
    ):
        assert set(check(({'a': value}, {'b': value}))[0]) == {'a'}
        assert refused(check, ({'a': value}, {}), PREDICT) == f'--dataset=d: parse(): the feature a {message}'
        for kind, inputs in (('feature', ({'a': value}, {})), ('label', ({}, {'a': value}))):
            found = refused(dataset_contract.check_divisible, *inputs, PARAMS)
            assert found == f'--dataset=d with towers: the {kind} a {message}'


def test_ids_of_examples_are_texts_or_integers(session):
    for value in ('a', 3, tf.placeholder(tf.string)):
        assert 'example_id' in check(({'example_id': value}, {}))[0]
    assert 'example_id' in check(({'example_id': [3, 4]}, {}), TRAIN, 'parse_batch')[0]


@pytest.mark.parametrize(
    'metadata, message',
    [
        ([], ' must return its items as a dict, not a list of 0'),
        ({'a': {1, 2}}, ' must return what JSON can represent: Object of type set is not JSON serializable'),
        ({'a': float('nan')}, ' must return what JSON can represent: Out of range float values are not JSON compliant'),
        ({'class_names': 'ab'}, f"{NAMES} 'ab'"),
        ({'class_names': [1, 2]}, f'{NAMES} [1, 2]'),
        ({'class_names': ['a', 'a']}, f"{NAMES} ['a', 'a']"),
        ({'class_names': ['a', 'b'], 'num_classes': 3}, ': num_classes is 3, but there are 2 class_names'),
    ],
)
def test_metadata_that_cannot_be_saved_or_right_is_named(metadata, message):
    assert refused(dataset_contract.check_metadata, metadata, PARAMS).startswith(f'--dataset=d: metadata(){message}')


def test_metadata_is_as_json_gives_it_back():
    given = {'class_names': ('a', 'b'), 'num_classes': 2, 'mean': 0.5}
    assert dataset_contract.check_metadata(given, PARAMS) == {**given, 'class_names': ['a', 'b']}
    assert dataset_contract.check_metadata({'num_classes': 3}, PARAMS) == {'num_classes': 3}
