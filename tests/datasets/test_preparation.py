"""The description of prepared inputs, followed by hand, gives what the dataset gives to the model."""

import datetime

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.model_card import _preparation
from estimator_trainer.common.own_data.tables import preparation, raw_columns
from estimator_trainer.datasets import table
from estimator_trainer.hparams import build
from tests.datasets.own_data import Prepared

ROWS = 'age,city,since,y\n' + ''.join(
    f'{"" if i == 3 else 20 + i},{("Rome", "Oslo")[i % 2]},{datetime.date(2020, 1, 1) + datetime.timedelta(40 * i)},{i % 2}\n'
    for i in range(40)
)


def test_the_description_of_a_table_is_what_its_features_are(tmp_path, session):
    (tmp_path / 't.csv').write_text(ROWS)
    params = Prepared(table, tmp_path / 'data', f'table_file={tmp_path}/t.csv', 'target=y').params
    described = table.input_parts(params)
    raw = {'age': [25.0, np.nan], 'city': ['Oslo', 'Bonn'], 'since': ['2020-03-01', '2021-01-01']}
    features = raw_columns.from_raw(params, {name: tf.constant(values) for name, values in raw.items()})
    session.run(tf.tables_initializer())
    found = session.run(features)
    days = [(datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days for text in raw['since']]
    numbers = {'age': np.array(raw['age']), 'since, in days since 1970-01-01 UTC': np.array(days)}
    first = [part for part in described['numeric'] if part['name'] in numbers and 'mean' in part]
    for part in first:
        expected = np.nan_to_num((numbers[part['name']] - part['mean']) / part['std'])
        np.testing.assert_allclose(found['numeric'][:, described['numeric'].index(part)], expected, atol=1e-4)
    assert len(first) == 2 and len(described['numeric']) == found['numeric'].shape[1]
    (indicator,) = [i for i, part in enumerate(described['numeric']) if 'mean' not in part]
    assert described['numeric'][indicator] == {'name': 'age'} and found['numeric'][:, indicator].tolist() == [0, 1]
    (city,) = described['categorical']
    assert found['categorical'][:, 0].tolist() == [1 + city['vocabulary'].index('Oslo'), 0]
    assert preparation.input_parts(build.HParams({}, {'class_names': ['a', 'b']})) == {}


def test_the_description_in_words():
    assert _preparation({'name': 'age', 'mean': 38.5, 'std': 13.25}) == '(age - 38.5) / 13.25, 0 if missing'
    assert _preparation({'name': 'since: year, sine', 'mean': 0.0, 'std': 1.0}) == 'since: year, sine, 0 if missing'
    assert _preparation({'name': 'age'}) == '1 if age is missing, else 0'
    assert _preparation({'name': 'city', 'vocabulary': ['Rome', 'Oslo']}) == 'city: 1 Rome, 2 Oslo; 0 for others'
