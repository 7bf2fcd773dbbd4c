"""The convolutions of causal_conv are those of NumPy, see the past only, and as much of it as they should."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.models import causal_conv, mlp
from tests.evaluated import evaluate
from tests.models.shared import ModeKeys, make_params, train

FORECAST = {'task': 'forecast', 'horizon': 2}
SMALL = 'filters=3,kernel_size=2,num_blocks=2,hidden_units=[4]'
RANDOM = np.random.RandomState(0)
PAST = RANDOM.normal(size=[5, 6, 2]).astype(np.float32)
SCALE = np.array([[10 + i, 1 + i] for i in range(5)], np.float32)


def convolve(net, kernel, bias, dilation):
    """A convolution over two rows by loops; rows before the first one are 0."""
    rows = [np.concatenate([net[t - dilation] if t >= dilation else np.zeros_like(net[0]), net[t]]) for t in range(len(net))]
    return np.maximum(np.stack(rows) @ kernel + bias, 0)


def in_numpy(past, scale, v):
    net = past
    for block, dilation in enumerate((1, 2)):
        given, name = net, f'block_{block}'
        for part in ('first', 'second'):
            net = convolve(net, v[f'{name}/{part}/kernel'], v[f'{name}/{part}/bias'], dilation)
        if not block:
            given = given @ v['block_0/width/kernel'] + v['block_0/width/bias']
        net = np.maximum(net + given, 0)
    hidden = np.maximum(net[-1] @ v['dense/kernel'] + v['dense/bias'], 0)
    return (hidden @ v['dense_1/kernel'] + v['dense_1/bias']) * scale[1] + scale[0]


def test_the_network_is_that_of_numpy(session):
    params = make_params(causal_conv, SMALL, FORECAST)
    features = {'past': tf.constant(PAST), 'window_scale': tf.constant(SCALE)}
    found, _ = causal_conv.model(features, None, ModeKeys.PREDICT, params)
    variables = {variable.op.name: RANDOM.normal(size=variable.shape) for variable in tf.global_variables()}
    for variable in tf.global_variables():
        variable.load(variables[variable.op.name], session)
    expected = [in_numpy(past, scale, variables) for past, scale in zip(PAST, SCALE)]
    np.testing.assert_allclose(session.run(found['value']), expected, rtol=1e-4)


@pytest.mark.parametrize(
    'window, kernel_size, blocks', [(1, 2, 1), (3, 2, 1), (4, 2, 2), (7, 2, 2), (8, 2, 3), (5, 3, 1), (13, 3, 2)]
)
def test_as_many_blocks_as_see_the_whole_window(window, kernel_size, blocks):
    assert causal_conv.num_blocks(window, kernel_size) == blocks
    for count in {blocks, max(blocks - 1, 1)}:
        with tf.Graph().as_default(), tf.Session() as session:
            params = make_params(causal_conv, f'kernel_size={kernel_size},num_blocks={count},filters=4', FORECAST)
            past = tf.constant(np.ones([1, window, 1], np.float32))
            features = {'past': past, 'window_scale': tf.constant([[0.0, 1.0]])}
            value = causal_conv.model(features, None, ModeKeys.PREDICT, params)[0]['value']
            session.run(tf.global_variables_initializer())
            for variable in tf.trainable_variables():
                variable.load(np.full(variable.shape, 0.1), session)
            gradient = session.run(tf.gradients(value, past)[0])[0, :, 0]
        assert (gradient[0] != 0) == (count == blocks)


def test_towers_and_any_batch_have_the_same_loss_in_deviations_of_the_window():
    labels = RANDOM.normal(size=[5, 2]).astype(np.float32)

    def build(past, scale, label):
        params = make_params(causal_conv, SMALL, FORECAST)
        features = {'past': past, 'window_scale': scale}
        predictions, loss = causal_conv.model(features, {'label': label}, ModeKeys.EVAL, params)
        return predictions['value'], loss

    value, loss = evaluate(build, PAST, SCALE, labels)
    np.testing.assert_allclose(loss, np.mean(((value - labels) / SCALE[:, 1:]) ** 2, axis=1), rtol=1e-4)


@pytest.mark.parametrize('model', [mlp, causal_conv])
def test_models_learn_a_season_in_the_units_of_the_series(tmp_path, model):
    series = 1000 + 50 * np.tile([0, 1, 3, -2], 30).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(series, 8)
    past, label = windows[:, :6], windows[:, 6:]
    scale = np.stack([past.mean(1), past.std(1)], 1)
    features = {'past': ((past - scale[:, :1]) / scale[:, 1:])[:, :, None], 'window_scale': scale}
    baselines = np.stack([past[:, -1:] * np.ones([1, 2]), windows[:, 2:4]], 1)
    text = 'learning_rate=0.01,' + ('filters=8' if model is causal_conv else 'hidden_units=[16],task=forecast')
    metrics, found = train(
        tmp_path, model, features, {'label': label, 'baselines': baselines.astype(np.float32)}, 200, text, FORECAST
    )
    assert found['value'].shape == label.shape
    assert metrics['rmse'] == pytest.approx(np.sqrt(np.mean((found['value'] - label) ** 2)), rel=1e-4)
    assert metrics['rmse'] < 20 < metrics['rmse_last_value'] and metrics['rmse_last_season'] == 0
