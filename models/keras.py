"""A tf.keras classifier: of tf.keras.applications, or from your own function.

    python trainer.py --model=keras --dataset=mnist --hparams=keras_model=my_package.networks.make

calls `make(params)` of my_package/networks.py in each graph; it returns a new tf.keras model, or layer, from the features to
logits [batch, num_classes]. A single feature of the dataset is passed as a tensor, several as a dict, such as 'numeric',
float32 [batch, columns], and 'categorical', int32 [batch, columns], of --dataset=csv.

A class of tf.keras.applications, such as tf.keras.applications.MobileNetV2, is called with the shape of the images and
num_classes, without weights. To start from weights, give their file: --warm_start_from=weights.h5.
"""

import concurrent.futures
import importlib
import inspect
import operator
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, describe
from estimator_trainer.common.ops.classification import classification_metrics, classifier_outputs
from estimator_trainer.hparams.build import HParams

_APPLICATIONS = ('tf.keras.applications.', 'tensorflow.keras.applications.', 'tf_keras.applications.')


def get_params() -> dict[str, Any]:
    return {
        'keras_model': '',  # The dotted name of the function.
        'num_classes': 10,
    }


def model(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor] | None, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns {'class': int64 [batch], 'probabilities': float32 [batch, num_classes]} and the cross-entropy [batch].

    `features` are passed to the Keras model: one feature as a tensor, several as a dict. `labels` is {'label': int32 [batch]}
    or None. If there are labels, the predictions include the logits, 'embedding': float32 [batch, num_classes].
    """
    del mode  # The framework sets Keras's learning phase.
    inputs: Any = dict(features)
    if len(inputs) == 1:
        (inputs,) = inputs.values()
    network = _make(params, inputs)
    try:
        logits = network(inputs)
    except ValueError as error:
        if not str(error).startswith(('Input ', 'Missing data for input')):
            raise  # From the network's own code.
        fed = ', '.join(f'{name}: {describe(feature)}' for name, feature in features.items())
        raise UsageError(
            f'keras_model={params.keras_model}: does not take the features ({fed}): {_first_line(error)}'
        ) from None
    if getattr(_last_activation(network), '__name__', '') in ('softmax', 'softmax_v2'):  # Of tf.keras, and tf.nn.softmax.
        tf.logging.warning(
            'keras_model=%s: ends with softmax, but its outputs are taken as logits: drop it', params.keras_model
        )
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
    """Returns `common.ops.classification.classification_metrics`."""
    return classification_metrics(labels, predictions, params.num_classes, params.metadata.get('class_names'))


def _make(params, inputs):
    """Returns the Keras model."""
    name = params.keras_model
    with concurrent.futures.ThreadPoolExecutor(1) as pool:  # A new thread has no graph, like a module.
        function = pool.submit(_find, name).result()
    try:
        if name.startswith(_APPLICATIONS):
            if not isinstance(inputs, tf.Tensor) or inputs.shape.rank != 4:
                fed = tf.nest.map_structure(describe, inputs)
                raise UsageError(f'keras_model={name}: takes images [batch, height, width, channels], not {fed}')
            arguments = {'input_shape': inputs.shape.as_list()[1:], 'classes': params.num_classes}
            if 'classifier_activation' in inspect.signature(function).parameters:
                arguments['classifier_activation'] = None
            try:
                return function(weights=None, **arguments)
            except ValueError as error:
                raise UsageError(f'keras_model={name}: {_first_line(error)}') from None
        made = function(params)
    except RuntimeError as error:
        if 'EagerTensor' not in str(error):
            raise
        raise UsageError(
            f'keras_model={name}: uses a tensor that was made outside of the function: make it inside, or use a NumPy array'
        ) from None
    if not callable(made) or inspect.isclass(made):
        raise UsageError(f'keras_model={name}: must return a tf.keras model or layer, not {describe(made)}')
    return made


def _find(name):
    """Returns the function of a dotted name."""
    path, _, attribute = name.rpartition('.')
    if not path or path.startswith('.'):
        raise UsageError(f'keras_model={name}: must be the dotted name of a function, such as my_package.networks.make')
    if name.startswith('keras.applications.'):
        raise UsageError(f'keras_model={name}: use tf.{name}, which is Keras 2')
    try:
        # Some modules of TensorFlow cannot be imported by their API names.
        found = operator.attrgetter(path.partition('.')[2])(tf) if path.startswith('tf.') else importlib.import_module(path)
    except (ModuleNotFoundError, AttributeError) as error:
        if not path.startswith('tf.') and not f'{path}.'.startswith(f'{error.name}.'):
            raise  # From an import in the module.
        raise UsageError(f'keras_model={name}: no module {path}') from None
    function = getattr(found, attribute, None)
    if not callable(function):
        raise UsageError(f'keras_model={name}: {path} has no function {attribute}')
    if name.startswith(_APPLICATIONS):
        if not {'weights', 'classes', 'input_shape'} <= inspect.signature(function).parameters.keys():
            raise UsageError(f'keras_model={name}: is not one of the networks of tf.keras.applications')
    else:
        try:
            inspect.signature(function).bind(None)
        except TypeError as error:
            raise UsageError(f'keras_model={name}: must be a function of the hyper-parameters, make(params): {error}') from None
    return function


def _last_activation(network):
    layers = getattr(network, 'layers', None)
    return getattr(layers[-1] if layers else network, 'activation', None)


def _first_line(error):
    return str(error).partition('\n')[0]
