"""Steps of float16 with loss scaling: losses and gradients without the scale; steps that overflow, which are skipped."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.replay import written
from estimator_trainer.common.replay.inspection import Inspection
from estimator_trainer.common.replay.written import Replayed
from estimator_trainer.common.training import observed
from estimator_trainer.common.training.minimize import Objective, minimize
from tests.pipeline.pipelines import make_params

SIZE, SCALE, RATE = 4, 2.0**15, 0.1
X = np.float32([[1, 2], [0.5, -1], [3, 0.25], [-2, 1]])
Y = np.float32([1, 2, 3, 4])


def _inspect(*batches):
    """Returns the Inspected of steps that compute the products of x and w in float16; w is [1, 2] at first."""
    with tf.Graph().as_default(), tf.Session() as session:
        fed = [tf.placeholder(tf.float32, [SIZE, 2]), tf.placeholder(tf.float32, [SIZE])]
        w = tf.get_variable('w', initializer=[[1.0], [2.0]])
        y = tf.cast(tf.matmul(tf.cast(fed[0], tf.float16), tf.cast(w, tf.float16)), tf.float32)[:, 0]
        loss = 1e-3 * tf.square(y - fed[1])
        tf.add_to_collection(observed.EXAMPLE_LOSS, loss)
        mean, params = tf.reduce_mean(loss), make_params(optimizer='sgd', weight_decay=0.0, gradient_clip_norm=0.0)
        train = minimize([Objective(mean, [w])], tf.constant(RATE), tf.train.get_or_create_global_step(), params, True)
        spec = types.SimpleNamespace(loss=mean, predictions={}, train_op=train)
        session.run(tf.global_variables_initializer())
        inspection = Inspection(session, {'x': fed[0]}, {'y': fed[1]}, spec, {tensor.ref(): tensor for tensor in fed})
        return [inspection.step([*batch]) for batch in batches]


def test_losses_gradients_and_norms_are_those_without_the_scale():
    (found,) = _inspect((X, Y))
    errors = X @ [1, 2] - Y
    gradient = 2e-3 * X.T @ errors / SIZE
    assert (found.loss_scale, found.is_skipped, found.culprits) == (SCALE, False, None)
    assert found.losses[1] == pytest.approx(1e-3 * np.square(errors).mean(), rel=1e-3)
    assert found.gradients['w'].norm == pytest.approx(np.linalg.norm(gradient), rel=1e-2)
    assert found.updates['w'].norm == pytest.approx(RATE * np.linalg.norm(gradient), rel=1e-2)
    np.testing.assert_allclose(found.gradient_norms, 2e-3 * np.linalg.norm(X * errors[:, None], axis=1), rtol=1e-2)
    assert written.skipped_text(Replayed(1, 1.0, found, [])) == ''


def test_norms_that_float16_would_lose_without_the_scale_are_kept():
    y = X @ [1, 2] + np.float32([1e-4, -2e-4, 1e-4, 3e-4])  # Of gradients of 2e-7, it keeps no digit.
    (found,) = _inspect((X, y))
    expected = 2e-3 * np.float64([1e-4, 2e-4, 1e-4, 3e-4]) * np.linalg.norm(X, axis=1)
    np.testing.assert_allclose(found.gradient_norms, expected, rtol=2e-2)


def test_a_step_that_overflows_is_said_to_be_skipped_and_the_example_named():
    y = Y.copy()
    y[2] = 5e3  # The loss is finite, but not its gradient, 2e-3 * 5e3 / 4, times the scale: beyond 65504.
    found, after = _inspect((X, y), (X, Y))
    assert found.is_skipped and np.isfinite(found.losses[0]) and found.updates['w'].norm == 0
    assert found.culprits.found == [2] and found.culprits.are_all
    text = written.skipped_text(Replayed(1, 1.0, found, []))
    assert text.startswith('The step was skipped, as usual with float16: gradients overflow at the loss scale 32768')
    assert (after.loss_scale, after.is_skipped) == (SCALE / 2, False) and after.updates['w'].norm > 0
