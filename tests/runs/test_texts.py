"""Runs on texts: from pretrained vectors of words, or with subwords."""

import json

import numpy as np
import pytest

from benchmarks import suffixes
from tests.shared import read_weights


def test_a_run_starts_from_vectors_keeps_frozen_ones_and_goes_on_without_the_file(run, tmp_path):
    (tmp_path / 'a.txt').write_text('pos\ta good film\nneg\ta bad film\n' * 20)
    (tmp_path / 'vectors').write_text('good 0.25 -0.5 1\nBad 4 5 6\nother 7 8 9\n')
    hparams = f'--hparams=text_file={tmp_path}/a.txt,embeddings={tmp_path}/vectors,num_filters=4,ema_decay=0.9'
    flags = ('--model=text_cnn', '--dataset=text', '--train_steps=2', '--num_towers=2')
    code, _, log = run(*flags, hparams, '--freeze=^embedding$')
    assert code == 0 and '3 numbers each for 2 of the 4 words, of which 1 in another case only' in log, log
    assert 'no effect' not in log
    metadata = json.loads((tmp_path / 'output' / 'dataset.json').read_text())['metadata']
    rows = [metadata['vocabulary'].index(word) + 2 for word in ('good', 'bad')]
    table = read_weights(tmp_path / 'output')['embedding']
    assert table.shape == (6, 3) and table[rows].tolist() == [[0.25, -0.5, 1], [4, 5, 6]]
    others = np.delete(table, rows, 0)
    assert np.all(np.abs(others) <= 0.25) and len(np.unique(others)) == others.size
    assert 'word_vectors/' in (graph := (tmp_path / 'output' / 'graph.pbtxt').read_text()) and len(graph) < 5_000_000
    with open(tmp_path / 'vectors', 'a') as file:
        file.write('more 1 2 3\n')
    code, _, log = run('--train_steps=3')
    assert code == 2 and 'vectors: the file has changed since the run began' in log
    (tmp_path / 'vectors').unlink()
    assert run('--train_steps=3', '--freeze=^embedding$')[0] == 0
    assert read_weights(tmp_path / 'output')['embedding'].tolist() == table.tolist()
    (tmp_path / 'new.txt').write_text('a good film\n')
    assert run('--schedule=predict', f'--input={tmp_path}/new.txt')[0] == 0


def test_subwords_tell_classes_by_the_suffixes_of_words_that_are_unknown(run, tmp_path):
    pytest.importorskip('sentencepiece')
    suffixes.write(f'{tmp_path}/a.txt', 900)
    small = 'batch_size=32,max_subwords=150,embedding_size=8,num_filters=8,drop_rate=0.0,learning_rate=0.02'
    accuracy = {}
    for kind in ('words', 'subwords'):
        hparams = f'--hparams=text_file={tmp_path}/a.txt,{small},tokens={kind}'
        code, result, log = run('--model=text_cnn', '--dataset=text', hparams, '--train_steps=100', '--overwrite')
        assert code == 0, log
        accuracy[kind] = result['eval']['accuracy']
    assert accuracy['words'] < 0.5 and accuracy['subwords'] > 0.9
