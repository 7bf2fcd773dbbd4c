"""The model mlp: tables of numbers and categories, classification and regression."""

import numpy as np
import pytest

from models import mlp
from tests.evaluated import evaluate, variable_values
from tests.models.shared import ModeKeys, make_params, train

RANDOM = np.random.RandomState(0)
X = RANDOM.uniform(-1, 1, [200, 2]).astype(np.float32)
IDS = RANDOM.randint(0, 6, [200, 2])


def relu(x):
    return np.maximum(x, 0)


# Without statistics, the target is as it is.
@pytest.mark.parametrize('statistics, mean, std', [({}, 0, 1), ({'target_mean': 10.0, 'target_std': 2.0}, 10, 2)])
def test_the_network_and_its_loss_are_those_of_numpy(statistics, mean, std):
    metadata = {'vocabulary_sizes': {'a b': [6, 7]}, **statistics}
    params = make_params(mlp, 'task=regression,hidden_units=[4],embedding_size=3', metadata)

    def compute(ids, table, scalar, label):
        features = {'a b': ids, 'table': table, 'scalar': scalar}
        predictions, loss = mlp.model(features, {'label': label}, ModeKeys.EVAL, params)
        return predictions['value'], loss

    value, loss = evaluate(compute, IDS[:9], X[:9].reshape(9, 1, 2), X[9:18, 0], X[9:18, 1])
    # Variables in the order of their names: dense/bias, dense/kernel, dense_1/bias, dense_1/kernel, two embeddings.
    shapes = [[4], [9, 4], [1], [4, 1], [6, 3], [7, 3]]
    bias, kernel, bias_1, kernel_1, first, second = [variable_values(i, shape) for i, shape in enumerate(shapes)]
    inputs = np.concatenate([first[IDS[:9, 0]], second[IDS[:9, 1]], X[9:18, :1], X[:9]], 1)
    expected = mean + std * (relu(inputs @ kernel + bias) @ kernel_1 + bias_1)[:, 0]
    np.testing.assert_allclose(value, expected, rtol=1e-4)
    np.testing.assert_allclose(loss, np.square((expected - X[9:18, 1]) / std), rtol=1e-3)


def test_mlp_learns_exclusive_or_of_a_number_and_a_category(tmp_path):
    labels = np.int32((X[:, 0] > 0) ^ (IDS[:, 0] % 2 == 1))
    features, metadata = {'x': X, 'id': IDS[:, 0].astype(np.int64)}, {'vocabulary_sizes': {'id': 6}}
    metrics, predictions = train(tmp_path, mlp, features, {'label': labels}, 150, 'learning_rate=0.01', metadata)
    assert metrics['accuracy'] > 0.98 and metrics['auc'] > 0.99
    assert (predictions['class'] == labels).mean() == pytest.approx(metrics['accuracy'])


def test_mlp_learns_a_regression_with_a_normalized_target(tmp_path):
    target = (1000 + 50 * X[:, 0] * X[:, 1] + 20 * X[:, 1]).astype(np.float32)
    metadata = {'target_mean': float(target.mean()), 'target_std': float(target.std())}
    text = 'task=regression,learning_rate=0.01'
    metrics, predictions = train(tmp_path, mlp, {'x': X}, {'label': target}, 200, text, metadata)
    error = predictions['value'] - target
    assert metrics['rmse'] == pytest.approx(np.sqrt(np.square(error).mean()), rel=1e-3)
    assert metrics['mean_absolute_error'] == pytest.approx(np.abs(error).mean(), rel=1e-3)
    assert metrics['rmse'] < 2 < target.std()
