"""LSTMs over time and frequencies."""

import collections

from tf_estimator.tf1.rnn.base import LSTM

import tensorflow.compat.v1 as tf


def _tuple_of(names):
    return collections.namedtuple('GridLSTMStateTuple', names)


class GridLSTMCell(LSTM):
    """Two LSTMs that read slices of the inputs, one over time and one over the slices.

    (N. Kalchbrenner, I. Danihelka, A. Graves: Grid Long Short-Term Memory, 2016; T. Sainath, B. Li: Modeling Time-Frequency
    Patterns with LSTM vs. Convolutional Architectures for LVCSR Tasks, 2016.) Like TensorFlow 1, it ignores the initializer.

    Args:
      share_time_frequency_weights: whether both have the same variables.
      cell_clip: the largest absolute value of c.
      feature_size: columns of a slice.
      frequency_skip: columns from the start of a slice to that of the next.
      num_frequency_blocks: for each block, the number of its slices.
      start_freqindex_list, end_freqindex_list: the columns of each block; by default one block has all.
      couple_input_forget_gates: whether the cell adds what it forgets.
    """

    def __init__(
        self,
        num_units,
        use_peepholes=False,
        share_time_frequency_weights=False,
        cell_clip=None,
        initializer=None,
        num_unit_shards=1,
        forget_bias=1.0,
        feature_size=None,
        frequency_skip=None,
        num_frequency_blocks=None,
        start_freqindex_list=None,
        end_freqindex_list=None,
        couple_input_forget_gates=False,
        state_is_tuple=True,
        reuse=None,
    ):
        super().__init__(num_units, reuse)
        if num_frequency_blocks is None:
            raise ValueError('Must specify num_frequency_blocks')
        if not state_is_tuple or num_unit_shards != 1:
            raise ValueError('a GridLSTMCell needs state_is_tuple=True and no shards')
        self._counts = tuple(map(int, num_frequency_blocks))
        self._starts = [*(start_freqindex_list or [0])]
        self._ends = [*(end_freqindex_list or [])] if start_freqindex_list else [None]
        if not len(self._counts) == len(self._starts) == len(self._ends):
            raise ValueError('num_frequency_blocks, start_freqindex_list and end_freqindex_list must have the same length')
        self._feature_size, self._skip, self._has_peepholes = feature_size, frequency_skip, use_peepholes
        self._forget_bias, self._clip = forget_bias, cell_clip
        self._gates = 'ijo' if couple_input_forget_gates else 'ijfo'
        self._ways = ('f', 'freq'), ('f', 'freq') if share_time_frequency_weights else ('t', 'time')  # In variables' names.
        places = [(slice_, block) for block, count in enumerate(self._counts) for slice_ in range(count)]
        names = [f'state_f{slice_:02d}_b{block:02d}_{part}' for slice_, block in places for part in 'cm']
        self.state_tuple_type = _tuple_of(names)

    state_size = property(lambda self: self.state_tuple_type(*[self._num_units] * len(self.state_tuple_type._fields)))
    output_size = property(lambda self: 2 * self._num_units * sum(self._counts))

    def _variables(self, _):
        if not (self._feature_size and self._skip):
            raise ValueError('a GridLSTMCell needs feature_size and frequency_skip')
        units, width, shapes = self._num_units, len(self._gates) * self._num_units, {}
        for block in range(len(self._counts)):
            for way, _ in dict.fromkeys(self._ways):
                shapes[f'W_{way}_{block}_0'] = [self._feature_size + 2 * units, width], None
                shapes[f'B_{way}_{block}'] = [width], tf.zeros_initializer()
            diagonals = [(way, gate) for _, way in dict.fromkeys(self._ways) for gate in 'FIO' if gate.lower() in self._gates]
            for way, gate in diagonals if self._has_peepholes else ():
                shapes |= {f'W_{gate}_diag_{way}{of}_{block}': ([units], None) for of in 'ft'}
        return shapes

    def _slices(self, inputs):
        """Yields the slices of each block, a list of [batch, feature_size]."""
        for count, start, end in zip(self._counts, self._starts, self._ends):
            end = tf.compat.dimension_value(inputs.shape[1]) if end is None else end
            if end is None:
                raise ValueError('Cannot infer input_size from static shape inference.')
            found = (end - start - self._feature_size) // self._skip + 1
            if found != count:
                raise ValueError(f'Invalid num_frequency_blocks, requires {found} but gets {count}')
            places = [start + i * self._skip for i in range(count)]
            yield [inputs[:, place : place + self._feature_size] for place in places]

    def call(self, inputs, state):
        before, outputs, after = iter(zip(state[::2], state[1::2])), [], []
        for block, slices in enumerate(self._slices(inputs)):
            freq = tf.zeros_like(state[0]), tf.zeros_like(state[0])
            for x in slices:
                freq, time = self._step(block, x, freq, next(before))
                outputs += [time[1], freq[1]]
                after += time
        return tf.concat(outputs, 1), self.state_tuple_type(*after)

    def _step(self, block, x, freq, time):
        """Returns (c, m) over the slices, and (c, m) over time."""

        def seen(gate, way, cells):  # Through peepholes.
            pairs = zip('ft', cells) if self._has_peepholes else ()
            return sum(self._made[f'W_{gate}_diag_{way}{of}_{block}'] * c for of, c in pairs)

        joined, old, new, opened = tf.concat([x, time[1], freq[1]], 1), (freq[0], time[0]), [], []
        for (way, name), c in zip(self._ways, old):
            product = tf.matmul(joined, self._made[f'W_{way}_{block}_0']) + self._made[f'B_{way}_{block}']
            gates = dict(zip(self._gates, tf.split(product, len(self._gates), 1)))
            i = tf.sigmoid(gates['i'] + seen('I', name, old))
            f = tf.sigmoid(gates['f'] + self._forget_bias + seen('F', name, old)) if 'f' in gates else 1 - i
            c = f * c + i * tf.tanh(gates['j'])
            new.append(c if self._clip is None else tf.clip_by_value(c, -self._clip, self._clip))
            opened.append(gates['o'])
        return [(c, tf.sigmoid(o + seen('O', name, new)) * tf.tanh(c)) for (_, name), c, o in zip(self._ways, new, opened)]


class TimeFreqLSTMCell(LSTM):
    """An LSTM that reads slices of the inputs, each after its own state and the output of the slice before it.

    (T. Sainath, B. Li: Modeling Time-Frequency Patterns with LSTM vs. Convolutional Architectures for LVCSR Tasks, 2016.) Like
    TensorFlow 1, it ignores the initializer, and its sizes are those of one slice; the state is c and m of each slice, float
    [batch, slices * 2 * num_units], the output float [batch, slices * num_units].

    Args:
      cell_clip: the largest absolute value of c.
      feature_size: columns of a slice.
      frequency_skip: columns from the start of a slice to that of the next.
    """

    def __init__(
        self,
        num_units,
        use_peepholes=False,
        cell_clip=None,
        initializer=None,
        num_unit_shards=1,
        forget_bias=1.0,
        feature_size=None,
        frequency_skip=1,
        reuse=None,
    ):
        super().__init__(num_units, reuse)
        if not feature_size or num_unit_shards != 1:
            raise ValueError('a TimeFreqLSTMCell needs feature_size and no shards')
        self._size, self._skip, self._clip = feature_size, frequency_skip, cell_clip
        self._has_peepholes, self._forget_bias = use_peepholes, forget_bias

    state_size = property(lambda self: 2 * self._num_units)

    def _variables(self, _):
        width = 4 * self._num_units
        shapes = {'W_0': ([self._size + 2 * self._num_units, width], None), 'B': ([width], tf.zeros_initializer())}
        return shapes | {f'W_{gate}_diag': ([self._num_units], None) for gate in 'FIO' if self._has_peepholes}

    def call(self, inputs, state):
        columns = tf.compat.dimension_value(inputs.shape[1])
        count = (columns - self._size) // self._skip + 1
        needed, given = 2 * count * self._num_units, tf.compat.dimension_value(state.shape[1])
        if count < 1 or needed != given:
            raise ValueError(
                f'{columns} inputs are {count} slices, whose states have {needed} columns, but the state has {given}'
            )
        cells, m, new = tf.split(state, 2 * count, 1), tf.zeros_like(state[:, : self._num_units]), []
        for i, (c, m_before) in enumerate(zip(cells[::2], cells[1::2])):
            x = inputs[:, i * self._skip :][:, : self._size]
            c, m = self._step(tf.concat([x, m_before, m], 1), c)
            new += [c, m]
        return tf.concat(new[1::2], 1), tf.concat(new, 1)

    def _step(self, joined, c):
        def seen(gate, c):  # Through peepholes.
            return self._made.get(f'W_{gate}_diag', 0) * c

        i, new, f, o = tf.split(tf.matmul(joined, self._made['W_0']) + self._made['B'], 4, 1)
        c = tf.sigmoid(f + self._forget_bias + seen('F', c)) * c + tf.sigmoid(i + seen('I', c)) * tf.tanh(new)
        c = c if self._clip is None else tf.clip_by_value(c, -self._clip, self._clip)
        return c, tf.sigmoid(o + seen('O', c)) * tf.tanh(c)
