"""The feature columns and the weight column of the dataset of a run, for canned Estimators in model modules."""

from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.plugins import class_weights, loader
from estimator_trainer.common.targets import are_several, targets_of
from estimator_trainer.hparams.build import HParams

_EMBEDDING_SIZE = 8


def feature_columns(params: HParams, is_dense: bool = True) -> list[Any]:
    """Returns a tf.feature_column for each input of the dataset that `params` names: what it knows by its metadata.

    Args:
      params: of the run, with the metadata.
      is_dense: whether to embed categories and texts, by 8 numbers each, as a deep network needs it; a linear model does not.

    Raises:
      UsageError: the dataset has no `feature_columns`.
    """
    if are_several(params.metadata):
        names = ', '.join(target.name for target in targets_of(params.metadata))
        raise UsageError(f'--model={params.model} predicts one target, not several, {names}: use --model=mlp, or choose one')
    module = loader.load('dataset', params.dataset)
    if not hasattr(module, 'feature_columns'):
        raise UsageError(f'--dataset={params.dataset}: has no feature_columns(); list the columns in the model module')
    columns = module.feature_columns(params)
    return [_embedded(column) for column in columns] if is_dense else columns


def weight_column(params: HParams) -> str | None:
    """Returns the name of the feature with the weights of the examples, float32 [batch]; None if all are alike.

    It is 'weight', if the dataset has a column of them; with class_weights 'class_weight', which is 1 for all outside of
    training, each times 'weight'.

    Args:
      params: of the run, with the metadata.
    """
    if class_weights.are_given(params):
        return class_weights.FEATURE
    stored = [*params.metadata.get('columns', ()), *params.metadata.get('features', ())]
    return 'weight' if any(isinstance(item, Mapping) and item.get('kind') == 'weight' for item in stored) else None


def _embedded(column):
    is_categorical = hasattr(column, 'num_buckets')
    return tf.feature_column.embedding_column(column, _EMBEDDING_SIZE) if is_categorical else column
