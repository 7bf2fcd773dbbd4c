"""The cell that attends."""

import collections

from tf_estimator.tf1.attention.mechanisms import dense

import tensorflow.compat.v1 as tf


class AttentionWrapperState(
    collections.namedtuple(
        'AttentionWrapperState', ('cell_state', 'attention', 'time', 'alignments', 'alignment_history', 'attention_state')
    )
):
    """The state of an AttentionWrapper."""

    def clone(self, **kwargs):
        """Returns the state with other values."""
        return self._replace(**kwargs)


class AttentionWrapper(tf.nn.rnn_cell.RNNCell):
    """A cell that also reads what it attended to in the last step.

    Args:
      cell: an RNNCell.
      attention_mechanism: one, or a list.
      attention_layer_size: of the layer on the cell's output and the context, or a list; None for the context alone.
      alignment_history: whether the state has the weights of all steps, a TensorArray.
      cell_input_fn: function of the inputs and the attention; by default they are joined.
      output_attention: whether the output is the attention, as of Luong; else the cell's, as of Bahdanau.
      initial_cell_state: for zero_state.
      attention_layer: a layer, or a list, in place of attention_layer_size.
    """

    def __init__(
        self,
        cell,
        attention_mechanism,
        attention_layer_size=None,
        alignment_history=False,
        cell_input_fn=None,
        output_attention=True,
        initial_cell_state=None,
        name=None,
        attention_layer=None,
        attention_fn=None,
        dtype=None,
    ):
        super().__init__(name=name, dtype=dtype)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        self._attention_mechanisms = mechanisms = self._as_tuple(attention_mechanism)
        if attention_layer_size is not None and attention_layer is not None:
            raise ValueError('give attention_layer_size or attention_layer, not both')
        layers = None if attention_layer is None else self._as_tuple(attention_layer)
        given = layers if attention_layer_size is None else self._as_tuple(attention_layer_size)
        if given is not None and len(given) != len(mechanisms):
            raise ValueError(f'{len(mechanisms)} attention mechanisms need as many attention layers, not {len(given)}')
        if given and given is not layers:
            layers = tuple(dense(size, 'attention_layer', of.dtype) for size, of in zip(given, mechanisms))
        widths = [tf.compat.dimension_value(mechanism.values.shape[-1]) for mechanism in mechanisms]
        if layers:
            shapes = [tf.TensorShape([None, cell.output_size + width]) for width in widths]
            widths = [tf.compat.dimension_value(layer.compute_output_shape(of)[-1]) for layer, of in zip(layers, shapes)]
        self._attention_layers, self._attention_layer_size = layers, sum(widths)
        self._cell, self._alignment_history, self._output_attention = cell, alignment_history, output_attention
        self._cell_input_fn = cell_input_fn or (lambda inputs, attention: tf.concat([inputs, attention], -1))
        self._initial_cell_state = initial_cell_state
        self._attention_fn = attention_fn or _compute_attention

    @staticmethod
    def _as_tuple(value):
        return tuple(value) if isinstance(value, (list, tuple)) else (value,)

    def _item_or_tuple(self, values):
        return tuple(values) if self._is_multi else next(iter(values))

    @property
    def output_size(self):
        return self._attention_layer_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self):
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            time=tf.TensorShape([]),
            attention=self._attention_layer_size,
            alignments=self._item_or_tuple(mechanism.alignments_size for mechanism in self._attention_mechanisms),
            attention_state=self._item_or_tuple(mechanism.state_size for mechanism in self._attention_mechanisms),
            alignment_history=self._item_or_tuple(
                mechanism.alignments_size if self._alignment_history else () for mechanism in self._attention_mechanisms
            ),
        )

    def zero_state(self, batch_size, dtype):
        """Returns the state before the first step."""
        cell_state = self._initial_cell_state
        if cell_state is None:
            cell_state = self._cell.zero_state(batch_size, dtype)
        alignments = [mechanism.initial_alignments(batch_size, dtype) for mechanism in self._attention_mechanisms]
        return AttentionWrapperState(
            cell_state=tf.nest.map_structure(tf.identity, cell_state),
            time=tf.zeros([], tf.int32),
            attention=tf.zeros([batch_size, self._attention_layer_size], dtype),
            alignments=self._item_or_tuple(alignments),
            attention_state=self._item_or_tuple(
                mechanism.initial_state(batch_size, dtype) for mechanism in self._attention_mechanisms
            ),
            alignment_history=self._item_or_tuple(
                tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=alignment.shape) if self._alignment_history else ()
                for alignment in alignments
            ),
        )

    def call(self, inputs, state):
        outputs, cell_state = self._cell(self._cell_input_fn(inputs, state.attention), state.cell_state)
        states = state.attention_state if self._is_multi else (state.attention_state,)
        histories = state.alignment_history if self._is_multi else (state.alignment_history,)
        layers = self._attention_layers or [None] * len(states)
        found = [
            self._attention_fn(mechanism, outputs, previous, layer)
            for mechanism, previous, layer in zip(self._attention_mechanisms, states, layers)
        ]
        attentions, alignments, next_states = zip(*found)
        attention = tf.concat(attentions, 1)
        if self._alignment_history:
            histories = [history.write(state.time, weights) for history, weights in zip(histories, alignments)]
        state = AttentionWrapperState(
            cell_state=cell_state,
            time=state.time + 1,
            attention=attention,
            alignments=self._item_or_tuple(alignments),
            attention_state=self._item_or_tuple(next_states),
            alignment_history=self._item_or_tuple(histories),
        )
        return attention if self._output_attention else outputs, state


def _compute_attention(mechanism, outputs, state, layer):
    alignments, state = mechanism(outputs, state=state)
    context = tf.squeeze(tf.matmul(alignments[:, None], mechanism.values), 1)
    attention = layer(tf.concat([outputs, context], 1)) if layer else context
    return attention, alignments, state
