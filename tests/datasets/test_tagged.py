"""datasets/tagged.py: users' own tagged sentences, in the forms in which they come."""

import gzip
import logging
import types
import unicodedata

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.inference.rows import make_batch
from estimator_trainer.common.own_data.texts import sentence_tokens
from estimator_trainer.datasets import tagged
from tests.datasets.own_data import Prepared, parse, prepare_raw
from tests.shared import raised

JOHN, MARY = 'John\tB-PER\nlives\tO\nin\tO\nParis\tB-LOC\n\n', 'Mary\tB-PER\nSmith\tI-PER\nlives\tO\n\n'
BOTH = JOHN + MARY
CONLL_2003 = (
    '-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n# NN B-NP O\n\n'
    '-DOCSTART- -X- -X- O\n\nPeter NNP B-NP B-PER\n'
)
CONLL_U = (
    '# sent_id = 1\n# text = vámonos\n1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_\n1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_\n'
    '2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_\n2.1\t_\t_\t_\t_\t_\t_\t_\t_\t_\n\n1\t#\t#\tSYM\t_\t_\t0\troot\t_\t_\n\n'
)


@pytest.fixture
def prepared(tmp_path):
    """Returns a function that writes {name: content}, or that of train.conll, to a directory, and prepares it."""

    def prepare(files, *hparams, name='own'):
        (tmp_path / name).mkdir()
        for file, content in (files if isinstance(files, dict) else {'train.conll': files}).items():
            (tmp_path / name / file).write_bytes(content if isinstance(content, bytes) else content.encode())
        return Prepared(tagged, tmp_path / 'data', f'tagged_file={tmp_path / name}', *hparams)

    return prepare


def sentences(found, split='train'):
    """Returns 'token/tag ...' for each sentence of a split."""
    tags = found.metadata['tags']
    return [
        ' '.join(f'{token.decode()}/{tags[i]}' for token, i in zip(features['tokens'], labels['tags']))
        for features, labels in found.read(split)
    ]


def inputs(found, tmp_path, content):
    """Returns {line: tokens} of the sentences of a file for --input."""
    (tmp_path / 'in.txt').write_text(content)
    rows = [*tagged.read_input(str(tmp_path / 'in.txt'), found.params)]
    texts = [tf.train.Example.FromString(record).features.feature['tokens'].bytes_list.value for _, record in rows]
    return {fields['line']: b' '.join(text).decode() for (fields, _), text in zip(rows, texts)}


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize(
    'content, hparams, expected',
    [
        (BOTH.replace('\t', '  '), '', ['John/B-PER lives/O in/O Paris/B-LOC', 'Mary/B-PER Smith/I-PER lives/O']),
        (b'\xef\xbb\xbf' + BOTH.replace('\n', '\r\n').encode(), '', ['John/B-PER lives/O in/O Paris/B-LOC']),
        (BOTH.encode('utf-16'), '', ['John/B-PER lives/O in/O Paris/B-LOC']),
        ('New York\tB-LOC\n\nx\tO', '', ['New York/B-LOC', 'x/O']),
        ('10\xa0km A\n\nx B', '', ['10\xa0km/A', 'x/B']),
        (f'word\ttag\n{BOTH}', '', ['John/B-PER lives/O in/O Paris/B-LOC']),
        ('a\tO\n \t \nb\tX\n', '', ['a/O', 'b/X']),
        (CONLL_2003, '', ['EU/B-ORG rejects/O #/O', 'Peter/B-PER']),
        (CONLL_2003, 'tag_column=2', ['EU/NNP rejects/VBZ #/NN', 'Peter/NNP']),
        (CONLL_U, '', ['vamos/VERB nos/PRON', '#/SYM']),
        (CONLL_U, 'token_column=3,tag_column=8', ['ir/root nosotros/obj', '#/root']),
        ('#\tweb 1\n1\tFirma\tO\n2\tX\tB-ORG\n\n1\ty\tO\n', '', ['Firma/O X/B-ORG', 'y/O']),
        ('e\u0301t\tA\n\nb\tB\n', '', ['\xe9t/A', 'b/B']),
    ],
    ids='spaces bom utf16 tab nbsp header blank conll2003 column conllu lemma numbered nfc'.split(),
)
def test_files_are_read_as_people_have_them(prepared, content, hparams, expected):
    assert sentences(prepared(content, hparams))[: len(expected)] == expected


def test_the_columns_of_several_files_are_named_once_unless_they_differ(prepared, caplog):
    other = CONLL_2003.replace('EU', 'EC')
    prepared({'eval.conll': CONLL_2003, 'train.conll': other})
    (warning,) = [text for text in warnings(caplog) if 'has the tokens' in text]
    assert 'eval.conll: column 1 of 4 has the tokens' in warning
    caplog.clear()
    prepared({'eval.conll': CONLL_2003, 'train.conll': 'EC NNP B-ORG\n\nPeter NNP O\n'}, name='b')
    assert ['column 1 of 3' in text for text in warnings(caplog) if 'has the tokens' in text] == [False, True]


def test_a_compressed_file_is_read_and_places_and_batches_are_those_of_its_sentences(prepared):
    found = prepared({'train.conll.gz': gzip.compress(BOTH.encode()), 'eval.conll': MARY}, 'min_count=1')
    assert found.metadata['tags'] == ['B-LOC', 'B-PER', 'I-PER', 'O']
    assert found.metadata['vocabulary'] == ['lives', 'in', 'john', 'mary', 'paris', 'smith']
    assert (found.metadata['mean_length'], found.metadata['num_classes'], found.metadata['vocabulary_size']) == (3.5, 4, 8)
    assert [place['line'] for place in found.places('train')] == [1, 6]
    batches = types.SimpleNamespace(parse_batch=tagged.parse_batch)
    features, labels = parse(batches, found.params, lambda: found.source.read('train'))
    assert features['text'].tolist() == [[4, 2, 3, 6], [5, 7, 2, 0]] and labels['tags'].tolist() == [[1, 3, 3, 0], [1, 2, 3, 0]]
    assert features['tokens'].tolist()[1] == [b'Mary', b'Smith', b'lives', b'']


def test_a_share_of_a_file_and_folds_are_held_out(tmp_path):
    (tmp_path / 'all.conll').write_text(''.join(f'w{i}\t{"AB"[i % 2]}\n\n' for i in range(50)))

    def words(*hparams):
        found = Prepared(tagged, tmp_path / 'data', f'tagged_file={tmp_path / "all.conll"}', *hparams)
        return [{text.split('/')[0] for text in sentences(found, split)} for split in ('train', 'eval')], found.places('eval')

    (train, held_out), places = words()
    assert 5 < len(held_out) < 15 and train | held_out == {f'w{i}' for i in range(50)} and not train & held_out
    assert {f'w{(place["line"] - 1) // 2}' for place in places} == held_out
    folds = [words(f'folds=5,fold={fold}')[0][1] for fold in range(1, 6)]
    assert [len(fold) for fold in folds] == [10] * 5 and len(set().union(*folds)) == 50


@pytest.mark.parametrize(
    'files, expected',
    [
        ('John\nlives\n', 'line 1: has no tag: a token, a tab and its tag make a line'),
        (BOTH + 'x\ny\tO\n', 'line 10: has 1 column, but line 1 has 2: a token, a tab and its tag make a line: correct it, or'),
        ('x\n' + BOTH, 'line 1: has 1 column, but line 2 has 2'),
        (
            BOTH.replace('\t', ' ') + 'New York O',
            'line 10: has 3 columns, but line 1 has 2: if a token has spaces, separate all',
        ),
        (BOTH + 'x\t\n', 'line 10: has no tag'),
        (BOTH + '\tO\n', 'line 10: has no token'),
        ('', 'has no sentences: a token, a tab and its tag make a line'),
        ('\n\n', 'has no sentences: a token, a tab and its tag make a line'),
        ('a\tX\nb\tO\n', 'has only one sentence to train on: put a blank line after each sentence'),
        ('a\tX\n' * 1001, 'line 1: here begins a sentence of 1,001 tokens, more than max_length=1000: put a blank line after'),
        (b'a\tX\n\n\xfc\tO\n', 'line 3: is not UTF-8: iconv -f CP1252'),
        ('a\tO\n\nb\tO\n', 'has only the tag O: there is nothing to learn'),
        (BOTH + 'x\tPER\n', "line 10: the tag 'PER' is neither O nor a part of a span, as B-LOC is: correct it, or"),
        ('a\tS-X\nb\tU-X\n\nc\tO', 'line 2: the tag U-X is of another scheme than S-X, '),
        (
            {'train.conll': BOTH, 'eval.conll': 'a\tB-PER\nb\tE-PER\n'},
            'eval.conll: line 2: the split eval marks the ends of spans, as E-PER does, the split train does not: write all',
        ),
    ],
)
def test_bad_input_is_one_line_with_its_place_and_the_cure(prepared, files, expected):
    message = raised((UsageError, RunError), lambda: prepared(files))
    assert expected in message and '\n' not in message


def test_a_column_that_a_file_does_not_have_is_one_line(prepared):
    assert 'tag_column=9: ' in raised(UsageError, lambda: prepared(CONLL_2003, 'tag_column=9'))


@pytest.mark.parametrize(
    'files, expected',
    [
        (CONLL_2003, 'column 1 of 4 has the tokens, such as EU, and column 4 has their tags, such as B-ORG: token_column and'),
        (BOTH + 'a\tO\nb\tI-LOC\n\nb\tI-PER\n', 'line 11: I-LOC after O is against the scheme IOB2, and 1 more are: a span'),
        ('a\tB-X\nb\tE-X\n\na\tB-X\n\nc\tO', 'line 4: O after B-X is against the scheme BIOES: a span begins wherever'),
        (
            {'train.conll': BOTH, 'eval.conll': 'a\tB-Z\n'},
            "eval.conll: line 1: the tag 'B-Z' of the split eval is not in the split train",
        ),
        (
            'a\tPER\n\nb\tO\n',
            'the tags, such as PER, do not say where spans begin, as B-PER and I-PER do: there are no metrics',
        ),
        (
            'a\tB-PER\nb\t0\n\nc\t0\n',
            "train.conll: line 2: the tag '0' is not written as B-PER, I-PER and O are, in capitals, and",
        ),
        ('a\tb-per\nb\to\n\nc\to\n', "the tag 'b-per' is not written as B-PER"),
        (f'token\ttag\n{BOTH}', "line 1, 'token\\ttag', names the columns: it is skipped."),
    ],
)
def test_what_is_decided_or_doubtful_is_a_warning(prepared, caplog, files, expected):
    prepared(files)
    (warning,) = warnings(caplog)
    assert expected in warning


def test_sound_schemes_have_no_warning(prepared, caplog):
    for number, content in enumerate(
        (
            BOTH,
            'a\tI-X\nb\tB-X\nc\tO\n\nd\tI-X\n',
            'a\tB\nb\tM\nc\tE\n\nd\tS\n',
            'a\tB-X\nb\tL-X\n\nd\tU-X\n',
            'a\tNN\n\nb\tVB\n',
        )
    ):
        prepared(content, name=str(number))
    assert warnings(caplog) == []


def test_bad_sentences_are_skipped_up_to_a_share(prepared):
    assert len(sentences(prepared(BOTH * 20 + 'x\n', 'max_bad_share=0.1'))) == 40


@pytest.mark.parametrize(
    'content, expected',
    [
        ('John lives.\n\nMary, too ("fast")\n', {1: 'John lives .', 3: 'Mary , too ( " fast " )'}),
        ('John\tB-PER\nlives\tO\n\nMary\tO\n', {1: 'John lives', 4: 'Mary'}),
        ('John B-PER\nlives O\n', {1: 'John lives'}),
        ('John\nlives\n\nMary\n', {1: 'John lives', 4: 'Mary'}),
    ],
    ids='sentences tagged spaces tokens'.split(),
)
def test_input_is_sentences_or_tokens_with_tags_or_without(prepared, tmp_path, content, expected):
    assert inputs(prepared(BOTH, 'tag_column=2'), tmp_path, content) == expected


@pytest.mark.parametrize(
    'content, expected',
    [
        ('I sleep .\nMary sleeps too .\n', {1: 'I sleep .', 2: 'Mary sleeps too .'}),
        ('I sleep .\n\nMary sleeps too .\n', {1: 'I sleep .', 3: 'Mary sleeps too .'}),
        ('I sleep .\n', {1: 'I sleep .'}),
        ('I PRP\nsleep VBP\n. .\n\n! .\n', {1: 'I sleep .', 5: '!'}),
        ('! .\n. .\n\n. .\n', {1: '! .', 4: '.'}),
    ],
    ids='sentences apart one tokens marks'.split(),
)
def test_sentences_that_end_with_a_mark_that_is_a_tag_are_not_tokens(prepared, tmp_path, content, expected):
    found = prepared('I PRP X\nsleep VBP X\n. . X\n\nyou PRP X\nsleep VBP X\n. . X\n\n', 'tag_column=2')
    assert inputs(found, tmp_path, content) == expected


def test_a_sentence_of_a_program_has_the_bytes_that_it_has_in_a_file(prepared, tmp_path):
    found, given = prepared(BOTH), unicodedata.normalize('NFD', 'José lives')
    (tmp_path / 'in.txt').write_text(given)
    (features, _), readers = found.predict(tmp_path / 'in.txt'), tagged.cell_readers(found.params)
    for sentences in ([given], [given.split()]):
        batch, _ = make_batch(sentences, tagged.raw_specs(found.params), readers)
        assert prepare_raw(tagged, found.params, batch)['tokens'].tolist() == [features[0]['tokens'].tolist()]
    assert features[0]['tokens'][0].decode() == unicodedata.normalize('NFC', 'José')
    with pytest.raises(tf.errors.InvalidArgumentError, match='not in the composed form of Unicode, NFC'):
        prepare_raw(tagged, found.params, {'text': [given]})


def test_a_bad_sentence_of_input_is_an_error_beside_the_others(prepared, tmp_path):
    found = prepared(BOTH)
    (tmp_path / 'in.conll').write_text('John\tB-PER\nlives\n\nMary\tO\n\nJoe\tB-XX\n')
    features, errors = found.predict(tmp_path / 'in.conll')
    assert [*errors] == [1] and 'line 2: has 1 column, but line 1 has 2' in errors[1]
    _, errors = found.read_labeled(tmp_path / 'in.conll')
    assert errors[6].endswith("in.conll: line 6: 'B-XX' is none of the tags that the model knows")


def test_sentences_are_split_into_words_and_the_marks_at_their_ends(session):
    words = {
        'John lives in Paris.': 'John lives in Paris .',
        '("Well," he said...)': '( " Well , " he said ... )',
        "O'Neill's 3.5 % of 2031-05-04": "O'Neill 's 3.5 % of 2031-05-04",
        'a\u00a0b\u3000c': 'a b c',
        '¿Qué?': '¿ Qué ?',
        '': '',
    }
    found = session.run(sentence_tokens.split_sentences(tf.constant([*words])))
    assert [b' '.join(row).decode() for row in found.to_list()] == [*words.values()]
    (row,) = session.run(sentence_tokens.split_sentences(tf.constant(['New York,\tis\t']))).to_list()
    assert row == [b'New York,', b'is']


def test_raw_sentences_become_the_features_of_their_tokens_also_empty_ones(prepared, session):
    found = prepared(BOTH, 'min_count=1')
    features = tagged.from_raw(found.params, {'text': tf.constant(['Mary lives', '', 'IN\tx y'])})
    session.run(tf.tables_initializer())
    values = session.run(features)
    assert values['text'].tolist() == [[5, 2], [0, 0], [3, 1]] and values['tokens'].tolist()[2] == [b'IN', b'x y']
