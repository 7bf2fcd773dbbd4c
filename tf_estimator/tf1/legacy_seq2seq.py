"""tf.contrib.legacy_seq2seq: the loss of lists of steps, and their decoder."""

import tensorflow.compat.v1 as tf


def rnn_decoder(decoder_inputs, initial_state, cell, loop_function=None, scope=None):
    """Returns the outputs of a cell, a list of [batch, size], and its last state.

    Args:
      loop_function: function of the last output and the step to the next input, in place of that of decoder_inputs.
    """
    with tf.variable_scope(scope or 'rnn_decoder') as made:
        state = initial_state
        outputs: list[tf.Tensor] = []
        for i, inputs in enumerate(decoder_inputs):
            if loop_function is not None and outputs:
                with tf.variable_scope('loop_function', reuse=True):
                    inputs = loop_function(outputs[-1], i)
            if i:
                made.reuse_variables()
            output, state = cell(inputs, state)
            outputs.append(output)
    return outputs, state


def sequence_loss_by_example(logits, targets, weights, average_across_timesteps=True, softmax_loss_function=None, name=None):
    """Returns the weighted cross-entropy of sequences, float [batch], for lists of [batch, classes], [batch] and [batch]."""
    loss = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
    total = tf.add_n(
        [
            loss(labels=tf.reshape(target, [-1]), logits=logit) * weight
            for logit, target, weight in zip(logits, targets, weights)
        ]
    )
    return total / (tf.add_n(weights) + 1e-12) if average_across_timesteps else total


def sequence_loss(
    logits, targets, weights, average_across_timesteps=True, average_across_batch=True, softmax_loss_function=None, name=None
):
    """Returns the sum of sequence_loss_by_example, divided by the size of the batch if average_across_batch."""
    losses = sequence_loss_by_example(logits, targets, weights, average_across_timesteps, softmax_loss_function)
    return tf.reduce_mean(losses) if average_across_batch else tf.reduce_sum(losses)
