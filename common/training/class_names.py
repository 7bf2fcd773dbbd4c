"""The names of classes among the outputs of a model."""

from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from estimator_trainer.hparams.build import HParams


def with_class_name(predictions: Mapping[str, tf.Tensor], params: HParams) -> dict[str, tf.Tensor]:
    """Adds the name of the class, 'class_name', to the outputs of an exported model, if it is known."""
    names, number = params.metadata.get('class_names'), predictions.get('class')
    if not names or number is None or number.shape.rank != 1 or not number.dtype.is_integer or 'class_name' in predictions:
        return dict(predictions)
    is_known = (number >= 0) & (number < len(names))
    known = tf.gather(tf.constant(names), tf.where(is_known, number, tf.zeros_like(number)))
    return {**predictions, 'class_name': tf.where(is_known, known, tf.fill(tf.shape(number), ''))}
