"""Tokenization to ids of words, subwords or bytes in TensorFlow ops, shared by training, prediction and exported models."""

from collections.abc import Mapping, Sequence
from typing import Any
import unicodedata

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, check_range
from estimator_trainer.common.own_data.alarm import warn_of_unknown
from estimator_trainer.common.own_data.texts import subwords
from estimator_trainer.common.own_data.texts.subwords import FIRST, UNKNOWN
from estimator_trainer.common.own_data.vocabulary import ValueCounts, lookup_table
from estimator_trainer.hparams.build import HParams

WORDS, SUBWORDS, BYTES = KINDS = ('words', 'subwords', 'bytes')
_MAX_DISTINCT = 10**6
KNOWN_SHARE = 0.5  # Of the words; fewer are an alarm.

# (Unicode's general categories, as RE2 has them: letters, marks, numbers, separators.)
_SPACES = r'[\s\pZ]+'
_STRIPPED = r'[\s\v\x1c-\x1f\x{85}\pZ]+'  # By str.strip.
_SINGLE = r"([^\pL\pM\pN'\s\pZ])"


def get_params() -> dict[str, Any]:
    """Returns the hyper-parameters of this module's functions."""
    return {
        'tokens': 'words',  # Or subwords, or bytes.
        'max_length': 400,  # In tokens; longer texts are cut off.
        'min_count': 2,  # Of a word in the training texts; rarer ones are unknown.
        'max_vocabulary': 20000,  # Words; the rarest beyond that are unknown.
        'max_subwords': 4000,  # With tokens=subwords; fewer are shorter.
    }


def check_params(params: Mapping[str, Any]) -> None:
    """Raises UsageError if one of these hyper-parameters is invalid."""
    if params['tokens'] not in KINDS:
        raise UsageError(f'tokens={params["tokens"]} must be {", ".join(KINDS[:-1])} or {KINDS[-1]}')
    check_range(params, 'max_length', 1, 1000000)
    check_range(params, 'min_count', 1)
    check_range(params, 'max_vocabulary', 1, _MAX_DISTINCT)
    if params['tokens'] == SUBWORDS:
        check_range(params, 'max_subwords', 100, _MAX_DISTINCT)
        if not getattr(params, 'metadata', ()):  # A run has learned them.
            subwords.load_library()


def facts(params: Mapping[str, Any]) -> list[Any]:
    """Returns the hyper-parameters that determine the vocabulary, besides min_count and max_vocabulary."""
    return [params['tokens'], *([params['max_subwords']] if params['tokens'] == SUBWORDS else [])]


def strip(texts: tf.Tensor) -> tf.Tensor:
    """Returns texts without spaces at their ends, as `str.strip` does for files; tf.strings.strip takes those of ASCII."""
    return tf.strings.regex_replace(texts, f'^{_STRIPPED}|{_STRIPPED}$', '')


def split_words(texts: tf.Tensor, longest: int = 0) -> Any:
    """Returns the words of texts: a string tensor for a scalar, a RaggedTensor for a vector.

    They are in lower case. Letters, digits and apostrophes make words; any other character except spaces is a word.

    Args:
      longest: number of characters after which a word ends; 0 for any.
    """
    spaced = tf.strings.regex_replace(tf2.strings.lower(texts, encoding='utf-8'), _SPACES, ' ')
    spaced = tf.strings.regex_replace(spaced, _SINGLE, r' \1 ')
    return tf2.strings.split(tf.strings.regex_replace(spaced, f'([^ ]{{{longest}}})', r'\1 ') if longest else spaced)


def token_ids(text: tf.Tensor, params: Mapping[str, Any], vocabulary: Sequence[str]) -> tf.Tensor:
    """Returns the ids of a text's tokens, int32 [length]; of a batch, int32 [batch, longest], padded with 0.

    Args:
      text: a string scalar, or a vector.
      params: hyper-parameters.
      vocabulary: the words, or subwords, in the order of their ids, from 2 on; 1 is an unknown one. A byte's id is its value
        plus 1.
    """
    if not text.shape.rank:
        return token_ids(text[None], params, vocabulary)[0]
    if params['tokens'] == BYTES:
        split = tf2.strings.bytes_split(text)
        ids = split.with_flat_values(tf.cast(tf.reshape(tf.io.decode_raw(split.flat_values, tf.uint8), [-1]), tf.int32) + 1)
    elif params['tokens'] == SUBWORDS:
        split = split_words(text, subwords.LONGEST)[:, : params['max_length']]
        words, places = tf.unique(split.flat_values)
        ids = split.with_values(tf.gather(subwords.subword_ids(words, vocabulary), places)).merge_dims(1, 2)
    else:
        split = split_words(text)
        ids = split.with_flat_values(tf.cast(word_table(vocabulary).lookup(split.flat_values), tf.int32))
    padded = ids[:, : params['max_length']].to_tensor()
    padded = tf.cond(tf.shape(padded)[1] > 0, lambda: padded, lambda: tf.zeros([tf.shape(text)[0], 1], tf.int32))
    is_empty = tf.equal(ids.row_lengths(), 0)[:, None] & tf.equal(tf.range(tf.shape(padded)[1]), 0)
    return tf.where(is_empty, tf.fill(tf.shape(padded), UNKNOWN), padded)


def input_part(params: HParams) -> dict[str, Any]:
    """Returns what each of the ids of `token_ids` is, for the card of an export that takes these."""
    if params.tokens == BYTES:
        return {'name': 'a byte of the text in UTF-8, plus 1; 0 is padding', 'place': 'each'}
    name = f'one of the {params.tokens} of the text in lower case; 0 is padding'
    return {'name': name, 'place': 'each', 'vocabulary': params.metadata['vocabulary'], 'first': FIRST}


def word_table(vocabulary: Sequence[str]) -> tf.lookup.StaticHashTable:
    """Creates the table from a word to its id, int64; 1 is an unknown word."""
    return lookup_table(_ids_of_forms(vocabulary), UNKNOWN, 'words')


def _ids_of_forms(vocabulary):
    """Returns {word: id}, also of both of Unicode's forms of a word, NFC and NFD: a graph cannot normalize."""
    ids = {word: number for number, word in enumerate(vocabulary, FIRST)}
    for word, number in list(ids.items()):
        if not word.isascii():
            for form in ('NFC', 'NFD'):
                ids.setdefault(unicodedata.normalize(form, word), number)
    return ids


class WordCounts:
    """Counts the words of texts, unless tokens are bytes."""

    def __init__(self, params: Mapping[str, Any]):
        """Takes hyper-parameters: those of `get_params`."""
        self._kind = params['tokens']
        self._counts = ValueCounts(_MAX_DISTINCT)
        with tf.Graph().as_default() as graph:
            texts = tf.placeholder(tf.string, [None])
            words = split_words(texts, subwords.LONGEST if self._kind == SUBWORDS else 0).flat_values
        self._split = tf.Session(graph=graph).make_callable(words, [texts])

    def update(self, texts: Sequence[str | bytes] | np.ndarray) -> None:
        if self._kind != BYTES:
            self._counts.update([word.decode(errors='replace') for word in self._split(list(texts))])

    @property
    def words(self) -> Mapping[str, int]:
        """{word: count} of those with a letter or a digit; of subwords {character: count}, as these make words unknown."""
        counts = self._counts.merged()
        found = subwords.count_characters(counts) if self._kind == SUBWORDS else counts
        return {word: count for word, count in found.items() if any(map(str.isalnum, word))}

    def most_common(self, params: Mapping[str, Any]) -> list[str]:
        """Returns the vocabulary: the most frequent words first, or the subwords."""
        if self._kind == SUBWORDS:
            tf.logging.info('Learning subwords from %d words.', len(self._counts))
            return subwords.learn(self._counts.merged(), params)
        return self._counts.describe(params)['vocabulary']

    def describe(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the 'vocabulary', see `most_common`, and its size with padding; warns if few words are in it."""
        vocabulary = self.most_common(params)
        share = known_share(vocabulary, self.words)
        if self._kind != BYTES and share < KNOWN_SHARE:
            is_word = self._kind == WORDS
            tf.logging.warning(
                'Only %d %% of the %s of the texts trained on are known: the others occur less than min_count=%d times, or '
                'are beyond %s: change these, or set --hparams=tokens=%s, as for texts without spaces between words, such as '
                'Chinese ones',
                100 * share,
                'words' if is_word else 'characters',
                params['min_count'],
                f'max_vocabulary={params["max_vocabulary"]}' if is_word else f'half of max_subwords={params["max_subwords"]}',
                f'{BYTES} or {SUBWORDS}' if is_word else BYTES,
            )
        return {'vocabulary': vocabulary, 'vocabulary_size': 257 if self._kind == BYTES else FIRST + len(vocabulary)}

    def warn_of_unknown(self, vocabulary: Sequence[str], place: str) -> None:
        """Warns if most of the words, or characters, are not in the vocabulary of the training data."""
        if self._kind == SUBWORDS:
            warn_of_unknown('characters of the texts', [piece for piece in vocabulary if len(piece) == 1], self.words, place)
        else:
            warn_of_unknown('words of the texts', vocabulary, self.words, place)


def known_share(vocabulary: Sequence[str], words: Mapping[str, int]) -> float:
    """Returns the share of words, {word: count}, that are in a vocabulary; 1 if there are none, as of emojis alone."""
    return sum(words.get(word, 0) for word in vocabulary) / sum(words.values()) if words else 1.0


def warn_of_unknown_words(vocabulary: Sequence[str], trained: WordCounts, other: WordCounts, place: str) -> None:
    """Warns if most words of other texts are unknown, unless those of the training texts are, which `describe` told."""
    if known_share(vocabulary, trained.words) >= KNOWN_SHARE:
        other.warn_of_unknown([word for word in vocabulary if any(map(str.isalnum, word))], place)
