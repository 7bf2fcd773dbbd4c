"""A linear model for tables and texts: a canned Estimator, tf.estimator.LinearClassifier, or one for regression.

    python trainer.py --model=linear --dataset=table --hparams=table_file=people.csv,target=income

Each number has a weight, each category and each token another. Ftrl with an L1 penalty sets weights to exactly 0.
(H. B. McMahan et al.: Ad Click Prediction: a View from the Trenches, 2013.)
"""

from typing import Any

import tensorflow.compat.v1 as tf

import estimator_trainer
from estimator_trainer.common.ops.heads import regression_head
from estimator_trainer.hparams.build import HParams


def get_params() -> dict[str, Any]:
    return {
        'task': 'classification',  # Or regression.
        'num_classes': 2,
        'learning_rate': 0.1,
        'ftrl_l1': 0.0,
        'ftrl_l2': 0.0,
    }


def estimator(config: tf.estimator.RunConfig, params: HParams) -> tf.estimator.Estimator:
    """Returns the Estimator, whose inputs are the dataset's feature columns."""
    columns = estimator_trainer.feature_columns(params, is_dense=False)
    weights = estimator_trainer.weight_column(params)
    optimizer = tf.train.FtrlOptimizer(
        params.learning_rate, l1_regularization_strength=params.ftrl_l1, l2_regularization_strength=params.ftrl_l2
    )
    if params.task == 'regression':
        # LinearEstimator takes a head only with a Keras optimizer.
        return tf.estimator.DNNLinearCombinedEstimator(
            regression_head(params, weights), linear_feature_columns=columns, linear_optimizer=optimizer, config=config
        )
    return tf.estimator.LinearClassifier(
        columns, n_classes=params.num_classes, weight_column=weights, optimizer=optimizer, config=config
    )
