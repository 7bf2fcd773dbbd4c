"""tf.contrib.feature_column: columns of sequences."""

import tensorflow.compat.v1 as tf


def sequence_input_layer(features, feature_columns, weight_collections=None, trainable=True):
    """Returns float [batch, length, size], and the lengths, int64 [batch]."""
    return tf.keras.experimental.SequenceFeatures(feature_columns, trainable=trainable)(features)
