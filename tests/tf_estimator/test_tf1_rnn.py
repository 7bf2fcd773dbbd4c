"""Recurrent cells and conditional random fields of tf.contrib, compared with NumPy."""

import importlib
import itertools

from tf_estimator.tf1 import crf, rnn

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import rnn_cell, rnn_cell_impl

UNITS, LENGTH, BATCH, SIZE = 3, 4, 2, 5
RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=[LENGTH, BATCH, SIZE]).astype(np.float32)
KERNEL = RANDOM.normal(size=[SIZE + UNITS, 4 * UNITS]).astype(np.float32)
BIAS = RANDOM.normal(size=[4 * UNITS]).astype(np.float32)


def evaluate(fetches, **values):
    """Returns the values of tensors, with variables of these values, {name: array}, whose names must be these."""
    variables = {variable.op.name: variable for variable in tf.global_variables()}
    assert variables.keys() == values.keys()
    with tf.Session() as session:
        for name, value in values.items():
            variables[name].load(value, session)
        return session.run(fetches)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(inputs, ends, forget_bias=1.0, norm=lambda gate, name: gate, bias=BIAS):
    """Returns outputs, and the states c and h at the ends; gates are in the order i, j, f, o."""
    c, h = np.zeros([2, BATCH, UNITS])
    outputs, states = [], []
    for x in inputs:
        gates = np.split(np.concatenate([x, h], 1) @ KERNEL + bias, 4, 1)
        i, j, f, o = (norm(gate, name) for gate, name in zip(gates, ('input', 'transform', 'forget', 'output')))
        c = norm(c * sigmoid(f + forget_bias) + sigmoid(i) * np.tanh(j), 'state')
        h = np.tanh(c) * sigmoid(o)
        outputs.append(h)
        states.append((c, h))
    last = [[states[end - 1][k][row] if end else np.zeros(UNITS) for row, end in enumerate(ends)] for k in (0, 1)]
    mask = np.arange(len(inputs))[:, None, None] < np.asarray(ends)[:, None]
    return np.array(outputs) * mask, last


def test_block_cells_are_lstms_with_the_variables_of_tensorflow_1():
    with tf.Graph().as_default():
        outputs, state = tf.nn.dynamic_rnn(rnn.LSTMBlockCell(UNITS), tf.constant(X), dtype=tf.float32, time_major=True)
        found = evaluate([outputs, *state], **{'rnn/lstm_cell/kernel': KERNEL, 'rnn/lstm_cell/bias': BIAS})
    expected, last = lstm(X, [LENGTH] * BATCH)
    for value, other in zip(found, (expected, *last)):
        np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-6)


def test_block_cells_learn_like_lstms_of_several_ops():
    values = {'kernel': KERNEL, 'bias': BIAS, **{f'w_{gate}_diag': BIAS[:UNITS] for gate in 'ifo'}}
    gradients = []
    for cell, options in ((rnn.LSTMBlockCell, {'use_peephole': True}), (tf.nn.rnn_cell.LSTMCell, {'use_peepholes': True})):
        with tf.Graph().as_default():
            inputs = tf.constant(X)
            outputs, _ = tf.nn.dynamic_rnn(cell(UNITS, **options), inputs, dtype=tf.float32, time_major=True)
            learned = sorted(tf.trainable_variables(), key=lambda variable: variable.name)
            found = tf.gradients(tf.reduce_sum(tf.square(outputs)), [inputs, *learned])
            gradients.append(evaluate(found, **{f'rnn/lstm_cell/{name}': value for name, value in values.items()}))
    for value, other in zip(*gradients):
        np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('ends', [None, [2, 4], [0, 3]])
@pytest.mark.parametrize('is_reversed', [False, True])
def test_a_fused_cell_reads_sequences_up_to_their_ends_and_reversed(ends, is_reversed):
    with tf.Graph().as_default():
        cell = rnn.LSTMBlockFusedCell(UNITS)
        cell = rnn.TimeReversedFusedRNN(cell) if is_reversed else cell
        outputs, state = cell(tf.constant(X), dtype=tf.float32, sequence_length=ends and tf.constant(ends))
        values = {'lstm_fused_cell/kernel': KERNEL, 'lstm_fused_cell/bias': BIAS}
        found = evaluate([outputs, *state], **values)
        cell(tf.constant(X), dtype=tf.float32)  # Again, and another, as a layer of TensorFlow 1.
        rnn.LSTMBlockFusedCell(UNITS)(tf.constant(X), dtype=tf.float32)
        assert [variable.op.name for variable in tf.global_variables()[2:]] == [
            'lstm_fused_cell_1/kernel',
            'lstm_fused_cell_1/bias',
        ]
    known = ends or [LENGTH] * BATCH

    def turn(x):
        rows = [[x[end - 1 - t if t < end else t, i] for t in range(LENGTH)] for i, end in enumerate(known)]
        return np.transpose(rows, [1, 0, 2])

    expected, last = lstm(turn(X) if is_reversed else X, known)
    for value, other in zip(found, (turn(expected) if is_reversed else expected, *last)):
        np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-6)


def test_lists_of_steps_are_reversed_as_a_whole():
    with tf.Graph().as_default(), tf.Session() as session:
        cell = rnn.TimeReversedFusedRNN(lambda inputs, state, *options: ([number * 10 for number in inputs], inputs[0]))
        steps = [tf.constant([[1.0], [2.0]]), tf.constant([[3.0], [4.0]])]
        outputs, first = session.run(cell(steps, sequence_length=tf.constant([1, 2])))
    assert [output.tolist() for output in outputs] == [[[10], [20]], [[30], [40]]] and first.tolist() == [[3], [4]]


def test_an_lstm_with_layer_normalization_normalizes_its_gates_and_its_state():
    names = ('input', 'transform', 'forget', 'output', 'state')
    gains = {name: RANDOM.normal(size=UNITS) for name in names}
    shifts = {name: RANDOM.normal(size=UNITS) for name in names}

    def norm(x, name):
        return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-12) * gains[name] + shifts[name]

    with tf.Graph().as_default():
        cell = rnn.LayerNormBasicLSTMCell(UNITS, forget_bias=0.5)
        outputs, state = tf.nn.dynamic_rnn(cell, tf.constant(X), dtype=tf.float32, time_major=True)
        scope = 'rnn/layer_norm_basic_lstm_cell'
        values = {f'{scope}/{name}/gamma': gains[name] for name in names} | {
            f'{scope}/{name}/beta': shifts[name] for name in names
        }
        found = evaluate([outputs, *state], **{f'{scope}/kernel': KERNEL, **values})
    expected, last = lstm(X, [LENGTH] * BATCH, 0.5, norm, 0)
    for value, other in zip(found, (expected, *last)):
        np.testing.assert_allclose(value, other, rtol=1e-3, atol=1e-5)


def test_layer_normalization_in_float16_does_not_enlarge_small_differences():
    kernel = np.float16([[0.03, -0.03] * 4, *[[0] * 8] * 2])
    with tf.Graph().as_default():
        output, _ = rnn.LayerNormBasicLSTMCell(2)(tf.ones([1, 1], tf.float16), [tf.zeros([1, 2], tf.float16)] * 2)
        names = ('input', 'transform', 'forget', 'output', 'state')
        values = {f'layer_norm_basic_lstm_cell/{name}/gamma': [1, 1] for name in names}
        values |= {f'layer_norm_basic_lstm_cell/{name}/beta': [0, 0] for name in names}
        found = evaluate(output, **{'layer_norm_basic_lstm_cell/kernel': kernel, **values})
    gate = np.array([1, -1]) * 0.03 / np.sqrt(0.03**2 + 1e-3)
    c = sigmoid(gate) * np.tanh(gate)
    c = (c - c.mean()) / np.sqrt(c.var() + 1e-3)
    np.testing.assert_allclose(found, [np.tanh(c) * sigmoid(gate)], rtol=1e-2)


def test_a_cell_without_layer_normalization_starts_with_random_biases():
    with tf.Graph().as_default():
        tf.nn.dynamic_rnn(rnn.LayerNormBasicLSTMCell(100, layer_norm=False), tf.ones([1, 1, SIZE]), dtype=tf.float32)
        (bias,) = (variable for variable in tf.global_variables() if variable.op.name.endswith('bias'))
        with tf.Session() as session:
            session.run(bias.initializer)
            bias = session.run(bias)
    limit = np.sqrt(6 / (400 + 400))  # Of Glorot and Bengio, as for all variables without an initializer.
    assert np.std(bias) == pytest.approx(limit / np.sqrt(3), rel=0.1) and np.abs(bias).max() <= limit


def stepped(cell, size, state_sizes, **shapes):
    """Returns inputs, states before, values of variables of these shapes, and the output and states after a step."""
    x, *before = (RANDOM.normal(size=[BATCH, columns]).astype(np.float32) for columns in (size, *state_sizes))
    values = {name.replace('__', '/'): RANDOM.normal(size=shape) for name, shape in shapes.items()}
    with tf.Graph().as_default():
        state = rnn.LSTMStateTuple(*map(tf.constant, before)) if len(before) == 2 else tf.constant(before[0])
        output, state = cell()(tf.constant(x), state)
        after = evaluate([output, *tf.nest.flatten(state)], **values)
    return x, before, [*values.values()], after


def test_a_cell_of_architecture_search_is_that_of_its_paper():
    shapes = {'recurrent_kernel': [2, 24], 'kernel': [SIZE, 24], 'bias': [24], 'projection_weights': [3, 2]}
    shapes = {f'nas_cell__{name}': shape for name, shape in shapes.items()}
    make = lambda: rnn.NASCell(3, num_proj=2, use_bias=True)  # noqa: E731
    x, (c, m), (recurrent, kernel, bias, projection), found = stepped(make, SIZE, (3, 2), **shapes)
    a, b = np.split(x @ kernel, 8, 1), np.split(m @ recurrent + bias, 8, 1)
    left = np.tanh(sigmoid(a[0] + b[0]) * np.maximum(a[1] + b[1], 0))
    right = np.tanh(sigmoid(a[2] + b[2]) + np.maximum(a[3] * b[3], 0))
    c = np.tanh(left + c) * right
    other = np.tanh(np.tanh(a[4] + b[4]) * sigmoid(a[5] + b[5])) + sigmoid(np.tanh(a[6] + b[6]) + sigmoid(a[7] + b[7]))
    m = np.tanh(c * np.tanh(other)) @ projection
    for value, expected in zip(found, (m, c, m)):
        np.testing.assert_allclose(value, expected, rtol=1e-3, atol=1e-5)


def test_a_cell_adds_what_it_forgets():
    shapes = {'W_0': [SIZE + 2, 9], 'B': [9], 'W_F_diag': [3], 'W_O_diag': [3], 'W_P_0': [3, 2]}
    shapes = {f'coupled_input_forget_gate_lstm_cell__{name}': shape for name, shape in shapes.items()}
    make = lambda: rnn.CoupledInputForgetGateLSTMCell(3, True, num_proj=2, proj_clip=0.5, forget_bias=0.25)  # noqa: E731
    x, (c, m), (kernel, bias, of_forget, of_output, projection), found = stepped(make, SIZE, (3, 2), **shapes)
    new, forget, output = np.split(np.concatenate([x, m], 1) @ kernel + bias, 3, 1)
    kept = sigmoid(forget + 0.25 + of_forget * c)
    c = kept * c + (1 - kept) * np.tanh(new)
    m = ((sigmoid(output + of_output * c) * np.tanh(c)) @ projection).clip(-0.5, 0.5)
    for value, expected in zip(found, (m, c, m)):
        np.testing.assert_allclose(value, expected, rtol=1e-3, atol=1e-5)
    with pytest.raises(ValueError, match='needs state_is_tuple=True, no shards and no layer_norm'):
        rnn.CoupledInputForgetGateLSTMCell(3, num_unit_shards=2)


@pytest.mark.parametrize('size', [None, 4])
def test_groups_of_an_lstm_read_their_parts(size):
    groups, units = 2, 2 * UNITS
    x = RANDOM.normal(size=[LENGTH, BATCH, 4]).astype(np.float32)
    kernels = RANDOM.normal(size=[groups, (4 + (size or units)) // groups, 4 * UNITS]).astype(np.float32)
    biases = RANDOM.normal(size=[4, units]).astype(np.float32)
    values = {f'rnn/glstm_cell/group{i}/kernel': kernel for i, kernel in enumerate(kernels)}
    values |= {f'rnn/glstm_cell/bias_{gate}': bias for gate, bias in zip('ijfo', biases)}
    projection = np.eye(units, dtype=np.float32)
    if size:
        projection = values['rnn/glstm_cell/projection/kernel'] = RANDOM.normal(size=[units, size]).astype(np.float32)
    with tf.Graph().as_default():
        cell = rnn.GLSTMCell(units, None, size, groups, 0.5, tf.abs)
        outputs, state = tf.nn.dynamic_rnn(cell, tf.constant(x), dtype=tf.float32, time_major=True)
        found = evaluate([outputs, state.c], **values)
    c, m = np.zeros([BATCH, units]), np.zeros([BATCH, projection.shape[1]])
    for i, step in enumerate(x):
        read = zip(np.split(step, groups, 1), np.split(m, groups, 1), kernels)
        parts = [np.split(np.concatenate([inputs, last], 1) @ kernel, 4, 1) for inputs, last, kernel in read]
        gates = [np.concatenate(gate, 1) + bias for gate, bias in zip(zip(*parts), biases)]
        c = c * sigmoid(gates[2] + 0.5) + sigmoid(gates[0]) * np.tanh(gates[1])
        m = np.abs(c) * sigmoid(gates[3]) @ projection
        np.testing.assert_allclose(found[0][i], m, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], c, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match='divisible by number_of_groups=3'):
        rnn.GLSTMCell(4, number_of_groups=3)


@pytest.mark.parametrize(
    'cell, names',
    [
        (rnn.GRUBlockCell, ('w_ru', 'b_ru', 'w_c', 'b_c')),
        (rnn.GRUBlockCellV2, ('gates/kernel', 'gates/bias', 'candidate/kernel', 'candidate/bias')),
    ],
)
def test_block_cells_are_grus_with_the_variables_of_tensorflow_1(cell, names):
    values = (KERNEL[:, : 2 * UNITS], BIAS[: 2 * UNITS], KERNEL[:, 3 * UNITS :], BIAS[3 * UNITS :])
    with tf.Graph().as_default():
        outputs, _ = tf.nn.dynamic_rnn(cell(cell_size=UNITS), tf.constant(X), dtype=tf.float32, time_major=True)
        found = evaluate(outputs, **{f'rnn/gru_cell/{name}': value for name, value in zip(names, values)})
    h = np.zeros([BATCH, UNITS])
    for x, output in zip(X, found):
        r, u = np.split(sigmoid(np.concatenate([x, h], 1) @ values[0] + values[1]), 2, 1)
        h = u * h + (1 - u) * np.tanh(np.concatenate([x, r * h], 1) @ values[2] + values[3])
        np.testing.assert_allclose(output, h, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match='Exactly one of num_units or cell_size'):
        cell()


def test_a_partitioner_divides_the_matrix_but_not_the_bias():
    kernel, bias = KERNEL[:, :UNITS], BIAS[:UNITS]
    with tf.Graph().as_default(), tf.variable_scope('of', partitioner=tf.fixed_size_partitioner(2)):
        product = rnn.linear([tf.constant(X[0]), tf.constant(X[1, :, :UNITS])], UNITS, True)
        again = tf.get_variable('other', [4, 1])  # Others are divided as before.
        found = evaluate(
            product,
            **{'of/kernel/part_0': kernel[:4], 'of/kernel/part_1': kernel[4:], 'of/bias': bias},
            **{f'of/other/part_{i}': np.zeros([2, 1]) for i in (0, 1)},
        )
    assert len([*again]) == 2
    np.testing.assert_allclose(found, np.concatenate([X[0], X[1, :, :UNITS]], 1) @ kernel + bias, rtol=1e-4, atol=1e-6)


def test_a_cell_with_one_gate_is_that_of_its_paper():
    kernel, bias = KERNEL[:, : 2 * UNITS], BIAS[: 2 * UNITS]
    with tf.Graph().as_default():
        cell = rnn.UGRNNCell(UNITS, forget_bias=0.5)
        outputs, state = tf.nn.dynamic_rnn(cell, tf.constant(X), dtype=tf.float32, time_major=True)
        found = evaluate([outputs, state], **{'rnn/ugrnn_cell/kernel': kernel, 'rnn/ugrnn_cell/bias': bias})
    h, expected = np.zeros([BATCH, UNITS]), []
    for x in X:
        gate, new = np.split(np.concatenate([x, h], 1) @ kernel + bias, 2, 1)
        h = sigmoid(gate + 0.5) * h + sigmoid(-gate - 0.5) * np.tanh(new)
        expected.append(h)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1], h, rtol=1e-4, atol=1e-6)


def test_a_cell_whose_state_meets_no_matrix_is_that_of_its_paper():
    kernel, bias = RANDOM.normal(size=[SIZE, 4 * UNITS]), BIAS[: 2 * UNITS]
    with tf.Graph().as_default():
        outputs, state = tf.nn.dynamic_rnn(rnn.SRUCell(UNITS), tf.constant(X), dtype=tf.float32, time_major=True)
        found = evaluate([outputs, state], **{'rnn/sru_cell/kernel': kernel, 'rnn/sru_cell/bias': bias})
    c, expected = np.zeros([BATCH, UNITS]), []
    for x in X:
        new, f, r, passed = np.split(x @ kernel, 4, 1)
        f, r = sigmoid(f + bias[:UNITS]), sigmoid(r + bias[UNITS:])
        c = f * c + (1 - f) * new
        expected.append(r * np.tanh(c) + (1 - r) * passed)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1], c, rtol=1e-4, atol=1e-6)


def test_cells_whose_units_see_only_themselves_are_those_of_their_papers():
    w, u, bias = KERNEL[:SIZE], RANDOM.normal(size=[1, 4 * UNITS]), BIAS
    c, h, state, expected = *np.zeros([3, BATCH, UNITS]), []
    for x in X:
        i, j, f, o = np.split(x @ w + np.tile(h, 4) * u + bias, 4, 1)
        c = sigmoid(f + 0.5) * c + sigmoid(i) * np.tanh(j)
        h = np.tanh(c) * sigmoid(o)
        state = np.maximum(x @ w[:, :UNITS] + state * u[:, :UNITS] + bias[:UNITS], 0)
        expected.append((h, state))
    for k, (cell, scope, units) in enumerate(
        (
            (lambda: rnn.IndyLSTMCell(UNITS, 0.5), 'indy_lstm_cell', 4 * UNITS),
            (lambda: rnn.IndRNNCell(UNITS, tf.nn.relu), 'ind_rnn_cell', UNITS),
        )
    ):
        with tf.Graph().as_default():
            outputs, state = tf.nn.dynamic_rnn(cell(), tf.constant(X), dtype=tf.float32, time_major=True)
            values = {'kernel_w': w[:, :units], 'kernel_u': u[:, :units], 'bias': bias[:units]}
            found = evaluate([outputs, *tf.nest.flatten(state)], **{f'rnn/{scope}/{name}': v for name, v in values.items()})
        np.testing.assert_allclose(found[0], [step[k] for step in expected], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found[1:], [found[0][-1]] if k else [c, h], rtol=1e-4, atol=1e-6)


def test_a_gru_whose_units_see_only_themselves():
    w, u = KERNEL[:SIZE], RANDOM.normal(size=[1, 3 * UNITS]).astype(np.float32)
    gates, new = slice(2 * UNITS), slice(2 * UNITS, 3 * UNITS)
    values = {'gates/kernel_w': w[:, gates], 'gates/kernel_u': u[:, gates], 'gates/bias': BIAS[gates]}
    values |= {'candidate/kernel': w[:, new], 'candidate/kernel_u': u[:, new], 'candidate/bias': BIAS[new]}
    with tf.Graph().as_default():
        cell = rnn.IndyGRUCell(UNITS, tf.sin)
        outputs, state = tf.nn.dynamic_rnn(cell, tf.constant(X), dtype=tf.float32, time_major=True)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            starts = {variable.op.name[-8:]: session.run(variable) for variable in tf.global_variables()}
        found = evaluate([outputs, state], **{f'rnn/indy_gru_cell/{name}': value for name, value in values.items()})
    assert starts['tes/bias'].tolist() == [1] * 2 * UNITS and starts['ate/bias'].tolist() == [0] * UNITS
    assert np.abs(starts['kernel_u']).max() <= 1
    h = np.zeros([BATCH, UNITS])
    for x, output in zip(X, found[0]):
        r, z = np.split(sigmoid(x @ w[:, gates] + np.tile(h, 2) * u[:, gates] + BIAS[gates]), 2, 1)
        h = z * h + (1 - z) * np.sin(x @ w[:, new] + r * h * u[:, new] + BIAS[new])
        np.testing.assert_allclose(output, h, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1], h, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('is_shared', [False, True])
@pytest.mark.parametrize('is_coupled', [False, True])
@pytest.mark.parametrize('has_peepholes', [False, True])
def test_a_grid_reads_slices_over_time_and_over_frequencies(is_shared, is_coupled, has_peepholes):
    blocks, feature_size, skip, clip = [(0, 4, 2), (3, 5, 1)], 2, 2, 0.5  # First and last column, number of slices.
    gates, ways = 'ijo' if is_coupled else 'ijfo', ['freq'] if is_shared else ['freq', 'time']
    shapes = {}
    for b in range(len(blocks)):
        for way in ways:
            shapes[f'W_{way[0]}_{b}_0'] = [feature_size + 2 * UNITS, len(gates) * UNITS]
            shapes[f'B_{way[0]}_{b}'] = [len(gates) * UNITS]
        for name in [f'W_{gate.upper()}_diag_{way}' for way in ways for gate in 'fio' if gate in gates] * has_peepholes:
            shapes |= {f'{name}{of}_{b}': [UNITS] for of in 'ft'}
    values = {name: RANDOM.normal(size=shape) for name, shape in shapes.items()}
    starts, ends, counts = zip(*blocks)
    with tf.Graph().as_default():
        options = dict(start_freqindex_list=starts, end_freqindex_list=ends, couple_input_forget_gates=is_coupled)
        cell = rnn.GridLSTMCell(
            UNITS,
            has_peepholes,
            is_shared,
            clip,
            feature_size=feature_size,
            frequency_skip=skip,
            num_frequency_blocks=counts,
            **options,
        )
        outputs, state = tf.nn.dynamic_rnn(cell, tf.constant(X), dtype=tf.float32, time_major=True)
        assert [variable.op.name.rpartition('/')[2] for variable in tf.global_variables()] == [*shapes]
        found = evaluate([outputs, *state], **{f'rnn/grid_lstm_cell/{name}': value for name, value in values.items()})
    assert state._fields[2:4] == ('state_f01_b00_c', 'state_f01_b00_m') and cell.output_size == 6 * UNITS

    def step(b, x, c_old, m_freq, m_time):
        """Returns c and m of both ways, each [2, batch, units]."""
        of = ways * 2 if is_shared else ways

        def seen(gate, way, c):
            names = [f'W_{gate.upper()}_diag_{way}{name}_{b}' for name in 'ft'] * has_peepholes
            return sum(values[name] * part for name, part in zip(names, c))

        new, opened = [], []
        for way, c in zip(of, c_old):
            product = np.concatenate([x, m_time, m_freq], 1) @ values[f'W_{way[0]}_{b}_0'] + values[f'B_{way[0]}_{b}']
            gate = dict(zip(gates, np.split(product, len(gates), 1)))
            i = sigmoid(gate['i'] + seen('i', way, c_old))
            f = 1 - i if is_coupled else sigmoid(gate['f'] + 1 + seen('f', way, c_old))
            new.append((f * c + i * np.tanh(gate['j'])).clip(-clip, clip))
            opened.append(gate['o'])
        return new, [sigmoid(o + seen('o', way, new)) * np.tanh(c) for way, o, c in zip(of, opened, new)]

    kept = {(b, k): np.zeros([2, BATCH, UNITS]) for b, count in enumerate(counts) for k in range(count)}
    for x, output in zip(X, found[0]):
        expected = []
        for b, (start, _, count) in enumerate(blocks):
            c_freq, m_freq = np.zeros([2, BATCH, UNITS])
            for k in range(count):
                c_time, m_time = kept[b, k]
                part = x[:, start + k * skip :][:, :feature_size]
                (c_freq, c_time), (m_freq, m_time) = step(b, part, (c_freq, c_time), m_freq, m_time)
                kept[b, k] = c_time, m_time
                expected += [m_time, m_freq]
        np.testing.assert_allclose(output, np.concatenate(expected, 1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1:], [part for both in kept.values() for part in both], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    'options, message',
    [
        ({}, 'Must specify num_frequency_blocks'),
        ({'num_frequency_blocks': [2], 'state_is_tuple': False}, 'needs state_is_tuple=True and no shards'),
        ({'num_frequency_blocks': [2, 1]}, 'must have the same length'),
        ({'num_frequency_blocks': [2], 'start_freqindex_list': [0]}, 'must have the same length'),
        ({'num_frequency_blocks': [2]}, 'needs feature_size and frequency_skip'),
        ({'num_frequency_blocks': [2], 'feature_size': 2, 'frequency_skip': 1}, 'requires 4 but gets 2'),
    ],
)
def test_slices_that_a_grid_lacks_are_named(options, message):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=message):
        tf.nn.dynamic_rnn(rnn.GridLSTMCell(UNITS, **options), tf.constant(X), dtype=tf.float32)


@pytest.mark.parametrize('has_peepholes', [False, True])
def test_slices_are_read_after_each_other_and_after_their_states(has_peepholes):
    size, skip, clip, bias = 2, 1, 0.3, 0.5
    count = 4  # The columns 0-1, 1-2, 2-3 and 3-4 of 5.
    shapes = {'W_0': [size + 2 * UNITS, 4 * UNITS], 'B': [4 * UNITS]}
    shapes |= {f'W_{gate}_diag': [UNITS] for gate in 'FIO' if has_peepholes}
    w = {name: RANDOM.normal(size=shape) for name, shape in shapes.items()}
    state = RANDOM.normal(size=[BATCH, 2 * UNITS * count])
    with tf.Graph().as_default():
        cell = rnn.TimeFreqLSTMCell(UNITS, has_peepholes, clip, forget_bias=bias, feature_size=size, frequency_skip=skip)
        fetches = cell(tf.constant(X[0]), tf.constant(state, tf.float32))
        output, after = evaluate(fetches, **{f'time_freq_lstm_cell/{name}': value for name, value in w.items()})
    assert (cell.state_size, cell.output_size) == (2 * UNITS, UNITS)
    diagonals = {gate: w.get(f'W_{gate}_diag', 0) for gate in 'FIO'}
    h, outputs, states = np.zeros([BATCH, UNITS]), [], []
    for k, (c, m) in enumerate(state.reshape([BATCH, count, 2, UNITS]).transpose([1, 2, 0, 3])):
        joined = np.concatenate([X[0][:, k : k + size], m, h], 1)
        i, j, f, o = np.split(joined @ w['W_0'] + w['B'], 4, 1)
        c = sigmoid(f + bias + diagonals['F'] * c) * c + sigmoid(i + diagonals['I'] * c) * np.tanh(j)
        c = c.clip(-clip, clip)
        h = sigmoid(o + diagonals['O'] * c) * np.tanh(c)
        outputs.append(h)
        states += [c, h]
    np.testing.assert_allclose(output, np.concatenate(outputs, 1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(after, np.concatenate(states, 1), rtol=1e-4, atol=1e-6)


def test_a_state_of_another_number_of_slices_is_named():
    with tf.Graph().as_default():
        cell = rnn.TimeFreqLSTMCell(UNITS, feature_size=2, frequency_skip=3)
        with pytest.raises(ValueError, match='5 inputs are 2 slices, whose states have 12 columns, but the state has 6'):
            cell(tf.constant(X[0]), cell.zero_state(BATCH, tf.float32))
    with pytest.raises(ValueError, match='needs feature_size and no shards'):
        rnn.TimeFreqLSTMCell(UNITS)


@pytest.mark.parametrize('has_peepholes', [False, True])
def test_units_open_in_phases(has_peepholes):
    width = SIZE + UNITS + UNITS * has_peepholes
    shapes = {
        f'{name}/kernel': [rows, columns]
        for name, rows, columns in (
            ('mask_gates', width, 2 * UNITS),
            ('new_input', SIZE + UNITS, UNITS),
            ('output_gate', width, UNITS),
        )
    }
    values = {name: RANDOM.normal(size=shape) for name, shape in shapes.items()}
    values |= {name.replace('kernel', 'bias'): RANDOM.normal(size=value.shape[1]) for name, value in values.items()}
    values |= {'period': np.array([2.0, 5, 10]), 'phase': np.array([0.25, 1, 0]), 'ratio_on': np.array([0.5, 0.25, 0.4])}
    times = np.array([[[0.5], [3.0]], [[1.5], [5.0]], [[6.3], [7.0]], [[8.0], [16.0]]])
    with tf.Graph().as_default():
        cell = rnn.PhasedLSTMCell(UNITS, has_peepholes, leak=0.01)
        inputs = (tf.constant(times), tf.constant(X))
        outputs, state = tf.nn.dynamic_rnn(cell, inputs, dtype=tf.float32, time_major=True)
        found = evaluate([outputs, *state], **{f'rnn/phased_lstm_cell/{name}': value for name, value in values.items()})
        period, phase, ratio = (
            tf.global_variables(f'rnn/phased_lstm_cell/{name}')[0] for name in ('period', 'phase', 'ratio_on')
        )
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            first = session.run([period, phase, ratio])
    assert all((0 <= first[1]) & (first[1] <= first[0]) & (1 <= first[0]) & (first[0] <= 1000)) and np.allclose(first[2], 0.1)
    c, h = np.zeros([2, BATCH, UNITS])
    for k, (time, x) in enumerate(zip(times, X)):
        gate = lambda name, *inputs: np.concatenate(inputs, 1) @ values[f'{name}/kernel'] + values[f'{name}/bias']  # noqa: E731
        i, f = np.split(sigmoid(gate('mask_gates', x, h, *[c] * has_peepholes)), 2, 1)
        new = f * c + i * np.tanh(gate('new_input', x, h))
        out = np.tanh(new) * sigmoid(gate('output_gate', x, h, *[new] * has_peepholes))
        phase, ratio = (time - values['phase']) % values['period'] / values['period'], values['ratio_on']
        is_open = np.select([phase < ratio / 2, phase < ratio], [2 * phase / ratio, 2 - 2 * phase / ratio], 0.01 * phase)
        c, h = is_open * new + (1 - is_open) * c, is_open * out + (1 - is_open) * h
        np.testing.assert_allclose(found[0][k], h, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1:], [c, h], rtol=1e-4, atol=1e-6)


def test_the_gru_of_cudnn_resets_after_the_matrix():
    parts = {'gates': (SIZE + UNITS, 2 * UNITS), 'candidate/input_projection': (SIZE, UNITS)}
    parts |= {'candidate/hidden_projection': (UNITS, UNITS)}
    values = {f'{name}/kernel': RANDOM.normal(size=shape) for name, shape in parts.items()}
    values |= {f'{name}/bias': RANDOM.normal(size=shape[1]) for name, shape in parts.items()}
    with tf.Graph().as_default():
        cell = rnn.CudnnCompatibleGRUCell(UNITS)
        outputs, _ = tf.nn.dynamic_rnn(cell, tf.constant(X), dtype=tf.float32, time_major=True)
        scope = 'rnn/cudnn_compatible_gru_cell'
        outputs = evaluate(outputs, **{f'{scope}/{name}': value for name, value in values.items()})
    h = np.zeros([BATCH, UNITS])
    for x, output in zip(X, outputs):
        inputs = zip(parts, (np.concatenate([x, h], 1), x, h))
        gates, new, old = (each @ values[f'{name}/kernel'] + values[f'{name}/bias'] for name, each in inputs)
        r, u = np.split(sigmoid(gates), 2, 1)
        h = u * h + (1 - u) * np.tanh(new + r * old)
        np.testing.assert_allclose(output, h, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('is_joined', [False, True])
def test_an_lstm_of_pictures_is_one_of_pixels_and_their_neighbors(is_joined):
    x = RANDOM.normal(size=[BATCH, LENGTH, 4, 1]).astype(np.float32)
    kernel, bias = RANDOM.normal(size=[3, 1 + UNITS, 4 * UNITS]), BIAS
    with tf.Graph().as_default():
        cell = rnn.Conv1DLSTMCell(input_shape=(4, 1), output_channels=UNITS, kernel_shape=[3], skip_connection=is_joined)
        outputs, state = tf.nn.dynamic_rnn(cell, tf.constant(x), dtype=tf.float32)
        scope = 'rnn/conv_1d_lstm_cell'
        outputs, c_found, h_found = evaluate([outputs, *state], **{f'{scope}/kernel': kernel, f'{scope}/biases': bias})
    c, h = np.zeros([2, BATCH, 4, UNITS])
    for step in range(LENGTH):
        padded = np.pad(np.concatenate([x[:, step], h], -1), [(0, 0), (1, 1), (0, 0)])
        i, j, f, o = np.split(sum(padded[:, n : n + 4] @ kernel[n] for n in range(3)) + bias, 4, -1)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
        h = np.tanh(c) * sigmoid(o)
        expected = np.concatenate([h, x[:, step]], -1) if is_joined else h
        np.testing.assert_allclose(outputs[:, step], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose([c_found, h_found], [c, h], rtol=1e-4, atol=1e-6)
    named = type('Named', (rnn.Conv2DLSTMCell,), {})('named', input_shape=[4, 5, 1], output_channels=2, kernel_shape=[3, 3])
    assert named.name == 'named' and named.output_size.as_list() == [4, 5, 2]
    with pytest.raises(ValueError, match='Invalid input_shape'):
        rnn.ConvLSTMCell(2, [4, 1], 1, [3])


def test_a_cell_attends_to_its_last_outputs():
    class Sum(tf.nn.rnn_cell.RNNCell):
        """Adds the inputs to its state."""

        state_size = output_size = UNITS

        def call(self, inputs, state):
            return inputs + state, inputs + state

    shapes = {
        'kernel': [SIZE + 2, UNITS],
        'bias': [UNITS],
        'attention/attn_w': [1, 1, 2, 4],
        'attention/attn_v': [4],
        'attention/kernel': [UNITS, 4],
        'attention/bias': [4],
        'attn_output_projection/kernel': [UNITS + 2, 2],
        'attn_output_projection/bias': [2],
    }
    values = {name: RANDOM.normal(size=shape) for name, shape in shapes.items()}
    w = [values[name].squeeze() for name in shapes]
    with tf.Graph().as_default():
        cell = rnn.AttentionCellWrapper(Sum(), 3, attn_size=2, attn_vec_size=4, input_size=UNITS)
        outputs, state = tf.nn.dynamic_rnn(cell, tf.constant(X), dtype=tf.float32, time_major=True)
        found = evaluate([outputs, *state], **{f'rnn/attention_cell_wrapper/{name}': value for name, value in values.items()})
    h, attention, memory, expected = np.zeros([BATCH, UNITS]), np.zeros([BATCH, 2]), np.zeros([BATCH, 3, 2]), []
    for x in X:
        h = h + np.concatenate([x, attention], 1) @ w[0] + w[1]
        scores = np.exp(np.tanh(memory @ w[2] + (h @ w[4] + w[5])[:, None]) @ w[3])
        attention = np.einsum('bt,bts->bs', scores / scores.sum(1, keepdims=True), memory)
        expected.append(np.concatenate([h, attention], 1) @ w[6] + w[7])
        memory = np.concatenate([memory[:, 1:], expected[-1][:, None]], 1)
    for value, other in zip(found, (expected, h, attention, memory.reshape(BATCH, -1))):
        np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match='use state_is_tuple=True'):
        rnn.AttentionCellWrapper(Sum(), 3, state_is_tuple=False)


def test_states_are_of_one_class_in_all_modules():
    api = importlib.import_module('tensorflow._api.v2.compat.v1.nn.rnn_cell')
    for module in (tf.nn.rnn_cell, api, rnn_cell, rnn_cell_impl, rnn):
        for name in {'LSTMCell', 'BasicLSTMCell', 'LSTMBlockCell'} & {*dir(module)}:
            with tf.Graph().as_default():
                cell = getattr(module, name)(UNITS)
                _, state = tf.nn.dynamic_rnn(cell, tf.constant(X), dtype=tf.float32)
            assert type(state) is type(cell.state_size) is module.LSTMStateTuple is tf.nn.rnn_cell.LSTMStateTuple


class Double(tf.nn.rnn_cell.RNNCell):
    """Its output is twice its input; its state, which starts at 1, counts the steps."""

    state_size, output_size = 1, SIZE

    def zero_state(self, batch_size, dtype):
        return tf.ones([batch_size, 1], dtype)

    def call(self, inputs, state):
        return 2 * inputs, state + 1


@pytest.mark.parametrize('is_coupled', [False, True])
def test_gates_mix_inputs_and_outputs(is_coupled):
    gates = {
        name: RANDOM.normal(size=[SIZE] * n) for name, n in dict(carry_w=2, carry_b=1, transform_w=2, transform_b=1).items()
    }
    carry = sigmoid(X[0] @ gates['carry_w'] + gates['carry_b'])
    transform = 1 - carry if is_coupled else sigmoid(X[0] @ gates['transform_w'] + gates['transform_b'])
    with tf.Graph().as_default():
        cell = rnn.HighwayWrapper(Double(), is_coupled, 0.5)
        fetches = cell(tf.constant(X[0]), cell.zero_state(BATCH, tf.float32))
        found, state = evaluate(fetches, **{name: gates[name] for name in gates if 'carry' in name or not is_coupled})
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            starts = [
                value[0] for name, value in session.run({v.op.name: v for v in tf.global_variables()}).items() if '_b' in name
            ]
        with pytest.raises(ValueError, match='incompatible'):
            rnn.HighwayWrapper(tf.nn.rnn_cell.BasicRNNCell(5))(tf.ones([BATCH, 1]), tf.zeros([BATCH, 5]))
    np.testing.assert_allclose(found, X[0] * carry + 2 * X[0] * transform, rtol=1e-5)
    assert state.tolist() == [[2.0]] * BATCH and starts == ([0.5] if is_coupled else [0.5, -0.5])


def test_wrappers_project_with_the_variables_of_tensorflow_1():
    shapes = {
        'input_projection_wrapper/kernel': [SIZE, 2],
        'input_projection_wrapper/bias': [2],
        'input_projection_wrapper/output_projection_wrapper/basic_rnn_cell/kernel': [2 + UNITS, UNITS],
        'input_projection_wrapper/output_projection_wrapper/basic_rnn_cell/bias': [UNITS],
        'input_projection_wrapper/output_projection_wrapper/kernel': [UNITS, 2],
        'input_projection_wrapper/output_projection_wrapper/bias': [2],
    }
    values = {f'rnn/{name}': RANDOM.normal(size=shape) for name, shape in shapes.items()}
    with tf.Graph().as_default():
        cell = rnn.OutputProjectionWrapper(tf.nn.rnn_cell.BasicRNNCell(UNITS), 2, tf.nn.sigmoid)
        cell = rnn.InputProjectionWrapper(cell, 2, tf.nn.tanh)
        outputs, _ = tf.nn.static_rnn(cell, tf.unstack(tf.constant(X)), dtype=tf.float32)
        found = evaluate(outputs, **values)
    kernel_in, bias_in, kernel, bias, kernel_out, bias_out = values.values()
    h = np.zeros([BATCH, UNITS])
    for step, value in zip(X, found):
        h = np.tanh(np.concatenate([np.tanh(step @ kernel_in + bias_in), h], 1) @ kernel + bias)
        np.testing.assert_allclose(value, sigmoid(h @ kernel_out + bias_out), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('is_list', [False, True])
def test_bidirectional_layers_are_stacked_with_their_outputs_joined(is_list):
    with tf.Graph().as_default():
        cells = [[rnn.LSTMBlockCell(UNITS) for _ in range(2)] for _ in range(2)]
        if is_list:
            outputs, forward, backward = rnn.stack_bidirectional_rnn(*cells, tf.unstack(tf.constant(X)), dtype=tf.float32)
            outputs = tf.stack(outputs)
        else:
            outputs, forward, backward = rnn.stack_bidirectional_dynamic_rnn(
                *cells, tf.constant(X), dtype=tf.float32, time_major=True
            )
        with pytest.raises(ValueError, match='should have the same depth, not 2 and 1'):
            rnn.stack_bidirectional_dynamic_rnn(cells[0], cells[1][:1], tf.constant(X), dtype=tf.float32)
        with pytest.raises(ValueError, match='must be lists of states, one per layer'):
            rnn.stack_bidirectional_dynamic_rnn(*cells, tf.constant(X), [tf.zeros([BATCH, UNITS])], dtype=tf.float32)
        names = [variable.op.name for variable in tf.global_variables()]
    assert outputs.shape.as_list() == [LENGTH, BATCH, 2 * UNITS] and len(forward) == len(backward) == 2
    inner = '' if is_list else 'bidirectional_rnn/'
    places = [f'stack_bidirectional_rnn/cell_{i}/{inner}{way}/lstm_cell' for i in (0, 1) for way in ('fw', 'bw')]
    assert names == [f'{place}/{name}' for place in places for name in ('kernel', 'bias')]


@pytest.mark.parametrize('dtype', [np.int32, np.int64])
@pytest.mark.parametrize('length', [1, 3])
@pytest.mark.parametrize('is_known', [True, False])
def test_a_crf_is_that_of_all_sequences_of_tags(length, dtype, is_known):
    count = 3
    potentials = RANDOM.normal(size=[3, length, count]).astype(np.float32)
    transitions = RANDOM.normal(size=[count, count]).astype(np.float32)
    ends = np.array([length, max(length - 1, 1), 1], dtype)
    tags = RANDOM.randint(count, size=[3, length]).astype(dtype)

    def score(row, sequence):
        unary = sum(potentials[row, i, tag] for i, tag in enumerate(sequence))
        return unary + sum(transitions[pair] for pair in itertools.pairwise(sequence))

    with tf.Graph().as_default():
        values, lengths = tf.constant(potentials), tf.constant(ends)
        if not is_known:
            values, lengths = (
                tf.placeholder_with_default(*pair) for pair in ((values, [None, None, count]), (lengths, [None]))
            )
        likelihood, matrix = crf.crf_log_likelihood(values, tf.constant(tags), lengths)
        best, best_score = crf.crf_decode(values, matrix, lengths)
        assert best.shape.as_list() == ([3, length] if is_known else [None, None]) and best.dtype == tf.int32
        gradient = tf.gradients(likelihood, matrix)
        found, best, best_score, _ = evaluate([likelihood, best, best_score, gradient], transitions=transitions)
    for row, end in enumerate(ends):
        scores = {sequence: score(row, sequence) for sequence in itertools.product(range(count), repeat=int(end))}
        expected = scores[tuple(tags[row, :end])] - np.log(np.sum(np.exp([*scores.values()])))
        assert found[row] == pytest.approx(expected, abs=1e-4)
        winner = max(scores, key=scores.get)
        assert (*best[row],) == (*winner, *[0] * (length - end)) and best_score[row] == pytest.approx(scores[winner], abs=1e-4)
        alone, alone_score = crf.viterbi_decode(potentials[row, :end], transitions)
        assert (*alone,) == winner and alone_score == pytest.approx(scores[winner], abs=1e-4)


def test_an_empty_sequence_decodes_to_its_first_best_tag():
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(crf.crf_decode(tf.constant([[[1.0, 3.0], [9.0, 2.0]]]), tf.constant([[0.0, 5.0]] * 2), [0]))
    assert [values.tolist() for values in found] == [[[1, 0]], [3]]
