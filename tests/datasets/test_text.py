"""datasets/text.py: users' own labeled texts, and their tokens."""

import functools
import os
import re
import shutil
import types
import unicodedata

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.inference.rows import make_batch
from estimator_trainer.common.own_data.texts import tokens
from estimator_trainer.common.records import records
from estimator_trainer.datasets import text
from tests.datasets.own_data import Prepared, parse, prepare_raw
from tests.shared import failed, raised, refused


def write(path, pairs):
    path.parent.mkdir(exist_ok=True)
    path.write_text(''.join(f'{label}\t{words}\n' for label, words in pairs), encoding='utf-8')
    return path


@pytest.fixture
def splits(tmp_path):
    write(tmp_path / 'texts' / 'train.txt', [('pos', 'a good good film'), ('neg', 'a bad film'), ('pos', 'good')])
    write(tmp_path / 'texts' / 'eval.txt', [('neg', 'a worse film'), ('pos', 'Good, good')])
    return tmp_path / 'texts'


@pytest.fixture
def prepared(tmp_path):
    return lambda path, *hparams: Prepared(text, tmp_path / 'data', f'text_file={path}', *hparams)


def ids(found, split):
    return [features['text'].tolist() for features, _ in found.read(split)]


def test_texts_parsed_in_a_batch_are_padded_to_the_longest(prepared, splits):
    found = prepared(splits)
    batches = types.SimpleNamespace(parse_batch=text.parse_batch)
    features, labels = parse(batches, found.params, lambda: found.source.read('train'))
    assert features['text'].tolist() == [[3, 2, 2, 4], [3, 1, 4, 0], [2, 0, 0, 0]]
    assert labels['label'].tolist() == [1, 0, 1]


def test_words_are_split_in_lower_case_and_the_most_frequent_have_ids_from_2_on(session, caplog):
    words = {  # Text: its words, separated by spaces.
        "It's GOOD": "it's good",
        'good,bad...': 'good , bad . . .',
        '  5/10\ta ': '5 / 10 a',
        'ÄRGER über Füße — déjà': 'ärger über füße — déjà',
        'no\u00a0break\u3000wide': 'no break wide',
        '日本語😀 e\u0301te\u0301': '日本語 😀 e\u0301te\u0301',
        '': '',
    }
    found = session.run(tokens.split_words(tf.constant([*words])))
    assert [b' '.join(row).decode() for row in found.to_list()] == [*words.values()]
    assert session.run(tokens.split_words(tf.constant('A, b'))).tolist() == [b'a', b',', b'b']
    spaced = [f'{c}a b{c}' for c in map(chr, range(1, 0x3001))]
    assert [text.decode() for text in session.run(tokens.strip(tf.constant(spaced)))] == [text.strip() for text in spaced]
    for hparams, string, expected in (
        ({}, 'B good a', [1, 3, 2]),
        ({}, '  ', [1]),  # At least one, unknown.
        ({'max_length': 2}, 'a a good', [2, 2]),
        ({'tokens': 'bytes'}, 'aé', [98, 0xC3 + 1, 0xA9 + 1]),
        ({'tokens': 'bytes'}, '', [1]),
        ({'tokens': 'bytes', 'max_length': 2}, 'Baa', [67, 98]),
    ):
        found = tokens.token_ids(tf.constant(string), {**tokens.get_params(), **hparams}, ['a', 'good'])
        session.run(tf.tables_initializer())
        assert session.run(found).tolist() == expected and found.dtype == tf.int32
    for min_count, size, expected in ((2, 2, 'good a'), (3, 9, 'good'), (1, 9, 'good a film bad'), (9, 9, '')):
        caplog.clear()
        params = {'tokens': 'words', 'min_count': min_count, 'max_vocabulary': size}
        counts = tokens.WordCounts(params)
        for block in (['a good Good film', 'a bad film'], [b'good']):
            counts.update(block)
        assert counts.describe(params)['vocabulary'] == expected.split()
        is_alarmed = sum({'a': 2, 'good': 3, 'film': 2, 'bad': 1}[word] for word in expected.split()) < 4
        assert is_alarmed == ('% of the words of the texts trained on are known: the others occur less than' in caplog.text)
    assert 'Only 0 % of the words' in caplog.text and 'less than min_count=9 times' in caplog.text
    caplog.clear()
    counts = tokens.WordCounts(params)
    counts.update(['!!! 😀', '???'])  # Nothing with a letter can be unknown.
    assert counts.describe(params)['vocabulary'] == [] and not caplog.text


def test_texts_and_input_become_ids_and_labels_their_classes(splits, tmp_path, prepared):
    found = prepared(splits)
    facts = {'task': 'classification', 'class_names': ['neg', 'pos'], 'num_classes': 2}
    assert found.metadata == {**facts, 'vocabulary_size': 5, 'vocabulary': ['good', 'a', 'film']}
    assert ids(found, 'eval') == [[3, 1, 4], [2, 1, 2]]
    labels = [labels['label'] for _, labels in found.read('eval')]
    assert labels == [0, 1] and labels[0].dtype == np.int32
    assert prepared(splits, 'tokens=bytes').metadata == {**facts, 'vocabulary_size': 257, 'vocabulary': []}
    assert 'there is no split test' in refused(found.read, 'test')
    shutil.rmtree(splits)
    shutil.rmtree(tmp_path / 'data')
    path = tmp_path / 'input.txt'  # With or without the label of a known class.
    path.write_bytes(b'a good film\npos\tgood\nother\tgood\n\xff\n\nfilm')
    features, errors = found.predict(path)
    assert [row['text'].tolist() for row in features] == [[3, 2, 4], [2], [1, 2], [4]]
    not_utf8 = 'is not UTF-8: iconv -f CP1252 -t UTF-8 OLD > NEW converts a file of Windows'
    assert errors == {4: f'{path}: line 4: {not_utf8}'}
    assert [fields['line'] for fields, _ in text.read_input(str(path), found.params)] == [1, 2, 3, 4, 6]
    path.write_bytes(b'pos\tgood\n\nfilm\nneg\tfilm a\nmeh\tfilm\n\xff')
    labeled, errors = found.read_labeled(path)
    assert [(row['text'].tolist(), labels['label']) for row, labels in labeled] == [([2], 1), ([4, 3], 0)]
    assert errors == {
        line: f'{path}: line {line}: {wrong}'
        for line, wrong in (
            (3, 'has no tab after the label: a label, a tab and a text are one line'),
            (5, "'meh' is none of the classes"),
            (6, not_utf8),
        )
    }
    raw = prepare_raw(text, found.params, {'text': ['a good film ', '', 'film']})['text']
    assert raw.tolist() == [[3, 2, 4], [1, 0, 0], [4, 0, 0]]


def test_texts_and_labels_of_either_unicode_form_and_spelling_are_the_same(tmp_path, prepared):
    apart = unicodedata.normalize('NFD', 'été')
    write(tmp_path / 'own' / 'train.txt', [('True', 'un été'), ('TRUE', 'un été'), ('True', 'un été'), ('False', 'non')] * 2)
    write(tmp_path / 'own' / 'eval.txt', [('TRUE', f'un {apart}'), ('FALSE', 'NON')])
    found = prepared(tmp_path / 'own')
    assert (found.metadata['class_names'], found.metadata['vocabulary']) == (['False', 'True'], ['un', 'été', 'non'])
    assert ids(found, 'eval') == [[2, 3], [4]]
    assert [labels['label'] for _, labels in found.read('eval')] == [1, 0]
    features, errors = found.predict(write(tmp_path / 'input.txt', [('true', f'un {apart}')]))
    assert [row['text'].tolist() for row in features] == [[2, 3]] and not errors


@pytest.mark.parametrize('vocabulary', [['été'], [unicodedata.normalize('NFD', 'été')]])
def test_a_graph_finds_words_of_either_unicode_form(vocabulary, session):
    texts = ['été', unicodedata.normalize('NFD', 'été')]
    found = [tokens.token_ids(tf.constant(text), tokens.get_params(), vocabulary) for text in texts]
    session.run(tf.tables_initializer())
    assert [row.tolist() for row in session.run(found)] == [[2], [2]]


@pytest.mark.parametrize('kind', tokens.KINDS)
def test_a_text_of_a_program_has_the_tokens_that_it_has_in_a_file(tmp_path, prepared, kind):
    if kind == tokens.SUBWORDS:
        pytest.importorskip('sentencepiece')
    pairs = [('pos', 'ein süßer Film'), ('neg', 'ein übler Film')] * 20
    found = prepared(write(tmp_path / 'a.txt', pairs), f'tokens={kind}')
    given = [unicodedata.normalize('NFD', 'ein süßer Café-Film'), '\u00a0Film\u3000', '  übler Film']
    (tmp_path / 'new.txt').write_text('\n'.join(given))
    (features, errors), readers = found.predict(tmp_path / 'new.txt'), text.cell_readers(found.params)
    batch, _ = make_batch(given, text.raw_specs(found.params), readers)
    assert not errors and [np.trim_zeros(one['text']).tolist() for one in features] == [
        np.trim_zeros(ids_of_one).tolist() for ids_of_one in prepare_raw(text, found.params, batch)['text']
    ]


@pytest.mark.parametrize(
    'content, texts',
    [
        ('text\nFilm, gut\n"Film, ""gut"""\n"Film, gut"\n', ['Film, gut', 'Film, "gut"', 'Film, gut']),
        ('"Film, ""gut"""\n"Film, gut"\n', ['Film, "gut"', '"Film, gut"']),  # The latter may be what someone said.
        ('text\tpos\n', ['text\tpos']),
    ],
)
def test_texts_alone_are_read_as_csv_writers_write_them(tmp_path, prepared, content, texts):
    found = prepared(write(tmp_path / 'a.txt', [('pos', 'ein Film'), ('neg', 'ein übler')] * 20))
    (tmp_path / 'new.txt').write_text(content)
    read = [tf.train.Example.FromString(record) for _, record in text.read_input(str(tmp_path / 'new.txt'), found.params)]
    assert [example.features.feature['text'].bytes_list.value[0].decode() for example in read] == texts


def test_a_graph_refuses_bytes_of_another_unicode_form_than_that_of_files(tmp_path, prepared):
    found = prepared(write(tmp_path / 'a.txt', [('pos', 'ein Film'), ('neg', 'ein übler')] * 20), 'tokens=bytes')
    given = ['Café 😀 İstanbul', '한국어 tiếng Việt', 'বাংলা কো', 'हिन्दी', 'a\u200bb', 'x\u0305', 'Ω']
    assert len(prepare_raw(text, found.params, {'text': given})['text']) == len(given)
    for one in [*map(functools.partial(unicodedata.normalize, 'NFD'), given[:2]), '\u212b', '\ufa0c', '\u0958', '\uac00\u11a8']:
        assert one != unicodedata.normalize('NFC', one)
        with pytest.raises(tf.errors.InvalidArgumentError, match='not in the composed form of Unicode, NFC'):
            prepare_raw(text, found.params, {'text': ['a', one]})
    with pytest.raises(tf.errors.InvalidArgumentError, match='not in the composed form of Unicode, NFC'):
        parse(text, found.params, [records.encode({'text': '\u212b'})], tf.estimator.ModeKeys.PREDICT)


def test_unknown_words_raise_an_alarm_for_training_other_splits_and_input(tmp_path, prepared, caplog):
    sentences = [(i % 2, f'第{i}句话没有空格，真的没有{i}。') for i in range(20)]
    prepared(write(tmp_path / 'zh.txt', sentences))
    assert 'Only 0 % of the words of the texts trained on are known' in caplog.text and 'tokens=bytes' in caplog.text
    assert 'are unknown' not in caplog.text
    caplog.clear()
    prepared(write(tmp_path / 'zh.txt', sentences), 'tokens=bytes')
    assert not caplog.text
    write(tmp_path / 'own' / 'train.txt', [('pos', 'a good film'), ('neg', 'a bad film')] * 2)
    write(tmp_path / 'own' / 'eval.txt', [('pos', 'ein guter film'), ('neg', 'a bad film')])
    write(tmp_path / 'own' / 'test.txt', [('pos', 'ein guter film'), ('neg', 'ein schlechter')])
    found = prepared(tmp_path / 'own')
    unknown = (
        '80 % of the words of the texts are unknown: the training data has a, film, bad, ..., here are ein, guter, schlechter'
    )
    assert f'own: the split test: {unknown}' in caplog.text and 'split eval' not in caplog.text
    caplog.clear()
    path = tmp_path / 'own' / 'test.txt'
    found.predict(path)
    assert f'{path}: {unknown}' in caplog.text


def test_a_share_of_a_single_file_is_held_out(tmp_path, prepared):
    found = prepared(write(tmp_path / 'a.txt', [(i % 11, f'number{i}') for i in range(1500)]), 'min_count=1')
    train, held_out = ids(found, 'train'), ids(found, 'eval')
    assert len(train) + len(held_out) == 1500 and abs(len(held_out) - 300) < 4 * np.sqrt(1500 * 0.2 * 0.8)
    assert len({*map(tuple, train)}) == len(train)  # All numbers in training are in the vocabulary ...
    assert all(row == [1] for row in held_out)  # ... and no held-out one.
    assert found.metadata['class_names'] == [str(i) for i in range(11)]  # In the order of numbers.


def test_a_label_that_may_be_missing_is_warned_of(tmp_path, prepared, caplog):
    prepared(write(tmp_path / 'a.txt', [(('pos', 'NA')[i % 2], 'a film') for i in range(20)]))
    assert 'the class NA is learned like any other: remove its lines if it means that there is none' in caplog.text


def test_a_first_line_that_may_name_the_columns_is_warned_of(tmp_path, prepared, caplog):
    for first, is_warned in (('Kategorie\tText', True), ('no\tText', False), ('maybe\ta whole sentence', False)):
        caplog.clear()
        path = tmp_path / f'{is_warned}{len(first)}.txt'
        path.write_text('\n'.join([first, *['yes\ta word', 'no\ta word'] * 9]) + '\n')
        prepared(path)
        assert ("line 1, 'Kategorie\\tText', is the only one of its class: if it names" in caplog.text) == is_warned
    caplog.clear()
    (tmp_path / 'named.txt').write_text('\n'.join(['label\ttext', 'maybe\tgood', *['yes\ta word', 'no\ta word'] * 9]) + '\n')
    prepared(tmp_path / 'named.txt')
    assert 'the only one of its class' not in caplog.text
    (tmp_path / 'both').mkdir()
    for name in ('train', 'eval'):
        (tmp_path / 'both' / f'{name}.txt').write_text('Kategorie\tText\nyes\ta word\nno\ta word\n')
    prepared(tmp_path / 'both')
    assert caplog.text.count('is the only one of its class') == 2


def test_each_label_of_two_lines_is_trained_on_and_held_out(tmp_path, prepared):
    pairs = [('common', f'number{i}') for i in range(60)] + [(f'rare{i // 2}', f'text{i}') for i in range(20)]
    found = prepared(write(tmp_path / 'a.txt', pairs))
    labels = {split: [int(label['label']) for _, label in found.read(split)] for split in ('train', 'eval')}
    for i in range(1, 11):
        assert [labels[split].count(i) for split in labels] == [1, 1]
    held_out = {place['line'] for place in found.places('eval')}
    assert len(held_out) == len(labels['eval'])
    # As a run that began before resumes.
    older = found.prepared_with({name: value for name, value in found.metadata.items() if name != 'moved_rows'})
    assert {place['line'] for place in older.places('eval')} ^ held_out == {row + 1 for row in found.metadata['moved_rows']}
    assert 'moved_rows' not in older.source.metadata()


def test_the_lines_that_move_are_those_of_the_file_as_it_is_whichever_run_converts_it(tmp_path, prepared):
    def write_classes(rare):
        return write(tmp_path / 'a.txt', [('rare' if i in rare else 'common', f'number{i}') for i in range(60)])

    all_held_out = [place['line'] - 1 for place in prepared(write_classes(range(0, 60, 2))).places('eval')]
    trained = prepared(write_classes(all_held_out[:3]))
    path = write_classes(all_held_out[-3:])
    again = trained.prepared_with(trained.metadata)
    (moved,) = again.source.metadata()['moved_rows']
    assert moved in all_held_out[-3:] and trained.metadata['moved_rows'][0] in all_held_out[:3]
    assert [place['line'] - 1 for place in again.places('eval')] == [row for row in all_held_out if row != moved]
    assert prepared(path).metadata == again.source.metadata()


def test_wrong_lines_are_named_or_skipped_up_to_a_share_and_labels_must_be_classes(splits, tmp_path, prepared, caplog):
    path = splits / 'eval.txt'
    for line, message in (
        (b'no tab', 'has no tab after the label: a label, a tab and a text are one line'),
        (b'\ttext', 'has no label'),
        (b'pos\t ', 'has no text'),
        (b'pos\t\xff', 'is not UTF-8: iconv -f CP1252 -t UTF-8 OLD > NEW converts a file of Windows'),
        (b'pos\tg\0o', 'has NUL characters, as UTF-16 does: iconv -f UTF-16LE -t UTF-8 OLD > NEW converts it'),
        (b'__label__pos a', 'has no tab after the label: sed -E .* OLD > NEW converts a file of fastText'),
        (b'pos\ta\rneg\tb', 'has a carriage return between a text and the next label: tr .*'),
    ):
        path.write_bytes(b'pos\tgood\n\n' + line + b'\nneg\ta\n')
        assert re.fullmatch(f'{path}: line 3: {message}: correct it, .*max_bad_share=0.01', failed(prepared, splits))
    path.write_bytes(b'pos\ta\tgood film\r\n\r\nno tab\n\xff\nneg\ta')  # Further tabs and line ends belong to the text.
    assert ids(prepared(splits, 'max_bad_share=0.5'), 'eval') == [[3, 2, 4], [3]]
    assert f'2 of 4 rows are skipped; the first: {path}: line 3: has no tab' in caplog.text
    assert '2 of 4 rows are wrong, more than max_bad_share=0.3' in failed(prepared, splits, 'max_bad_share=0.3')
    for pairs, error, message in (
        ([(f'a text, {i}', 'pos') for i in range(10)], UsageError, 'each line has a different label: a line must be a label,'),
        ([(i // 2, 'a') for i in range(20002)], UsageError, 'has more than 10000 labels: a line must be a label, a tab and a'),
        ([('pos', 'a')] * 20, RunError, 'has only the class pos: there is nothing to learn'),
        ([], RunError, 'has no line with a label and a text: there is nothing to learn'),
    ):
        assert f'a.txt: {message}' in raised(error, prepared, write(tmp_path / 'a.txt', pairs))
    few = write(tmp_path / 'few.txt', [(i, 'a') for i in range(9)])
    assert prepared(few, 'eval_share=0').metadata['num_classes'] == 9


def test_any_change_converts_anew(splits, tmp_path, prepared, caplog):
    def count(*hparams):
        prepared(splits, *hparams)
        return len(os.listdir(tmp_path / 'data'))

    caplog.set_level('INFO', 'tensorflow')
    assert count() == count('max_length=9') == 1
    changes = ('tokens=bytes', 'eval_share=0.1', 'min_count=1', 'max_vocabulary=9', 'max_bad_share=0.1', 'train_split=eval')
    assert [count(change) for change in changes] == [2, 3, 4, 5, 6, 7]
    assert f'{splits}: 2 classes, with their examples in train: neg 1, pos 2\n' in caplog.text
    assert 'precision, recall, F1 and decision_threshold are of the class pos, the second one.' in caplog.text
    assert f'{splits}: 5 ids of words' in caplog.text and 'can be deleted' not in caplog.text
    os.utime(splits / 'eval.txt', (1, 1))
    assert count() == 8 and f'{splits}: earlier conversions, which can be deleted' in caplog.text
    for wrong in ('tokens=no', 'max_length=0', 'min_count=0', 'max_vocabulary=0', 'eval_share=-0.1', 'max_bad_share=1.1'):
        assert f'{wrong} must be' in refused(prepared, splits, wrong)
    assert 'there is no split no' in refused(prepared, splits, 'train_split=no')
