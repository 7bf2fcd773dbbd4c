"""Tests for the spellings of a value."""

import unicodedata

import pytest

from estimator_trainer.common.own_data.description import describe_features, log_classes
from estimator_trainer.common.own_data.schema import COLUMNS
from estimator_trainer.common.own_data.values import MISSING, display, key, spellings


def test_missing_values_are_those_of_pandas_and_a_question_mark():
    # https://pandas.pydata.org/docs/reference/api/pandas.read_csv.html: na_values.
    of_pandas = ' |#N/A|#N/A N/A|#NA|-1.#IND|-1.#QNAN|-NaN|-nan|1.#IND|1.#QNAN|<NA>|N/A|NA|NULL|NaN|None|n/a|nan|null'
    assert MISSING == {'?', *(text.strip() for text in of_pandas.split('|'))}


@pytest.mark.parametrize(
    'one, other', [('TRUE', 'true'), ('False', 'FALSE'), ('10115', '10115.0'), ('été', unicodedata.normalize('NFD', 'été'))]
)
def test_spellings_of_one_value_have_one_key(one, other):
    assert key(one) == key(other)
    assert other in spellings(one)


@pytest.mark.parametrize(
    'one, other',
    [
        ('001', '1'),
        ('1E2', '10E1'),
        ('a', 'A'),
        ('truely', 'TRUELY'),
        ('true', 'tRuE'),  # Which a graph, that looks spellings up, does not know.
        ('1.5', '1'),
        ('1e5', '100000'),
        ('1e+05', '100000'),
        ('0.00001', '1e-05'),
        ('10:00:00', '10:00:00.000'),
        ('2024-01-01T00:00:00', '2024-01-01 00:00:00'),
    ],
)
def test_different_values_have_different_keys(one, other):
    assert key(one) != key(other)
    assert other not in spellings(one)


def test_values_are_shown_as_written():
    texts = ('001', 'TRUE', '3.0', '-2.00', '1E2', '4.9e+11')
    assert [display(text) for text in texts] == ['001', 'TRUE', '3', '-2', '1E2', '4.9e+11']


def test_classes_that_differ_only_in_how_they_are_written_are_warned_of(caplog):
    names = ['Dog', 'dog ', 'été', unicodedata.normalize('NFD', 'été'), 'cat']
    log_classes('own', names, {'train': dict.fromkeys(names, 2)}, 'train')
    assert "own: the classes 'Dog', 'dog ' differ only in case or spaces: if they are one" in caplog.text
    assert 'differ only in how their accents are stored: if they are one' in caplog.text and caplog.text.count('differ') == 2


def test_categories_that_differ_only_in_how_they_are_written_are_warned_of_once_a_column(caplog):
    kind = {'kind': 'categorical'}
    columns = [{'name': 'pet', **kind, 'vocabulary': ['Dog', 'cat', 'dog ', 'DOG', 'Cat']}]
    columns += [{'name': 'size', **kind, 'vocabulary': ['1', '2', 'a b', 'ab']}]
    describe_features('own', COLUMNS, columns, 'classification')
    assert [message for message in caplog.messages if 'differ' in message] == [
        "own: column pet: the categories 'Dog', 'dog ', 'DOG', and others, differ only in case or spaces: "
        'if they are one, write them alike.'
    ]
