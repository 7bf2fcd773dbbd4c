"""Functions of recurrent Estimators of tf.contrib.learn that model_fns share: learn/estimators/rnn_common.py."""

import tensorflow.compat.v1 as tf


class PredictionType:
    """Whether there is one prediction for a sequence, or one for each of its steps."""

    SINGLE_VALUE = 1
    MULTIPLE_VALUE = 2


class RNNKeys:
    """Keys of features and predictions."""

    FINAL_STATE_KEY = 'final_state'
    LABELS_KEY = '__labels__'
    SEQUENCE_LENGTH_KEY = 'sequence_length'
    STATE_PREFIX = 'rnn_cell_state'


def select_last_activations(activations, sequence_lengths):
    """Returns the activations [batch, units] of each sequence's last step.

    Args:
      activations: [batch, steps, units].
      sequence_lengths: [batch]; None if all have all steps.
    """
    with tf.name_scope('select_last_activations', values=[activations, sequence_lengths]):
        if sequence_lengths is None:
            return activations[:, -1]
        return tf.gather(activations, tf.cast(sequence_lengths, tf.int32) - 1, batch_dims=1)
