"""Two saved states of an input_fn are the same if the same batches follow, whatever waits in its buffers."""

from tf_estimator.exact import iterators

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.evaluated_input import aside
from estimator_trainer.common.replay import input_state
from estimator_trainer.common.training import exact_program

SEED = 1


def _input_fn(params=None):
    return tf.data.Dataset.range(100).shuffle(10).map(lambda number: ({'x': number}, {'y': tf.as_string(number)})).batch(4)


INPUT_FN = exact_program.recorded(_input_fn)


@pytest.fixture
def saved(tmp_path):
    """Returns a function that saves the state after some batches, and returns its path."""

    def save(count):
        path = str(tmp_path / f'{count}.input')
        with aside(INPUT_FN, SEED) as (graph, batch), tf.Session(graph=graph) as session:
            states = iterators.Iterators(graph)
            session.run([tf.global_variables_initializer(), batch.initializer])
            for _ in range(count):
                session.run(batch.features)
            states.save(session, path)
        return path

    return save


def test_states_with_the_same_next_batches_are_equal(saved):
    first, second, end, almost = saved(3), saved(4), saved(25), saved(24)
    assert input_state.are_equal(INPUT_FN, SEED, first, first) and input_state.are_equal(INPUT_FN, SEED, end, end)
    assert input_state.are_equal(INPUT_FN, SEED, first, second) is False
    assert input_state.are_equal(INPUT_FN, SEED, almost, end) is False


def test_a_state_that_is_missing_or_of_another_input_is_unknown(saved, tmp_path):
    assert input_state.are_equal(INPUT_FN, SEED, saved(1), str(tmp_path / 'none')) is None
    other = exact_program.recorded(lambda params: tf.data.Dataset.range(5).batch(2))
    assert input_state.are_equal(other, SEED, saved(1), saved(2)) is None
