"""A classifier of tf.keras: of tf.keras.applications, or made by a function of your own.

    python trainer.py --model=keras --dataset=mnist --hparams=keras_model=my_package.networks.make

calls `make(params)` of my_package/networks.py in each graph; it returns a tf.keras model, or layer, from the features to logits
[batch, num_classes]. A class of tf.keras.applications, such as tf.keras.applications.MobileNetV2, is called with the shape of
the images and num_classes, and without weights. To start from weights, give a file of them: --warm_start_from=weights.h5.
"""

import importlib
import inspect
from typing import Any

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.ops.classification import classification_metrics, classifier_outputs
from common.values import describe
from hparams.build import HParams


def get_params() -> dict[str, Any]:
    return {
        'keras_model': '',  # The dotted name of the function.
        'num_classes': 10,
    }


def model(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor] | None, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns {'class': int64 [batch], 'probabilities': float32 [batch, num_classes]} and the cross-entropy [batch].

    `features` are given to the Keras model: as a tensor if there is one feature, else as a dict. `labels` is {'label': int32
    [batch]} or None. If there are labels, the predictions include the logits, 'embedding': float32 [batch, num_classes].
    """
    del mode  # The framework sets Keras's learning phase.
    inputs: Any = dict(features)
    if len(inputs) == 1:
        (inputs,) = inputs.values()
    network = _make(params, inputs)
    logits = network(inputs)
    if not isinstance(logits, tf.Tensor) or logits.shape.rank != 2 or logits.shape[1] != params.num_classes:
        raise UsageError(
            f'keras_model={params.keras_model}: must give logits [batch, {params.num_classes}], as num_classes says, not '
            f'{describe(logits)}'
        )
    logits = tf.cast(logits, tf.float32)
    return classifier_outputs(features, labels, logits, logits, params.metadata.get('class_names'))


def eval_metrics(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor], predictions: dict[str, tf.Tensor], params: HParams
) -> dict[str, Any]:
    """Returns those of `common.ops.classification.classification_metrics`."""
    return classification_metrics(labels, predictions, params.num_classes, params.metadata.get('class_names'))


def _make(params, inputs):
    """Returns the Keras model."""
    function = _find(params.keras_model)
    if params.keras_model.startswith(('tf.keras.applications.', 'tf_keras.applications.')):
        arguments = {'input_shape': inputs.shape.as_list()[1:], 'classes': params.num_classes}
        if 'classifier_activation' in inspect.signature(function).parameters:
            arguments['classifier_activation'] = None
        try:
            return function(weights=None, **arguments)
        except ValueError as error:
            raise UsageError(f'keras_model={params.keras_model}: {error}') from None
    made = function(params)
    if not callable(made):
        raise UsageError(f'keras_model={params.keras_model}: must return a tf.keras model or layer, not {describe(made)}')
    return made


def _find(name):
    """Returns the function of a dotted name."""
    path, _, attribute = name.rpartition('.')
    if not path:
        raise UsageError(f'keras_model={name}: must be the dotted name of a function, such as my_package.networks.make')
    if path == 'tf.keras.applications':
        found: Any = tf.keras.applications
    else:
        try:
            found = importlib.import_module(path)
        except ModuleNotFoundError as error:
            if not f'{path}.'.startswith(f'{error.name}.'):
                raise  # Of an import in the module.
            raise UsageError(f'keras_model={name}: no module {path}') from None
    if not callable(getattr(found, attribute, None)):
        raise UsageError(f'keras_model={name}: {path} has no function {attribute}')
    return getattr(found, attribute)
