"""A wide and deep network for tables and texts: a canned Estimator, tf.estimator.DNNLinearCombinedClassifier or -Estimator.

    python trainer.py --model=wide_deep --dataset=table --hparams=table_file=people.csv,target=income

A linear model, which memorizes categories, and a perceptron on their embeddings, which generalizes, are trained jointly.
(H.-T. Cheng et al.: Wide & Deep Learning for Recommender Systems, 2016.)
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
        'hidden_units': [128, 64],
        'learning_rate': 0.001,  # Of the deep part, by Adam.
        'linear_learning_rate': 0.05,  # Of the wide part, by Ftrl.
    }


def estimator(config: tf.estimator.RunConfig, params: HParams) -> tf.estimator.Estimator:
    """Returns the Estimator, whose inputs are the dataset's feature columns."""
    parts = {
        'linear_feature_columns': estimator_trainer.feature_columns(params, is_dense=False),
        'linear_optimizer': tf.train.FtrlOptimizer(params.linear_learning_rate),
        'dnn_feature_columns': estimator_trainer.feature_columns(params),
        'dnn_hidden_units': params.hidden_units,
        'dnn_optimizer': tf.train.AdamOptimizer(params.learning_rate),
        'config': config,
    }
    weights = estimator_trainer.weight_column(params)
    if params.task == 'regression':
        return tf.estimator.DNNLinearCombinedEstimator(regression_head(params, weights), **parts)
    return tf.estimator.DNNLinearCombinedClassifier(n_classes=params.num_classes, weight_column=weights, **parts)
