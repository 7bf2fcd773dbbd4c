"""tf.contrib.feature_column: columns of sequences."""

import tensorflow.compat.v1 as tf


def sequence_input_layer(features, feature_columns, weight_collections=None, trainable=True):
    """Returns float [batch, length, size], and the lengths, int64 [batch]."""
    with tf.variable_scope(None, 'sequence_input_layer', auxiliary_name_scope=False) as scope:
        name = scope.name.rpartition('/')[2]
    return tf.keras.experimental.SequenceFeatures(feature_columns, trainable, name)(features)
