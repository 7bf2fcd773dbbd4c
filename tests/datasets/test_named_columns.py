"""Features by the names of their columns."""

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.own_data.examples import named_columns
from estimator_trainer.hparams.build import HParams

STORED = [
    {'name': 'age in years', 'kind': 'numeric', 'values': 1, 'indicator': True},
    {'name': 'age_in_years', 'kind': 'categorical', 'vocabulary': ['old', 'young']},
    {'name': 'pixels', 'kind': 'numeric', 'values': 2},
    {'name': '_note', 'kind': 'text'},
    {'name': 'Größe', 'kind': 'categorical', 'vocabulary': ['S', 'M', 'L']},
    {'name': 'target', 'kind': 'label'},
]
PARAMS = HParams({}, {'features': STORED, 'vocabulary_size': 7})


def test_each_column_is_a_feature_under_a_name_that_a_variable_may_have_and_feature_columns_take_them():
    features = {
        'numeric': tf.constant([[1.0, 2, 3, 0], [4, 5, 6, 1]]),
        'categorical': tf.constant([[1, 3], [0, 2]], tf.int32),
        'text': tf.constant([[5, 6, 0], [2, 0, 0]], tf.int32),
        'image': tf.zeros([2, 4, 4, 1]),
    }
    found = named_columns.by_column(PARAMS, features)
    expected = {
        'age_in_years': [[1], [4]],
        'pixels': [[2, 3], [5, 6]],
        'age_in_years_missing': [[0], [1]],
        'age_in_years_2': [1, 0],
        'Gr__e': [3, 2],
        'text': [[5, 6, -1], [2, -1, -1]],
    }
    assert {*found} == {*expected, 'image'}
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
    columns = {column.name: column for column in named_columns.feature_columns(PARAMS)}
    assert {*columns} == {*expected}
    sizes = {name: column.num_buckets for name, column in columns.items() if hasattr(column, 'num_buckets')}
    assert sizes == {'age_in_years_2': 3, 'Gr__e': 4, 'text': 7}
    assert columns['pixels'].shape == (2,)


def test_columns_do_not_take_the_names_of_the_weight_of_joined_features_or_of_indicators():
    names = ['weight', 'numeric', 'age', 'age_missing']
    stored = [{'name': name, 'kind': 'numeric', 'values': 1, 'indicator': name == 'age'} for name in names]
    found = named_columns.by_column(PARAMS, {'numeric': tf.constant([[1.0, 2, 3, 4, 5]])}, stored)
    assert {name: [*map(float, value[0])] for name, value in found.items()} == {
        'weight_2': [1],
        'numeric_2': [2],
        'age': [3],
        'age_missing_2': [4],
        'age_missing': [5],
    }
