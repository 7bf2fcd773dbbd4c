"""The ends of models with several targets, compared with NumPy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.ops.targets import loss_weights, target_metrics, target_outputs
from estimator_trainer.hparams.build import HParams
from tests.evaluated import evaluate, variable_values

KIND = {'name': 'kind', 'key': 'kind', 'task': 'classification', 'num_classes': 3, 'class_names': ['a', 'b', 'c']}
PRICE = {'name': 'the price', 'key': 'price', 'task': 'regression', 'target_mean': 10.0, 'target_std': 2.0}
NET = np.random.RandomState(0).normal(size=[7, 4]).astype(np.float32)


def make_params(targets, task='several', **params):
    return HParams({'dataset': 'd', 'loss_weights': [1.0], **params}, {'task': task, 'targets': targets})


def test_each_target_has_a_head_a_loss_and_its_weight():
    params = make_params([KIND, PRICE], loss_weights={'the price': 3})
    kind, price = np.int32(np.arange(7) % 3), np.float32(np.arange(7))

    def outputs(net, kind, price):
        predictions, losses = target_outputs({}, {'label_kind': kind, 'label_price': price}, net, params)
        return predictions | {f'loss_{key}': loss for key, loss in losses.items()}

    found = evaluate(outputs, NET, kind, price)
    bias, kernel, number_bias, number_kernel = (variable_values(i, shape) for i, shape in enumerate([[3], [4, 3], [1], [4, 1]]))
    logits = NET @ kernel + bias
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    output = (NET @ number_kernel + number_bias)[:, 0]
    np.testing.assert_allclose(found['probabilities_kind'], probabilities, rtol=1e-5)
    np.testing.assert_array_equal(found['class_kind'], logits.argmax(1))
    np.testing.assert_allclose(found['value_price'], 10 + 2 * output, rtol=1e-5)
    np.testing.assert_allclose(found['loss_kind'], -np.log(probabilities[np.arange(7), kind]), rtol=1e-4)
    np.testing.assert_allclose(found['loss_price'], 3 * (output - (price - 10) / 2) ** 2, rtol=1e-4)


@pytest.mark.parametrize('weights', [[1.0, 1.0], [2.0, 0.5]])
def test_labels_have_sigmoids_and_the_mean_of_their_cross_entropies(weights):
    names = [{'name': name, 'key': name, 'task': 'classification'} for name in 'ab']
    params = make_params(names, 'multilabel', loss_weights=weights)
    labels = np.int32(np.random.RandomState(1).randint(0, 2, [7, 2]))

    def outputs(net, labels):
        predictions, loss = target_outputs({}, {'label': labels}, net, params)
        return {**predictions, 'loss': loss}

    found = evaluate(outputs, NET, labels)
    logits = NET @ variable_values(1, [4, 2]) + variable_values(0, [2])
    p = 1 / (1 + np.exp(-logits))
    losses = -np.where(labels, np.log(p), np.log(1 - p))
    np.testing.assert_allclose(found['probabilities'], p, rtol=1e-5)
    np.testing.assert_array_equal(found['predicted'], p >= 0.5)
    np.testing.assert_allclose(found['loss'], (losses * weights).mean(1), rtol=1e-4)


def test_forecasts_are_scaled_in_float32_whatever_the_precision():
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 = RewriterConfig.ON
    params = HParams({'dataset': 'd'}, {'task': 'forecast', 'horizon': 3})
    scale, label = np.tile(np.float32([[10_000, 1]]), [7, 1]), np.float32(10_000 + NET[:, :3])
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        tf.set_random_seed(1)  # Where a loss is near 0, its relative error is not.
        net, window, labels = (tf.placeholder(tf.float32, [None, array.shape[1]]) for array in (NET, scale, label))
        predictions, loss = target_outputs({'window_scale': window}, {'label': labels}, net, params)
        session.run(tf.global_variables_initializer())
        (kernel, bias), feed = session.run(tf.trainable_variables()), {net: NET, window: scale, labels: label}
        value, found = session.run([predictions['value'] + 0, loss + 0], feed)
    output = NET @ kernel + bias
    np.testing.assert_allclose(value - 10_000, output, atol=0.05)  # Bfloat16 would round 10,000 to a multiple of 64.
    np.testing.assert_allclose(found, np.mean((output - NET[:, :3]) ** 2, 1), rtol=0.05)


def test_metrics_are_named_by_target():
    labels = {'label_kind': np.array([0, 1, 2, 1]), 'label_price': np.array([1.0, 2.0, 3.0, 4.0], np.float32)}
    predictions = {'class_kind': np.array([0, 1, 1, 1]), 'value_price': np.array([1.0, 2.0, 3.0, 6.0], np.float32)}
    predictions['probabilities_kind'] = np.eye(3, dtype=np.float32)[predictions['class_kind']]
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = ({name: tf.constant(value) for name, value in part.items()} for part in (labels, predictions))
        metrics = target_metrics(*tensors, make_params([KIND, PRICE]))
        session.run(tf.local_variables_initializer())
        session.run([update for _, update in metrics.values()])
        found = session.run({name: metrics[name][0] for name in ('accuracy_kind', 'mean_absolute_error_price', 'rmse_price')})
    assert found == pytest.approx({'accuracy_kind': 0.75, 'mean_absolute_error_price': 0.5, 'rmse_price': 1.0})


def test_the_errors_of_numbers_are_means_over_the_weights_of_examples():
    params = HParams({'dataset': 'd', 'task': 'regression'}, {'task': 'regression', 'target_mean': 0.0, 'target_std': 1.0})
    with tf.Graph().as_default(), tf.Session() as session:
        labels = {'label': tf.constant([0.0, 10.0]), 'weight': tf.constant([3.0, 1.0])}
        metrics = target_metrics(labels, {'value': tf.constant([1.0, 10.0])}, params)
        session.run(tf.local_variables_initializer())
        found = session.run({name: update for name, (_, update) in metrics.items()})
    assert found == pytest.approx({'mean_absolute_error': 3 / 4, 'rmse': (3 / 4) ** 0.5})


def test_wrong_loss_weights_are_refused():
    for weights, message in (
        ([1.0, 2.0, 3.0], 'loss_weights has 3 weights, but --dataset=d has 2 targets, kind, the price'),
        ({'knd': 2}, 'there is no target knd, did you mean kind'),
        ([0.0, 0.0], 'loss_weights are all 0'),
    ):
        with pytest.raises(UsageError, match=message):
            loss_weights(make_params([KIND, PRICE], loss_weights=weights))
    assert loss_weights(make_params([KIND, PRICE], loss_weights=[2.0])) == [2, 2]
    for weights, message in (
        ([1.0, 2.0], '--dataset=d has one target'),
        ({'price': 2}, 'is for several targets, but --dataset=d has one'),
    ):
        with pytest.raises(UsageError, match=message):
            loss_weights(HParams({'dataset': 'd', 'loss_weights': weights}, {}))
