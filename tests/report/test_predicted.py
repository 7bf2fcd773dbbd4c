"""Classes, numbers and mistakes among predictions of any model."""

import math

import numpy as np
import pytest

from estimator_trainer.common.inference.outcome import Outcome, outcome
from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.report.predicted import chosen, collect, name_of

CLASS = {'class': np.int64(1), 'probabilities': np.array([0.25, 0.75], np.float32)}


@pytest.mark.parametrize(
    'values, expected',
    [
        (CLASS, (1, [0.25, 0.75], None)),
        ({'class_ids': np.array([2])}, (2, None, None)),
        ({'class': np.int64(0), 'probabilities': np.array([0.5])}, (0, None, None)),
        ({'class': np.array([1, 2])}, (None, None, None)),
        ({'y': np.float32(0.5)}, (None, None, 0.5)),
        ({'predictions': np.array([0.5], np.float32), 'logits': np.array([3.0])}, (None, None, 0.5)),
        ({'value': np.float32(0.5), 'variance': np.float32(2)}, (None, None, 0.5)),
        ({'a': np.float32(0.5), 'b': np.float32(2)}, (None, None, None)),
        ({'image': np.zeros([4, 4])}, (None, None, None)),
        ({}, (None, None, None)),
    ],
)
def test_the_outcome_is_a_class_or_a_number_or_nothing(values, expected):
    found = outcome(values)
    probabilities = None if found.probabilities is None else found.probabilities.tolist()
    assert (found.class_id, probabilities, found.value) == expected


@pytest.mark.parametrize(
    'found, label, expected',
    [
        (Outcome(1, CLASS['probabilities']), 0, -math.log(0.25)),
        (Outcome(1, CLASS['probabilities']), 5, 1),  # A class without a probability.
        (Outcome(1), 1, 0),
        (Outcome(1), 2, 1),
        (Outcome(0, np.array([1.0, 0.0], np.float32)), 1, -math.log(np.finfo(np.float32).tiny)),
        (Outcome(value=2.5), 4, 1.5),
    ],
)
def test_the_loss_of_an_outcome(found, label, expected):
    assert found.loss(label) == pytest.approx(expected, rel=1e-6)


def of_classes(*pairs):
    """Yields predictions of two classes: (label, probability of class 1)."""
    for i, (label, share) in enumerate(pairs):
        probabilities = np.array([1 - share, share], np.float32)
        yield Prediction({'example': i}, {'class': probabilities.argmax(), 'probabilities': probabilities}, label=label)


def test_the_worst_mistakes_are_the_wrong_ones_with_the_largest_loss():
    pairs = [(1, 0.9), (0, 0.6), (1, 0.01), (0, 0.9), (None, 0.9), (-1, 0.9), (1, 0.4)]
    assert len(collect(of_classes(*pairs), num_worst=3).worst) == 3
    found = collect(of_classes(*pairs), num_worst=5)
    assert found.count == 7 and found.places.tolist() == [0, 1, 2, 3, 6] and found.labels.tolist() == [1, 0, 1, 0, 1]
    assert [prediction.fields['example'] for prediction in found.worst] == [2, 3, 1, 6]  # p 0.01, 0.1, 0.4, 0.4.
    assert found.classes.tolist() == [1, 1, 0, 1, 0] and found.probabilities.shape == (5, 2) and found.values is None
    assert found.loss == pytest.approx(-np.log([0.9, 0.4, 0.01, 0.1, 0.4]).mean(), rel=1e-5) and found.loss_name == 'log loss'


def test_numbers_are_compared_with_numbers():
    predictions = [Prediction({}, {'value': np.float32(v)}, label=label) for v, label in [(1, 1.5), (2, 2.0), (3, 9.0)]]
    predictions.append(Prediction({}, {'value': np.float32('nan')}, label=np.float32(1)))
    found = collect(predictions, num_worst=2)
    assert found.labels.tolist() == [1.5, 2, 9, 1] and found.values.tolist()[:3] == [1, 2, 3] and found.classes is None
    assert found.worst == [predictions[3], predictions[2]] and found.loss_name == 'mean absolute error'


@pytest.mark.parametrize(
    'values, label',
    [(CLASS, None), (CLASS, np.array([1, 2])), (CLASS, 0.5), ({'a': np.zeros(3)}, 1), ({'y': np.float32(1)}, b'x')],
)
def test_what_cannot_be_compared_is_left_out(values, label):
    assert collect([Prediction({}, values, label=label)], num_worst=2) is None


def test_names_of_classes_beyond_the_known_are_numbers():
    assert [name_of(i, ['a', 'b']) for i in range(3)] == ['a', 'b', '2'] and name_of(1, None) == '1'


def test_items_are_chosen_by_place():
    assert [*chosen('abcdef', [0, 1, 4])] == ['a', 'b', 'e']
