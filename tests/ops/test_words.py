"""common/ops/words.py: the vectors of words, and what they start from."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops import words
from estimator_trainer.common.word_vectors import WordVectors
from tests.shared import refused

VECTORS = WordVectors(np.array([0, 2], np.int32), np.array([[1, 2], [3, 4]], np.float32), 0)
METADATA = {'vocabulary': ['a', 'b', 'c'], 'vocabulary_size': 5, 'word_vectors': {'size': 2}}


class Params(types.SimpleNamespace):
    def __getitem__(self, name):
        return getattr(self, name)


PARAMS = Params(metadata=METADATA, embeddings='file', embedding_size=7)


def table(params=PARAMS):
    return words.table(params, 'table', params.embedding_size, tf.constant_initializer(-1), 'embedding_size')


def test_words_start_from_their_vectors_and_others_and_moving_averages_as_usual(session):
    with words.starting_from(VECTORS, ()):
        with tf.variable_scope('', reuse=tf.AUTO_REUSE):
            towers = [table() for _ in range(2)]
    assert towers[0] is towers[1]
    average = tf.train.ExponentialMovingAverage(0.9)
    average.apply([towers[0]])
    session.run(tf.global_variables_initializer())
    expected = [[-1, -1], [-1, -1], [1, 2], [-1, -1], [3, 4]]
    assert session.run(towers[0]).tolist() == session.run(average.average(towers[0])).tolist() == expected


def test_the_size_is_that_of_the_vectors_also_where_nothing_starts(session):
    resumed = table()
    session.run(resumed.initializer)
    assert session.run(resumed).tolist() == [[-1, -1]] * 5
    with tf.variable_scope('other'), words.starting_from(None, ()):
        assert table(Params(metadata={'vocabulary_size': 5}, embedding_size=7)).shape == [5, 7]


@pytest.mark.parametrize(
    'size, given, message', [(7, (), ''), (2, ['embedding_size'], ''), (7, ['embedding_size'], 'size=7: ')]
)
def test_a_size_that_the_user_gave_must_be_that_of_the_vectors(size, given, message):
    def build():
        with words.starting_from(VECTORS, given):
            table(Params(metadata=METADATA, embeddings='file', embedding_size=size))

    if message:
        assert refused(build) == 'embedding_size=7: the vectors of embeddings=file have 2 numbers: omit it'
    else:
        with tf.Graph().as_default():
            build()


def test_vectors_that_a_model_does_not_use_are_refused():
    def build():
        with words.starting_from(VECTORS, ()):
            pass

    assert 'the model has no table of words' in refused(build)
    with tf.Graph().as_default():
        table()  # Outside of the block, they are gone.
