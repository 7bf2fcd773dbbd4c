"""Subwords: SentencePiece learns a vocabulary of them from the words of texts; TensorFlow ops divide words by it.

(R. Sennrich et al.: Neural Machine Translation of Rare Words with Subword Units, 2016; T. Kudo, J. Richardson: SentencePiece,
2018. The division is that of SentencePiece's model `bpe`.)
"""

import collections
from collections.abc import Mapping, Sequence
import importlib
import io
from typing import Any
import unicodedata

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.own_data.vocabulary import lookup_table

LONGEST = 32  # Characters; a longer word, as where no spaces are written, is divided into several.
UNKNOWN = 1
FIRST = 2  # 0 is padding.
BEGIN = '\u2581'  # Precedes each word.
_NOT_LEARNED = {BEGIN, '\u2585', '\0'}  # SentencePiece's own.


def load_library() -> Any:
    """Returns the module sentencepiece; raises UsageError if it is missing."""
    try:
        return importlib.import_module('sentencepiece')
    except ImportError:
        raise UsageError(
            "tokens=subwords: the package sentencepiece is not installed: pip install 'estimator-trainer[subwords]'"
        ) from None


def learn(words: Mapping[str, int], params: Mapping[str, Any]) -> list[str]:
    """Returns a vocabulary: merged subwords in the order of their merges, then characters; the same for the same words.

    Those at the start of a word begin with BEGIN.

    Args:
      words: {word: count} in a fixed order. Words with characters that occur less than min_count times, or are not among the
        max_subwords / 2 most frequent, are ignored.
      params: hyper-parameters. Merges end before those of which no subword occurs min_count times.
    """
    characters = count_characters(words)
    by_frequency = sorted(characters, key=lambda character: (-characters[character], character))
    kept = {each for each in by_frequency[: params['max_subwords'] // 2] if characters[each] >= params['min_count']}
    known = {word: count for word, count in words.items() if kept.issuperset(word)}
    if not known:
        return []
    library, model = load_library(), io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=(f'{word}\t{count}' for word, count in known.items()),
        model_writer=model,
        input_format='tsv',
        model_type='bpe',
        vocab_size=params['max_subwords'] + 1,  # With that of unknown characters.
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name='identity',
        bos_id=-1,
        eos_id=-1,
        minloglevel=2,
    )
    processor = library.SentencePieceProcessor(model_proto=model.getvalue())
    vocabulary = [processor.id_to_piece(number) for number in range(1, processor.get_piece_size())]
    return _without_rare(vocabulary, processor.encode([*known], out_type=str), known, params['min_count'])


def count_characters(words: Mapping[str, int]) -> dict[str, int]:
    """Returns {character: count} of {word: count}."""
    found: collections.Counter[str] = collections.Counter()
    for word, count in words.items():
        for character in word:
            found[character] += count
    return {character: count for character, count in found.items() if character not in _NOT_LEARNED}


def _without_rare(vocabulary, divided, words, min_count):
    """Returns the vocabulary up to the last merged subword that occurs min_count times, and the characters."""
    counts: collections.Counter[str] = collections.Counter()
    for pieces, count in zip(divided, words.values()):
        for piece in pieces:
            counts[piece] += count
    merged = [piece for piece in vocabulary if len(piece) > 1]
    while merged and counts[merged[-1]] < min_count:
        merged.pop()
    return merged + [piece for piece in vocabulary if len(piece) == 1]


def subword_ids(words: tf.Tensor, vocabulary: Sequence[str]) -> Any:
    """Returns the ids of words' subwords, a RaggedTensor, int32 [words, subwords].

    Again and again, the pair of neighbors whose union is first in the vocabulary is merged, of equal ones the left one. A run
    of unknown characters has one id, UNKNOWN. Characters apart from their accents (NFD) are composed as in the vocabulary.

    Args:
      words: string [words], of at most LONGEST characters, as more take long.
      vocabulary: of `learn`; the ids of its subwords begin with FIRST.
    """
    characters, pairs, total = _merges(vocabulary)
    table = lookup_table(pairs, total, 'pairs')
    codes = tf2.strings.unicode_decode(tf.strings.join([BEGIN, words]), 'UTF-8')
    start = lookup_table(characters, UNKNOWN, 'characters').lookup(tf.cast(codes.flat_values, tf.int64))

    def merge(symbols, rows, _):
        left, right = symbols[:-1], symbols[1:]
        size = tf.size(symbols, out_type=tf.int64)
        found = tf2.where(tf.equal(rows[:-1], rows[1:]), table.lookup(left * total + right), total)
        order = found * size + tf.range(size - 1)
        is_merged = tf.equal(order, tf.gather(tf.math.segment_min(order, rows[:-1]), rows[:-1])) & (found < total)
        symbols = tf.concat([tf2.where(is_merged, tf.math.floormod(found, total), left), symbols[-1:]], 0)
        is_kept = tf.concat([tf.ones_like(symbols[:1], tf.bool), ~is_merged], 0)
        return tf.boolean_mask(symbols, is_kept), tf.boolean_mask(rows, is_kept), tf.reduce_any(is_merged)

    state = start, codes.value_rowids(), tf.size(start) > 0
    shapes = tf.TensorShape([None]), tf.TensorShape([None]), tf.TensorShape([])
    symbols, rows, _ = tf.while_loop(lambda *state: state[-1], merge, state, shapes)
    ids = tf2.where(symbols < FIRST + len(vocabulary), symbols, UNKNOWN)
    repeats = tf.equal(ids[1:], UNKNOWN) & tf.equal(ids[:-1], UNKNOWN) & tf.equal(rows[1:], rows[:-1])
    is_kept = tf.concat([tf.ones_like(ids[:1], tf.bool), ~repeats], 0)
    flat, rows = tf.cast(tf.boolean_mask(ids, is_kept), tf.int32), tf.boolean_mask(rows, is_kept)
    return tf.RaggedTensor.from_value_rowids(flat, rows, tf.size(words, out_type=tf.int64), validate=False)


def _merges(vocabulary):
    """Returns {code point: number}, {left * total + right: number of the union}, and total, above all numbers.

    The smallest union is merged first; those of characters with accents are negative, modulo total.
    """
    ids = {piece: number for number, piece in enumerate(vocabulary, FIRST)}
    unions = {(0, 0): 0}  # Of padding, which is in no word: a table must not be empty.
    for piece, number in ids.items():
        for end in range(1, len(piece)):
            if piece[:end] in ids and piece[end:] in ids:
                unions[ids[piece[:end]], ids[piece[end:]]] = number
    composed = {}  # Numbers beyond the vocabulary are those of parts.
    for whole in [piece for piece in vocabulary if len(piece) == 1]:
        apart = unicodedata.normalize('NFD', whole)
        forms = [unicodedata.normalize('NFC', apart[:end]) for end in range(1, len(apart) + 1)]
        for left, right, union in zip(forms, apart[1:], forms[1:]):
            if len(left) == len(union) == 1:
                numbers = [ids.setdefault(each, FIRST + len(ids)) for each in (left, right, union)]
                composed[numbers[0], numbers[1]] = numbers[2]
    total = FIRST + len(ids)
    unions |= {pair: union - total for pair, union in composed.items()}
    characters = {0: UNKNOWN} | {ord(piece): number for piece, number in ids.items() if len(piece) == 1}
    return characters, {left * total + right: union for (left, right), union in unions.items()}, total
