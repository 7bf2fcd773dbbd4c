"""The area under the ROC curve, against all pairs in NumPy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops.auc import auc


def compute(labels, scores, batch=7):
    """Returns the value after all batches, and that of the last update."""
    with tf.Graph().as_default(), tf.Session() as session:
        label, score = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])
        value, update = auc(label, score)
        session.run(tf.local_variables_initializer())
        for i in range(0, len(labels), batch):
            last = session.run(update, {label: labels[i : i + batch], score: scores[i : i + batch]})
        return session.run(value), last


def area_of_pairs(labels, scores):
    positive, negative = scores[labels == 1][:, None], scores[labels == 0]
    return ((positive > negative) + (positive == negative) / 2).mean()


def test_the_area_is_the_share_of_pairs_in_the_right_order():
    labels = np.random.RandomState(0).randint(0, 2, 3000)
    scores = np.random.RandomState(1).normal(labels, 1.5).astype(np.float32)
    value, last = compute(labels, scores, batch=500)
    assert 0.6 < value < 0.8 and value == last
    assert value == pytest.approx(area_of_pairs(labels, scores), abs=2e-5)


def test_scores_that_lie_close_together_are_told_apart():
    labels = np.random.RandomState(0).randint(0, 2, 3000)
    scores = np.random.RandomState(1).normal(0.001 * labels, 0.001).astype(np.float32)
    assert compute(labels, scores, batch=500)[0] == pytest.approx(area_of_pairs(labels, scores), abs=1e-4)


@pytest.mark.parametrize(
    'labels, scores, expected',
    [
        ([0, 0, 1, 1], [-2, -1, -0.5, 3], 1),
        ([1, 1, 0, 0], [-2, -1, -0.5, 3], 0),
        ([0, 1, 0, 1], [1, 1, 1, 1], 0.5),
        ([0, 1], [-0.0, 0.0], 0.5),
        ([1, 0], [-0.0, 0.0], 0.5),
        ([0, 1, 1], [-np.inf, np.inf, -1], 1),
        ([0, 1, 0, 1, 1], [-3, -3, 2, 1, 5], 3.5 / 6),
        ([1, 1], [1, 2], np.nan),
    ],
)
def test_areas_worked_out_by_hand(labels, scores, expected):
    found = compute(np.array(labels), np.array(scores, np.float32), batch=2)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
