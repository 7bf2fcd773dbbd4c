"""The loop of a decoder of tf.contrib.seq2seq."""

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import rnn


class Decoder:
    """initialize() returns (finished, inputs, state); step(time, inputs, state) returns (outputs, state, inputs, finished)."""

    tracks_own_finished = False

    def finalize(self, outputs, final_state, sequence_lengths):
        raise NotImplementedError


def embedding_function(embedding):
    """Returns a function from ids to their embeddings, for such a function, or for a tensor [ids, size]."""
    return embedding if callable(embedding) else lambda ids: tf.nn.embedding_lookup(embedding, ids)


def transposed(tensor):
    """Swaps the first two dimensions, batch and time."""
    if tensor.shape.rank is None or tensor.shape.rank < 2:
        return tensor
    return tf.transpose(tensor, [1, 0, *range(2, tensor.shape.rank)])


def dynamic_decode(
    decoder,
    output_time_major=False,
    impute_finished=False,
    maximum_iterations=None,
    parallel_iterations=32,
    swap_memory=False,
    scope=None,
):
    """Returns the outputs of a decoder's steps, nested [batch, time, ...], its last state, and the lengths, int32 [batch].

    Args:
      impute_finished: whether outputs are 0 and states stay as they are beyond the end of a sequence.
      maximum_iterations: int32 scalar; by default decoding ends when all sequences have.
    """
    with tf.variable_scope(scope, 'decoder') as made:
        if made.caching_device is None and rnn._should_cache():  # In a loop, steps may change variables.
            made.set_caching_device(lambda op: op.device)
        finished, inputs, state = decoder.initialize()
        limit = None if maximum_iterations is None else tf.cast(maximum_iterations, tf.int32)
        if limit is not None:
            finished = tf.logical_or(finished, tf.less_equal(limit, 0))
        batch_size = decoder.batch_size if tf.is_tensor(decoder.batch_size) else tf.constant(decoder.batch_size)
        zeros = None
        if impute_finished:
            zeros = _map_outputs(decoder, lambda size, dtype: tf.zeros([batch_size, *tf.TensorShape(size).as_list()], dtype))
        arrays = _map_outputs(
            decoder,
            lambda size, dtype: tf.TensorArray(
                dtype, 0, dynamic_size=True, element_shape=tf.TensorShape([None]).concatenate(tf.TensorShape(size))
            ),
        )
        options = {'parallel_iterations': parallel_iterations, 'swap_memory': swap_memory}
        arrays, state, lengths = _run(decoder, zeros, limit, [arrays, state, inputs, finished], options)
        outputs = tf.nest.map_structure(lambda array: array.stack(), arrays)
        try:
            outputs, state = decoder.finalize(outputs, state, lengths)
        except NotImplementedError:
            pass
        if not output_time_major:
            outputs = tf.nest.map_structure(transposed, outputs)
    return outputs, state, lengths


def _run(decoder, zeros, limit, start, options):
    """Returns the arrays of outputs, the last state and the lengths, given arrays, state, inputs and finished at the start.

    zeros are the outputs beyond the end of a sequence; None for those of the decoder.
    """

    def goes_on(time, arrays, state, inputs, finished, lengths):
        return tf.logical_not(tf.reduce_all(finished))

    def step(time, arrays, state, inputs, finished, lengths):
        outputs, new_state, next_inputs, now_finished = decoder.step(time, inputs, state)
        next_finished = now_finished if decoder.tracks_own_finished else tf.logical_or(now_finished, finished)
        lengths = tf.where(finished, lengths, tf.fill(tf.shape(lengths), time + 1))
        if limit is not None:
            next_finished = tf.logical_or(next_finished, time + 1 >= limit)
        tf.nest.assert_same_structure(state, new_state)
        if zeros is not None:
            outputs = tf.nest.map_structure(lambda new, zero: _choose(finished, zero, new), outputs, zeros)
            new_state = tf.nest.map_structure(lambda new, old: _keep(finished, old, new), new_state, state)
        arrays = tf.nest.map_structure(lambda array, output: array.write(time, output), arrays, outputs)
        tf.nest.map_structure(_keep_shape, [new_state, next_inputs, next_finished], [state, inputs, finished])
        return time + 1, arrays, new_state, next_inputs, next_finished, lengths

    start = [tf.constant(0), *start, tf.zeros_like(start[-1], tf.int32)]
    _, arrays, state, _, _, lengths = tf.while_loop(goes_on, step, start, **options)
    return arrays, state, lengths


def _map_outputs(decoder, function):
    return tf.nest.map_structure(function, decoder.output_size, decoder.output_dtype)


def _keep_shape(new, old):
    if not isinstance(old, tf.TensorArray):
        new.set_shape(old.shape)


def _choose(condition, then, otherwise):
    shape = tf.concat([tf.shape(condition), tf.ones([tf.rank(otherwise) - 1], tf.int32)], 0)
    chosen = tf.where_v2(tf.reshape(condition, shape), then, otherwise)
    chosen.set_shape(otherwise.shape)
    return chosen


def _keep(finished, old, new):
    """Keeps a state, unless it is no tensor with one row for each sequence."""
    if isinstance(old, tf.TensorArray) or new.shape.rank == 0:
        return new
    return _choose(finished, old, new)
