"""The Fréchet distance and the entropy of classes over an evaluation, compared with NumPy and hand calculations."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.sample_metrics import class_entropy, frechet_distance

RANDOM = np.random.RandomState(0)
REAL = RANDOM.normal(size=[50, 4]) @ RANDOM.normal(size=[4, 4])
GENERATED = RANDOM.normal(size=[30, 4]) @ RANDOM.normal(size=[4, 4]) + 1


def compute(session, real, generated, batches=2):
    """Returns the distance after batches of different sizes, and the last value of the update."""
    inputs = [tf.placeholder(tf.float32, [None, real.shape[1]]) for _ in range(2)]
    value, update = frechet_distance(*inputs)
    session.run(tf.local_variables_initializer())
    for parts in zip(
        *(np.array_split(examples, [len(examples) // 3 * i for i in range(1, batches)]) for examples in (real, generated))
    ):
        last = session.run(update, dict(zip(inputs, parts)))
    return session.run(value), last


def by_numpy(real, generated):
    first, second = np.cov(real, rowvar=False), np.cov(generated, rowvar=False)
    roots = np.sqrt(np.maximum(np.linalg.eigvals(first @ second).real, 0))
    return np.square(real.mean(0) - generated.mean(0)).sum() + np.trace(first + second) - 2 * roots.sum()


def test_the_frechet_distance_is_that_of_the_moments_of_all_batches(session):
    value, last = compute(session, REAL, GENERATED, batches=3)
    assert value == pytest.approx(by_numpy(REAL, GENERATED), rel=1e-4) and value > 1 and last == 30


@pytest.mark.parametrize(
    'real, generated, expected',
    [
        ([[1], [3]], [[4], [10]], 25 + 8),  # Means 2 and 7, deviations sqrt(2) and sqrt(18).
        ([[0, 5], [2, 5]], [[0, 5], [2, 5]], 0),  # A unit that never changes.
        ([[1, 0], [-1, 0], [0, 2], [0, -2]], [[2, 0], [-2, 0], [0, 1], [0, -1]], 4 / 3),  # (sqrt(8/3) - sqrt(2/3))^2, twice.
        ([[1]], [[1]], np.nan),
        ([[1, 2], [3, 5]], [[1, 2]], np.nan),
        ([[1, 2], [3, np.nan]], [[1, 2], [2, 2]], np.nan),
    ],
)
def test_frechet_distances_worked_out_by_hand(session, real, generated, expected):
    found, _ = compute(session, np.array(real), np.array(generated), batches=1)
    assert found == pytest.approx(expected, abs=1e-6, nan_ok=True)


def test_the_entropy_is_that_of_the_shares_of_all_batches(session):
    classes = tf.placeholder(tf.int64, [None])
    value, update = class_entropy(classes, 4)
    session.run(tf.local_variables_initializer())
    assert session.run(update, {classes: [1, 1, 1]}).tolist() == [0, 3, 0, 0] and session.run(value) == 0
    assert session.run(update, {classes: [0, 2, 3]}).tolist() == [1, 3, 1, 1]
    assert session.run(value) == pytest.approx(np.log(2) / 2 + np.log(6) / 2)
