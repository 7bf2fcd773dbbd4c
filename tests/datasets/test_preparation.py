"""The description of prepared inputs, followed by hand, gives what the dataset gives to the model."""

import datetime

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.model_card import _preparation
from estimator_trainer.common.own_data.tables import preparation, raw_columns
from estimator_trainer.datasets import table, text
from estimator_trainer.hparams import build
from tests.datasets.own_data import Prepared, prepare_raw

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
    when, days = 'since, in days since 1970-01-01 UTC', np.array(days)
    phase = 2 * np.pi * days / 365.2425
    numbers = {'age': np.array(raw['age']), when: days, f'sine of 2 pi t / 365.2425, t = {when}': np.sin(phase)}
    numbers |= {f'cosine of 2 pi t / 365.2425, t = {when}': np.cos(phase)}
    first = [part for part in described['numeric'] if part['name'] in numbers and 'mean' in part]
    for part in first:
        expected = np.nan_to_num((numbers[part['name']] - part['mean']) / part['std'])
        np.testing.assert_allclose(found['numeric'][:, described['numeric'].index(part)], expected, atol=1e-4)
    assert len(first) == 4 and len(described['numeric']) == found['numeric'].shape[1]
    (indicator,) = [i for i, part in enumerate(described['numeric']) if 'mean' not in part]
    assert described['numeric'][indicator] == {'name': 'age', 'indicator': True} and found['numeric'][
        :, indicator
    ].tolist() == [0, 1]
    (city,) = described['categorical']
    assert found['categorical'][:, 0].tolist() == [1 + city['vocabulary'].index('Oslo'), 0]
    assert preparation.input_parts(build.HParams({}, {'class_names': ['a', 'b']})) == {}


def test_the_description_in_words():
    assert _preparation({'name': 'age', 'mean': 38.5, 'std': 13.25}) == '(age - 38.5) / 13.25, 0 if missing'
    assert _preparation({'name': 'sine of t', 'mean': 0.0, 'std': 1.0}) == 'sine of t, 0 if missing'
    assert _preparation({'name': 'age', 'indicator': True}) == '1 if age is missing, else 0'
    assert _preparation({'name': 'mean of the window'}) == 'mean of the window'
    assert _preparation({'name': 'city', 'vocabulary': ['Rome', 'Oslo']}) == 'city: 1 Rome, 2 Oslo; 0 for others'
    assert _preparation({'name': 'words', 'vocabulary': ['the', 'a'], 'first': 2}) == 'words: 2 the, 3 a; 1 for others'


@pytest.mark.parametrize('kind', ['words', 'bytes'])
def test_the_description_of_a_text_is_what_its_tokens_are(tmp_path, kind):
    (tmp_path / 'a.txt').write_text('pos\ta good film\nneg\ta bad film\n' * 20)
    params = Prepared(text, tmp_path / 'data', f'text_file={tmp_path}/a.txt', f'tokens={kind}').params
    (part,) = text.input_parts(params)['text']
    found = prepare_raw(text, params, {'text': ['A film xyz', 'bad']})['text'].tolist()
    if kind == 'words':
        ids = {word: part['first'] + i for i, word in enumerate(part['vocabulary'])}
        assert found == [[ids['a'], ids['film'], 1], [ids['bad'], 0, 0]]
    else:
        assert part['name'].endswith('plus 1; 0 is padding') and found[1] == [*(byte + 1 for byte in b'bad'), *[0] * 7]
