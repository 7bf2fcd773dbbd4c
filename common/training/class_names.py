"""The names of classes among the outputs of a model."""

from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from estimator_trainer.common.targets import class_names_of, with_key
from estimator_trainer.hparams.build import HParams


def with_class_name(predictions: Mapping[str, tf.Tensor], params: HParams) -> dict[str, tf.Tensor]:
    """Adds the names of classes, 'class_name', to the outputs of an exported model, if they are known."""
    found = dict(predictions)
    for key, names in class_names_of(params.metadata).items():
        number, name = predictions.get(with_key('class', key)), with_key('class_name', key)
        if number is not None and number.shape.rank == 1 and number.dtype.is_integer and name not in predictions:
            is_known = (number >= 0) & (number < len(names))
            known = tf.gather(tf.constant(names), tf.where(is_known, number, tf.zeros_like(number)))
            found[name] = tf.where(is_known, known, tf.fill(tf.shape(number), ''))
    return found
