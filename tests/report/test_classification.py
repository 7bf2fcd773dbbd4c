"""Figures about a classifier, calculated by hand."""

import math

import numpy as np
import pytest

from estimator_trainer.common.report import classification
from estimator_trainer.common.report.predicted import Predicted

LABELS, CLASSES = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 0, 0])


def predicted(labels, classes, probabilities=None):
    return Predicted(len(labels), np.arange(len(labels)), labels, classes, None, probabilities, 0.0, 'log loss', [])


def test_the_confusion_matrix_has_a_row_per_label():
    cells = classification.matrix(LABELS, CLASSES, 4)
    assert [[cell.examples for cell in row] for row in cells] == [[2, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert cells[0][1] == (1, pytest.approx(1 / 3)) and cells[2][0] == (1, 1.0) and cells[3][3] == (0, 0.0)


def test_precision_recall_and_f1_by_class():
    rows = classification.by_class(LABELS, CLASSES, 'abcd')
    assert rows[0] == ('a', 3, 0.5, pytest.approx(2 / 3), pytest.approx(4 / 7))
    assert rows[1] == ('b', 2, 0.5, 0.5, 0.5)
    assert rows[2][1] == 1 and math.isnan(rows[2].precision) and rows[2].recall == 0 and rows[2].f1 == 0
    assert rows[3].support == 0 and math.isnan(rows[3].recall) and math.isnan(rows[3].f1)


def test_confusions_are_the_mistakes_by_frequency():
    labels, classes = np.array([0, 1, 2, 1, 2, 1, 0, 1, 2]), np.array([1, 0, 1, 0, 1, 0, 0, 1, 2])
    assert classification.confusions(labels, classes, 'abc') == [('b', 'a', 3), ('c', 'b', 2), ('a', 'b', 1)]
    assert classification.confusions(labels, labels, 'abc') == []


def test_of_two_classes_both_thresholds_are_described():
    labels, scores = np.array([1, 1, 0, 0, 0]), np.array([0.7, 0.3, 0.6, 0.2, 0.1])
    found = predicted(labels, np.array([1, 0, 1, 0, 0]), np.stack([1 - scores, scores], 1))
    assert classification.figures(found, ['no', 'yes'])['text'].endswith(
        ' Of yes, at a probability of 0.5 precision is 0.5, recall 0.5 and F1 0.5; from 0.3 on, the best threshold here, '
        'precision is 0.6667, recall 1 and F1 0.8.'
    )


def test_a_decision_threshold_has_its_own_figures():
    labels, scores = np.array([1, 1, 0, 0, 0]), np.array([0.7, 0.3, 0.6, 0.2, 0.1])
    found = predicted(labels, np.array([1, 1, 1, 1, 0]), np.stack([1 - scores, scores], 1))
    figures = classification.figures(found, ['no', 'yes'], 0.2)
    text = figures['text']
    assert text.startswith('60.0 % of 5 examples are predicted correctly')
    assert (
        'from 0.2 on, the decision_threshold of these predictions, precision is 0.5, recall 1 and F1 0.6667; from 0.3' in text
    )
    # Of confidence in the more probable class: 0.7, right for one of two; 0.6, wrong; 0.8 and 0.9, right.
    assert 'Expected calibration error: 26.0 %.' in figures['charts'][1].text  # (2 * 0.2 + 0.6 + 0.2 + 0.1) / 5.


def test_the_precision_recall_curve_treats_equal_scores_alike():
    # Sorted: 0.9 (+), 0.8 (-), 0.5 (+ and -), 0.1 (-).
    is_positive, scores = np.array([True, False, True, False, False]), np.array([0.5, 0.5, 0.9, 0.8, 0.1])
    recall, precision = classification.pr_points(is_positive, scores)
    assert recall.tolist() == [0.5, 0.5, 1, 1] and precision.tolist() == [1, 0.5, 0.5, 0.4]
    assert classification.average_precision(recall, precision) == 0.5 * 1 + 0.5 * 0.5


def test_the_curve_of_two_classes_is_that_of_the_second_and_of_more_those_of_the_lowest():
    labels = np.array([0, 1, 1])
    chart = classification.precision_recall(labels, np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]], np.float32), ['no', 'yes'])
    assert [path.name for path in chart.paths] == ['yes'] and 'Average precision: 1 for yes.' in chart.text
    labels, probabilities = np.arange(5), np.eye(5, dtype=np.float32)
    probabilities[4], probabilities[0] = [0.9, 0, 0, 0, 0.1], [0.5, 0, 0, 0, 0.5]  # Wrong comes first for a and e.
    chart = classification.precision_recall(labels, probabilities, 'abcde')
    assert [path.name for path in chart.paths] == [
        'a',
        'e',
        'b',
    ] and '0.5 for a, 0.5 for e, 1 for b. Of 5 classes, those with the lowest are shown.' in chart.text
    assert classification.precision_recall(np.zeros(2, int), np.array([[0.9, 0.1]] * 2), ['no', 'yes']).text.count('unknown')


def test_calibration_compares_confidence_with_what_is_right():
    # Interval [0.5, 0.6): mean confidence 0.55, half is right; [0.9, 1]: 0.95, half is right.
    chart = classification.calibration(np.array([True, False, True, False]), np.array([0.5, 0.59999, 0.9, 1.0]))
    assert 'Mean confidence 75.0 %, 50.0 % correct: too confident by 25.0 % on average.' in chart.text
    assert 'Expected calibration error: 25.0 %.' in chart.text  # (0.05 + 0.45) / 2.
    assert chart.paths[1].dots.count('M') == 2


def test_the_text_says_what_a_constant_answer_would_reach():
    figures = classification.figures(predicted(LABELS, CLASSES), ['a', 'b', 'c'])
    assert figures['text'] == (
        '50.0 % of 6 examples are predicted correctly; always predicting a, the most frequent class, would be correct for '
        '50.0 %. The most frequent mistake, once: a is taken for b.'
    )
    assert figures['charts'] == [] and len(figures['matrix']) == 3
    assert len(classification.figures(predicted(LABELS, CLASSES), 'abcde')['matrix']) == 5  # Also those that do not occur.


def test_with_many_classes_the_worst_are_shown():
    labels = np.arange(100)
    classes = np.where(labels < 60, labels, 0)
    figures = classification.figures(predicted(labels, classes), None)
    assert figures['matrix'] is None and len(figures['classes']) == 30 and figures['omitted'] == 70
    assert figures['classes'][0].f1 == 0 and {row.name for row in figures['classes']} <= {str(i) for i in range(60, 100)}
    assert len(figures['confusions']) == 10


def test_of_huge_numbers_of_classes_only_those_that_occur_count():
    figures = classification.figures(predicted(np.array([7, 10**9, 10**9]), np.array([7, 10**9, 7])), None)
    assert figures['classes'] == [('7', 1, 0.5, 1.0, pytest.approx(2 / 3)), ('1000000000', 2, 1.0, 0.5, pytest.approx(2 / 3))]
    assert figures['matrix'] is None and figures['confusions'] == [('1000000000', '7', 1)]
