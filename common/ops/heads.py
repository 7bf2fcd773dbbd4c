"""Heads of canned Estimators."""

import tensorflow.compat.v1 as tf

from estimator_trainer.hparams.build import HParams


def regression_head(params: HParams, weight_column: str | None = None) -> tf.estimator.Head:
    """Returns a tf.estimator.RegressionHead whose logits are standardized by the metadata 'target_mean' and 'target_std'.

    The loss is the squared error in standard deviations; predictions, float32 [batch, 1], are in the units of the target.

    Args:
      weight_column: the name of the feature with the weights of the examples, float32 [batch], if there are any.
    """
    mean, std = params.metadata.get('target_mean', 0.0), params.metadata.get('target_std', 1.0)

    def loss_fn(labels, logits):
        return tf.math.squared_difference((labels - mean) / std, logits)

    return tf.estimator.RegressionHead(
        weight_column=weight_column, loss_fn=loss_fn, inverse_link_fn=lambda logits: logits * std + mean
    )
