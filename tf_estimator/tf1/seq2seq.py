"""tf.contrib.seq2seq: decoders, what they read at each step, and the loss of sequences."""

import collections

from tf_estimator.tf1.decoding import Decoder, embedding_function, transposed

import tensorflow.compat.v1 as tf


class BasicDecoderOutput(collections.namedtuple('BasicDecoderOutput', ('rnn_output', 'sample_id'))):
    """The output of a step: of the cell, float [batch, size], and the ids sampled from it, [batch]."""


class BasicDecoder(Decoder):
    """Args:
    cell: an RNNCell.
    helper: what samples, and gives the next inputs.
    initial_state: of the cell.
    output_layer: a tf.layers layer on the cell's output, or None.
    """

    def __init__(self, cell, helper, initial_state, output_layer=None):
        self._cell, self._helper, self._initial_state, self._output_layer = cell, helper, initial_state, output_layer

    @property
    def batch_size(self):
        return self._helper.batch_size

    def _rnn_output_size(self):
        size = self._cell.output_size  # May be nested, as what a wrapper joins to its outputs.
        if self._output_layer is None:
            return size
        rows = tf.nest.map_structure(tf.TensorShape([None]).concatenate, size)
        return tf.nest.map_structure(lambda shape: shape[1:], self._output_layer.compute_output_shape(rows))

    @property
    def output_size(self):
        return BasicDecoderOutput(self._rnn_output_size(), self._helper.sample_ids_shape)

    @property
    def output_dtype(self):
        dtype = tf.nest.flatten(self._initial_state)[0].dtype
        return BasicDecoderOutput(
            tf.nest.map_structure(lambda _: dtype, self._rnn_output_size()), self._helper.sample_ids_dtype
        )

    def initialize(self, name=None):
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time, inputs, state, name=None):
        outputs, state = self._cell(inputs, state)
        if self._output_layer is not None:
            outputs = self._output_layer(outputs)
        sample_ids = self._helper.sample(time=time, outputs=outputs, state=state)
        finished, inputs, state = self._helper.next_inputs(time=time, outputs=outputs, state=state, sample_ids=sample_ids)
        return BasicDecoderOutput(outputs, sample_ids), state, inputs, finished


class Helper:
    """What a BasicDecoder reads: initialize() gives (finished, inputs), next_inputs() gives (finished, inputs, state)."""

    sample_ids_shape = tf.TensorShape([])
    sample_ids_dtype = tf.int32
    _batch_size: tf.Tensor

    @property
    def batch_size(self):
        return self._batch_size

    def sample(self, time, outputs, state, name=None):
        """Returns the most probable ids, int32 [batch]."""
        return tf.argmax(outputs, -1, output_type=tf.int32)


class TrainingHelper(Helper):
    """Reads given inputs.

    Args:
      inputs: nested tensors [batch, time, ...], or [time, batch, ...] if time_major.
      sequence_length: int32 [batch].
    """

    def __init__(self, inputs, sequence_length, time_major=False, name=None):
        inputs = tf.nest.map_structure(tf.convert_to_tensor, inputs)
        self._inputs, self._by_time = inputs, inputs if time_major else tf.nest.map_structure(transposed, inputs)
        self._sequence_length = tf.convert_to_tensor(sequence_length)
        self._batch_size = tf.size(self._sequence_length)
        self._steps = tf.shape(tf.nest.flatten(self._by_time)[0])[0]
        # For subclasses of programs.
        self._input_tas = tf.nest.map_structure(_steps_of, self._by_time)
        self._zero_inputs = tf.nest.map_structure(lambda tensor: tf.zeros_like(tensor[0]), self._by_time)

    @property
    def inputs(self):
        return self._inputs

    @property
    def sequence_length(self):
        return self._sequence_length

    def _read(self, time):
        """Returns the inputs of a step, zeros beyond the last."""
        safe = tf.minimum(time, tf.maximum(self._steps - 1, 0))
        is_over = tf.greater_equal(time, self._steps)

        def read(tensor):
            row = tensor[safe]
            return tf.where(tf.fill(tf.shape(row), is_over), tf.zeros_like(row), row)

        return tf.nest.map_structure(read, self._by_time)

    def initialize(self, name=None):
        return tf.equal(0, self.sequence_length), self._read(tf.constant(0))

    def sample(self, time, outputs, *unused, **unused_options):
        return super().sample(time, outputs, None)

    def next_inputs(self, time, outputs, state, *unused, **unused_options):
        return tf.greater_equal(time + 1, self.sequence_length), self._read(time + 1), state


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Reads, with a probability, the embedding of a sampled id in place of the given input.

    (S. Bengio et al.: Scheduled Sampling for Sequence Prediction with Recurrent Neural Networks, 2015.)
    """

    def __init__(
        self,
        inputs,
        sequence_length,
        embedding,
        sampling_probability,
        time_major=False,
        seed=None,
        scheduling_seed=None,
        name=None,
    ):
        super().__init__(inputs, sequence_length, time_major)
        self._embed = embedding_function(embedding)
        self._probability, self._seed, self._scheduling_seed = sampling_probability, seed, scheduling_seed

    def sample(self, time, outputs, state, name=None):
        chance = tf.random_uniform([self.batch_size], seed=self._scheduling_seed)
        return tf.where(chance < self._probability, _sampled(outputs, self._seed), tf.fill([self.batch_size], -1))

    def next_inputs(self, time, outputs, state, sample_ids=None, name=None):
        finished, inputs, state = super().next_inputs(time, outputs, state)
        embedded = tf.cast(self._embed(tf.maximum(sample_ids, 0)), inputs.dtype)
        return finished, tf.where(sample_ids >= 0, embedded, inputs), state


class ScheduledOutputTrainingHelper(TrainingHelper):
    """Reads, with a probability, the output of the last step in place of the given input. See the paper above.

    Args:
      next_inputs_fn: function from outputs to inputs; None for the outputs themselves.
      auxiliary_inputs: a tensor with the same first dimensions as the inputs, joined to what is read.
    """

    def __init__(
        self,
        inputs,
        sequence_length,
        sampling_probability,
        time_major=False,
        seed=None,
        next_inputs_fn=None,
        auxiliary_inputs=None,
        name=None,
    ):
        self._probability, self._seed, self._next_inputs_fn = sampling_probability, seed, next_inputs_fn or tf.identity
        self._auxiliary = None
        if auxiliary_inputs is not None:
            self._auxiliary = TrainingHelper(auxiliary_inputs, sequence_length, time_major)
            inputs = tf.concat([inputs, self._auxiliary.inputs], -1)
        super().__init__(inputs, sequence_length, time_major)

    def sample(self, time, outputs, state, name=None):
        """Returns 1 for the sequences that read their outputs, else 0, int32 [batch]."""
        return tf.cast(tf.random_uniform([self.batch_size], seed=self._seed) < self._probability, tf.int32)

    def next_inputs(self, time, outputs, state, sample_ids=None, name=None):
        finished, inputs, state = super().next_inputs(time, outputs, state)
        sampled = self._next_inputs_fn(outputs)
        if self._auxiliary:
            sampled = tf.concat([sampled, self._auxiliary._read(time + 1)], -1)
        return finished, tf.where(sample_ids > 0, sampled, inputs), state


class GreedyEmbeddingHelper(Helper):
    """Reads the embedding of the most probable id.

    Args:
      embedding: function from ids, int [batch], to inputs; or a tensor [ids, size].
      start_tokens: int [batch].
      end_token: int scalar.
    """

    def __init__(self, embedding, start_tokens, end_token):
        self._embedding_fn = embedding_function(embedding)
        self._start_tokens, self._end_token = tf.cast(start_tokens, tf.int32), tf.cast(end_token, tf.int32)
        # Here, and only once, as in TensorFlow 1: the function may make a variable in the scope.
        self._start_inputs, self._batch_size = self._embedding_fn(self._start_tokens), tf.size(self._start_tokens)

    def initialize(self, name=None):
        return tf.fill([self.batch_size], False), self._start_inputs

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        finished = tf.equal(sample_ids, self._end_token)
        inputs = tf.cond(tf.reduce_all(finished), lambda: self._start_inputs, lambda: self._embedding_fn(sample_ids))
        return finished, inputs, state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Reads the embedding of an id sampled from softmax(outputs / softmax_temperature)."""

    def __init__(self, embedding, start_tokens, end_token, softmax_temperature=None, seed=None):
        super().__init__(embedding, start_tokens, end_token)
        self._temperature, self._seed = softmax_temperature, seed

    def sample(self, time, outputs, state, name=None):
        return _sampled(outputs if self._temperature is None else outputs / self._temperature, self._seed)


class CustomHelper(Helper):
    """Calls functions: initialize_fn(), sample_fn(time, outputs, state), next_inputs_fn(time, outputs, state, sample_ids)."""

    def __init__(self, initialize_fn, sample_fn, next_inputs_fn, sample_ids_shape=None, sample_ids_dtype=None):
        self._initialize_fn, self._sample_fn, self._next_inputs_fn = initialize_fn, sample_fn, next_inputs_fn
        self.sample_ids_shape = tf.TensorShape(sample_ids_shape or [])
        self.sample_ids_dtype = sample_ids_dtype or tf.int32
        self._batch_size = None

    def initialize(self, name=None):
        finished, inputs = self._initialize_fn()
        if self._batch_size is None:
            self._batch_size = tf.size(finished)
        return finished, inputs

    def sample(self, time, outputs, state, name=None):
        return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        return self._next_inputs_fn(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


class InferenceHelper(CustomHelper):
    """Calls functions: sample_fn(outputs), end_fn(sample_ids), and next_inputs_fn(sample_ids), by default the samples."""

    def __init__(self, sample_fn, sample_shape, sample_dtype, start_inputs, end_fn, next_inputs_fn=None):
        start, read = tf.convert_to_tensor(start_inputs), next_inputs_fn or tf.identity
        super().__init__(
            lambda: (tf.fill([self.batch_size], False), start),
            lambda time, outputs, state: sample_fn(outputs),
            lambda time, outputs, state, sample_ids: (end_fn(sample_ids), read(sample_ids), state),
            sample_shape,
            sample_dtype,
        )
        self._batch_size = tf.shape(start)[0]


def _steps_of(tensor):
    """Returns the TensorArray of a tensor [time, ...], whose steps can be read several times."""
    array = tf.TensorArray(tensor.dtype, tf.shape(tensor)[0], clear_after_read=False, element_shape=tensor.shape[1:])
    return array.unstack(tensor).identity()  # Else, unused ones are logged.


def _sampled(logits, seed):
    return tf.squeeze(tf.random.categorical(logits, 1, seed=seed, dtype=tf.int32), 1)


def sequence_loss(
    logits,
    targets,
    weights,
    average_across_timesteps=True,
    average_across_batch=True,
    sum_over_timesteps=False,
    sum_over_batch=False,
    softmax_loss_function=None,
    name=None,
):
    """Returns the weighted cross-entropy of sequences: a scalar, or of the axes that are neither averaged nor summed.

    Args:
      logits: float [batch, time, classes].
      targets: int [batch, time].
      weights: float [batch, time].
      softmax_loss_function: function of labels and logits, in place of sparse cross-entropy.
    """
    if average_across_timesteps and sum_over_timesteps or average_across_batch and sum_over_batch:
        raise ValueError('an axis cannot be averaged and summed')
    if softmax_loss_function is None:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    else:
        flat = softmax_loss_function(labels=tf.reshape(targets, [-1]), logits=tf.reshape(logits, [-1, tf.shape(logits)[2]]))
        losses = tf.reshape(flat, tf.shape(targets))
    losses *= weights
    averaged, summed = (average_across_batch, average_across_timesteps), (sum_over_batch, sum_over_timesteps)
    # As in TensorFlow 1, an average excludes sums of the other axis.
    axes, counts = (averaged, weights) if any(averaged) else (summed, tf.cast(tf.not_equal(weights, 0), losses.dtype))
    axis = [number for number, is_reduced in enumerate(axes) if is_reduced]
    return tf.math.divide_no_nan(tf.reduce_sum(losses, axis), tf.reduce_sum(counts, axis)) if axis else losses
