"""common/word_vectors.py and common/pipeline/word_coverage.py: files of pretrained vectors, and how many words they have."""

import dataclasses
import gzip
import logging

import numpy as np
import pytest

from estimator_trainer.common import word_vectors
from estimator_trainer.common.pipeline.word_coverage import with_word_vectors
from estimator_trainer.datasets import text
from estimator_trainer.hparams.build import HParams
from tests.datasets.own_data import Prepared
from tests.shared import refused

VOCABULARY = ['the', 'berlin', 'été', '. .', 'none']


def read(path, content, vocabulary=VOCABULARY):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return word_vectors.read(str(path), vocabulary)


@pytest.mark.parametrize(
    'content',
    [
        'the 1 2\nother 0 nan\nBerlin 3 4\nBERLIN 0 0\ne\u0301te\u0301 5 6\n. . 7 8\n',  # GloVe: no header, words with spaces.
        '6 2\nthe 1 2 \r\nother 0 x \r\nBerlin 3 4 \r\nBERLIN 0 0\r\nété 5 6 \r\n. . 7 8 \r\n',  # word2vec: spaces at the ends.
        'THE 9 9\nthe\t1\t2\n\nBerlin 3 4\nÉTÉ 9 9\nété 5 6\n. . 7 8',
    ],
)
@pytest.mark.parametrize('compress', [bytes, gzip.compress])
def test_files_of_each_kind_give_the_vectors_of_the_vocabulary(tmp_path, content, compress):
    found = read(tmp_path / 'a', compress(content.encode()))
    assert found.places.tolist() == [0, 1, 2, 3] and found.num_folded == 1 and found.size == 2
    assert found.values.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]] and found.values.dtype == np.float32


def test_the_first_of_repeated_words_counts_with_a_warning(tmp_path, caplog):
    found = read(tmp_path / 'a', 'the 1 2\nx 0 0\nx 0 0\nthe 3 4\nthe 5 6\n')
    assert found.values.tolist() == [[1, 2]]
    assert f"{tmp_path}/a: line 4: 'the' is in line 1 already: of 2 repeated words, the first counts." in caplog.text


@pytest.mark.parametrize(
    'content, message',
    [
        ('', ': is empty'),
        ('\n', ': line 1: must be a word and its numbers, or the count and the size of the vectors'),
        ('the,1,2\n', ': line 1: must be a word and its numbers, or the count and the size of the vectors'),
        ('the 1 2\na 1 2\nb 1\n', ': line 3: has 1 numbers after the word, not 2'),
        ('the 1 2\na 1 2 3\n', ': line 2: has 3 numbers after the word, not 2'),
        ('2 3\nthe 1 2\na 1 2\n', ': line 2: has 2 numbers after the word, not 3'),
        ('other 1 x\n', ': line 1: x is no finite number'),
        ('a 1 2\nthe 1 nan\n', ': line 2: nan is no finite number'),
        ('a 1 2\nTHE 1 1e60\n', ': line 2: 1e60 is no finite number'),
        ('3 2\nthe 1 2\na 1 2\n', ': ends after 2 of 3 words, in line 3: download or copy it again'),
        ('3 2\n', ': ends after 0 of 3 words, in line 1: download or copy it again'),
        (b'1 2\nthe \0\0\x80?\0\0\0@', ': is binary: KeyedVectors.load_word2vec_format(OLD, binary=True)'),
        (b'PK\3\4...', ': is a ZIP archive: unzip it'),
        (gzip.compress(b'the 1 2\n', mtime=0)[:-9], ': Compressed file ended before the end-of-stream marker was reached'),
    ],
)
def test_a_wrong_file_is_refused_by_its_line(tmp_path, content, message):
    assert refused(read, tmp_path / 'a', content).startswith(f'embeddings={tmp_path}/a{message}')


def test_a_missing_file_is_named(tmp_path):
    assert refused(word_vectors.read, f'{tmp_path}/a', ()) == f'embeddings={tmp_path}/a: No such file or directory'
    assert refused(word_vectors.digest, str(tmp_path)) == f'embeddings={tmp_path}: Is a directory'


def sources(tmp_path, vectors, *hparams):
    """Returns the DataSource of texts for a start with vectors."""
    (tmp_path / 'texts').mkdir()
    for split in ('train', 'eval'):
        (tmp_path / 'texts' / f'{split}.txt').write_text('pos\ta good good film\nneg\ta bad film\npos\tbad bad\n')
    (tmp_path / 'vectors').write_text(vectors)
    found = Prepared(text, tmp_path / 'data', f'text_file={tmp_path}/texts', *hparams).source
    params = HParams({**found.params, 'embeddings': f'{tmp_path}/vectors'}, found.params.metadata)
    return dataclasses.replace(found, params=params)


def test_the_log_tells_the_share_of_words_and_of_their_occurrences(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    source = sources(tmp_path, 'Film 1 2\nbad 3 4\nother 5 6\n')
    assert source.params.metadata['vocabulary'] == ['bad', 'a', 'film', 'good']
    found = with_word_vectors(source)
    assert found.vectors.places.tolist() == [0, 2] and found.vectors.values.tolist() == [[3, 4], [1, 2]]
    assert '2 numbers each for 2 of the 4 words, of which 1 in another case only: for 55.6 % of their' in caplog.text
    assert 'have a vector' not in caplog.text
    (tmp_path / 'vectors').write_text('bad 3 4\n')
    few = with_word_vectors(source)
    assert 'only 25 % of the words have a vector' in caplog.text
    assert few.params.metadata['word_vectors']['sha256'] != found.params.metadata['word_vectors']['sha256']


def test_a_run_that_has_begun_refuses_a_changed_file_and_needs_none(tmp_path):
    begun = dataclasses.replace(with_word_vectors(sources(tmp_path, 'bad 1 2\nfilm 3 4\n')), vectors=None)
    assert with_word_vectors(begun) is begun
    (tmp_path / 'vectors').write_text('bad 1 2\nfilm 3 5\n')
    assert 'vectors: the file has changed since the run began' in refused(with_word_vectors, begun)
    (tmp_path / 'vectors').unlink()
    assert with_word_vectors(begun) is begun


@pytest.mark.parametrize('kind', ['bytes', 'subwords'])
def test_tokens_that_are_no_words_have_no_vectors(tmp_path, kind):
    if kind == 'subwords':
        pytest.importorskip('sentencepiece')
    assert 'has no vocabulary of words: omit it, or set tokens=words' in refused(
        with_word_vectors, sources(tmp_path, 'bad 1 2\n', f'tokens={kind}')
    )
