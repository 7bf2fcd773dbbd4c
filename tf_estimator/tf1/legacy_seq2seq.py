"""tf.contrib.legacy_seq2seq: encoders, decoders and losses of lists of steps."""

import copy

from tf_estimator.tf1.rnn.dense import attended, linear
from tf_estimator.tf1.rnn.wrappers import EmbeddingWrapper, OutputProjectionWrapper

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
    """Like basic_rnn_seq2seq, with the same weights for encoder and decoder."""
    with tf.variable_scope('combined_tied_rnn_seq2seq') as made:
        scope = scope or 'tied_rnn_seq2seq'
        _, state = tf.nn.static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        made.reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, scope)


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
    """Like rnn_decoder; the cell attends to attention_states. (O. Vinyals et al.: Grammar as a Foreign Language, 2015.)

    Args:
      attention_states: [batch, time, size].
      output_size: by default that of the cell.
      initial_state_attention: whether the first step has attention from the initial state, rather than zeros.
    """
    if not decoder_inputs:
        raise ValueError('Must provide at least 1 input to attention decoder')
    if num_heads < 1:
        raise ValueError(f'attention_decoder needs at least 1 head, not num_heads={num_heads}')
    size = tf.compat.dimension_value(attention_states.shape[2])
    with tf.variable_scope(scope or 'attention_decoder', dtype=dtype) as made:
        heads = []
        for i in range(num_heads):
            weights = tf.get_variable(f'AttnW_{i}', [1, 1, size, size])
            heads.append((tf.tensordot(attention_states, weights[0, 0], 1), tf.get_variable(f'AttnV_{i}', [size])))

        def attend(state):
            found = []
            for i, head in enumerate(heads):
                with tf.variable_scope(f'Attention_{i}', reuse=tf.AUTO_REUSE):
                    found.append(attended(attention_states, *head, state))
            return found

        def step(inputs, state):
            state, attention = state
            output, state = cell(linear([inputs, *attention], tf.compat.dimension_value(inputs.shape[1]), True), state)
            attention = attend(state)
            with tf.variable_scope('AttnOutputProjection'):
                return linear([output, *attention], output_size or cell.output_size, True), (state, attention)

        nothing = [tf.zeros_like(attention_states[:, 0])] * num_heads
        start = initial_state, attend(initial_state) if initial_state_attention else nothing
        outputs, (state, _) = rnn_decoder(decoder_inputs, start, step, loop_function, made)
    return outputs, state


def _embedded(num_symbols, embedding_size, decoder_inputs, output_projection, feed_previous, update):
    """Returns the embeddings of ids, and the loop_function of those of the best outputs if feed_previous, else None.

    Args:
      output_projection: weights and biases of the logits of an output; None if the outputs are logits.
      update: whether the loop_function has gradients.
    """
    if output_projection is not None:
        for part, shape in zip(output_projection, ([None, num_symbols], [num_symbols])):
            tf.convert_to_tensor(part).shape.assert_is_compatible_with(shape)
    embedding = tf.get_variable('embedding', [num_symbols, embedding_size])

    def embed_best(output, _):
        logits = output if output_projection is None else tf.nn.xw_plus_b(output, *output_projection)
        found = tf.nn.embedding_lookup(embedding, tf.argmax(logits, 1))
        return found if update else tf.stop_gradient(found)

    embeddings = [tf.nn.embedding_lookup(embedding, ids) for ids in decoder_inputs]
    return embeddings, embed_best if feed_previous else None


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
    """Like rnn_decoder, for ids, int [batch]; after the first, those of the best outputs if feed_previous."""
    with tf.variable_scope(scope or 'embedding_rnn_decoder'):
        inputs, loop = _embedded(
            num_symbols, embedding_size, decoder_inputs, output_projection, feed_previous, update_embedding_for_previous
        )
        return rnn_decoder(inputs, initial_state, cell, loop)


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
    """Like embedding_rnn_decoder, with attention."""
    with tf.variable_scope(scope or 'embedding_attention_decoder', dtype=dtype):
        inputs, loop = _embedded(
            num_symbols, embedding_size, decoder_inputs, output_projection, feed_previous, update_embedding_for_previous
        )
        options = {'loop_function': loop, 'initial_state_attention': initial_state_attention}
        return attention_decoder(inputs, initial_state, attention_states, cell, output_size, num_heads, **options)


def _decoded(feed_previous, decode):
    """Returns outputs and state of a function of feed_previous, maybe a tensor, and of whether its inputs have gradients."""
    if isinstance(feed_previous, bool):
        return decode(feed_previous, True)

    def branch(is_fed):
        with tf.variable_scope(tf.get_variable_scope(), reuse=None if is_fed else True):
            return decode(is_fed, False)

    return tf.cond(feed_previous, lambda: branch(True), lambda: branch(False), strict=True)


def _encoded(ids, cell, num_symbols, embedding_size, dtype):
    """Returns the outputs and the last state of a copy of the cell that reads the embeddings of ids."""
    return tf.nn.static_rnn(EmbeddingWrapper(copy.deepcopy(cell), num_symbols, embedding_size), ids, dtype=dtype)


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
    """Like basic_rnn_seq2seq, for ids; the outputs are logits unless there is an output_projection."""
    with tf.variable_scope(scope or 'embedding_rnn_seq2seq', dtype=dtype) as made:
        _, state = _encoded(encoder_inputs, cell, num_encoder_symbols, embedding_size, made.dtype)
        cell = cell if output_projection is not None else OutputProjectionWrapper(cell, num_decoder_symbols)
        sizes = num_decoder_symbols, embedding_size, output_projection
        return _decoded(feed_previous, lambda *how: embedding_rnn_decoder(decoder_inputs, state, cell, *sizes, *how))


def one2many_rnn_seq2seq(
    encoder_inputs,
    decoder_inputs_dict,
    enc_cell,
    dec_cells_dict,
    num_encoder_symbols,
    num_decoder_symbols_dict,
    embedding_size,
    feed_previous=False,
    dtype=None,
    scope=None,
):
    """Like embedding_rnn_seq2seq, with a decoder for each of several tasks.

    (M. Luong et al.: Multi-task Sequence to Sequence Learning, 2016.)

    Args:
      decoder_inputs_dict, dec_cells_dict, num_decoder_symbols_dict: of the tasks, {name: value}.

    Returns:
      Their outputs, {name: list of logits}, and {name: state}.
    """
    if dec_cells_dict.keys() != decoder_inputs_dict.keys():
        raise ValueError('keys of dec_cells_dict != keys of decoder_inputs_dict')

    def decoded(name):
        symbols = num_decoder_symbols_dict[name]
        with tf.variable_scope(f'one2many_decoder_{name}'):
            cell = OutputProjectionWrapper(dec_cells_dict[name], symbols)
            arguments = decoder_inputs_dict[name], state, cell, symbols, embedding_size, None
            return _decoded(feed_previous, lambda is_fed, _: embedding_rnn_decoder(*arguments, is_fed))

    with tf.variable_scope(scope or 'one2many_rnn_seq2seq', dtype=dtype) as made:
        enc_cell = EmbeddingWrapper(enc_cell, num_encoder_symbols, embedding_size)
        _, state = tf.nn.static_rnn(enc_cell, encoder_inputs, dtype=made.dtype)
        found = {name: decoded(name) for name in decoder_inputs_dict}
    return {name: outputs for name, (outputs, _) in found.items()}, {name: state for name, (_, state) in found.items()}


def embedding_tied_rnn_seq2seq(
    encoder_inputs,
    decoder_inputs,
    cell,
    num_symbols,
    embedding_size,
    num_decoder_symbols=None,
    output_projection=None,
    feed_previous=False,
    dtype=None,
    scope=None,
):
    """Like embedding_rnn_seq2seq, with the same embeddings and weights for encoder and decoder."""
    with tf.variable_scope(scope or 'embedding_tied_rnn_seq2seq', dtype=dtype) as made:
        cell = cell if output_projection is not None else OutputProjectionWrapper(cell, num_decoder_symbols or num_symbols)

        def decode(*how):
            ids, length = [*encoder_inputs, *decoder_inputs], len(encoder_inputs)
            inputs, loop = _embedded(num_symbols, embedding_size, ids, output_projection, *how)
            return tied_rnn_seq2seq(inputs[:length], inputs[length:], cell, loop, made.dtype)

        return _decoded(feed_previous, decode)


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
    """Like embedding_rnn_seq2seq, with attention to the outputs of the encoder."""
    with tf.variable_scope(scope or 'embedding_attention_seq2seq', dtype=dtype) as made:
        outputs, state = _encoded(encoder_inputs, cell, num_encoder_symbols, embedding_size, made.dtype)
        outputs, size = tf.stack(outputs, 1), None
        if output_projection is None:
            cell, size = OutputProjectionWrapper(cell, num_decoder_symbols), num_decoder_symbols
        sizes = num_decoder_symbols, embedding_size, num_heads, size, output_projection
        options = {'initial_state_attention': initial_state_attention}
        return _decoded(
            feed_previous,
            lambda *how: embedding_attention_decoder(decoder_inputs, state, outputs, cell, *sizes, *how, **options),
        )


def _cross_entropy(labels, logits):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(labels, [-1]), logits=logits)


def sequence_loss_by_example(logits, targets, weights, average_across_timesteps=True, softmax_loss_function=None, name=None):
    """Returns the weighted cross-entropy of sequences, float [batch], for lists of [batch, classes], [batch] and [batch]."""
    loss = softmax_loss_function or _cross_entropy
    total = tf.add_n(
        [loss(labels=target, logits=logit) * weight for logit, target, weight in zip(logits, targets, weights, strict=True)]
    )
    return total / (tf.add_n(weights) + 1e-12) if average_across_timesteps else total


def sequence_loss(
    logits, targets, weights, average_across_timesteps=True, average_across_batch=True, softmax_loss_function=None, name=None
):
    """Returns the sum of sequence_loss_by_example, divided by the size of the batch if average_across_batch."""
    losses = sequence_loss_by_example(logits, targets, weights, average_across_timesteps, softmax_loss_function)
    return tf.reduce_mean(losses) if average_across_batch else tf.reduce_sum(losses)


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
    """Returns the outputs and the losses of a model for sequences of each of several lengths, with the same variables.

    Args:
      buckets: pairs of the lengths of inputs and targets.
      seq2seq: function of encoder_inputs and decoder_inputs to outputs and a state.
    """
    outputs, losses = [], []
    for i, (source, target) in enumerate(buckets):
        if len(encoder_inputs) < source or min(map(len, (decoder_inputs, targets, weights))) < target:
            raise ValueError(f'the bucket {source, target} is longer than encoder_inputs, decoder_inputs, targets or weights')
        with tf.variable_scope(tf.get_variable_scope(), reuse=True if i else None):
            found, _ = seq2seq(encoder_inputs[:source], decoder_inputs[:target])
        measure = sequence_loss_by_example if per_example_loss else sequence_loss
        outputs.append(found)
        losses.append(measure(found, targets[:target], weights[:target], softmax_loss_function=softmax_loss_function))
    return outputs, losses
