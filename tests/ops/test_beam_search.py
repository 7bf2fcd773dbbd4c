"""Beam search, compared with one in plain Python, which is exhaustive if its beam is wide enough."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.beam_search import rnn_beam_search
from tests.evaluated import evaluate, graph_size

# A machine with 5 states: token k leads from state i to NEXT[i, k], which then predicts the next token by LOGITS.
NUM_STATES, NUM_TOKENS, END, BEGIN = 5, 3, 2, 0
RANDOM = np.random.RandomState(0)
NEXT = RANDOM.randint(0, NUM_STATES, [NUM_STATES, NUM_TOKENS]).astype(np.int32)
LOGITS = RANDOM.normal(size=[NUM_STATES, NUM_TOKENS]).astype(np.float32) * 2
LOG_PROBS = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
STARTS = np.arange(NUM_STATES, dtype=np.int32)
ALL = 40  # More than there are sequences of up to 4 tokens.


def search(starts, sequence_length=4, beam_width=ALL, length_penalty=0.0, begin=BEGIN, logits=LOGITS, end=END):
    """Runs the machine from the states int32 [batch]; its state is a structure, to test nesting."""

    def update(state, ids):
        position = tf.gather_nd(NEXT, tf.stack([state['machine'][0], ids], -1))
        return {'machine': (position,), 'count': state['count'] + 1.0}, tf.gather(logits, position)

    state = {'machine': (starts,), 'count': tf.zeros_like(starts, tf.float32)[:, None]}
    return rnn_beam_search(update, state, sequence_length, beam_width, begin, end, length_penalty)


def beams(start, length, width, length_penalty=0.0):
    """Returns [(ids, log_prob)], the best first, of which every prefix is among the best extensions at its step."""
    found = [([], start, BEGIN, 0.0, 0.0)]
    for step in range(length):
        extended = []
        for ids, state, previous, log_prob, score in found:
            if ids and previous == END:
                extended.append(([*ids, END], state, END, log_prob, score))
                continue
            state = NEXT[state, previous]
            for token, more in enumerate(log_prob + LOG_PROBS[state]):
                extended.append(([*ids, token], state, token, more, more / (step + 1) ** length_penalty))
        found = sorted(extended, key=lambda beam: -beam[4])[:width]
    return [(ids, log_prob) for ids, _, _, log_prob, _ in found]


@pytest.mark.parametrize('length, width, penalty', [(4, ALL, 0.0), (4, ALL, 0.7), (4, ALL, 1.0), (6, 1, 0.0), (6, 2, 0.0)])
def test_a_beam_keeps_the_best_prefixes_at_each_step_and_one_as_wide_as_needed_all(length, width, penalty):
    ids, log_probs = evaluate(lambda starts: search(starts, length, width, penalty), STARTS)
    assert ids.shape == (5, width, length) and log_probs.shape == (5, width)
    for start in STARTS:
        expected = beams(start, length, width, penalty)
        count = len(expected)
        assert count == (31 if width == ALL else width)
        assert ids[start, :count].tolist() == [sequence for sequence, _ in expected]
        np.testing.assert_allclose(log_probs[start, :count], [log_prob for _, log_prob in expected], rtol=1e-5)
        assert (log_probs[start, count:] < -1e8).all()


def test_a_beam_search_ends_when_all_sequences_have(session):
    steps = []

    def update(state, ids):
        count = tf.numpy_function(lambda count: steps.append(count) or count, [state], tf.float32)
        count.set_shape(state.shape)
        # The end is all but certain from the third token on.
        ends = tf.where_v2(count[:, :, None] > 1.5, [[[0.0, 0.0, 50.0]]], [[[1.0, 0.5, -50.0]]])
        return count + 1.0, ends + tf.zeros([3, 2, 3])

    ids, log_probs = session.run(rnn_beam_search(update, tf.zeros([3]), 1000, 2, BEGIN, END))
    assert len(steps) == 3
    assert ids.shape == (3, 2, 1000)
    assert ids[0, 0, :4].tolist() == [0, 0, 2, 2] and (ids[:, :, 2:] == END).all()
    np.testing.assert_allclose(np.exp(log_probs[:, 0]), (1 / (1 + np.exp(-0.5))) ** 2, rtol=1e-5)


def test_length_and_batch_of_a_beam_search_may_be_unknown_what_is_known_is_static_and_the_graph_does_not_grow_with_it(session):
    starts, length = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [])
    ids, log_probs = search(starts, length, beam_width=2)
    assert ids.shape.as_list() == [None, 2, None] and log_probs.shape.as_list() == [None, 2]
    known, _ = search(tf.constant(STARTS), 4, beam_width=2)
    assert known.shape.as_list() == [5, 2, 4]
    np.testing.assert_array_equal(session.run(ids, {starts: STARTS, length: 4}), session.run(known))
    empty = session.run([ids, log_probs], {starts: STARTS[:0], length: 4})
    assert [found.shape for found in empty] == [(0, 2, 4), (0, 2)]
    assert graph_size(search, STARTS, 10, 2) == graph_size(search, STARTS, 1000, 2)
    with pytest.raises(ValueError, match='beam_width=0 must be at least 1'):
        search(STARTS, beam_width=0)
    with pytest.raises(ValueError, match='their last dimension must be static'):
        search(STARTS, beam_width=2, logits=tf.placeholder(tf.float32, [NUM_STATES, None]))


def test_beam_search_takes_logits_of_half_the_precision_and_a_begin_token_that_is_the_end_token():
    ids, log_probs = evaluate(lambda starts: search(starts, beam_width=3, logits=np.float16(LOGITS)), STARTS)
    expected = [beams(start, 4, ALL)[0] for start in STARTS]
    np.testing.assert_array_equal(ids[:, 0], [best for best, _ in expected])
    assert log_probs.dtype == np.float32
    np.testing.assert_allclose(log_probs[:, 0], [log_prob for _, log_prob in expected], rtol=1e-2)
    ids, log_probs = evaluate(lambda starts: search(starts, begin=END, beam_width=2), STARTS)
    assert (ids[:, 0, 0] != END).any() and (log_probs[:, 0] < 0).all()
