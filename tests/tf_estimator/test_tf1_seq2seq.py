"""Decoders, attention and losses of tf.contrib.seq2seq, compared with NumPy."""

import itertools

from tf_estimator.tf1 import legacy_seq2seq
from tf_estimator.tf1.modules import Package

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.tf_estimator.test_tf1_rnn import evaluate

seq2seq = Package('tensorflow.contrib.seq2seq')
RANDOM = np.random.RandomState(1)
IDS, END, START = 4, 3, 0
TABLE = RANDOM.normal(size=[IDS, IDS]).astype(np.float32) * 2  # The scores of the next id, by the last one.
TABLE[:, END] -= 1
LOG = TABLE - np.log(np.exp(TABLE).sum(1, keepdims=True))


class Chain(tf.nn.rnn_cell.RNNCell):
    """Its output is its input, the row of TABLE of the last id; its state counts the steps."""

    state_size = 1
    output_size = IDS

    def call(self, inputs, state):
        return inputs, state + 1


def run(fetches):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


def greedy(start, steps):
    ids = [start]
    while len(ids) <= steps and (len(ids) == 1 or ids[-1] != END):
        ids.append(int(np.argmax(TABLE[ids[-1]])))
    return ids[1:]


@pytest.mark.parametrize('impute', [False, True])
def test_training_reads_given_inputs_up_to_the_length_of_each_sequence(impute):
    inputs, lengths = RANDOM.normal(size=[2, 3, IDS]).astype(np.float32), np.array([1, 3], np.int32)
    with tf.Graph().as_default():
        decoder = seq2seq.BasicDecoder(Chain(), seq2seq.TrainingHelper(inputs, lengths), tf.zeros([2, 1]))
        outputs, state, found_lengths = seq2seq.dynamic_decode(decoder, impute_finished=impute)
        found, ids, state, found_lengths = run([*outputs, state, found_lengths])
    np.testing.assert_array_equal(found_lengths, lengths)
    assert state.tolist() == ([[1], [3]] if impute else [[3], [3]])
    np.testing.assert_array_equal(found[1], inputs[1])
    np.testing.assert_array_equal(found[0], [inputs[0, 0], *[[0] * IDS] * 2] if impute else inputs[0])
    np.testing.assert_array_equal(ids[1], np.argmax(inputs[1], -1))


def test_a_cell_may_have_nested_outputs():
    class Both(Chain):
        output_size = (IDS, tf.TensorShape([1]))

        def call(self, inputs, state):
            return (inputs, state), state + 1

    class Helper(seq2seq.TrainingHelper):
        def sample(self, time, outputs, state, name=None):
            return super().sample(time, outputs[0], state)

    inputs = RANDOM.normal(size=[2, 3, IDS]).astype(np.float32)
    with tf.Graph().as_default():
        decoder = seq2seq.BasicDecoder(Both(), Helper(inputs, [3, 2]), tf.zeros([2, 1]))
        ((found, steps), ids), _, _ = run(seq2seq.dynamic_decode(decoder, impute_finished=True))
    np.testing.assert_array_equal(found[0], inputs[0])
    assert steps[:, :, 0].tolist() == [[0, 1, 2], [0, 1, 0]]
    np.testing.assert_array_equal(ids[0], np.argmax(inputs[0], -1))


def test_decoding_in_a_loop_reads_variables_that_the_loop_changes():
    class One(Chain):
        output_size = 1

    def twice(step, found):
        layer = tf.layers.Dense(1, use_bias=False, kernel_initializer=tf.ones_initializer(), name='scale')
        decoder = seq2seq.BasicDecoder(One(), seq2seq.TrainingHelper(tf.ones([1, 1, 1]), [1]), tf.zeros([1, 1]), layer)
        outputs, _, _ = seq2seq.dynamic_decode(decoder)
        value = outputs.rnn_output[0, 0, 0]
        with tf.control_dependencies([value]), tf.control_dependencies([layer.kernel.assign_add([[1.0]])]):
            return step + 1, found.write(step, value)

    with tf.Graph().as_default():
        found = tf.TensorArray(tf.float32, 2)
        _, found = tf.while_loop(lambda step, _: step < 2, twice, [tf.constant(0), found], parallel_iterations=1)
        assert run(found.stack()).tolist() == [1, 2]


def best_by_functions(table, starts, end):
    return seq2seq.InferenceHelper(
        lambda outputs: tf.argmax(outputs, 1, output_type=tf.int32),
        [],
        tf.int32,
        tf.gather(table, starts),
        lambda ids: tf.equal(ids, end),
        lambda ids: tf.gather(table, ids),
    )


@pytest.mark.parametrize('helper_of', [seq2seq.GreedyEmbeddingHelper, best_by_functions])
def test_decoding_follows_the_best_id_until_the_end_or_the_limit_with_an_output_layer(helper_of):
    starts = [0, 1, 2]
    with tf.Graph().as_default():
        helper = helper_of(tf.constant(TABLE), tf.constant(starts), END)
        layer = tf.layers.Dense(IDS, use_bias=False, kernel_initializer=tf.constant_initializer(2 * np.eye(IDS)))
        decoder = seq2seq.BasicDecoder(Chain(), helper, tf.zeros([3, 1]), layer)
        outputs, _, lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=5)
        assert outputs.rnn_output.shape.as_list() == [3, None, IDS]
        (scores, ids), lengths = run([outputs, lengths])
    for row, start in enumerate(starts):
        expected = greedy(start, 5)
        assert (lengths[row], ids[row][: lengths[row]].tolist()) == (len(expected), expected)
        np.testing.assert_allclose(scores[row, 0], 2 * TABLE[start])


@pytest.mark.parametrize('weight', [0.0, 1.5])
def test_a_wide_beam_finds_the_sequences_of_the_highest_scores(weight):
    steps, width, starts = 3, 64, [0, 2]

    def score(start, sequence):
        ids = [start, *sequence]
        length = sequence.index(END) + 1 if END in sequence else steps
        grown = length - (END in sequence)  # Ends do not count in the length that is penalized.
        total = sum(LOG[pair] for pair in itertools.pairwise(ids[: length + 1]))
        return total / ((5 + grown) / 6) ** weight

    with tf.Graph().as_default():
        state = seq2seq.tile_batch(tf.zeros([2, 1]), width)
        assert state.shape.as_list() == [2 * width, 1]
        table = tf.constant(TABLE)
        options = {'beam_width': width, 'length_penalty_weight': weight}
        decoder = seq2seq.BeamSearchDecoder(Chain(), table, tf.constant(starts), END, state, **options)
        outputs, _, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=steps)
        _, _, first_lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=1)
        ids, scores, first_lengths = run([outputs.predicted_ids, outputs.beam_search_decoder_output.scores, first_lengths])
    assert ids.shape == (2, steps, width)
    assert first_lengths.tolist() == [[1] + [0] * (width - 1)] * 2  # The first beam alone counts at first.
    for row, start in enumerate(starts):
        everything = {
            sequence[: sequence.index(END) + 1] if END in sequence else sequence
            for sequence in itertools.product(range(IDS), repeat=steps)
        }
        expected = {sequence: score(start, sequence) for sequence in everything}
        ranked = sorted(expected, key=expected.get, reverse=True)
        for beam, sequence in enumerate(ranked[:5]):
            assert ids[row, : len(sequence), beam].tolist() == [*sequence]
            assert scores[row, steps - 1, beam] == pytest.approx(expected[sequence], rel=1e-4)


class Recorder(tf.nn.rnn_cell.RNNCell):
    """A Chain whose state also has its inputs at all steps."""

    state_size = None
    output_size = IDS

    def call(self, inputs, state):
        step, history = state
        return inputs, (step + 1, history.write(step, inputs))


@pytest.mark.parametrize('reorders', [True, False])
def test_arrays_in_the_state_of_a_beam_are_those_of_its_whole_sequences(reorders):
    starts, width, steps = [0, 2], 3, 4
    table = TABLE + np.float32([0, 0, 0, 2])  # So that some sequences end before others.
    with tf.Graph().as_default():
        history = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[None, IDS])
        options = {} if reorders else {'reorder_tensor_arrays': False}
        decoder = seq2seq.BeamSearchDecoder(
            Recorder(), tf.constant(table), starts, END, (tf.constant(0), history), width, **options
        )
        outputs, state, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=steps)
        _, found = state.cell_state
        assert isinstance(found, tf.TensorArray) != reorders
        found, ids, lengths = run([found if reorders else found.stack(), outputs.predicted_ids, state.lengths])
    found = found.reshape([-1, 2, width, IDS])
    expected = [
        np.all(found[step, row, beam] == table[ids[row, step - 1, beam] if step else start])
        for row, start in enumerate(starts)
        for beam in range(width)
        for step in range(lengths[row, beam])
    ]
    assert len(np.unique(lengths)) > 1 and all(expected) == reorders


def softmax(x):
    return np.exp(x) / np.exp(x).sum()


@pytest.mark.parametrize('kind', ['luong', 'scaled', 'bahdanau', 'normalized'])
def test_attention_is_a_mean_of_the_memory_weighted_by_scores_within_the_length_of_each(kind):
    units, memory = 3, RANDOM.normal(size=[2, 4, 5]).astype(np.float32)
    lengths, inputs = [2, 4], RANDOM.normal(size=[2, 6]).astype(np.float32)
    make = {'luong': seq2seq.LuongAttention, 'bahdanau': seq2seq.BahdanauAttention}
    is_luong = kind in ('luong', 'scaled')
    option = {'scaled': {'scale': True}, 'normalized': {'normalize': True}}.get(kind, {})
    with tf.Graph().as_default():
        mechanism = make['luong' if is_luong else 'bahdanau'](units, memory, lengths, **option)
        cell = tf.nn.rnn_cell.BasicRNNCell(units, activation=tf.identity)
        wrapper = seq2seq.AttentionWrapper(cell, mechanism, 2, alignment_history=True)
        state = wrapper.zero_state(2, tf.float32)
        outputs, state = wrapper(tf.constant(inputs), state)
        scope, own = 'attention_wrapper', 'luong_attention' if is_luong else 'bahdanau_attention'
        shapes = {
            'memory_layer/kernel': [5, units],
            f'{scope}/basic_rnn_cell/kernel': [6 + 2 + units, units],
            f'{scope}/basic_rnn_cell/bias': [units],
            f'{scope}/attention_layer/kernel': [units + 5, 2],
            **({f'{scope}/{own}/attention_g': []} if option else {}),
            **(
                {} if is_luong else {f'{scope}/{own}/attention_v': [units], f'{scope}/{own}/query_layer/kernel': [units, units]}
            ),
            **({f'{scope}/{own}/attention_b': [units]} if kind == 'normalized' else {}),
        }
        values = {name: RANDOM.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        found = evaluate([outputs, state.alignments, state.alignment_history.stack(), state.time], **values)
    by_name = {name.removeprefix(f'{scope}/').removeprefix(f'{own}/'): value for name, value in values.items()}
    for row, length in enumerate(lengths):
        query = (
            np.concatenate([inputs[row], np.zeros(2 + units)]) @ by_name['basic_rnn_cell/kernel']
            + by_name['basic_rnn_cell/bias']
        )
        keys = memory[row, :length] @ by_name['memory_layer/kernel']
        if is_luong:
            scores = keys @ query * by_name.get('attention_g', 1)
        else:
            v, summed = by_name['attention_v'], keys + query @ by_name['query_layer/kernel']
            if kind == 'normalized':
                v, summed = by_name['attention_g'] * v / np.sqrt(np.sum(v**2)), summed + by_name['attention_b']
            scores = np.tanh(summed) @ v
        weights = np.concatenate([softmax(scores), np.zeros(4 - length)])
        np.testing.assert_allclose(found[1][row], weights, rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(found[2][0, row], weights, rtol=1e-3, atol=1e-6)
        expected = np.concatenate([query, weights @ memory[row]]) @ by_name['attention_layer/kernel']
        np.testing.assert_allclose(found[0][row], expected, rtol=1e-3, atol=1e-5)
    assert found[3] == 1


def test_attention_layers_are_as_many_as_mechanisms_and_given_once():
    with tf.Graph().as_default():
        mechanism, cell = seq2seq.LuongAttention(3, tf.ones([1, 2, 3])), tf.nn.rnn_cell.BasicRNNCell(3)
        for options, message in (
            (dict(attention_layer_size=[5, 6]), '1 attention mechanisms need as many attention layers, not 2'),
            (dict(attention_layer_size=5, attention_layer=tf.layers.Dense(5)), 'attention_layer, not both'),
        ):
            with pytest.raises(ValueError, match=message):
                seq2seq.AttentionWrapper(cell, mechanism, **options)


def monotonic(p, previous):
    """The weights of places that are chosen, each with its probability p, from where the last step chose on."""
    reached = [sum(previous[start] * np.prod(1 - p[start:end]) for start in range(end + 1)) for end in range(len(p))]
    return p * reached


@pytest.mark.parametrize('mode', ['recursive', 'parallel', 'hard'])
@pytest.mark.parametrize('kind', ['luong', 'bahdanau'])
def test_monotonic_attention_goes_on_from_where_it_was(kind, mode):
    memory, query = RANDOM.normal(size=[2, 4, 5]).astype(np.float32), RANDOM.normal(size=[2, 3]).astype(np.float32)
    lengths, kernel, v = [3, 4], RANDOM.normal(size=[5, 3]).astype(np.float32), RANDOM.normal(size=3).astype(np.float32)
    own = f'{kind}_monotonic_attention'
    of_query = {f'{own}/attention_v': v, f'{own}/query_layer/kernel': np.eye(3, dtype=np.float32)}
    with tf.Graph().as_default():
        make = seq2seq.LuongMonotonicAttention if kind == 'luong' else seq2seq.BahdanauMonotonicAttention
        mechanism = make(3, memory, lengths, score_bias_init=0.5, mode=mode)
        state = mechanism.initial_state(2, tf.float32)
        first, _ = mechanism(tf.constant(query), state)
        assert run({variable.op.name: variable for variable in tf.global_variables()})[f'{own}/attention_score_bias'] == 0.5
        p = tf.constant([[0.25, 0.5, 0.75]])
        both = [first, seq2seq.monotonic_attention(tf.round(p + 0.1) if mode == 'hard' else p, [[0.0, 0.8, 0.2]], mode)]
        values = {f'{own}/attention_score_bias': np.float32(0.1), **(of_query if kind == 'bahdanau' else {})}
        found, again = evaluate(both, **{'memory_layer/kernel': kernel, **values})
    for row, length in enumerate(lengths):
        keys = memory[row, :length] @ kernel
        scores = 0.1 + (keys @ query[row] if kind == 'luong' else np.tanh(keys + query[row]) @ v)
        p = (scores > 0) * 1.0 if mode == 'hard' else 1 / (1 + np.exp(-scores))
        expected = [*monotonic(p, np.eye(length)[0]), *[0] * (4 - length)]
        np.testing.assert_allclose(found[row], expected, rtol=1e-4, atol=1e-6)
    p = np.array([0, 1, 1]) if mode == 'hard' else np.array([0.25, 0.5, 0.75])
    np.testing.assert_allclose(again[0], monotonic(p, [0, 0.8, 0.2]), rtol=1e-5, atol=1e-6)


class Doubled(seq2seq.LuongAttention):
    def __init__(self, *args):
        super().__init__(*args)
        self._keys = 2 * self.keys


class Cumulative(seq2seq.BahdanauAttention):
    def __call__(self, query, state):
        alignments = self._probability_fn(tf.reduce_sum(self.keys + self.query_layer(query)[:, None], 2), state)
        return alignments, alignments + state


def test_mechanisms_of_programs_replace_the_keys_and_score_as_those_of_tensorflow_1():
    memory, query = RANDOM.normal(size=[2, 3, 4]).astype(np.float32), RANDOM.normal(size=[2, 5]).astype(np.float32)
    kernel, lengths = RANDOM.normal(size=[4, 5]).astype(np.float32), [3, 2]
    values = {'memory_layer/kernel': kernel, 'query_layer/kernel': np.eye(5, dtype=np.float32)}
    with tf.Graph().as_default():
        luong = Doubled(5, memory, lengths)(tf.constant(query), tf.ones([2, 3]))[0]
        found = evaluate(luong, **{'memory_layer/kernel': kernel})
    with tf.Graph().as_default():
        alignments, state = evaluate(Cumulative(5, memory, lengths)(tf.constant(query), tf.ones([2, 3])), **values)
    keys = memory @ kernel
    for row, length in enumerate(lengths):
        expected = softmax(2 * keys[row, :length] @ query[row])
        np.testing.assert_allclose(found[row], [*expected, *[0] * (3 - length)], rtol=1e-4, atol=1e-6)
        expected = softmax((keys[row, :length] + query[row]).sum(1))
        np.testing.assert_allclose(alignments[row], [*expected, *[0] * (3 - length)], rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(state, alignments + 1)


def test_attention_to_an_empty_sequence_is_an_error():
    with tf.Graph().as_default():
        lengths = tf.placeholder_with_default([3, 0], [2])
        weights, _ = seq2seq.LuongAttention(4, tf.ones([2, 3, 4]), lengths)(tf.ones([2, 4]), None)
        with pytest.raises(tf.errors.InvalidArgumentError, match='memory_sequence_length must be greater than zero'):
            run(weights)


def test_attention_decodes_with_a_beam():
    with tf.Graph().as_default():
        memory = seq2seq.tile_batch(tf.constant(RANDOM.normal(size=[2, 4, 5]), tf.float32), 3)
        cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.BasicLSTMCell(4), seq2seq.LuongAttention(4, memory), 4)
        state = cell.zero_state(6, tf.float32)
        decoder = seq2seq.BeamSearchDecoder(cell, tf.constant(TABLE), [0, 1], END, state, 3, tf.layers.Dense(IDS))
        outputs, _, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=4)
        ids = run(outputs.predicted_ids)
    assert ids.shape[0] == 2 and ids.shape[2] == 3 and ids.shape[1] <= 4


@pytest.mark.parametrize('is_beam', [False, True])
def test_an_embedding_function_makes_its_variables_in_the_scopes_of_tensorflow_1(is_beam):
    def embed(ids):
        return tf.gather(tf.get_variable('table', [IDS, IDS]), ids)

    with tf.Graph().as_default():
        with tf.variable_scope('speller'):
            if is_beam:
                decoder = seq2seq.BeamSearchDecoder(Chain(), embed, [0], END, tf.zeros([2, 1]), 2)
            else:
                decoder = seq2seq.BasicDecoder(Chain(), seq2seq.GreedyEmbeddingHelper(embed, [0], END), tf.zeros([1, 1]))
            seq2seq.dynamic_decode(decoder, maximum_iterations=2)
        names = [variable.op.name for variable in tf.global_variables()]
    assert names == ['speller/table', 'speller/decoder/table']  # Before the first step, and in the others.


def test_helpers_have_the_names_that_subclasses_of_programs_use():
    class Helper(seq2seq.GreedyEmbeddingHelper):
        @property
        def batch_size(self):
            return self._batch_size + 0

        def next_inputs(self, time, outputs, state, sample_ids, name=None):
            return tf.equal(sample_ids, self._end_token), self._embedding_fn(self._start_tokens), state

    with tf.Graph().as_default():
        table = tf.constant(RANDOM.normal(size=[IDS, 2]).astype(np.float32))
        helper = Helper(table, [1, 2, 3], END)
        finished, inputs, _ = helper.next_inputs(0, None, None, tf.constant([END, 1, END]))
        training = seq2seq.TrainingHelper(np.zeros([2, 5, 4], np.float32), [5, 3])
        assert training.inputs.shape == [2, 5, 4]
        found = run((helper.batch_size, finished, inputs, training.sequence_length, table))
    assert found[0] == 3 and found[1].tolist() == [True, False, True] and found[3].tolist() == [5, 3]
    np.testing.assert_array_equal(found[2], found[4][[1, 2, 3]])


def test_training_of_programs_samples_without_a_state_and_reads_steps_by_its_own_names():
    class Twice(seq2seq.TrainingHelper):
        def next_inputs(self, time, outputs, state, name=None, **unused):
            finished, _, state = super().next_inputs(time, outputs, state, name, **unused)
            read = tf.cond(tf.reduce_all(finished), lambda: self._zero_inputs, lambda: 2 * self._input_tas.read(time + 1))
            return finished, read, state

    class Decoder(seq2seq.BasicDecoder):
        @property
        def output_size(self):
            assert self._rnn_output_size() == IDS
            return super().output_size

        def step(self, time, inputs, state, name=None):
            outputs, state = self._cell(inputs, state)
            ids = self._helper.sample(time, outputs)
            finished, inputs, state = self._helper.next_inputs(time, outputs, state)
            return seq2seq.BasicDecoderOutput(outputs, ids), state, inputs, finished

    inputs = RANDOM.normal(size=[1, 3, IDS]).astype(np.float32)
    with tf.Graph().as_default():
        (found, ids), _, _ = run(seq2seq.dynamic_decode(Decoder(Chain(), Twice(inputs, [3]), tf.zeros([1, 1]))))
    np.testing.assert_array_equal(found, inputs * np.float32([[1], [2], [2]]))
    np.testing.assert_array_equal(ids, np.argmax(inputs, -1))


@pytest.mark.parametrize('probability', [0.0, 0.5, 1.0])
def test_training_may_read_outputs_in_place_of_given_inputs(probability):
    class Next(tf.nn.rnn_cell.RNNCell):
        """Its output is its first input and 10 more."""

        state_size = output_size = 1

        def call(self, inputs, state):
            return inputs[:, :1] + 10, state

    rows = 1000
    inputs, others = np.float32([[[1], [2], [3]]] * rows), np.float32([[[5], [6], [7]]] * rows)
    with tf.Graph().as_default():
        helper = seq2seq.ScheduledOutputTrainingHelper(
            inputs, [3] * rows, probability, seed=1, next_inputs_fn=lambda outputs: 2 * outputs, auxiliary_inputs=others
        )
        _, next_inputs, _ = helper.next_inputs(
            tf.constant(0), tf.constant([[4.0]] * rows), (), tf.constant([0, 1] * (rows // 2))
        )
        decoder = seq2seq.BasicDecoder(Next(), helper, tf.zeros([rows, 1]))
        ((found, ids), _, _), joined = run([seq2seq.dynamic_decode(decoder), next_inputs])
        plain = seq2seq.ScheduledOutputTrainingHelper(inputs[:1], [3], 1.0)
        assert run(plain.next_inputs(tf.constant(0), tf.constant([[4.0]]), (), tf.constant([1]))[1]).tolist() == [[4]]
    assert joined[:2].tolist() == [[2, 6], [8, 6]]
    assert ids.mean() == pytest.approx(probability, abs=0.05)
    expected = [[11]] * rows
    for step in (1, 2):
        expected = np.where(ids[:, step - 1 : step], 2 * np.array(expected), inputs[:, step]) + 10
        np.testing.assert_array_equal(found[:, step], expected)


def test_a_loss_function_of_a_program_gets_targets_as_they_are():
    def loss(labels, logits):
        assert labels.shape == [2, 1]
        return tf.reduce_sum(logits, 1) - tf.cast(labels[:, 0], tf.float32)

    logits = [np.array([[1, 2], [3, 4]], np.float32)]
    with tf.Graph().as_default():
        targets, weights = [tf.constant([[1], [0]])], [tf.constant([1.0, 2.0])]
        found = run(legacy_seq2seq.sequence_loss_by_example(logits, targets, weights, softmax_loss_function=loss))
    np.testing.assert_array_equal(found, [2, 7])


def test_trees_of_lists_become_sequences():
    ids, parents = [[[1, 2]], [[3, 4]], [[5, 6]]], [[[0, 0]], [[1, 0]], [[0, 1]]]  # [time, batch, beam].
    with tf.Graph().as_default():
        assert run(seq2seq.gather_tree(ids, parents, [3], END)).tolist() == [[[2, 1]], [[3, 4]], [[3, 6]]]


def test_the_loss_of_sequences_is_a_weighted_mean_or_sum():
    logits, targets = RANDOM.normal(size=[2, 3, IDS]).astype(np.float32), np.array([[0, 1, 2], [3, 2, 1]], np.int32)
    weights = np.array([[1, 1, 0], [0.5, 0, 0]], np.float32)
    losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    weighted = losses * weights
    expected = {
        (True, True): weighted.sum() / weights.sum(),
        (True, False): weighted.sum(1) / weights.sum(1),
        (False, True): weighted.sum(0) / (weights.sum(0) + 1e-12),
        (False, False): weighted,
        (False, False, True, False): weighted.sum(1) / [2, 1],
        (False, False, False, True): weighted.sum(0) / [2, 1, 1e-12],
        (False, False, True, True): weighted.sum() / 3,
        (True, False, False, True): weighted.sum(1) / weights.sum(1),  # The average alone, as in TensorFlow 1.
        (False, True, True, False): weighted.sum(0) / (weights.sum(0) + 1e-12),
    }
    with tf.Graph().as_default():
        found = run({key: seq2seq.sequence_loss(logits, targets, weights, *key) for key in expected})
        lists = ([*tf.unstack(tf.constant(values), axis=1)] for values in (logits, targets, weights))
        by_example = run(legacy_seq2seq.sequence_loss_by_example(*lists))
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5)
    np.testing.assert_allclose(by_example, expected[True, False], rtol=1e-5)
    for flags in ((True, False, True, False), (False, True, False, True)):
        with pytest.raises(ValueError, match='averaged'):
            seq2seq.sequence_loss(logits, targets, weights, *flags)


class Steps:
    """Basic recurrent networks of sequences of ids, in NumPy, with the variables of tf.contrib.legacy_seq2seq.

    Args:
      shapes: {name of a variable: shape}.
      scope: of the variables.
    """

    def __init__(self, shapes, scope):
        random = np.random.RandomState(7)
        self.values = {f'{scope}/{name}': random.normal(size=shape) for name, shape in shapes.items()}
        self.scope = scope

    def linear(self, scope, *inputs):
        scope = f'{self.scope}/{scope}'
        return np.concatenate(inputs, 1) @ self.values[f'{scope}/kernel'] + self.values[f'{scope}/bias']

    def encode(self, sequence):
        h, outputs = np.zeros([len(sequence[0]), 3]), []
        for ids in sequence:
            x = self.values[f'{self.scope}/rnn/embedding_wrapper/embedding'][ids]
            h = np.tanh(self.linear('rnn/embedding_wrapper/basic_rnn_cell', x, h))
            outputs.append(h)
        return np.stack(outputs, 1), h


def listed(sequence):
    return [tf.constant(ids) for ids in sequence]


ENCODER = {
    'rnn/embedding_wrapper/embedding': [5, 2],
    'rnn/embedding_wrapper/basic_rnn_cell/kernel': [5, 3],
    'rnn/embedding_wrapper/basic_rnn_cell/bias': [3],
}
SOURCE, TARGET = np.array([[1, 4], [0, 2], [3, 3]]), np.array([[0, 1], [2, 3], [5, 4], [1, 1]])


@pytest.mark.parametrize('feeds, starts_attending', [('data', False), ('tensor', True), ('best', False)])
def test_a_decoder_of_lists_attends_to_the_encoder_and_may_read_its_best_outputs(feeds, starts_attending):
    decoder = 'embedding_attention_decoder/attention_decoder'
    cell = f'{decoder}/output_projection_wrapper'
    layers = {
        decoder: [2 + 3 + 3, 2],
        f'{decoder}/Attention_0': [3, 3],
        f'{decoder}/Attention_1': [3, 3],
        f'{cell}/basic_rnn_cell': [5, 3],
        cell: [3, 6],
        f'{decoder}/AttnOutputProjection': [6 + 3 + 3, 6],
    }
    shapes = {**ENCODER, 'embedding_attention_decoder/embedding': [6, 2]}
    shapes |= {f'{decoder}/Attn{kind}_{i}': shape for i in (0, 1) for kind, shape in (('W', [1, 1, 3, 3]), ('V', [3]))}
    for name, shape in layers.items():
        shapes |= {f'{name}/kernel': shape, f'{name}/bias': shape[1:]}
    steps = Steps(shapes, 'embedding_attention_seq2seq')
    with tf.Graph().as_default():
        outputs, state = legacy_seq2seq.embedding_attention_seq2seq(
            listed(SOURCE),
            listed(TARGET),
            tf.nn.rnn_cell.BasicRNNCell(3),
            *(5, 6, 2),
            num_heads=2,
            feed_previous={'data': False, 'best': True, 'tensor': tf.constant(True)}[feeds],
            initial_state_attention=starts_attending,
        )
        outputs, state = evaluate([outputs, state], **steps.values)
    memory, h = steps.encode(SOURCE)
    w = {name.removeprefix('embedding_attention_seq2seq/'): value for name, value in steps.values.items()}

    def attend(h):
        found = []
        for i in (0, 1):
            query = steps.linear(f'{decoder}/Attention_{i}', h)[:, None]
            scores = np.exp(np.tanh(memory @ w[f'{decoder}/AttnW_{i}'][0, 0] + query) @ w[f'{decoder}/AttnV_{i}'])
            found.append(np.einsum('bt,bts->bs', scores / scores.sum(1, keepdims=True), memory))
        return found

    attention, expected = attend(h) if starts_attending else [np.zeros([2, 3])] * 2, None
    for step, ids in enumerate(TARGET):
        ids = ids if expected is None or feeds == 'data' else expected.argmax(1)
        x = steps.linear(decoder, w['embedding_attention_decoder/embedding'][ids], *attention)
        h = np.tanh(steps.linear(f'{cell}/basic_rnn_cell', x, h))
        attention = attend(h)
        expected = steps.linear(f'{decoder}/AttnOutputProjection', steps.linear(cell, h), *attention)
        np.testing.assert_allclose(outputs[step], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state, h, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('feeds', ['data', 'tensor', 'best'])
def test_an_encoder_and_a_decoder_of_lists_can_share_all_variables(feeds):
    outer = 'combined_tied_rnn_seq2seq/tied_rnn_seq2seq/output_projection_wrapper'
    shapes = {'embedding': [6, 2], f'{outer}/kernel': [3, 6], f'{outer}/bias': [6]}
    shapes |= {f'{outer}/basic_rnn_cell/kernel': [5, 3], f'{outer}/basic_rnn_cell/bias': [3]}
    steps = Steps(shapes, 'embedding_tied_rnn_seq2seq')
    with tf.Graph().as_default():
        fed = {'data': False, 'best': True, 'tensor': tf.constant(True)}[feeds]
        inputs = listed(SOURCE), listed(TARGET), tf.nn.rnn_cell.BasicRNNCell(3)
        fetches = legacy_seq2seq.embedding_tied_rnn_seq2seq(*inputs, 6, 2, feed_previous=fed)
        outputs, state = evaluate(fetches, **steps.values)
    h, expected = np.zeros([2, 3]), []
    for k, ids in enumerate([*SOURCE, *TARGET]):
        ids = ids if k <= len(SOURCE) or feeds == 'data' else expected[-1].argmax(1)
        h = np.tanh(steps.linear(f'{outer}/basic_rnn_cell', steps.values['embedding_tied_rnn_seq2seq/embedding'][ids], h))
        expected.append(steps.linear(outer, h))
    np.testing.assert_allclose(outputs, expected[len(SOURCE) :], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state, h, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('feeds', ['data', 'tensor', 'best'])
def test_an_encoder_has_a_decoder_for_each_task(feeds):
    tasks, shapes, scope = {'left': (6, TARGET), 0: (4, TARGET[:2])}, ENCODER, 'one2many_decoder_{}/embedding_rnn_decoder'
    for name, (symbols, _) in tasks.items():
        cell = f'{scope.format(name)}/rnn_decoder/output_projection_wrapper'
        shapes = {**shapes, f'{scope.format(name)}/embedding': [symbols, 2]}
        shapes |= {f'{cell}/kernel': [3, symbols], f'{cell}/bias': [symbols]}
        shapes |= {f'{cell}/basic_rnn_cell/kernel': [5, 3], f'{cell}/basic_rnn_cell/bias': [3]}
    steps = Steps(shapes, 'one2many_rnn_seq2seq')
    with tf.Graph().as_default():
        fed = {'data': False, 'best': True, 'tensor': tf.constant(True)}[feeds]
        inputs = {name: listed(target) for name, (_, target) in tasks.items()}
        cells = {name: tf.nn.rnn_cell.BasicRNNCell(3) for name in tasks}
        sizes = 5, {name: symbols for name, (symbols, _) in tasks.items()}, 2
        encoder = tf.nn.rnn_cell.BasicRNNCell(3)
        fetches = legacy_seq2seq.one2many_rnn_seq2seq(listed(SOURCE), inputs, encoder, cells, *sizes, fed)
        outputs, states = evaluate(fetches, **steps.values)
        with pytest.raises(ValueError, match='keys of dec_cells_dict != keys'):
            legacy_seq2seq.one2many_rnn_seq2seq(listed(SOURCE), inputs, encoder, {}, *sizes)
    for name, (_, target) in tasks.items():
        (_, h), expected = steps.encode(SOURCE), []
        decoder = scope.format(name)
        for ids in target:
            ids = expected[-1].argmax(1) if expected and feeds != 'data' else ids
            x = steps.values[f'one2many_rnn_seq2seq/{decoder}/embedding'][ids]
            h = np.tanh(steps.linear(f'{decoder}/rnn_decoder/output_projection_wrapper/basic_rnn_cell', x, h))
            expected.append(steps.linear(f'{decoder}/rnn_decoder/output_projection_wrapper', h))
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(states[name], h, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('is_fed', [False, True])
def test_buckets_share_a_model_of_several_lengths(is_fed):
    decoder = 'embedding_rnn_decoder'
    shapes = {**ENCODER, f'{decoder}/embedding': [6, 2], 'kernel': [3, 6], 'bias': [6]}
    shapes |= {f'{decoder}/rnn_decoder/basic_rnn_cell/kernel': [5, 3], f'{decoder}/rnn_decoder/basic_rnn_cell/bias': [3]}
    steps = Steps(shapes, 'embedding_rnn_seq2seq')
    kernel, bias = (np.float32(steps.values.pop(f'embedding_rnn_seq2seq/{name}')) for name in ('kernel', 'bias'))
    weights = np.arange(8, dtype=np.float32).reshape(4, 2)
    goals, buckets = np.roll(TARGET, -1, 0), [(2, 3), (3, 4)]

    def model(source, target):
        cell = tf.nn.rnn_cell.BasicRNNCell(3)
        found, state = legacy_seq2seq.embedding_rnn_seq2seq(source, target, cell, 5, 6, 2, (kernel, bias), is_fed)
        return [tf.matmul(output, kernel) + bias for output in found], state

    with tf.Graph().as_default():
        lists = [listed(values) for values in (SOURCE, TARGET, goals, weights)]
        fetches = legacy_seq2seq.model_with_buckets(*lists, buckets, model)
        by_example = legacy_seq2seq.model_with_buckets(
            *lists, buckets[:1], lambda *x: (fetches[0][0], None), per_example_loss=True
        )
        (outputs, losses), (_, by_example) = evaluate([fetches, by_example], **steps.values)
        for wrong in ([*lists[:3], lists[3][:3]], [lists[0][:2], *lists[1:]]):
            with pytest.raises(ValueError, match=r'the bucket \(3, 4\) is longer than'):
                legacy_seq2seq.model_with_buckets(*wrong, [(3, 4)], model)
        with pytest.raises(ValueError, match=r'zip\(\) argument 2 is shorter'):
            legacy_seq2seq.sequence_loss(listed(np.zeros([4, 2, 6], np.float32)), lists[2][:3], lists[3])
        decode, cell, memory = legacy_seq2seq.attention_decoder, tf.nn.rnn_cell.BasicRNNCell(3), tf.ones([2, 4, 3])
        with pytest.raises(ValueError, match='at least 1 input'):
            decode([], tf.zeros([2, 3]), memory, cell)
        with pytest.raises(ValueError, match='num_heads=0'):
            decode([tf.ones([2, 2])], tf.zeros([2, 3]), memory, cell, num_heads=0)
        for wrong in ((kernel[:, :5], bias), (kernel, bias[:5])):
            with pytest.raises(ValueError, match='incompatible'):
                legacy_seq2seq.embedding_rnn_decoder(lists[1], tf.zeros([2, 3]), cell, 6, 2, wrong)
    for i, (source, target) in enumerate(buckets):
        _, h = steps.encode(SOURCE[:source])
        expected = []
        for step, ids in enumerate(TARGET[:target]):
            ids = expected[-1].argmax(1) if step and is_fed else ids
            x = steps.values[f'embedding_rnn_seq2seq/{decoder}/embedding'][ids]
            h = np.tanh(steps.linear(f'{decoder}/rnn_decoder/basic_rnn_cell', x, h))
            expected.append(h @ kernel + bias)
        np.testing.assert_allclose(outputs[i], expected, rtol=1e-4, atol=1e-5)
        log = np.array(expected) - np.log(np.exp(expected).sum(-1, keepdims=True))
        entropy = -np.take_along_axis(log, goals[:target, :, None], -1)[..., 0]
        means = (entropy * weights[:target]).sum(0) / weights[:target].sum(0)
        assert losses[i] == pytest.approx(means.mean(), rel=1e-4)
        if not i:
            np.testing.assert_allclose(by_example[0], means, rtol=1e-4)


@pytest.mark.parametrize('is_tied', [False, True])
def test_a_decoder_starts_from_the_state_of_an_encoder(is_tied):
    scope = 'combined_tied_rnn_seq2seq/tied_rnn_seq2seq' if is_tied else 'basic_rnn_seq2seq'
    encoder, decoder = ('', '') if is_tied else ('/rnn', '/rnn_decoder')
    names = dict.fromkeys(f'{scope}{part}/basic_rnn_cell' for part in (encoder, decoder))
    values = {
        f'{name}/{kind}': RANDOM.normal(size=shape) for name in names for kind, shape in (('kernel', [5, 3]), ('bias', [3]))
    }
    x = RANDOM.normal(size=[4, 1, 2]).astype(np.float32)
    make = legacy_seq2seq.tied_rnn_seq2seq if is_tied else legacy_seq2seq.basic_rnn_seq2seq
    with tf.Graph().as_default():
        outputs, state = evaluate(make(listed(x[:2]), listed(x[2:]), tf.nn.rnn_cell.BasicRNNCell(3)), **values)
    h, hidden = np.zeros([1, 3]), []
    for inputs, part in zip(x, (encoder, encoder, decoder, decoder)):
        name = f'{scope}{part}/basic_rnn_cell'
        h = np.tanh(np.concatenate([inputs, h], 1) @ values[f'{name}/kernel'] + values[f'{name}/bias'])
        hidden.append(h)
    np.testing.assert_allclose(outputs, hidden[2:], rtol=1e-5)
    np.testing.assert_allclose(state, h, rtol=1e-5)
