"""Tests for the alarm that most values are unknown."""

import pytest

from estimator_trainer.common.own_data.alarm import unknown_values, warn_of_unknown

STATES = ['Bavaria', 'Hesse', 'Berlin', 'Saxony']


def test_it_names_the_share_the_place_and_a_few_values_of_both(caplog):
    assert warn_of_unknown('values of column state', STATES, {'BY': 40, 'HE': 9, 'Berlin': 1, '': 50}, 'eval.csv')
    assert (
        'eval.csv: 98 % of the values of column state are unknown: the training data has Bavaria, Hesse, Berlin, ..., '
        'here are BY, HE: the model knows nothing about them; write them as there'
    ) in caplog.text


@pytest.mark.parametrize(
    'known, counts',
    [
        (STATES, {'BY': 5, 'Hesse': 5}),  # Half is no alarm.
        (STATES, {}),
        (STATES, {'NA': 9}),
        ([], {'BY': 9}),
        (['True', '10115', '\xe9t\xe9'], {'TRUE': 1, '10115.0': 1, 'e\u0301te\u0301': 1}),
    ],
)
def test_it_is_silent_if_half_of_the_values_are_known_in_some_spelling(known, counts, caplog):
    assert not warn_of_unknown('values', known, counts, 'eval.csv')
    assert not caplog.text


def test_unknown_values_have_their_counts():
    assert unknown_values(['a', 'True'], {'a': 3, 'TRUE': 2, 'b': 1, '?': 7}) == {'b': 1}


def test_long_values_and_control_characters_are_shown_in_one_line(caplog):
    warn_of_unknown('values', ['x' * 99], {'a\x1b\nb': 1}, 'f')
    assert f'has {"x" * 30}..., here are a\\x1b b:' in caplog.text
