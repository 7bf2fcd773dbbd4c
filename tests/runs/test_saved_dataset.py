"""dataset.json: what a training writes of its dataset, and how it is read and compared."""

import copy
import functools
import json
import operator
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


def test_a_saved_dataset_takes_the_place_of_the_data(tmp_path, make):
    source = make()
    assert source.params.num_classes == 2
    assert saved_dataset.load(str(tmp_path)) is None
    saved_dataset.save(str(tmp_path), source, is_resumed=False)
    found = saved_dataset.load(str(tmp_path))
    assert found.metadata == {'class_names': ['consonants', 'vowels'], 'num_classes': 2}
    assert found.data_dir == f'{tmp_path}/data0' and len(found.sha256) == 64
    assert found.specs.features['letters'] == tf.TensorSpec([None, None], tf.int32) and found.specs.records.dtype == tf.string
    params = build.HParams({'dataset': 'd', 'num_classes': 0})
    without = saved_dataset.without_data(DataSource(words, 'gone', params), found)
    assert without.specs == found.specs and without.params.metadata == found.metadata and without.params.num_classes == 2


def test_a_dataset_json_with_other_contents_than_those_written_is_reported(tmp_path, make):
    saved_dataset.save(str(tmp_path), make(), is_resumed=False)
    file, expected = tmp_path / 'dataset.json', saved_dataset.load(str(tmp_path))
    content = json.loads(file.read_text())
    cure = '--schedule=train writes it anew if it is deleted'
    for *parents, key, value in (
        ('metadata', [1]),
        ('metadata', 'class_names', {'a': 1}),
        ('metadata', 'class_names', 0, 5),
        ('features', 'dict', 'letters', {'dict': {}}),
        ('features', 'dict', 'letters', {'dtype': 'int32', 'shape': [-5]}),
        ('features', 'dict', 'letters', {'dtype': 'no_such', 'shape': []}),
        ('records', None),
        ('sha256', []),
        ('data_dir', 1),
    ):
        changed = copy.deepcopy(content)
        functools.reduce(operator.getitem, parents, changed)[key] = value
        file.write_text(json.dumps(changed))
        with pytest.raises(RunError, match=f'/dataset.json: was changed after it was written: restore the file; {cure}'):
            saved_dataset.load(str(tmp_path))
        del changed['checksum']  # As in files of older versions.
        file.write_text(json.dumps(changed))
        with pytest.raises(RunError, match=f'/dataset.json: does not describe a dataset; {cure}'):
            saved_dataset.load(str(tmp_path))
    for text in ('', '{}', '[1]', '{"metadata": 3}'):
        file.write_text(text)
        with pytest.raises(RunError, match=f'/dataset.json.*; {cure}'):
            saved_dataset.load(str(tmp_path))
    del content['checksum']
    file.write_text(json.dumps(content))
    assert saved_dataset.load(str(tmp_path)) == expected


def test_data_whose_metadata_differs_is_refused_where_it_matters(make):
    def prepare(trains, **metadata):
        return saved_dataset.prepare(source, SavedDataset(metadata, None, None, None), trains).params.metadata

    source, names = make(), ['consonants', 'vowels']
    refusal = 'differs from that of the data that the model was trained on: choose another --output_dir, or restore the data$'
    for trains in (True, False):
        with pytest.raises(RunError, match=f'^--dataset=d: class_names {refusal}'):
            prepare(trains, class_names=['a', 'b'], num_classes=2)
    with pytest.raises(RunError, match=f'^--dataset=d: mean {refusal}'):
        prepare(True, class_names=names, num_classes=2, mean=1)
    assert prepare(False, class_names=names, num_classes=2, mean=1)['mean'] == 1


def test_a_training_that_resumes_with_other_data_warns_of_it(tmp_path, make, caplog):
    sources = [make(), make(words.WORDS.replace('aa', 'oo'), 1)]
    warnings = []
    for source, is_resumed in ((0, False), (0, True), (1, False), (0, True), (0, True)):
        caplog.clear()
        saved_dataset.save(str(tmp_path), sources[source], is_resumed)
        warnings.append('The training data is not the data that this model was trained on so far.' in caplog.text)
    assert warnings == [False, False, False, True, False]


@pytest.mark.parametrize(
    'parse, message',
    [
        (lambda params, _: params.metadata['no_such'], r"predict and export will fail: --dataset=d: .*'no_such' \(.*, line"),
        (lambda *_: tf.sparse.from_dense([1]), 'predict and export will fail: .* x must be a tensor, not a SparseTensor'),
        (lambda _, record: record['i'], '--dataset=d: --input and export will need the data: its records contain RaggedTensor'),
    ],
)
def test_what_will_not_work_without_the_data_is_logged(tmp_path, make, caplog, parse, message):
    def read(split, data_dir, params):
        return tf.data.Dataset.from_tensors({'i': 1, 'ragged': tf.ragged.constant([[1], []])} if 'Ragged' in message else '')

    source = make(read=read, parse=lambda mode, params, record: ({'x': parse(params, record)}, {}))
    saved_dataset.save(str(tmp_path), source, is_resumed=False)
    assert re.search(message, caplog.text), caplog.text
    assert saved_dataset.load(str(tmp_path)).specs is None
