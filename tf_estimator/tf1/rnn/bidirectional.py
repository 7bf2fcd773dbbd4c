"""Layers of cells in both directions."""

import tensorflow.compat.v1 as tf


def stack_bidirectional_dynamic_rnn(
    cells_fw,
    cells_bw,
    inputs,
    initial_states_fw=None,
    initial_states_bw=None,
    dtype=None,
    sequence_length=None,
    parallel_iterations=None,
    time_major=False,
    scope=None,
    swap_memory=False,
):
    """Returns the outputs of the last of several bidirectional layers, joined; and the tuples of states of both directions."""

    def layer(forward, backward, inputs, state_fw, state_bw):
        outputs, states = tf.nn.bidirectional_dynamic_rnn(
            forward, backward, inputs, sequence_length, state_fw, state_bw, dtype, parallel_iterations, swap_memory, time_major
        )
        return tf.concat(outputs, 2), *states

    return _stacked(layer, cells_fw, cells_bw, inputs, initial_states_fw, initial_states_bw, scope)


def stack_bidirectional_rnn(
    cells_fw,
    cells_bw,
    inputs,
    initial_states_fw=None,
    initial_states_bw=None,
    dtype=None,
    sequence_length=None,
    scope=None,
):
    """Like stack_bidirectional_dynamic_rnn, for a list of inputs [batch, size]."""

    def layer(forward, backward, inputs, state_fw, state_bw):
        scope = tf.get_variable_scope()  # Without a name of its own, unlike the dynamic function.
        return tf.nn.static_bidirectional_rnn(forward, backward, inputs, state_fw, state_bw, dtype, sequence_length, scope)

    return _stacked(layer, cells_fw, cells_bw, inputs, initial_states_fw, initial_states_bw, scope)


def _stacked(layer, cells_fw, cells_bw, inputs, initial_states_fw, initial_states_bw, scope):
    if len(cells_fw) != len(cells_bw):
        raise ValueError(f'Forward and Backward cells should have the same depth, not {len(cells_fw)} and {len(cells_bw)}')
    if not cells_fw:
        raise ValueError('Must specify at least one cell of each direction')
    starts = [[None] * len(cells_fw) if states is None else states for states in (initial_states_fw, initial_states_bw)]
    if any(not isinstance(states, (list, tuple)) or len(states) != len(cells_fw) for states in starts):
        raise ValueError('initial_states_fw and initial_states_bw must be lists of states, one per layer')
    layers = zip(cells_fw, cells_bw, *starts)
    states = []
    with tf.variable_scope(scope or 'stack_bidirectional_rnn'):
        for i, (forward, backward, state_fw, state_bw) in enumerate(layers):
            with tf.variable_scope(f'cell_{i}'):
                inputs, *ends = layer(forward, backward, inputs, state_fw, state_bw)
            states.append(ends)
    return inputs, *zip(*states)
