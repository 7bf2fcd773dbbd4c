"""A network of dilated causal convolutions that forecasts series, from --dataset=series.

    python trainer.py --model=causal_conv --dataset=series --hparams=table_file=sales.csv,time=date,target=sales,group=store

Each block has two convolutions, which see the present and the past only, with twice the dilation of the block before, and adds
its input. (A. van den Oord et al.: WaveNet: A Generative Model for Raw Audio, 2016. S. Bai, J. Z. Kolter, V. Koltun: An
Empirical Evaluation of Generic Convolutional and Recurrent Networks for Sequence Modeling, 2018; without weight normalization.)
"""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, check_range, check_rate, describe
from estimator_trainer.common.ops.layers import dense_stack, dropout
from estimator_trainer.common.ops.targets import target_metrics, target_outputs
from estimator_trainer.common.targets import is_forecast
from estimator_trainer.hparams.build import HParams

OVERRIDABLE_HPARAMS = ('drop_rate',)
INDEPENDENT_EXAMPLES = True


def get_params() -> dict[str, Any]:
    return {
        'filters': 32,
        'kernel_size': 3,  # In rows.
        'num_blocks': 0,  # 0 for as many as see the whole window.
        'hidden_units': [64],  # Of dense layers after the convolutions, with the calendar.
        'drop_rate': 0.0,
    }


def model(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor] | None, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns {'value': float32 [batch, horizon]}, and the mean squared error [batch] in standard deviations of the window.

    `features` is {'past': float32 [batch, window, columns], 'window_scale': float32 [batch, 2]}, and perhaps 'calendar',
    float32 [batch, parts]; `labels` is {'label': float32 [batch, horizon]} or None.
    """
    _check(params, features)
    is_training, net = mode == tf.estimator.ModeKeys.TRAIN, features['past']
    for block in range(params.num_blocks or num_blocks(net.shape[1], params.kernel_size)):
        with tf.variable_scope(f'block_{block}'):
            net = _block(net, 2**block, is_training, params)
    calendar = [features['calendar']] if 'calendar' in features else []
    net = tf.concat([net[:, -1], *calendar], 1)
    return target_outputs(features, labels, dense_stack(net, params.hidden_units, is_training), params)


def num_blocks(window: int, kernel_size: int) -> int:
    """Returns the least number of blocks whose last output depends on the whole window: 1 + 2 (k - 1)(2^blocks - 1) rows."""
    count = 1
    while 1 + 2 * (kernel_size - 1) * (2**count - 1) < window:
        count += 1
    return count


def _block(net, dilation, is_training, params):
    given = net
    for name in ('first', 'second'):
        net = tf.nn.relu(_causal(net, dilation, params, name))
        net = dropout(net, params.drop_rate, is_training)
    if given.shape[2] != net.shape[2]:
        given = tf.layers.dense(given, params.filters, name='width')
    return tf.nn.relu(given + net)


def _causal(net, dilation, params, name):
    """Convolves each row with those of its past, zeros before the first one; float32 [batch, window, filters].

    A product of shifted copies has gradients with any dilation on CPUs, too.
    """
    window, reach = net.shape[1], dilation * (params.kernel_size - 1)
    padded = tf.pad(net, [[0, 0], [reach, 0], [0, 0]])
    shifted = [padded[:, reach - shift : reach - shift + window] for shift in range(reach, -1, -dilation)]
    return tf.layers.dense(tf.concat(shifted, 2), params.filters, name=name)


def _check(params, features):
    check_range(params, 'filters', 1)
    check_range(params, 'kernel_size', 2)
    check_range(params, 'num_blocks', 0)
    check_range(params, 'hidden_units', 1)
    check_rate(params, 'drop_rate')
    if not is_forecast(params.metadata):
        raise UsageError(f'--model=causal_conv forecasts series, but --dataset={params.dataset} has none: use --dataset=series')
    past = features['past']
    if past.shape.rank != 3 or not past.dtype.is_floating or past.shape[1] is None:
        raise UsageError(
            f'--model=causal_conv: the feature past must be float32 [batch, window, columns], not {describe(past)}'
        )


def eval_metrics(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor], predictions: dict[str, tf.Tensor], params: HParams
) -> dict[str, tuple]:
    """Returns mean_absolute_error and rmse, in the units of the target."""
    del features
    return target_metrics(labels, predictions, params)
