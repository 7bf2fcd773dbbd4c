"""The class of two by a threshold of its probability, in place of the more probable one."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.plugins.estimator_contract import named, wrap_model_fn
from estimator_trainer.common.plugins.own_train import OwnTrain

OUTPUT = 'decision_threshold'  # Of each example, so that whoever reads its class knows it.


def with_threshold(estimator: Any, threshold: float, class_names: Sequence[str] | None) -> Any:
    """Returns an Estimator that predicts class 1 if its probability is at least the threshold, else 0, also in exports.

    Its predictions have the threshold as 'decision_threshold', float32 [batch]; evaluation stays the same.

    Args:
      estimator: a tf.estimator.Estimator, or an OwnTrain.
      class_names: of the output 'class_name', if there is one.
    """

    def wrap(model_fn):
        def decided(features, labels, mode, config):
            spec = model_fn(features, labels, mode, config)
            if mode != tf.estimator.ModeKeys.PREDICT:
                return spec
            predictions = decide(named(spec.predictions, 'predictions'), threshold, class_names)
            outputs = {
                name: _decided_output(output, threshold, class_names) for name, output in (spec.export_outputs or {}).items()
            }
            return spec._replace(predictions=predictions, export_outputs=outputs or None)

        return decided

    return estimator.wrapped(wrap) if isinstance(estimator, OwnTrain) else wrap_model_fn(estimator, wrap)


def _decided_output(output, threshold, class_names):
    is_class = isinstance(output, tf.estimator.export.PredictOutput) and 'probabilities' in output.outputs
    return tf.estimator.export.PredictOutput(decide(output.outputs, threshold, class_names)) if is_class else output


def decide(predictions: Mapping[str, tf.Tensor], threshold: float, class_names: Sequence[str] | None = None) -> dict[str, Any]:
    """Returns predictions with the class that a threshold decides, and its names, of our models or of a canned classifier.

    The class is int64 [batch], named class, if the predictions have none.

    Args:
      predictions: 'probabilities', float [batch, 2].

    Raises:
      UsageError: there are no probabilities of two classes.
    """
    probabilities = predictions.get('probabilities')
    if probabilities is None or probabilities.shape.rank != 2 or probabilities.shape[1] != 2:
        others = '' if probabilities is None else f', not of shape {probabilities.shape}'
        raise UsageError(f'{OUTPUT}={threshold:g} is for models with probabilities of two classes{others}: omit it')
    number = tf.cast(probabilities[:, 1] >= threshold, tf.int64)
    column = number[:, None]
    found: dict[str, Any] = {OUTPUT: tf.fill(tf.shape(number), tf.constant(threshold, tf.float32))}
    if 'all_classes' in predictions:
        found['classes'] = tf.gather(predictions['all_classes'], column, batch_dims=1)
    if class_names and len(class_names) == 2:
        found['class_name'] = tf.gather(tf.constant([*class_names]), number)
    found |= {'class_ids': column, 'class': number}
    changed = {name: tf.cast(value, predictions[name].dtype) for name, value in found.items() if name in predictions}
    if not changed.keys() & {'class', 'class_ids'}:
        changed['class'] = number
    return {**predictions, **changed, OUTPUT: found[OUTPUT]}
