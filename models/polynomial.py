"""Fits y = w_0 x^2 + w_1 x + w_2.

    python trainer.py --model=polynomial --dataset=polynomial

learns [5, 0, 3] to within 0.01 in about 10 seconds. (The first example of the guide Effective TensorFlow.)
"""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.hparams.build import HParams


def get_params() -> dict[str, Any]:
    return {}


def model(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor] | None, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns {'y': float32 [batch]} and the squared error [batch] for the features {'x': float32 [batch]}."""
    del mode, params
    w = tf.get_variable('w', shape=[3, 1])
    x = features['x']
    y = tf.squeeze(tf.matmul(tf.stack([tf.square(x), x, tf.ones_like(x)], 1), w), 1)
    if labels is None:
        return {'y': y}, None
    return {'y': y}, tf.square(y - labels['y'])


def eval_metrics(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor], predictions: dict[str, tf.Tensor], params: HParams
) -> dict[str, tuple]:
    """Returns the mean absolute error and the three weights."""
    del features, params
    metrics = {'mean_absolute_error': tf.metrics.mean_absolute_error(labels['y'], predictions['y'])}
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        w = tf.get_variable('w', shape=[3, 1])
    for i in range(3):
        metrics[f'w_{i}'] = (w[i, 0], w[i, 0])
    return metrics
