"""The area under the ROC curve, against all pairs in NumPy; precision and recall at thresholds, against counts in NumPy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops.auc import auc
from common.ops.pr_curve import pr_curve
from common.training.parallel import make_parallel
from tests.evaluated import CPUS

RANDOM = np.random.RandomState(0)
PROBABILITIES = RANDOM.dirichlet(np.ones(4), size=50).astype(np.float32)
LABELS = RANDOM.randint(0, 4, 50)
THRESHOLDS = np.arange(11) / np.float32(10)


def compute_auc(labels, scores, batch=500):
    """Returns the value after all batches, and that of the last update."""
    with tf.Graph().as_default(), tf.Session() as session:
        label, score = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])
        value, update = auc(label, score)
        session.run(tf.local_variables_initializer())
        for i in range(0, len(labels), batch):
            last = session.run(update, {label: labels[i : i + batch], score: scores[i : i + batch]})
        return session.run(value), last


@pytest.mark.parametrize('shift, spread, tolerance', [(1, 1.5, 2e-5), (0.001, 0.001, 1e-4)])
def test_the_area_is_the_share_of_pairs_in_the_right_order_also_of_scores_that_lie_close_together(shift, spread, tolerance):
    labels = np.random.RandomState(0).randint(0, 2, 3000)
    scores = np.random.RandomState(1).normal(shift * labels, spread).astype(np.float32)
    positive, negative = scores[labels == 1][:, None], scores[labels == 0]
    expected = ((positive > negative) + (positive == negative) / 2).mean()
    value, last = compute_auc(labels, scores)
    assert 0.6 < value < 0.8 and value == last
    assert value == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize(
    'labels, scores, expected',
    [
        ([0, 0, 1, 1], [-2, -1, -0.5, 3], 1),
        ([1, 7, 0, 0], [-2, -1, -0.5, 3], 0),
        ([0, 1, 0, 1], [1, 1, 1, 1], 0.5),
        ([0, 1], [-0.0, 0.0], 0.5),
        ([1, 0], [-0.0, 0.0], 0.5),
        ([0, 1, 1], [-np.inf, np.inf, -1], 1),
        ([0, 1, 0, 1, 1], [-3, -3, 2, 1, 5], 3.5 / 6),
        ([1, 1], [1, 2], np.nan),
    ],
)
def test_areas_worked_out_by_hand(labels, scores, expected):
    found = compute_auc(np.array(labels), np.array(scores, np.float32), batch=2)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def expected_curve():
    """Rows as TensorBoard keeps them: true and false positives, true and false negatives, precision, recall."""
    is_right = np.eye(4, dtype=bool)[LABELS]
    rows = []
    for threshold in THRESHOLDS:
        chosen = PROBABILITIES >= threshold
        right, wrong = (chosen & is_right).sum(), (chosen & ~is_right).sum()
        rows.append([right, wrong, (~chosen & ~is_right).sum(), (~chosen & is_right).sum(), right / max(right + wrong, 1)])
        rows[-1].append(right / 50)
    return np.array(rows).T


@pytest.mark.parametrize('devices', [[], CPUS])
def test_the_pr_curve_is_that_of_all_batches(session, devices):
    labels, probabilities = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None, 4])
    gathered = make_parallel(lambda probabilities: probabilities * 1, devices, probabilities=probabilities)
    value, update = pr_curve(labels, gathered, num_thresholds=11)
    session.run(tf.local_variables_initializer())
    for batch in (slice(0, 20), slice(20, 40), slice(40, 50)):
        session.run(update, {labels: LABELS[batch], probabilities: PROBABILITIES[batch]})
    (found,) = tf.Summary.FromString(session.run(value)).value
    assert found.metadata.plugin_data.plugin_name == 'pr_curves'
    np.testing.assert_allclose(tf.make_ndarray(found.tensor), expected_curve(), rtol=1e-6)


def test_the_pr_curve_of_certain_probabilities_and_of_an_empty_batch(session):
    value, update = pr_curve(tf.constant([0, 1]), tf.constant([[1.0, 0.0], [0.0, 1.0]]), num_thresholds=3)
    empty = pr_curve(tf.zeros([0], tf.int32), tf.zeros([0, 2]))
    session.run(tf.local_variables_initializer())
    assert session.run(update).tolist() == [[2, 0, 0], [0, 0, 2]]
    curve = tf.make_ndarray(tf.Summary.FromString(session.run(value)).value[0].tensor)
    assert curve.tolist() == [[2, 2, 2], [2, 0, 0], [0, 2, 2], [0, 0, 0], [0.5, 1, 1], [1, 1, 1]]
    assert session.run(empty[1]).shape == (2, 101)
    assert not tf.make_ndarray(tf.Summary.FromString(session.run(empty[0])).value[0].tensor).any()
    assert not tf.get_collection(tf.GraphKeys.SUMMARIES)  # The curve is of evaluations alone.
