"""Averages of the predictions of several models."""

from types import SimpleNamespace

import numpy as np

from estimator_trainer.common.inference.ensemble import average
from estimator_trainer.common.runs.ensemble import check_classes
from estimator_trainer.hparams.build import HParams
from tests.shared import failed


def test_floats_are_averaged_and_a_class_is_that_of_the_mean_probabilities():
    one = {'class': np.array([0]), 'probabilities': np.array([[0.5, 0.1, 0.4]], np.float32), 'x': np.array([[1.0]])}
    two = {'class': np.array([1]), 'probabilities': np.array([[0.0, 0.6, 0.4]], np.float32), 'x': np.array([[4.0]])}
    found = average([one, two])
    np.testing.assert_allclose(found['probabilities'], [[0.25, 0.35, 0.4]], rtol=1e-6)
    assert found['probabilities'].dtype == np.float32 and found['x'] == [[2.5]]
    assert found['class'].tolist() == [2] and found['class'].dtype == one['class'].dtype  # The class of neither.
    assert [*found] == [*one]


def test_outputs_with_a_scope_single_examples_and_those_of_canned_estimators_are_averaged():
    one = {'a/class': np.int64(0), 'a/probabilities': np.array([0.7, 0.3])}
    assert average([one, {'a/class': np.int64(1), 'a/probabilities': np.array([0.1, 0.9])}])['a/class'] == 1
    names = np.array([[b'x', b'y']], object)
    canned = {
        'class_ids': np.array([[0]]),
        'classes': np.array([[b'x']], object),
        'all_classes': names,
        'probabilities': np.array([[0.6, 0.4]]),
    }
    found = average([canned, {**canned, 'class_ids': np.array([[1]]), 'probabilities': np.array([[0.1, 0.9]])}])
    assert found['class_ids'].tolist() == [[1]] and found['classes'].tolist() == [[b'y']]
    assert found['all_classes'] is not None and found['all_classes'].tolist() == names.tolist()


def test_a_class_that_is_not_the_one_of_the_largest_probability_is_not_replaced_by_it():
    for one, other in (
        ({'class': np.int64(1), 'probabilities': np.array([0.9])}, {'class': np.int64(0), 'probabilities': np.array([0.2])}),
        ({'class': np.int64(1), 'probabilities': np.float32(0.9)}, {'class': np.int64(0), 'probabilities': np.float32(0.2)}),
        (  # Ratings from 1 on.
            {'class': np.array([2]), 'probabilities': np.array([[0.1, 0.9]])},
            {'class': np.array([1]), 'probabilities': np.array([[0.7, 0.3]])},
        ),
    ):
        assert average([one, one])['class'] == one['class']
        assert failed(average, [one, other]).startswith('the prediction class differs between the folds')
    named = {'class': np.array([b'x'], object), 'probabilities': np.array([[0.1, 0.9]])}
    assert average([named, named])['class'].tolist() == [b'x']
    unknown = {'class': np.array([0]), 'probabilities': np.array([[np.nan, np.nan]])}
    assert average([unknown, {'class': np.array([1]), 'probabilities': np.array([[0.1, 0.9]])}])['class'].shape == (1,)
    tie = {'class': np.array([1]), 'probabilities': np.array([[0.501, 0.5]], np.float32)}  # Of logits that differ little.
    assert average([tie, {**tie, 'probabilities': np.array([[0.2, 0.8]], np.float32)}])['class'] == [1]


def test_what_cannot_be_averaged_is_refused():
    tagged = {'tokens': np.array(['x']), 'tags': np.array(['O']), 'probabilities': np.array([0.5])}
    assert failed(average, [tagged, tagged]).startswith('the tags of tokens are not averaged over folds: ')
    one = {'tokens': np.array([[1, 2]])}
    assert average([one, one])['tokens'].tolist() == [[1, 2]]
    assert failed(average, [one, {'tokens': np.array([[1, 3]])}]).startswith('the prediction tokens differs between the folds')
    assert failed(average, [one, {'tokens': np.array([[1]])}]).startswith('the prediction tokens has different shapes')
    assert failed(average, [one, {'x': np.array([1])}]) == 'the folds have different predictions: tokens; x'


def test_the_class_of_each_target_and_labels_follow_from_their_own_mean_probabilities():
    one = {
        'class_name': np.int64(0),  # Of a target called name.
        'probabilities_name': np.array([0.7, 0.3]),
        'class_ids': np.int64(1),  # Of one called ids.
        'probabilities_ids': np.array([0.2, 0.8]),
        'value_x': np.float32(1),
    }
    two = {**one, 'class_name': np.int64(1), 'probabilities_name': np.array([0.1, 0.9]), 'value_x': np.float32(2)}
    found = average([one, two])
    assert (found['class_name'], found['class_ids'], found['value_x']) == (1, 1, 1.5)
    labels = {'predicted': np.array([[1, 0]]), 'probabilities': np.array([[0.9, 0.4]])}
    other = {'predicted': np.array([[0, 1]]), 'probabilities': np.array([[0.2, 0.6]])}
    assert average([labels, other])['predicted'].tolist() == [[1, 1]]
    assert average([labels, labels])['predicted'].tolist() == [[1, 0]]


def test_the_mean_threshold_decides_the_class_of_the_mean_probabilities():
    one = {
        'class': np.array([1, 0]),
        'probabilities': np.array([[0.7, 0.3], [0.8, 0.2]]),
        'decision_threshold': np.array([0.3, 0.3]),
    }
    two = {
        'class': np.array([0, 0]),
        'probabilities': np.array([[0.8, 0.2], [0.9, 0.1]]),
        'decision_threshold': np.array([0.1, 0.1]),
    }
    found = average([one, two])
    np.testing.assert_allclose(found['decision_threshold'], [0.2, 0.2])
    assert found['class'].tolist() == [1, 0]
    assert average([{name: array[0] for name, array in of.items()} for of in (one, two)])['class'] == 1


def test_folds_that_have_learned_different_classes_of_one_target_are_refused():
    def of_classes(*names):
        targets = [{'key': 'a', 'class_names': ['x', 'y']}, {'key': 'b', 'class_names': names}]
        return SimpleNamespace(params=HParams({}, {'task': 'several', 'targets': targets}))

    check_classes([of_classes('p', 'q'), of_classes('p', 'q')])
    assert failed(check_classes, [of_classes('p', 'q'), of_classes('p', 'r')]).startswith('the folds have different classes')
