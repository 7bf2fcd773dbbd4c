"""Weights of examples and of classes in the loss."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from tests.linear import X, make_estimator

LABELS = np.arange(10) % 3
WEIGHTS = np.linspace(0, 2, 10).astype(np.float32)
CLASS_WEIGHTS = np.array([0.5, 1.0, 4.0])


def classifier(features, labels, mode, params):
    w = tf.get_variable('w', initializer=[[1.0, 2.0, 0.5], [0.0, -1.0, 1.0]])
    logits = tf.matmul(features['x'], w)
    if labels is None:
        return {'logits': logits}, None
    return {'logits': logits}, tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels['label'], logits=logits)


def input_fn(**labels):
    return lambda: tf.data.Dataset.from_tensors(({'x': X}, {'label': LABELS, **labels})).repeat()


def train(tmp_path, towers=0, text='', **labels):
    model = types.SimpleNamespace(model=classifier)
    estimator = make_estimator(tmp_path, towers, model, text)
    estimator.train(input_fn(**labels), max_steps=3)
    return estimator


def expected(weights, steps=3, rate=0.1):
    """Returns the weights and the loss of the same training in NumPy; the mean is over the number of examples."""
    w = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 1.0]])
    for _ in range(steps):
        p = np.exp(X @ w) / np.exp(X @ w).sum(1, keepdims=True)
        w = w - rate * X.T @ (weights[:, None] * (p - np.eye(3)[LABELS])) / 10
    p = np.exp(X @ w) / np.exp(X @ w).sum(1, keepdims=True)
    return w, np.mean(weights * -np.log(p[range(10), LABELS]))


@pytest.mark.parametrize('towers', [0, 2, 3])
@pytest.mark.parametrize(
    'text, labels, weights',
    [
        ('', {'weight': WEIGHTS}, WEIGHTS),
        (',class_weights=[0.5,1,4]', {}, CLASS_WEIGHTS[LABELS]),
        (',class_weights=[0.5,1,4]', {'weight': WEIGHTS}, WEIGHTS * CLASS_WEIGHTS[LABELS]),
        (',class_weights=[3]', {}, np.full(10, 3.0)),
    ],
    ids=['examples', 'classes', 'both', 'one for all'],
)
def test_weights_multiply_the_losses_exactly_whatever_the_towers(tmp_path, towers, text, labels, weights):
    estimator = train(tmp_path, towers, text, **labels)
    w, loss = expected(weights)
    np.testing.assert_allclose(estimator.get_variable_value('w'), w, rtol=1e-4)
    assert estimator.evaluate(input_fn(**labels), steps=1)['loss'] == pytest.approx(loss, rel=1e-4)


@pytest.mark.parametrize(
    'text, labels, message',
    [
        (',class_weights=[1,-2]', {}, r'class_weights=\[1.0, -2.0\] must be at least 0'),
        (',class_weights=[0,0,0]', {}, 'class_weights are all 0'),
        ('', {'weight': X}, 'the label weight must be of shape .batch., not'),
    ],
)
def test_wrong_weights_are_reported(tmp_path, text, labels, message):
    with pytest.raises(UsageError, match=message):
        train(tmp_path, 0, text, **labels)


def test_class_weights_need_classes(tmp_path):
    estimator = make_estimator(tmp_path, text=',class_weights=[1,2,3]')
    with pytest.raises(UsageError, match='class_weights: --dataset=d has no classes: no label named label, int'):
        estimator.train(lambda: tf.data.Dataset.from_tensors(({'x': X}, {'y': X[:, 0]})).repeat(), max_steps=1)
