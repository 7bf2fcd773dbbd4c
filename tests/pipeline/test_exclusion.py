"""The hyper-parameter exclude: which records are left, with which labels, and files that are refused."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.pipeline import excluded, exclusion
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records import records
from estimator_trainer.common.records.elements import elements
from estimator_trainer.hparams.build import HParams
from tests.pipeline.pipelines import make_params
from tests.shared import failed, refused

LABELS = [0, 1, 2, 0, 1, 2]
NAMES = ['ape', 'bee', 'cow']


def parse(mode, params, serialized):
    spec = {'x': tf.io.FixedLenFeature([], tf.int64), 'class': tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(serialized, spec)
    return {'x': example['x']}, {'label': example['class']}


def make_source(tmp_path, text, names=(), **functions):
    directory, path = str(tmp_path / 'data'), tmp_path / 'wrong.csv'
    path.write_text(text)
    examples = [{'other': label, 'x': 10 * i, 'class': label} for i, label in enumerate(LABELS)]
    if not records.is_written(directory):
        records.write(directory, {'train': examples, 'eval': examples[:3]})
    module = types.SimpleNamespace(read=lambda split, data_dir, params: records.read(data_dir, split), parse=parse, **functions)
    params = make_params(exclude=str(path), num_classes=3, model='m')
    metadata = {excluded.DIGEST: excluded.digest(params), **({'class_names': list(names)} if names else {})}
    return DataSource(module, directory, HParams(params, metadata))


def read(source, split='train'):
    """Returns [(x, label)] of a split."""
    parsed = elements(lambda: source.read(split).map(lambda record: parse('train', source.params, record)))
    return [(int(features['x']), int(labels['label'])) for features, labels in parsed]


def test_records_are_left_out_or_get_the_corrected_label_and_the_data_stays(tmp_path):
    source = make_source(tmp_path, 'example,label,score,corrected\n4,bee,-2,\n0,ape,-1,cow\n3,ape,0,ape\n', NAMES)
    manifest = (tmp_path / 'data/manifest.json').read_bytes()
    exclusion.write(source)
    assert read(source) == [(0, 2), (10, 1), (20, 2), (30, 0), (50, 2)]
    assert read(source, 'eval') == [(0, 0), (10, 1), (20, 2)]
    assert (tmp_path / 'data/manifest.json').read_bytes() == manifest
    assert source.in_whole('train', np.array([0, 3, 4]))[1].tolist() == [0, 3, 5]
    assert source.in_part('train', np.arange(6)).tolist() == [0, 1, 2, 3, 4]


def test_the_file_of_a_spreadsheet_names_records_by_their_places(tmp_path):
    def places(split, data_dir, params):
        yield from ({'file': f'{split}.txt', 'line': 2 * i + 1} for i in range(6 if split == 'train' else 3))

    text = '\ufeffline;file;label;corrected\r\n1;train.txt;0;\r\n11;train.txt;2;1\r\n3;eval.txt;1;\r\n'
    source = make_source(tmp_path, text, places=places)
    exclusion.write(source)
    assert read(source) == [(10, 1), (20, 2), (30, 0), (40, 1), (50, 1)]


def test_a_file_may_be_given_by_another_path_and_a_spreadsheet_may_write_classes_otherwise(tmp_path, monkeypatch):
    def places(split, data_dir, params):
        yield from ({'file': f'{tmp_path}/{split}.txt', 'line': i} for i in range(6))

    monkeypatch.chdir(tmp_path)
    text = 'file,line,label,corrected\ntrain.txt,1,TRUE,\ntrain.txt,2,cow,FALSE\n'
    source = make_source(tmp_path, text, ['False', 'True', 'cow'], places=places)
    exclusion.write(source)
    assert read(source) == [(0, 0), (20, 0), (30, 0), (40, 1), (50, 2)]


def test_a_number_that_a_class_is_named_for_is_what_its_records_have(tmp_path):
    def parse_rating(mode, params, serialized):
        features, labels = parse(mode, params, serialized)
        return features, {'label': 2 - labels['label']}

    source = make_source(tmp_path, 'example,label,corrected\n0,0,2\n', ['2', '1', '0'])
    source.module.parse = parse_rating
    exclusion.write(source)
    assert read(source)[:2] == [(0, 2), (10, 1)]  # The numbers in the records.


def test_a_class_of_which_no_record_is_left_is_named_each_time(tmp_path, caplog):
    rows = [f'{i},{label},{"2" if i == 0 else ""}' for i, label in enumerate(LABELS) if label == 0]
    source = make_source(tmp_path, '\n'.join(['example,label,corrected', *rows, ',,']))
    for _ in range(2):
        exclusion.write(source)
        assert caplog.text.count('leaves no training record of the class 0.') == 1
        caplog.clear()


def test_folds_divide_what_is_left(tmp_path):
    source = make_source(tmp_path, 'example,label\n1,1\n')
    source = DataSource(
        source.module, source.data_dir, HParams({**source.params, 'folds': 2, 'fold': 2}, source.params.metadata)
    )
    exclusion.write(source)
    assert (read(source), read(source, 'eval')) == ([(0, 0), (30, 0), (50, 2)], [(20, 2), (40, 1)])
    assert source.in_whole('eval', np.arange(2)) == ('train', pytest.approx([2, 4]))


@pytest.mark.parametrize(
    'text, message',
    [
        ('', 'line 1 must name the columns as suspects.csv does: label, and file, line, row, record, example_id or example'),
        ('example,label\n', 'has no rows: omit it'),
        ('example,label\n0,0\n0,0\n', 'line 3: example 0 occurs twice: leave one of the two'),
        ('example,label\n6,0\n', 'line 2: example 6 is not in the split train: was it made with other data?'),
        ('line,label\n1,0\n', 'line 2: has no example, by which the records of --dataset=numbers are known'),
        ('example,label\n1,2\n', 'line 2: the label is 2, but 1 in the data: was it made with other data?'),
        ('example,label,corrected\n1,1,3\n', "line 2: corrected '3' is no class: the classes are 0 to 2"),
        ('example,label\n' + ''.join(f'{i},{label}\n' for i, label in enumerate(LABELS)), 'names all 6 training records'),
        ('example,label\n"0,1\n', 'line 1: unexpected end of data'),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, text, message):
    source = make_source(tmp_path, text)
    assert f'exclude={tmp_path}/wrong.csv' in (found := refused(exclusion.write, source)) and message in found


def test_what_is_missing_is_said(tmp_path):
    source = make_source(tmp_path, 'example,label\n0,0\n')
    assert 'is gone: train to write it again' in failed(source.read, 'train')
    params = make_params(exclude=f'{tmp_path}/none.csv')
    assert refused(excluded.digest, params) == f'exclude={tmp_path}/none.csv: there is no such file'
    of_memory = types.SimpleNamespace(read=lambda split, data_dir, params: tf.data.Dataset.range(3), parse=None)
    assert 'have no numbers: write them with' in refused(exclusion.write, DataSource(of_memory, '', source.params))


def test_labels_that_no_feature_of_the_records_is_cannot_be_corrected(tmp_path):
    source = make_source(tmp_path, 'example,label,corrected\n0,1,2\n')
    source.module.parse = lambda mode, params, record: ({'x': 0}, {'label': tf.strings.length(record) * 0 + 1})
    assert 'cannot be corrected, as they are no feature of its records' in refused(exclusion.write, source)


def test_a_record_that_lacks_a_candidate_has_another_as_its_label():
    with pytest.raises(ValueError, match='there is no other'):
        exclusion._relabeled(records.encode({'x': 1}), 'other', 2)
    found = records.decode(exclusion._relabeled(records.encode({'x': 1.5, 'y': b'a'}), 'x', '2'))
    assert found['x'] == ('float', [2.0])
    assert exclusion._candidates(records.encode({'a': 1.5, 'b': b'b', 'label': 1.0, 'd': [1, 2]})) == ['label', 'b', 'a']
