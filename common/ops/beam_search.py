"""Beam search: the most likely sequences of a recurrent model."""

from collections.abc import Callable
import typing

import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.shapes import batch_gather, get_shape, reshape

# The log-probability of impossible tokens: finite, so that no sum becomes NaN.
_IMPOSSIBLE = -1e9


class _Beams(typing.NamedTuple):
    """The prefixes kept for each example, best first. All tensors are [batch, beam_width]."""

    ids: tf.Tensor  # int32, the last tokens.
    log_probs: tf.Tensor  # float32
    lengths: tf.Tensor  # int32
    finished: tf.Tensor  # bool


def rnn_beam_search(
    update_fn: Callable,
    initial_state: typing.Any,
    sequence_length: int | tf.Tensor,
    beam_width: int,
    begin_token_id: int,
    end_token_id: int,
    length_penalty: float = 0.0,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Decodes the beam_width most likely sequences of each example, token by token.

    Keeps the beam_width best prefixes at every step. A prefix that has reached end_token_id is finished: it keeps its
    probability and competes with the others. The search ends when all kept prefixes are finished. It is one tf.while_loop,
    so the size of the graph does not depend on sequence_length. (After the guide Effective TensorFlow, chapter on beam
    search; length_penalty after Y. Wu et al.: Google's Neural Machine Translation System, 2016.)

    Args:
      update_fn: function (state, ids) that returns (next state, logits). The states are structured like initial_state,
        of tensors [batch, beam_width, ...]; ids is int32 [batch, beam_width], the last tokens; logits is float [batch,
        beam_width, num_tokens], with num_tokens static.
      initial_state: tensor [batch, ...], or a structure (dicts, tuples) of such.
      sequence_length: maximum number of tokens per sequence, at least 1; a tensor is an int32 scalar.
      beam_width: number of prefixes to keep.
      begin_token_id: the token for the first call of update_fn.
      end_token_id: the token that finishes a sequence.
      length_penalty: prefixes are ranked by log_prob / length**length_penalty, where the length includes the end token:
        0 ranks by probability, 1 by average log-probability per token, which favors longer sequences.

    Returns:
      (ids, log_probs), the best sequence first: int32 [batch, beam_width, sequence_length], padded with end_token_id,
      and float32 [batch, beam_width], log-probabilities of the whole sequences. If there are fewer than beam_width
      sequences, the remaining ones have log-probabilities below -1e8.

    Raises:
      ValueError: beam_width is less than 1, or the number of tokens is not static.
    """
    if beam_width < 1:
        raise ValueError(f'beam_width={beam_width} must be at least 1')
    batch = get_shape(tf.nest.flatten(initial_state)[0])[0]
    state = tf.nest.map_structure(lambda tensor: tf.repeat(tensor[:, None], beam_width, axis=1), initial_state)
    shape = [batch, beam_width]
    beams = _Beams(
        ids=tf.fill(shape, begin_token_id),
        # All prefixes are the same at first, so only one may be extended.
        log_probs=tf.tile([[0.0] + [_IMPOSSIBLE] * (beam_width - 1)], [batch, 1]),
        lengths=tf.zeros(shape, tf.int32),
        finished=tf.zeros(shape, tf.bool),
    )

    def should_continue(i, state, beams, tokens, parents):
        del state, tokens, parents
        is_first = tf.equal(i, 0)  # An empty batch needs one step, too, although all its prefixes are finished.
        return tf.logical_and(i < sequence_length, tf.logical_or(is_first, ~tf.reduce_all(beams.finished)))

    def step(i, state, beams, tokens, parents):
        new_state, logits = update_fn(state, beams.ids)
        if logits.shape[-1] is None:
            raise ValueError(f'update_fn returned logits of shape {logits.shape}: their last dimension must be static')
        beams, best_parents = _extend(beams, logits, i, end_token_id, length_penalty)
        new_state = tf.nest.map_structure(lambda old, new: _like(old, batch_gather(new, best_parents)), state, new_state)
        return i + 1, new_state, beams, tokens.write(i, beams.ids), parents.write(i, best_parents)

    tokens, parents = tf.TensorArray(tf.int32, sequence_length), tf.TensorArray(tf.int32, sequence_length)
    steps, _, beams, tokens, parents = tf.while_loop(should_continue, step, [0, state, beams, tokens, parents])
    ids = _backtrack(tokens, parents, steps, tf.tile([tf.range(beam_width)], [batch, 1]))
    ids = tf.pad(ids, [[0, 0], [0, 0], [0, sequence_length - steps]], constant_values=end_token_id)
    ids.set_shape([None, beam_width, tf.get_static_value(sequence_length)])
    return ids, beams.log_probs


def _extend(beams, logits, i, end_token_id, length_penalty):
    """Returns the best prefixes one token longer, and the indices of the prefixes that they extend, int32 [batch, beam]."""
    beam_width = beams.ids.shape[1]
    # At most beam_width extensions of one prefix can be among the best of all.
    count = min(beam_width, logits.shape[-1])
    logits = tf.cast(logits, tf.float32)
    log_probs, ids = tf.nn.top_k(logits, count)
    log_probs -= tf.reduce_logsumexp(logits, 2, keepdims=True)

    # A finished prefix has one extension, another end token, with probability 1.
    finished = beams.finished[:, :, None]
    log_probs = tf.where_v2(finished, [0.0] + [_IMPOSSIBLE] * (count - 1), log_probs) + beams.log_probs[:, :, None]
    ids = tf.where_v2(finished, end_token_id, ids)
    lengths = tf.where_v2(beams.finished, beams.lengths, i + 1)
    scores = log_probs
    if length_penalty:
        scores /= tf.cast(lengths, tf.float32)[:, :, None] ** length_penalty

    _, best = tf.nn.top_k(reshape(scores, [0, [1, 2]]), beam_width)
    parents = best // count
    ids = batch_gather(reshape(ids, [0, [1, 2]]), best)
    return _Beams(
        ids=ids,
        log_probs=batch_gather(reshape(log_probs, [0, [1, 2]]), best),
        lengths=batch_gather(lengths, parents),
        finished=tf.equal(ids, end_token_id),
    ), parents


def _like(old, new):
    """Gives `new` the static shape of `old`, as tf.while_loop's shape invariants require."""
    new.set_shape(old.shape)
    return new


def _backtrack(tokens, parents, steps, beams):
    """Returns the token sequences, found by following the parents of the final beams, int32 [batch, beam, steps]."""

    def step(i, beams, ids):
        return i - 1, batch_gather(parents.read(i), beams), ids.write(i, batch_gather(tokens.read(i), beams))

    _, _, ids = tf.while_loop(lambda i, *_: i >= 0, step, [steps - 1, beams, tf.TensorArray(tf.int32, steps)])
    return tf.transpose(ids.stack(), [1, 2, 0])
