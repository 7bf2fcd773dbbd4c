"""dataset.json: what a training writes of its dataset, and how it is read and compared."""

import json
import logging
import re
import types

import pytest
import tensorflow.compat.v1 as tf

from common.data.source import DataSource
from common.errors import RunError
from common.runs import saved_dataset
from common.runs.saved_dataset import SavedDataset
from hparams import build
from tests.runs import words


@pytest.fixture
def make(tmp_path):
    """Returns a prepared DataSource of words, some functions of which may be others: make('text of data.txt', read=...)."""

    def call(text=words.WORDS, number=0, **functions):
        (tmp_path / f'data{number}.txt').write_text(text)
        module = types.SimpleNamespace(**{**vars(words), **functions})
        params = build.make_hparams('m', {}, 'd', words.get_params())
        return saved_dataset.prepare(DataSource(module, f'{tmp_path}/data{number}', params), None, trains=True)

    return call


def saved(tmp_path, changes=(), is_checked=False):
    """Changes what a path of keys leads to in dataset.json, and returns what is loaded then."""
    file = tmp_path / 'dataset.json'
    content = json.loads(file.read_text())
    if not is_checked:  # As in files of older versions.
        del content['checksum']
    for *parents, key, value in changes:
        item = content
        for parent in parents:
            item = item[parent]
        item[key] = value
    file.write_text(json.dumps(content))
    return saved_dataset.load(str(tmp_path))


def test_a_saved_dataset_takes_the_place_of_the_data(tmp_path, make):
    source = make()
    assert source.params.num_classes == 2
    assert saved_dataset.load(str(tmp_path)) is None
    saved_dataset.save(str(tmp_path), source, is_resumed=False)
    for is_checked in (True, False):
        found = saved(tmp_path, is_checked=is_checked)
        assert found.metadata == {'class_names': ['consonants', 'vowels'], 'num_classes': 2}
        assert found.data_dir == f'{tmp_path}/data0' and len(found.sha256) == 64
    assert found.specs.features['letters'] == tf.TensorSpec([None, None], tf.int32) and found.specs.records.dtype == tf.string
    without = saved_dataset.without_data(DataSource(words, 'gone', build.HParams({'dataset': 'd', 'num_classes': 0})), found)
    assert without.specs == found.specs and without.params.metadata == found.metadata and without.params.num_classes == 2


@pytest.mark.parametrize(
    'change',
    [
        ('metadata', [1]),
        ('metadata', 'class_names', {'a': 1}),
        ('metadata', 'class_names', 0, 5),
        ('features', {'tuple': []}),
        ('features', 'dict', 'letters', {'dict': {}}),
        ('features', 'dict', 'letters', {'dtype': 'int32', 'shape': ['a']}),
        ('features', 'dict', 'letters', {'dtype': 'int32', 'shape': [-5]}),
        ('features', 'dict', 'letters', {'dtype': 'no_such', 'shape': []}),
        ('records', None),
        ('sha256', []),
        ('data_dir', 1),
    ],
    ids=str,
)
def test_a_dataset_json_with_other_contents_than_those_written_is_reported(tmp_path, make, change):
    saved_dataset.save(str(tmp_path), make(), is_resumed=False)
    content = (tmp_path / 'dataset.json').read_text()
    cure = '--schedule=train writes it anew if it is deleted'
    with pytest.raises(RunError, match=f'/dataset.json: was changed after it was written: restore the file; {cure}'):
        saved(tmp_path, [change], is_checked=True)
    (tmp_path / 'dataset.json').write_text(content)
    with pytest.raises(RunError, match=f'/dataset.json: does not describe a dataset; {cure}'):
        saved(tmp_path, [change])


@pytest.mark.parametrize('content', ['', '{}', '[1]', '{"metadata": 3}'])
def test_a_corrupt_dataset_json_is_reported(tmp_path, content):
    (tmp_path / 'dataset.json').write_text(content)
    with pytest.raises(RunError, match='/dataset.json.*; --schedule=train writes it anew if it is deleted'):
        saved_dataset.load(str(tmp_path))


def test_data_whose_metadata_differs_is_refused_where_it_matters(make):
    source = make()
    for metadata, refused in (
        ({'class_names': ['a', 'b'], 'num_classes': 2}, {True: 'class_names', False: 'class_names'}),
        ({'class_names': ['consonants', 'vowels'], 'num_classes': 2, 'mean': 1}, {True: 'mean'}),
        ({'num_classes': 2}, {False: 'class_names'}),
    ):
        for trains in (True, False):
            before = SavedDataset(metadata, None, None, None)
            if trains in refused:
                with pytest.raises(RunError) as error:
                    saved_dataset.prepare(source, before, trains)
                assert str(error.value) == (
                    f'--dataset=d: {refused[trains]} differs from that of the data that the model was trained on: choose '
                    'another --output_dir, or restore the data'
                )
            else:
                assert saved_dataset.prepare(source, before, trains).params.metadata == metadata


def test_a_training_that_resumes_with_other_data_warns_of_it(tmp_path, make, caplog):
    sources = [make(), make(words.WORDS.replace('aa', 'oo'), 1)]
    warnings = []
    for source, is_resumed in ((0, False), (0, True), (1, False), (0, True), (0, True)):
        caplog.clear()
        saved_dataset.save(str(tmp_path), sources[source], is_resumed)
        warnings.append('The training data is not the data that this model was trained on so far.' in caplog.text)
    assert warnings == [False, False, False, True, False]


@pytest.mark.parametrize(
    'functions, message',
    [
        (
            {'parse': lambda mode, params, record: ({'x': params.metadata['no_such']}, {})},
            r"--schedule=predict and export will fail: --dataset=d: .*KeyError: 'no_such' \(.*test_saved_dataset.py, line .*\)",
        ),
        (
            {'parse': lambda mode, params, record: ({'bad': tf.sparse.from_dense([1])}, {})},
            '--schedule=predict and export will fail: --dataset=d: .*the feature bad must be a tensor, not a SparseTensor',
        ),
        (
            {
                'read': lambda *_: tf.data.Dataset.range(2).map(lambda i: {'i': i, 'x': tf.ragged.constant([[1], []])}),
                'parse': lambda mode, params, record: ({'x': record['i']}, {}),
            },
            '--dataset=d: --input and export will need the data: its records contain RaggedTensorSpec',
        ),
    ],
)
def test_what_will_not_work_without_the_data_is_logged(tmp_path, make, caplog, functions, message):
    with caplog.at_level(logging.WARNING, 'tensorflow'):
        saved_dataset.save(str(tmp_path), make(**functions), is_resumed=False)
    assert re.search(message, caplog.text), caplog.text
    assert saved_dataset.load(str(tmp_path)).specs is None
