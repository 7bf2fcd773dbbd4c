"""Tokens of sentences in TensorFlow ops, shared by training, prediction and exported models: splitting, ids, vocabulary."""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.own_data.texts.subwords import FIRST
from estimator_trainer.common.own_data.texts.tokens import word_table

# Punctuation at the ends of words, and the English genitive.
_OPENING, _CLOSING = r"""(^|[\s\pZ])([(\[{<"'«„“‘¿¡])""", r"""(\.\.+|[.,;:!?…)\]}>"'»”’])($|[\s\pZ])"""
_GENITIVE = r"""([^\s\pZ])(['’]s)($|[\s\pZ])"""
_MAX_MARKS = 4  # On each side of a word.
_SPACES = r'[\s\pZ]+'


def split_sentences(sentences: tf.Tensor) -> Any:
    """Returns the tokens of sentences, a RaggedTensor of strings [batch, tokens], for a string vector.

    A sentence with tabs is tokens with a tab between them. Otherwise words are tokens, and so is the punctuation at their ends;
    what is within a word, as in 3.5, O'Neill and 2031-05-04, does not divide it.
    """
    spaced = sentences
    for _ in range(_MAX_MARKS):
        spaced = tf.strings.regex_replace(spaced, _OPENING, r'\1\2 ')
        spaced = tf.strings.regex_replace(spaced, _CLOSING, r' \1\2')
    spaced = tf.strings.regex_replace(spaced, _GENITIVE, r'\1 \2\3')
    tabbed = tf.strings.regex_replace(tf.strings.strip(tf.strings.regex_replace(spaced, _SPACES, ' ')), ' ', '\t')
    has_tabs = tf.strings.regex_full_match(sentences, r'(?s).*\t.*')
    found = tf2.strings.split(tf.where_v2(has_tabs, sentences, tabbed), '\t')
    return tf2.ragged.boolean_mask(found, tf.not_equal(found, ''))


def make_splitter() -> Callable[[str], list[str]]:
    """Returns `split_sentences` as a function of one sentence that returns its tokens."""
    with tf.Graph().as_default() as graph:
        sentence = tf.placeholder(tf.string, [])
        tokens = split_sentences(sentence[None]).flat_values
    call = tf.Session(graph=graph).make_callable(tokens, [sentence])
    return lambda text: [token.decode() for token in call(text)]


def to_features(tokens: Any, vocabulary: Sequence[str]) -> dict[str, tf.Tensor]:
    """Returns {'text': int32 [..., length], 'tokens': string [..., length]}: tokens, and their ids, whatever their case.

    Args:
      tokens: a string vector, or a RaggedTensor [batch, tokens], which is padded with 0 and ''.
      vocabulary: the words in the order of their ids, from 2 on; 1 is an unknown word.
    """
    is_batch = isinstance(tokens, tf2.RaggedTensor)
    flat = tokens.flat_values if is_batch else tokens
    ids = tf.cast(word_table(vocabulary).lookup(tf2.strings.lower(flat, encoding='utf-8')), tf.int32)
    if not is_batch:
        return {'text': ids, 'tokens': tokens}
    return {name: _padded(tokens.with_flat_values(values)) for name, values in (('text', ids), ('tokens', flat))}


def _padded(ragged):
    """Returns a RaggedTensor as a tensor [batch, longest], of at least one column."""
    found = ragged.to_tensor()
    return tf.pad(
        found, [[0, 0], [0, tf.maximum(1 - tf.shape(found)[1], 0)]], constant_values='' if found.dtype == tf.string else 0
    )


class TokenCounts:
    """Counts the tokens of sentences, whatever their case."""

    def __init__(self) -> None:
        self._counts: collections.Counter[str] = collections.Counter()

    def update(self, tokens: Sequence[str]) -> None:
        self._counts.update(tokens)

    @property
    def total(self) -> int:
        return self._counts.total()

    def words(self) -> dict[str, int]:
        """Returns {token in lower case: count}, the most frequent first."""
        with tf.Graph().as_default(), tf.Session() as session:
            lowered = session.run(tf2.strings.lower(np.array([*self._counts], object), encoding='utf-8'))
        found: collections.Counter[str] = collections.Counter()
        for word, count in zip(lowered, self._counts.values()):
            found[word.decode()] += count
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def describe(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the 'vocabulary', by the hyper-parameters min_count and max_vocabulary, and its size with padding."""
        frequent = [word for word, count in self.words().items() if count >= params['min_count']]
        vocabulary = frequent[: params['max_vocabulary']]
        return {'vocabulary': vocabulary, 'vocabulary_size': FIRST + len(vocabulary)}
