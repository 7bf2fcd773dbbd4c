"""tf.contrib.legacy_seq2seq: models of sequences as lists of steps, and their losses."""

import copy

from tf_estimator.tf1 import rnn

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


def basic_rnn_seq2seq(encoder_inputs, decoder_inputs, cell, dtype=tf.float32, scope=None):
    """Returns what rnn_decoder does, from the last state of a copy of the cell that reads encoder_inputs."""
    with tf.variable_scope(scope or 'basic_rnn_seq2seq'):
        _, state = tf.nn.static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(encoder_inputs, decoder_inputs, cell, loop_function=None, dtype=tf.float32, scope=None):
    """As basic_rnn_seq2seq, but the cell itself reads both."""
    with tf.variable_scope('combined_tied_rnn_seq2seq'):
        scope = scope or 'tied_rnn_seq2seq'
        _, state = tf.nn.static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        tf.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, scope)


def embedding_rnn_decoder(
    decoder_inputs,
    initial_state,
    cell,
    num_symbols,
    embedding_size,
    output_projection=None,
    feed_previous=False,
    update_embedding_for_previous=True,
    scope=None,
):
    """Returns what rnn_decoder does for ids, int [batch]; if feed_previous, for the first and then the most probable ones.

    Args:
      output_projection: a kernel and a bias from outputs to scores; by default they are the same.
      update_embedding_for_previous: whether the embeddings of the most probable ids have gradients.
    """
    with tf.variable_scope(scope or 'embedding_rnn_decoder'):
        options = (output_projection, feed_previous, update_embedding_for_previous)
        inputs, loop_function = _embedded(decoder_inputs, num_symbols, embedding_size, *options)
        return rnn_decoder(inputs, initial_state, cell, loop_function)


def embedding_rnn_seq2seq(
    encoder_inputs,
    decoder_inputs,
    cell,
    num_encoder_symbols,
    num_decoder_symbols,
    embedding_size,
    output_projection=None,
    feed_previous=False,
    dtype=None,
    scope=None,
):
    """Returns what embedding_rnn_decoder does, from the last state of a copy of the cell that reads encoder_inputs.

    Args:
      output_projection: as of embedding_rnn_decoder; by default outputs are scores, of num_decoder_symbols.
      feed_previous: a bool, or a tensor.
    """
    with tf.variable_scope(scope or 'embedding_rnn_seq2seq', dtype=dtype) as made:
        encoder = rnn.EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=made.dtype)
        if output_projection is None:
            cell = rnn.OutputProjectionWrapper(cell, num_decoder_symbols)
        arguments = (decoder_inputs, state, cell, num_decoder_symbols, embedding_size, output_projection)
        return _by_condition(embedding_rnn_decoder, arguments, feed_previous)


def attention_decoder(
    decoder_inputs,
    initial_state,
    attention_states,
    cell,
    output_size=None,
    num_heads=1,
    loop_function=None,
    dtype=None,
    scope=None,
    initial_state_attention=False,
):
    """As rnn_decoder, with attention. (O. Vinyals et al.: Grammar as a Foreign Language, 2015.)

    Args:
      attention_states: float [batch, time, size].
      output_size: by default that of the cell.
      initial_state_attention: whether the first step reads what the initial state attends to, not zeros.
    """
    with tf.variable_scope(scope or 'attention_decoder', dtype=dtype) as made:
        size = tf.compat.dimension_value(attention_states.shape[2])
        heads = []
        for head in range(num_heads):
            kernel = tf.get_variable(f'AttnW_{head}', [1, 1, size, size])
            keys = tf.einsum('bti,ij->btj', attention_states, kernel[0, 0])
            heads.append((keys, tf.get_variable(f'AttnV_{head}', [size])))

        def attend(state):
            found = []
            for head, (keys, v) in enumerate(heads):
                with tf.variable_scope(f'Attention_{head}'):
                    query = rnn.linear(tf.nest.flatten(state), size, True)
                weights = tf.nn.softmax(tf.reduce_sum(v * tf.tanh(keys + query[:, None]), 2))
                found.append(tf.reduce_sum(weights[:, :, None] * attention_states, 1))
            return found

        state = initial_state
        outputs: list[tf.Tensor] = []
        attentions = [tf.zeros_like(attention_states[:, 0])] * num_heads
        if initial_state_attention:
            attentions = attend(state)
        for i, inputs in enumerate(decoder_inputs):
            if i:
                made.reuse_variables()
            if loop_function is not None and outputs:
                with tf.variable_scope('loop_function', reuse=True):
                    inputs = loop_function(outputs[-1], i)
            joined = rnn.linear([inputs, *attentions], tf.compat.dimension_value(inputs.shape[1]), True)
            output, state = cell(joined, state)
            with tf.variable_scope(made, reuse=True if initial_state_attention else None):
                attentions = attend(state)
            with tf.variable_scope('AttnOutputProjection'):
                outputs.append(rnn.linear([output, *attentions], output_size or cell.output_size, True))
    return outputs, state


def embedding_attention_decoder(
    decoder_inputs,
    initial_state,
    attention_states,
    cell,
    num_symbols,
    embedding_size,
    num_heads=1,
    output_size=None,
    output_projection=None,
    feed_previous=False,
    update_embedding_for_previous=True,
    dtype=None,
    scope=None,
    initial_state_attention=False,
):
    """As embedding_rnn_decoder, with the attention of attention_decoder."""
    with tf.variable_scope(scope or 'embedding_attention_decoder', dtype=dtype):
        options = (output_projection, feed_previous, update_embedding_for_previous)
        inputs, loop_function = _embedded(decoder_inputs, num_symbols, embedding_size, *options)
        return attention_decoder(
            inputs,
            initial_state,
            attention_states,
            cell,
            output_size,
            num_heads,
            loop_function,
            initial_state_attention=initial_state_attention,
        )


def embedding_attention_seq2seq(
    encoder_inputs,
    decoder_inputs,
    cell,
    num_encoder_symbols,
    num_decoder_symbols,
    embedding_size,
    num_heads=1,
    output_projection=None,
    feed_previous=False,
    dtype=None,
    scope=None,
    initial_state_attention=False,
):
    """As embedding_rnn_seq2seq, with attention to the outputs of the copy."""
    with tf.variable_scope(scope or 'embedding_attention_seq2seq', dtype=dtype) as made:
        encoder = rnn.EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        outputs, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=made.dtype)
        size = None
        if output_projection is None:
            cell, size = rnn.OutputProjectionWrapper(cell, num_decoder_symbols), num_decoder_symbols
        symbols = (num_decoder_symbols, embedding_size)
        arguments = (decoder_inputs, state, tf.stack(outputs, 1), cell, *symbols, num_heads, size, output_projection)
        options = {'initial_state_attention': initial_state_attention}
        return _by_condition(embedding_attention_decoder, arguments, feed_previous, **options)


def _embedded(inputs, count, size, output_projection, feed_previous, has_gradient):
    """Returns the embeddings of ids, and, if feed_previous, the loop_function for those of the most probable ones."""
    embedding = tf.get_variable('embedding', [count, size])

    def of_previous(output, step):
        scores = output if output_projection is None else tf.nn.xw_plus_b(output, *output_projection)
        found = tf.nn.embedding_lookup(embedding, tf.argmax(scores, 1))
        return found if has_gradient else tf.stop_gradient(found)

    return [tf.nn.embedding_lookup(embedding, ids) for ids in inputs], of_previous if feed_previous else None


def _by_condition(decoder, arguments, feed_previous, **options):
    """Calls a decoder with feed_previous, a bool or a tensor."""
    if isinstance(feed_previous, bool):
        return decoder(*arguments, feed_previous=feed_previous, **options)

    def decode(feeds, reuse):
        with tf.variable_scope(tf.get_variable_scope(), reuse=reuse):
            return decoder(*arguments, feed_previous=feeds, update_embedding_for_previous=False, **options)

    return tf.cond(feed_previous, lambda: decode(True, None), lambda: decode(False, True), strict=True)


def model_with_buckets(
    encoder_inputs,
    decoder_inputs,
    targets,
    weights,
    buckets,
    seq2seq,
    softmax_loss_function=None,
    per_example_loss=False,
    name=None,
):
    """Returns the outputs of a model, and its losses, for buckets, pairs of the lengths of inputs and of outputs.

    Args:
      seq2seq: function of encoder_inputs and decoder_inputs of these lengths to outputs and a state.
    """
    for values, length in zip((encoder_inputs, targets, weights), (buckets[-1][0], *[buckets[-1][1]] * 2)):
        if len(values) < length:
            raise ValueError(f'{len(values)} steps are fewer than those of the last bucket, {length}')
    compute = sequence_loss_by_example if per_example_loss else sequence_loss
    outputs, losses = [], []
    for i, (length, steps) in enumerate(buckets):
        with tf.variable_scope(tf.get_variable_scope(), reuse=True if i else None):
            found, _ = seq2seq(encoder_inputs[:length], decoder_inputs[:steps])
        outputs.append(found)
        losses.append(compute(found, targets[:steps], weights[:steps], softmax_loss_function=softmax_loss_function))
    return outputs, losses


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
