"""Comparison of predictions: differences, metrics and tolerances."""

import itertools

import numpy as np
import pytest

from estimator_trainer.common.export import comparison
from estimator_trainer.common.export.comparison import Comparison, compare

UNKNOWN = itertools.repeat(None)


def batches(*sizes):
    return iter([{'x': np.arange(size, dtype=np.float32)} for size in sizes])


def classes(probabilities):
    array = np.asarray(probabilities, np.float32)
    return lambda batch: {'class': array.argmax(1)[: len(batch['x'])], 'probabilities': array[: len(batch['x'])]}


def test_differences_and_accuracies_are_those_of_numpy():
    before = classes([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.8, 0.2]])
    after = classes([[0.9, 0.1], [0.7, 0.3], [0.3, 0.7], [0.85, 0.15]])
    found = compare('eval', before, after, batches(4), iter([0, 1, 1, 1]))
    assert found.to_json() == {
        'split': 'eval',
        'examples': 4,
        'output': 'probabilities',
        'largest_difference': 0.3,
        'metric': 'accuracy',
        'checkpoint': 0.75,
        'exported': 0.5,
    }
    assert found.differences['class'].different == 1
    assert found.differences['probabilities'].mean == pytest.approx((0.3 + 0.3 + 0.05 + 0.05) / 8)


def test_a_regression_has_the_rmse_and_loses_shares_of_the_labels_deviation():
    labels = np.array([1.0, 2.0, 3.0, 6.0])
    before = lambda batch: {'value': np.float32([1, 2, 3, 5])}  # noqa: E731
    after = lambda batch: {'value': np.float32([1, 2, 3, 4.9])}  # noqa: E731
    found = compare('eval', before, after, batches(4), iter(labels))
    assert (found.metric, found.before) == ('rmse', 0.5) and found.after == pytest.approx(0.55)
    assert found.spread == pytest.approx(np.std(labels))
    lost = 0.05 / np.std(labels)
    assert 0.01 < lost < 0.03  # More than float16 may lose, and less than int8 may.
    assert not found.excess('int8')
    assert "the rmse is 0.55, not 0.5, on 4 examples of eval: more than 0.01 of the labels' standard" in found.excess('float16')


@pytest.mark.parametrize(
    'after, quantize, message',
    [
        ([1, 2, 1000.5], None, ''),
        ([1, 2, 1002], None, 'y differs by 2 at most on 3 examples of eval, more than 0.001 of its largest value, 1e+03'),
        ([1, 2, np.nan], None, 'y differs by inf at most'),
        ([1, 2, 1020], 'float16', ''),
        ([1, 2, 1050], 'float16', 'y differs by 16.7 on average'),
        ([1, 2, 1050], 'int8', ''),
        ([1, 2, np.inf], 'int8', 'y differs by inf on average'),
    ],
)
def test_without_labels_the_differences_decide(after, quantize, message):
    call = lambda values: lambda batch: {'y': np.array(values)}  # noqa: E731
    found = compare('eval', call([1.0, 2.0, 1000.0]), call(after), batches(3), UNKNOWN)
    assert found.metric is None and found.excess(quantize).startswith(message) and bool(message) == bool(found.excess(quantize))


@pytest.mark.parametrize(
    'labels, prediction', [([0, 1, 1], {'class': [1, 1, 1]}), ([2.5, 3.0, 3.5], {'value': [1.0, 2.0, 3.0]})]
)
def test_a_quantized_output_that_is_not_finite_is_refused_though_the_metric_is_kept(labels, prediction):
    def call(last):
        values = {name: np.array(value) for name, value in prediction.items()}
        return lambda batch: {**values, 'logits': np.array([1.0, 2.0, last])}

    assert not compare('eval', call(3.0), call(3.5), batches(3), iter(labels)).excess('int8')
    found = compare('eval', call(3.0), call(np.nan), batches(3), iter(labels))
    assert found.metric and found.before == found.after
    assert found.excess('int8') == 'logits differs in values that are not finite on 3 examples of eval'


def test_if_all_labels_are_the_same_number_the_differences_decide():
    call = lambda value: lambda batch: {'value': np.array([0.1, 0.2, value])}  # noqa: E731
    found = compare('eval', call(0.3), call(0.3001), batches(3), iter([0.1] * 3))
    assert found.metric is None and not found.excess('int8')
    assert 'value differs by 0.1 on average' in compare('eval', call(0.3), call(0.6), batches(3), iter([0.1] * 3)).excess(
        'int8'
    )


def test_classes_may_differ_where_they_are_almost_even():
    def found(different, examples):
        wanted = np.zeros(examples, int)
        changed = np.where(np.arange(examples) < different, 1, 0)
        call = lambda values: lambda batch: {'class': values}  # noqa: E731
        return compare('eval', call(wanted), call(changed), batches(examples), UNKNOWN).excess(None)

    assert [found(*counts) for counts in ((1, 20), (10, 1000))] == ['', '']
    assert found(2, 20) == 'class differs in 2 of 20 examples of eval'
    assert found(11, 1000) == 'class differs in 11 of 1000 examples of eval'


def test_pixels_of_masks_may_differ_where_they_are_almost_even():
    def found(different):
        changed = np.zeros([20, 10, 10], int)
        changed[:, 0, :different] = 1
        call = lambda values: lambda batch: {'class': values}  # noqa: E731
        return compare('eval', call(np.zeros([20, 10, 10], int)), call(changed), batches(20), UNKNOWN).excess(None)

    assert not found(4)  # Of 100 pixels in each of 20 masks: less than a whole mask.
    assert found(6) == 'class differs in 1.2 of 20 examples of eval'


def test_one_example_may_be_lost_of_few():
    facts = dict(split='eval', examples=20, differences={}, metric='accuracy', before=1.0)
    assert not Comparison(**facts, after=0.95).excess('int8')
    assert 'the accuracy is 0.9, not 1, on 20 examples' in Comparison(**facts, after=0.9).excess('int8')


def test_equal_values_that_are_not_finite_do_not_differ():
    before, after = np.array([np.nan, np.inf, np.nan, 1.0, np.inf]), np.array([np.nan, np.inf, 1.0, 1.5, -np.inf])
    assert comparison.difference(before, after).tolist() == [0, 0, np.inf, 0.5, np.inf]
    assert comparison.magnitude(np.array([np.nan, -3.0, np.inf])) == 3


def test_no_more_than_the_first_examples_are_compared(monkeypatch):
    monkeypatch.setattr(comparison, 'MAX_EXAMPLES', 5)
    call = lambda batch: {'y': batch['x']}  # noqa: E731
    assert compare('eval', call, call, batches(3, 3, 3), UNKNOWN).examples == 5
    with pytest.raises(ValueError, match='no examples'):
        compare('eval', call, call, batches(0), UNKNOWN)
    with pytest.raises(ValueError, match=r'y has the shape \[3, 1\], not \[3\]'):
        compare('eval', call, lambda batch: {'y': batch['x'][:, None]}, batches(3), UNKNOWN)
