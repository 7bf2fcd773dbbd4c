"""Precision and recall at thresholds, against counts in NumPy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops.pr_curve import pr_curve
from common.training.parallel import make_parallel
from tests.evaluated import CPUS

RANDOM = np.random.RandomState(0)
PROBABILITIES = RANDOM.dirichlet(np.ones(4), size=50).astype(np.float32)
LABELS = RANDOM.randint(0, 4, 50)
THRESHOLDS = np.arange(11) / np.float32(10)


def expected():
    """Rows as TensorBoard keeps them: true and false positives, true and false negatives, precision, recall."""
    is_right = np.eye(4, dtype=bool)[LABELS]
    rows = []
    for threshold in THRESHOLDS:
        chosen = PROBABILITIES >= threshold
        counts = [
            (chosen & is_right).sum(),
            (chosen & ~is_right).sum(),
            (~chosen & ~is_right).sum(),
            (~chosen & is_right).sum(),
        ]
        rows.append([*counts, counts[0] / max(counts[0] + counts[1], 1), counts[0] / 50])
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
    np.testing.assert_allclose(tf.make_ndarray(found.tensor), expected(), rtol=1e-6)


def test_the_pr_curve_of_certain_probabilities_and_of_an_empty_batch(session):
    value, update = pr_curve(tf.constant([0, 1]), tf.constant([[1.0, 0.0], [0.0, 1.0]]), num_thresholds=3)
    empty = pr_curve(tf.zeros([0], tf.int32), tf.zeros([0, 2]), num_thresholds=3)
    session.run(tf.local_variables_initializer())
    assert session.run(update).tolist() == [[2, 0, 0], [0, 0, 2]]
    curve = tf.make_ndarray(tf.Summary.FromString(session.run(value)).value[0].tensor)
    assert curve.tolist() == [[2, 2, 2], [2, 0, 0], [0, 2, 2], [0, 0, 0], [0.5, 1, 1], [1, 1, 1]]
    session.run(empty[1])
    assert not tf.make_ndarray(tf.Summary.FromString(session.run(empty[0])).value[0].tensor).any()


def test_the_curve_is_of_evaluations_alone(session):
    pr_curve(tf.constant([0]), tf.constant([[1.0, 0.0]]))
    assert not tf.get_collection(tf.GraphKeys.SUMMARIES)
