"""common/own_data/texts/subwords.py: a vocabulary of parts of words, and their division in the graph."""

import io
import random
import sys
import unicodedata

import pytest
import tensorflow.compat.v1 as tf

from benchmarks.suffixes import write
from estimator_trainer.common.own_data.texts import subwords, tokens
from estimator_trainer.datasets import text
from tests.datasets.own_data import Prepared, prepare_raw
from tests.shared import refused

sentencepiece = pytest.importorskip('sentencepiece')
PARTS = 'ba ko ti lu re nox der ing est é ß un pre ö 日 本 aa ab 한 ệ'.split()
PARAMS = {'max_subwords': 300, 'min_count': 2}


@pytest.fixture(scope='module')
def words():
    """Words of parts, with their counts."""
    chance = random.Random(0)
    return {''.join(chance.choices(PARTS, k=chance.randint(1, 5))): chance.randint(1, 3) for _ in range(3000)}


def divide(vocabulary, words):
    with tf.Graph().as_default(), tf.Session() as session:
        found = subwords.subword_ids(tf.constant(words, tf.string, [len(words)]), vocabulary)
        session.run(tf.tables_initializer())
        return session.run(found).to_list()


def test_the_graph_divides_words_as_sentencepiece_does_and_learning_is_repeatable(words):
    vocabulary = subwords.learn(words, PARAMS)
    assert subwords.learn(words, PARAMS) == vocabulary and len(vocabulary) == 300
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(word for word, count in words.items() for _ in range(count)),
        model_writer=model,
        model_type='bpe',
        vocab_size=301,
        character_coverage=1.0,
        normalization_rule_name='identity',
        bos_id=-1,
        eos_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    assert [processor.id_to_piece(number) for number in range(1, 301)] == vocabulary
    chance = random.Random(1)
    parts = [*PARTS, *'abdegiklmnoprstuxzßö日한', '😀', '👩\u200d🚀', 'я', 'ж', '漢', 'Ä', '0', '\u0e01', '\u0301']
    tried = [''.join(chance.choices(parts, k=chance.randint(1, 9))) for _ in range(5000)]
    tried = [word for word in tried if unicodedata.is_normalized('NFC', word)]
    expected = [[1 + number for number in numbers] for numbers in processor.encode(tried)]  # 0 is padding.
    assert len(tried) > 3000 and divide(vocabulary, tried) == expected
    assert any(1 in numbers for numbers in expected) and any(min(numbers) > 1 for numbers in expected)
    apart = [unicodedata.normalize('NFD', word) for word in words]
    assert divide(vocabulary, apart) == divide(vocabulary, [*words]) and apart != [*words]
    assert divide(vocabulary, []) == [] and divide([], ['a', '']) == [[1], [1]]


def test_a_vocabulary_has_frequent_characters_and_no_rare_merges():
    found = subwords.learn({'abab': 4, 'abcd': 1, 'xyz': 1, '\u2581': 9, 'a\0': 9}, {'max_subwords': 100, 'min_count': 2})
    assert found == ['ab', '▁ab', '▁abab', 'a', 'b', '▁']
    many = {chr(0x4E00 + i) * 2: 200 - i for i in range(100)}
    assert {piece for piece in subwords.learn(many, {**PARAMS, 'max_subwords': 100}) if len(piece) == 1} == {
        '▁',
        *(chr(0x4E00 + i) for i in range(50)),
    }
    assert subwords.learn({}, PARAMS) == subwords.learn({'a': 1}, PARAMS) == []


def test_texts_become_ids_of_subwords_of_which_max_length_counts(session):
    params = {**tokens.get_params(), 'tokens': 'subwords'}
    vocabulary = ['ab', '▁ab', '▁', 'a', 'b', '.']
    texts = ['Abab. xb', '', 'ab' * 17, 'ab ab ab']
    expected = [[3, 2, 4, 7, 4, 1, 6], [1], [3, *[2] * 15, 3], [3, 3, 3]]  # Words of 32 characters.
    for length in (400, 2):
        params['max_length'] = length
        batch = tokens.token_ids(tf.constant(texts), params, vocabulary)
        one = tokens.token_ids(tf.constant(texts[0]), params, vocabulary)
        session.run(tf.tables_initializer())
        assert session.run(one).tolist() == expected[0][:length]
        longest = min(length, 17)
        assert session.run(batch).tolist() == [[*row, *[0] * longest][:longest] for row in expected]


def test_suffixes_of_unknown_words_are_known_everywhere_and_the_library_is_needed_only_to_learn(tmp_path, monkeypatch, caplog):
    write(f'{tmp_path}/a.txt', 300)
    hparams = f'text_file={tmp_path}/a.txt', 'tokens=subwords', 'max_subwords=100'
    found = Prepared(text, tmp_path / 'data', *hparams)
    vocabulary = found.metadata['vocabulary']
    assert {'ten', 'ler', 'mur'} <= {*vocabulary} and found.metadata['vocabulary_size'] == 2 + len(vocabulary)
    (tmp_path / 'new.txt').write_text('Gununomur fomo\n\u65e5\u672c\u8a9e \u672c\u672c\n')
    monkeypatch.setitem(sys.modules, 'sentencepiece', None)
    rows, _ = found.predict(tmp_path / 'new.txt')
    assert 2 + vocabulary.index('mur') in rows[0]['text'].tolist()
    assert 'characters of the texts are unknown' not in caplog.text
    raw = prepare_raw(text, found.params, {'text': ['Gununomur fomo']})['text']
    assert raw.tolist() == [rows[0]['text'].tolist()]
    assert found.prepared_with(found.metadata).metadata == found.metadata
    (tmp_path / 'new.txt').write_text('\u65e5\u672c\u8a9e \u672c\u672c\n')
    found.predict(tmp_path / 'new.txt')
    assert '100 % of the characters of the texts are unknown' in caplog.text
    wrong = refused(Prepared, text, tmp_path / 'other', *hparams)
    assert wrong == "tokens=subwords: the package sentencepiece is not installed: pip install 'estimator-trainer[subwords]'"
    assert 'max_subwords=99 must be from 100' in refused(Prepared, text, tmp_path / 'data', *hparams[:2], 'max_subwords=99')
