"""Beam search of tf.contrib.seq2seq. (A. Graves: Sequence Transduction with Recurrent Neural Networks, 2012.)"""

import collections

from tf_estimator.tf1.decoding import Decoder, embedding_function

import tensorflow.compat.v1 as tf

BeamSearchDecoderState = collections.namedtuple(
    'BeamSearchDecoderState', ('cell_state', 'log_probs', 'finished', 'lengths', 'accumulated_attention_probs')
)
BeamSearchDecoderOutput = collections.namedtuple('BeamSearchDecoderOutput', ('scores', 'predicted_ids', 'parent_ids'))
FinalBeamSearchDecoderOutput = collections.namedtuple(
    'FinalBeamSearchDecoderOutput', ('predicted_ids', 'beam_search_decoder_output')
)


def tile_batch(t, multiplier, name=None):
    """Repeats each row of nested tensors [batch, ...] next to itself, for the beams of a sequence."""

    def tile(tensor):
        tensor = tf.convert_to_tensor(tensor)
        tiled = tf.repeat(tensor, multiplier, 0)
        size = tf.compat.dimension_value(tensor.shape[0])
        tiled.set_shape(tf.TensorShape([size and size * multiplier]).concatenate(tensor.shape[1:]))
        return tiled

    return tf.nest.map_structure(tile, t)


def gather_tree(step_ids, parent_ids, max_sequence_lengths, end_token):
    """Returns the ids of whole sequences, int32 [time, batch, beam], from those of steps and the beams that they continue.

    Args:
      max_sequence_lengths: int32 [batch]; beyond them, and after its first end_token, a sequence has only end tokens.
    """
    step_ids, parent_ids, max_sequence_lengths = map(tf.convert_to_tensor, (step_ids, parent_ids, max_sequence_lengths))
    steps, _, beams = tf.unstack(tf.shape(step_ids))
    last = tf.zeros_like(step_ids[0]) + tf.range(beams)

    def back(carried, inputs):
        beam, _ = carried
        step, ids, parents = inputs
        is_within = tf.less(tf.zeros_like(beam) + step, max_sequence_lengths[:, None])
        found = tf.where(is_within, tf.gather(ids, beam, batch_dims=1), tf.fill(tf.shape(beam), end_token))
        return tf.where(is_within, tf.gather(parents, beam, batch_dims=1), beam), found

    _, ids = tf.scan(back, (tf.range(steps), step_ids, parent_ids), (last, last), reverse=True)
    has_ended = tf.cumsum(tf.cast(tf.equal(ids, end_token), tf.int32), exclusive=True) > 0
    return tf.where(has_ended, tf.fill(tf.shape(ids), end_token), ids)


class BeamSearchDecoder(Decoder):
    """Keeps the beam_width sequences of the highest scores: log-probability / length penalty - coverage penalty.

    (Y. Wu et al.: Google's Neural Machine Translation System, 2016.)

    Args:
      cell: an RNNCell.
      embedding: a tensor [ids, size], or a function from ids to inputs.
      start_tokens: int32 [batch].
      end_token: int32 scalar.
      initial_state: of the cell, with batch * beam_width rows: see tile_batch.
      output_layer: a layer on the cell's output, or None.
      length_penalty_weight: the exponent of (5 + length) / 6; 0 for none.
      reorder_tensor_arrays: whether the last state has the steps of its TensorArrays, stacked, for whole sequences.
    """

    tracks_own_finished = True

    def __init__(
        self,
        cell,
        embedding,
        start_tokens,
        end_token,
        initial_state,
        beam_width,
        output_layer=None,
        length_penalty_weight=0.0,
        coverage_penalty_weight=0.0,
        reorder_tensor_arrays=True,
    ):
        if coverage_penalty_weight:
            raise ValueError('coverage_penalty_weight is not supported')
        self._cell, self._output_layer, self._beam_width = cell, output_layer, beam_width
        self._embedding_fn = embedding_function(embedding)
        start, self._end = tf.cast(start_tokens, tf.int32), tf.cast(end_token, tf.int32)
        # Here, and only once, as in TensorFlow 1: the function may make a variable in the scope.
        self._start_inputs = self._embedding_fn(tf.tile(start[:, None], [1, beam_width]))
        self._batch_size, self._length_weight = tf.size(start), length_penalty_weight
        self._initial_state = tf.nest.map_structure(self._to_beams, initial_state)
        self._reorders = reorder_tensor_arrays

    @property
    def batch_size(self):
        return self._batch_size

    @property
    def output_size(self):
        beams = tf.TensorShape([self._beam_width])
        return BeamSearchDecoderOutput(beams, beams, beams)

    @property
    def output_dtype(self):
        return BeamSearchDecoderOutput(tf.float32, tf.int32, tf.int32)

    def _to_beams(self, tensor):
        """Returns [batch * beam_width, ...] as [batch, beam_width, ...]; others, such as a step, unchanged."""
        if isinstance(tensor, tf.TensorArray) or tensor.shape.rank == 0:
            return tensor
        shape = tf.concat([[self._batch_size, self._beam_width], tf.shape(tensor)[1:]], 0)
        split = tf.reshape(tensor, shape)
        split.set_shape(tf.TensorShape([None, self._beam_width]).concatenate(tensor.shape[1:]))
        return split

    def _to_rows(self, tensor):
        if isinstance(tensor, tf.TensorArray) or tensor.shape.rank == 0:
            return tensor
        joined = tf.reshape(tensor, tf.concat([[self._batch_size * self._beam_width], tf.shape(tensor)[2:]], 0))
        joined.set_shape(tf.TensorShape([None]).concatenate(tensor.shape[2:]))
        return joined

    def initialize(self, name=None):
        shape = tf.stack([self._batch_size, self._beam_width])
        # All beams are the same at first: only one counts.
        finished = tf.tile(tf.one_hot([0], self._beam_width, False, True), [self._batch_size, 1])
        log_probs = tf.where(finished, tf.fill(shape, -float('inf')), tf.zeros(shape))
        lengths = tf.zeros(shape, tf.int64)
        state = BeamSearchDecoderState(self._initial_state, log_probs, finished, lengths, ())
        return finished, self._start_inputs, state

    def step(self, time, inputs, state, name=None):
        cell_state = tf.nest.map_structure(self._to_rows, state.cell_state)
        outputs, cell_state = self._cell(self._to_rows(inputs), cell_state)
        if self._output_layer is not None:
            outputs = self._output_layer(outputs)
        cell_state = tf.nest.map_structure(self._to_beams, cell_state)
        log_probs = tf.nn.log_softmax(tf.cast(self._to_beams(outputs), tf.float32))
        classes = tf.compat.dimension_value(outputs.shape[-1]) or tf.shape(outputs)[-1]
        # A finished sequence goes on with end tokens only, at no cost.
        is_end = tf.equal(tf.range(classes), self._end)
        of_finished = tf.where(is_end, tf.zeros([classes]), tf.fill([classes], log_probs.dtype.min))
        log_probs = tf.where_v2(state.finished[:, :, None], of_finished, log_probs)
        totals = state.log_probs[:, :, None] + log_probs
        grows = tf.logical_not(state.finished)[:, :, None] & tf.logical_not(is_end)
        lengths = state.lengths[:, :, None] + tf.cast(grows, tf.int64)
        scores = totals / self._penalty(lengths)
        best, places = tf.nn.top_k(tf.reshape(scores, [self._batch_size, -1]), self._beam_width)
        ids, parents = places % classes, places // classes

        def of_best(values):
            return tf.gather(tf.reshape(values, [self._batch_size, -1]), places, batch_dims=1)

        def of_parents(tensor):
            if isinstance(tensor, tf.TensorArray) or tensor.shape.rank == 0:
                return tensor
            taken = tf.gather(tensor, parents, batch_dims=1)
            taken.set_shape(tensor.shape)
            return taken

        was_finished = of_parents(state.finished)
        finished = was_finished | tf.equal(ids, self._end)
        next_lengths = of_parents(state.lengths) + tf.cast(tf.logical_not(was_finished), tf.int64)
        state = BeamSearchDecoderState(
            tf.nest.map_structure(of_parents, cell_state), of_best(totals), finished, next_lengths, ()
        )
        inputs = tf.cond(tf.reduce_all(finished), lambda: self._start_inputs, lambda: self._embedding_fn(ids))
        return BeamSearchDecoderOutput(best, ids, parents), state, inputs, finished

    def _penalty(self, lengths):
        if isinstance(self._length_weight, (int, float)) and not self._length_weight:
            return 1.0
        return ((5.0 + tf.cast(lengths, tf.float32)) / 6.0) ** self._length_weight

    def finalize(self, outputs, final_state, sequence_lengths):
        longest = tf.cast(tf.reduce_max(final_state.lengths, 1), tf.int32)
        ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end)
        if self._reorders:
            # A step writes before it chooses: in the places of the parents.
            own = tf.zeros_like(ids) + tf.range(self._beam_width)
            beams = gather_tree(outputs.parent_ids, outputs.parent_ids, longest, self._beam_width)
            is_within = tf.transpose(tf.sequence_mask(final_state.lengths, tf.shape(ids)[0]), [2, 0, 1])
            beams = tf.where(is_within, beams, own)

            def reordered(value):
                if not isinstance(value, tf.TensorArray) or not value.element_shape.rank:
                    return value
                steps = value.stack()
                by_beam = tf.reshape(steps, tf.concat([tf.shape(beams), [-1]], 0))
                return tf.reshape(tf.gather(by_beam, beams, batch_dims=2), tf.shape(steps))

            final_state = final_state._replace(cell_state=tf.nest.map_structure(reordered, final_state.cell_state))
        return FinalBeamSearchDecoderOutput(ids, outputs), final_state
