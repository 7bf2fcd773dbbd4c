"""tf.contrib.crf: conditional random fields over chains, in TensorFlow ops, so that exported models have them, too.

(J. Lafferty, A. McCallum, F. Pereira: Conditional Random Fields, 2001.) Shapes: the potentials of the tags, called inputs, are
float [batch, length, tags]; transition_params, float [tags, tags], has the score of tag j after tag i at [i, j].
"""

import numpy as np
import tensorflow.compat.v1 as tf


def crf_log_likelihood(inputs, tag_indices, sequence_lengths, transition_params=None):
    """Returns the log-likelihood of tag sequences, float [batch], and transition_params, a new variable if None.

    Args:
      tag_indices: int [batch, length].
      sequence_lengths: int [batch].
    """
    tags = inputs.shape[2]
    if transition_params is None:
        transition_params = tf.get_variable('transitions', [tags, tags])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


def crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params):
    """Returns the score of tag sequences, float [batch]; 0 for empty ones."""
    return crf_unary_score(tag_indices, sequence_lengths, inputs) + crf_binary_score(
        tag_indices, sequence_lengths, transition_params
    )


def crf_unary_score(tag_indices, sequence_lengths, inputs):
    """Returns the sum of the potentials of the tags, float [batch]."""
    mask = tf.sequence_mask(sequence_lengths, tf.shape(inputs)[1], inputs.dtype)
    return tf.reduce_sum(mask * tf.gather(inputs, tag_indices, axis=2, batch_dims=2), 1)


def crf_binary_score(tag_indices, sequence_lengths, transition_params):
    """Returns the sum of the scores of transitions, float [batch]."""
    params = tf.convert_to_tensor(transition_params)
    scores = tf.gather_nd(params, tf.stack([tag_indices[:, :-1], tag_indices[:, 1:]], 2))
    mask = tf.sequence_mask(sequence_lengths, tf.shape(tag_indices)[1], params.dtype)
    return tf.reduce_sum(mask[:, 1:] * scores, 1)


def crf_log_norm(inputs, sequence_lengths, transition_params):
    """Returns the logarithm of the sum of exp(score) over all tag sequences, float [batch]; 0 for empty ones."""
    alphas = _scan(inputs, sequence_lengths, transition_params, tf.reduce_logsumexp)
    return tf.where(tf.greater(sequence_lengths, 0), tf.reduce_logsumexp(alphas[-1], 1), tf.zeros_like(inputs[:, 0, 0]))


def crf_decode(potentials, transition_params, sequence_length):
    """Returns the tag sequences with the highest scores, int32 [batch, length], 0 beyond their ends; and these scores.

    An empty sequence has its first tag, too, as in TensorFlow 1.
    (A. Viterbi: Error bounds for convolutional codes, 1967.)
    """
    sequence_length = tf.maximum(tf.cast(sequence_length, tf.int32), 1)
    best = _scan(potentials, sequence_length, transition_params, tf.reduce_max)
    steps = tf.range(tf.shape(potentials)[1])[:, None]
    last = tf.argmax(best[-1], 1, output_type=tf.int32)

    def back(tag, inputs):
        alpha, step = inputs
        previous = tf.argmax(alpha + tf.gather(tf.transpose(transition_params), tag), 1, output_type=tf.int32)
        return tf.where(tf.less(step + 1, sequence_length), previous, tag)

    found = tf.scan(back, (best, steps + tf.zeros_like(last)[None]), last, reverse=True)
    tags = tf.transpose(found) * tf.sequence_mask(sequence_length, tf.shape(potentials)[1], tf.int32)
    tags.set_shape(potentials.shape[:2])
    return tags, tf.reduce_max(best[-1], 1)


def _scan(inputs, sequence_lengths, transition_params, reduce):
    """Returns the sums, or maxima, of the scores of sequences up to each step and tag, [length, batch, tags].

    They stay as they are beyond a sequence's end.
    """
    by_step = tf.transpose(inputs, [1, 0, 2])
    sequence_lengths = tf.cast(sequence_lengths, tf.int32)

    def forward(alpha, step):
        new = reduce(alpha[:, :, None] + transition_params, 1) + by_step[step]
        is_later = (step > 0) & (step < sequence_lengths)
        return tf.where(tf.broadcast_to(is_later[:, None], tf.shape(new)), new, alpha)

    return tf.scan(forward, tf.range(tf.shape(inputs)[1]), by_step[0])  # The first step, too: a scan of none fails.


def viterbi_decode(score, transition_params):
    """Returns the best tag sequence, a list of ints, and its score, for NumPy arrays [length, tags] and [tags, tags]."""
    best, pointers = score[0], []
    for row in score[1:]:
        scores = best[:, None] + transition_params
        pointers.append(np.argmax(scores, 0))
        best = row + np.max(scores, 0)
    tags = [int(np.argmax(best))]
    for pointer in reversed(pointers):
        tags.append(int(pointer[tags[-1]]))
    return tags[::-1], np.max(best)
