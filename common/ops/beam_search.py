"""Beam search: the likeliest sequences of a recurrent model."""

import typing

import tensorflow.compat.v1 as tf

from common.ops.batch_gather import batch_gather
from common.ops.shape import get_shape, reshape

# The log-probability of what cannot be: finite, so that no sum of such turns to NaN.
_IMPOSSIBLE = -1e9


class _Beams(typing.NamedTuple):
    """The prefixes kept for each example, [batch, beam_width] each: the best first."""

    ids: tf.Tensor  # int32, their last tokens.
    log_probs: tf.Tensor  # float32
    lengths: tf.Tensor  # int32
    finished: tf.Tensor  # bool


def rnn_beam_search(update_fn, initial_state, sequence_length, beam_width, begin_token_id, end_token_id, length_penalty=0.0):
    """Decodes the beam_width likeliest sequences of each example, token by token.

    Keeps the beam_width best prefixes at every step. One that has reached end_token_id stays as it is, with its
    probability, as long as it is among the best; the search ends when all have ended. It is one tf.while_loop, so that
    the graph has the same size for every length. (After the guide Effective TensorFlow, chapter on beam search;
    length_penalty after Y. Wu et al.: Google's Neural Machine Translation System, 2016.)

    Args:
      update_fn: function (state, ids) that returns (next state, logits). The states are structured like initial_state,
        of tensors [batch, beam_width, ...]; ids is int32 [batch, beam_width], the last tokens; logits is float [batch,
        beam_width, num_tokens], with num_tokens static.
      initial_state: tensor [batch, ...], or a structure (dicts, tuples) of such.
      sequence_length: int or int32 scalar tensor, the most tokens of a sequence, at least 1.
      beam_width: int.
      begin_token_id: int, the token that the first update_fn gets.
      end_token_id: int.
      length_penalty: float. Prefixes are compared by log_prob / length**length_penalty, where the length counts the end
        token: 0 compares probabilities, 1 those of a token on average, which favours longer sequences.

    Returns:
      (ids, log_probs), the best sequence first: int32 [batch, beam_width, sequence_length], filled up with end_token_id,
      and float32 [batch, beam_width], log-probabilities of the whole sequences. Where there are fewer than beam_width
      sequences, the rest has log-probabilities below -1e8.

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
        # All prefixes are the same at first: only one of them counts.
        log_probs=tf.tile([[0.0] + [_IMPOSSIBLE] * (beam_width - 1)], [batch, 1]),
        lengths=tf.zeros(shape, tf.int32),
        finished=tf.zeros(shape, tf.bool),
    )

    def goes_on(i, state, beams, tokens, parents):
        del state, tokens, parents
        is_first = tf.equal(i, 0)  # Also of an empty batch, all of which has ended.
        return tf.logical_and(i < sequence_length, tf.logical_or(is_first, ~tf.reduce_all(beams.finished)))

    def step(i, state, beams, tokens, parents):
        new_state, logits = update_fn(state, beams.ids)
        if logits.shape[-1] is None:
            raise ValueError(f'update_fn returned logits of shape {logits.shape}: their last dimension must be static')
        beams, best_parents = _extend(beams, logits, i, end_token_id, length_penalty)
        new_state = tf.nest.map_structure(lambda old, new: _like(old, batch_gather(new, best_parents)), state, new_state)
        return i + 1, new_state, beams, tokens.write(i, beams.ids), parents.write(i, best_parents)

    tokens, parents = tf.TensorArray(tf.int32, sequence_length), tf.TensorArray(tf.int32, sequence_length)
    steps, _, beams, tokens, parents = tf.while_loop(goes_on, step, [0, state, beams, tokens, parents])
    ids = _follow(tokens, parents, steps, tf.tile([tf.range(beam_width)], [batch, 1]))
    ids = tf.pad(ids, [[0, 0], [0, 0], [0, sequence_length - steps]], constant_values=end_token_id)
    ids.set_shape([None, beam_width, tf.get_static_value(sequence_length)])
    return ids, beams.log_probs


def _extend(beams, logits, i, end_token_id, length_penalty):
    """Returns the best prefixes that are one token longer, and which of the old ones they extend, int32 [batch, beam]."""
    beam_width = beams.ids.shape[1]
    # Of one prefix's extensions, no more than the beam_width likeliest can be among the best of all.
    count = min(beam_width, logits.shape[-1])
    logits = tf.cast(logits, tf.float32)
    log_probs, ids = tf.nn.top_k(logits, count)
    log_probs -= tf.reduce_logsumexp(logits, 2, keepdims=True)

    # A finished prefix has one extension, by another end token, for sure.
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
    """Returns `new`, with the static shape that the loop's invariant needs."""
    new.set_shape(old.shape)
    return new


def _follow(tokens, parents, steps, beams):
    """Returns the tokens on the way from each final beam back to the first step, int32 [batch, beam, steps]."""

    def step(i, beams, ids):
        return i - 1, batch_gather(parents.read(i), beams), ids.write(i, batch_gather(tokens.read(i), beams))

    _, _, ids = tf.while_loop(lambda i, *_: i >= 0, step, [steps - 1, beams, tf.TensorArray(tf.int32, steps)])
    return tf.transpose(ids.stack(), [1, 2, 0])
