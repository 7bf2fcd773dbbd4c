"""datasets/text.py: texts of a user's own, in classes."""

import json
import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data import records
from common.errors import RunError, UsageError
from datasets import text
from tests.datasets.own_data import ModeKeys, Prepared

MODEL = '--model=tests.datasets.text_model'
STEPS = ('--train_steps=25', '--save_checkpoints_steps=25')


def write(path, pairs):
    path.parent.mkdir(exist_ok=True)
    path.write_text(''.join(f'{label}\t{words}\n' for label, words in pairs), encoding='utf-8')
    return path


@pytest.fixture
def splits(tmp_path):
    """A directory with train.txt and eval.txt."""
    write(tmp_path / 'texts' / 'train.txt', [('pos', 'a good good film'), ('neg', 'a bad film'), ('pos', 'good')])
    write(tmp_path / 'texts' / 'eval.txt', [('neg', 'a worse film'), ('pos', 'Good, good')])
    return tmp_path / 'texts'


def prepared(path, tmp_path, *hparams):
    return Prepared(text, tmp_path / 'data', ','.join([f'text_file={path}', *hparams]))


def ids(dataset, split):
    return [list(features['text']) for features, _ in dataset.examples(split)]


def words(string):
    with tf.Graph().as_default(), tf.Session() as session:
        return [word.decode() for word in session.run(text.tokens.split_words(tf.constant(string)))]


@pytest.mark.parametrize(
    'string, expected',
    [
        ("It's GOOD", ["it's", 'good']),
        ('good,bad...', ['good', ',', 'bad', '.', '.', '.']),
        ('  5/10\ta ', ['5', '/', '10', 'a']),
        ('ÄRGER über Füße — déjà', ['ärger', 'über', 'füße', '—', 'déjà']),
        ('no\u00a0break\u3000wide', ['no', 'break', 'wide']),
        ('日本語😀', ['日本語', '😀']),
        ('e\u0301te\u0301', ['e\u0301te\u0301']),
        ('', []),
    ],
)
def test_words_are_letters_digits_and_apostrophes_in_lower_case(string, expected):
    assert words(string) == expected


def test_the_words_of_many_texts_are_those_of_each():
    strings = ['A b', '', 'c, D']
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(text.tokens.split_words(tf.constant(strings))).to_list()
    assert [[word.decode() for word in row] for row in found] == [words(string) for string in strings]


def test_words_are_ids_by_frequency_in_training_and_others_are_1(splits, tmp_path):
    dataset = prepared(splits, tmp_path)
    assert dataset.metadata['vocabulary'] == ['good', 'a', 'film']  # 3, 2 and 2 times; bad occurs once.
    assert dataset.metadata['vocabulary_size'] == 5
    assert ids(dataset, 'eval') == [[3, 1, 4], [2, 1, 2]]
    assert dataset.examples('eval')[0][0]['text'].dtype == np.int32


def test_the_vocabulary_is_bounded(splits, tmp_path):
    assert prepared(splits, tmp_path, 'min_count=3').metadata['vocabulary'] == ['good']
    assert prepared(splits, tmp_path, 'max_vocabulary=2').metadata['vocabulary'] == ['good', 'a']
    assert prepared(splits, tmp_path, 'min_count=1').metadata['vocabulary'] == ['good', 'a', 'film', 'bad']


def test_bytes_are_their_values_plus_1(splits, tmp_path):
    write(splits / 'eval.txt', [('pos', 'aé'), ('neg', 'B')])
    dataset = prepared(splits, tmp_path, 'tokens=bytes')
    assert dataset.metadata['vocabulary_size'] == 257 and dataset.metadata['class_names'] == ['neg', 'pos']
    assert ids(dataset, 'eval') == [[98, 0xC3 + 1, 0xA9 + 1], [67]]


@pytest.mark.parametrize('tokens, expected', [('words', [[3, 1], [2, 1]]), ('bytes', [[98, 33], [72, 112]])])
def test_long_texts_are_cut_off(splits, tmp_path, tokens, expected):
    assert ids(prepared(splits, tmp_path, 'max_length=2', f'tokens={tokens}'), 'eval') == expected


@pytest.mark.parametrize('hparams, warns', [('min_count=9', True), ('min_count=1', False), ('min_count=9,tokens=bytes', False)])
def test_an_empty_vocabulary_is_warned_of(splits, tmp_path, caplog, hparams, warns):
    prepared(splits, tmp_path, hparams)
    warning = 'min_count=9: no word of the texts trained on occurs so often, so all words are unknown: lower it'
    assert (warning in caplog.text) == warns


def test_a_text_without_a_word_is_one_unknown_word(splits, tmp_path):
    dataset = prepared(splits, tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        features, _ = text.parse(ModeKeys.PREDICT, dataset.params, tf.constant(records.encode({'text': '  '})))
        session.run(tf.tables_initializer())
        assert session.run(features)['text'].tolist() == [1]


def test_labels_are_indices_of_the_sorted_classes(splits, tmp_path):
    dataset = prepared(splits, tmp_path)
    assert (dataset.metadata['class_names'], dataset.metadata['num_classes']) == (['neg', 'pos'], 2)
    assert [labels['label'] for _, labels in dataset.examples('eval')] == [0, 1]
    assert json.loads(json.dumps(dataset.metadata)) == dataset.metadata


def test_classes_that_are_numbers_are_in_their_order(tmp_path):
    path = write(tmp_path / 'a.txt', [(i % 11, 'text') for i in range(50)])
    assert prepared(path, tmp_path).metadata['class_names'] == [str(i) for i in range(11)]


def test_a_share_of_a_single_file_is_held_out(tmp_path):
    path = write(tmp_path / 'a.txt', [('ab'[i % 2], f'number{i}') for i in range(1500)])
    dataset = prepared(path, tmp_path, 'min_count=1')
    train, held = ids(dataset, 'train'), ids(dataset, 'eval')
    assert len(train) + len(held) == 1500 and abs(len(held) - 300) < 4 * np.sqrt(1500 * 0.2 * 0.8)
    assert len({tuple(row) for row in train}) == len(train)  # Every number that is trained on is in the vocabulary ...
    assert all(row == [1] for row in held)  # ... and none that is held out.


def test_further_tabs_and_line_ends_belong_to_the_text(splits, tmp_path):
    (splits / 'eval.txt').write_bytes(b'pos\ta\tgood film\r\n\r\nneg\ta')
    assert ids(prepared(splits, tmp_path), 'eval') == [[3, 2, 4], [3]]


def test_a_label_of_its_own_for_each_line_is_refused(tmp_path):
    path = write(tmp_path / 'a.txt', [(f'a text, {i}', 'pos') for i in range(12)])
    with pytest.raises(UsageError, match='a.txt: each line has a label of its own: a line must be a label, a tab and a text'):
        prepared(path, tmp_path)


@pytest.mark.parametrize(
    'line, message',
    [
        (b'no tab', 'has no tab after the label'),
        (b'\ttext', 'has no label'),
        (b'pos\t ', 'has no text'),
        (b'pos\t\xff', 'is not UTF-8'),
        (b'pos\ta\rneg\tb', 'has a carriage return between a text and the next label: lines must end with LF or CR LF'),
    ],
)
def test_a_wrong_line_is_named_or_skipped(splits, tmp_path, caplog, line, message):
    path = splits / 'eval.txt'
    path.write_bytes(b'pos\tgood\n\n' + line + b'\nneg\ta\n')
    with pytest.raises(RunError, match=f'{path}: line 3: {message}: .*max_bad_share') as error:
        prepared(splits, tmp_path)
    assert '\n' not in str(error.value)
    assert ids(prepared(splits, tmp_path, 'max_bad_share=0.5'), 'eval') == [[2], [3]]
    assert f'1 of 3 rows are skipped; the first: {path}: line 3: {message}' in caplog.text


@pytest.mark.parametrize(
    'hparams, message',
    [
        ('tokens=letters', 'tokens=letters must be words or bytes'),
        ('max_length=0', 'max_length=0 must be from 1'),
        ('eval_share=-0.1', 'eval_share=-0.1 must be from 0 to 0.9'),
    ],
)
def test_a_wrong_hyper_parameter_is_refused(splits, tmp_path, hparams, message):
    with pytest.raises(UsageError, match=message):
        prepared(splits, tmp_path, hparams)


def test_one_class_is_nothing_to_learn(tmp_path):
    with pytest.raises(RunError, match='has only the class pos: there is nothing to learn'):
        prepared(write(tmp_path / 'a.txt', [('pos', 'a')] * 20), tmp_path)


def test_a_missing_split_lists_those_that_there_are(splits, tmp_path):
    os.rename(splits / 'train.txt', splits / 'training.txt')
    with pytest.raises(UsageError, match='/texts: there is no split train: the splits are: eval, training: add train.txt'):
        prepared(splits, tmp_path)


def test_input_is_lines_with_or_without_the_label_of_a_known_class(splits, tmp_path):
    dataset = prepared(splits, tmp_path)
    shutil.rmtree(splits)
    shutil.rmtree(tmp_path / 'data')
    path = tmp_path / 'input.txt'
    path.write_bytes(b'a good film\npos\tgood\nother\tgood\n\xff\n\nfilm')
    features, errors = dataset.predict(path)
    assert [list(row['text']) for row in features] == [[3, 2, 4], [2], [1, 2], [4]]
    assert errors == {4: f'{path}: line 4: is not UTF-8'}
    assert [fields['line'] for fields, _ in text.read_input(str(path), dataset.params)] == [1, 2, 3, 4, 6]


def test_a_model_learns(run, tmp_path):
    # All texts are of one length: each batch is one tensor.
    pairs = [('pos', 'a good film') if i % 2 else ('neg', 'a bad film') for i in range(300)]
    path = write(tmp_path / 'a.txt', pairs)
    flags = (
        MODEL,
        '--dataset=text',
        '--save_checkpoints_steps=25',
        f'--hparams=text_file={path}',
        f'--data_dir={tmp_path}/data',
        '--train_steps=25',
    )
    code, result, _ = run(*flags)
    assert code == 0 and result['eval']['accuracy'] == 1
    assert run(*flags, '--schedule=predict')[0] == 0
