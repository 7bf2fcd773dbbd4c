"""A multilayer perceptron for tables, series and small images: classes, numbers, several targets at once, and forecasts.

    python trainer.py --model=mlp --dataset=mnist

All float features are inputs, flattened. Integer features are categories: each column has an embedding, of the size given by
the dataset's metadata 'vocabulary_sizes', {feature: number of ids, or a list with one per column}. Those of a feature with more
than 64 columns are one variable. A text, a feature of this name whose length varies, is the mean of its words' embeddings.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, check_range, check_rate, describe
from estimator_trainer.common.ops import words
from estimator_trainer.common.ops.inputs import flat_inputs
from estimator_trainer.common.ops.layers import dense_stack
from estimator_trainer.common.ops.targets import target_metrics, target_outputs
from estimator_trainer.common.targets import FORECAST, are_several, is_forecast
from estimator_trainer.hparams.build import HParams

_TASKS = 'classification', 'regression'

OVERRIDABLE_HPARAMS = ('drop_rate',)
INDEPENDENT_EXAMPLES = True


def get_params() -> dict[str, Any]:
    return {
        'task': 'classification',  # Or regression; of series, forecast.
        'hidden_units': [256, 128],
        'embedding_size': 8,  # Of each categorical column.
        **words.get_params(),
        'drop_rate': 0.0,
        'batch_norm': False,
        'num_classes': 2,
    }


def model(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor] | None, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns predictions and the loss per example.

    For classification: {'class': int64 [batch], 'probabilities': float32 [batch, num_classes]} and the cross-entropy. If there
    are labels, the predictions include the last hidden layer, 'embedding': float32 [batch, hidden_units[-1]].

    For regression: {'value': float32 [batch]} and the squared error. If the metadata has 'target_mean' and 'target_std', the
    error is in standard deviations, and the output of the network is scaled and shifted accordingly.

    Of several targets and forecasts, see `target_outputs`.

    `features` are float32 or int [batch, ...], `labels` is {'label': int32 [batch]}, float32 for regression, or None.
    """
    _check(params)
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    net = flat_inputs(features, params)
    net = dense_stack(net, params.hidden_units, is_training, batch_norm=params.batch_norm, drop_rate=params.drop_rate)
    if labels is not None and not are_several(params.metadata) and not is_forecast(params.metadata):
        _check_label(labels['label'], params)
    return target_outputs(features, labels, net, params)


def _check(params):
    check_range(params, 'hidden_units', 1)
    check_range(params, 'embedding_size', 1)
    check_rate(params, 'drop_rate')
    known = (FORECAST,) if is_forecast(params.metadata) else _TASKS
    if params.task not in known and not are_several(params.metadata):
        raise UsageError(f'task={params.task} is not one of {", ".join(known)}')


def _check_label(label, params):
    is_class = label.dtype.is_integer
    if params.task == 'regression' and 'class_names' in params.metadata:
        raise UsageError(f'task=regression: --dataset={params.dataset} has classes, not numbers')
    if label.shape.rank != 1 or (params.task == 'classification' and not is_class):
        wanted = 'int32' if params.task == 'classification' else 'float32'
        fix = '' if label.shape.rank != 1 else ', or use task=regression'
        raise UsageError(f'task={params.task} needs a label named label, {wanted} [batch], not {describe(label)}{fix}')


def eval_metrics(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor], predictions: dict[str, tf.Tensor], params: HParams
) -> dict[str, tuple]:
    """Returns the metrics of `target_metrics`, of each target."""
    del features
    return target_metrics(labels, predictions, params)
