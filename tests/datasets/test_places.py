"""Places of records: the lines, pictures and TFRecord files of users' data, and those of included datasets."""

import os

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.places import find, places, to_text
from estimator_trainer.common.records import records
from estimator_trainer.common.records.elements import elements
from estimator_trainer.datasets import image_folder, image_list, table, text, tfrecord
from tests.datasets.own_data import Prepared, picture
from tests.pipeline.pipelines import make_params, numbers, of_files
from tests.shared import refused
from tests.tfrecords import record


def names(source, split, count):
    """Returns the names of all records of a split, each of which finds its record."""
    found = [to_text(place) for place in places(source, split, range(count))]
    assert [find(source, split, name) for name in found] == [[number] for number in range(count)]
    return found


def decoded(source, split):
    return [records.decode(one) for one in elements(lambda: source.read(split))]


def test_rows_of_a_table_are_lines_as_editors_count_them_whatever_is_skipped(tmp_path):
    rows = [f'{i},{"ab"[i % 2]}' for i in range(40)]
    rows[3], rows[5] = 'x,a', '"5\n",b'  # Wrong; of two lines, to the end.
    (tmp_path / 'a.csv').write_text('\n'.join(['x,target', *rows[:8], '', *rows[8:]]) + '\n')
    found = Prepared(table, tmp_path / 'data', f'table_file={tmp_path}/a.csv', 'max_bad_share=0.1')
    lines = {i: i + 2 + (i > 5) + (i > 7) for i in range(40)}
    kept = {split: [int(one['x'][1][0]) for one in decoded(found.source, split)] for split in ('train', 'eval')}
    assert sorted([*kept['train'], *kept['eval']]) == [i for i in range(40) if i != 3]
    for split, ids in kept.items():
        assert names(found.source, split, len(ids)) == [f'{tmp_path}/a.csv:{lines[i]}' for i in ids]
    assert find(found.source, 'train', f'a.csv:{lines[kept["train"][1]]}') == [1]
    assert find(found.source, 'train', 'a.csv:1') == find(found.source, 'train', 'b.csv:2') == []


def test_texts_are_lines(tmp_path):
    (tmp_path / 'train.txt').write_text(''.join(f'{"ab"[i % 2]}\ttext {i}\n' + '\n' * (i == 3) for i in range(9)))
    (tmp_path / 'eval.txt').write_text('a\tone\nb\ttwo\n')
    found = Prepared(text, tmp_path / 'data', f'text_file={tmp_path}')
    assert names(found.source, 'train', 9) == [f'{tmp_path}/train.txt:{i + 1 + (i > 3)}' for i in range(9)]
    assert find(found.source, 'train', 'eval.txt:2') == [] and find(found.source, 'eval', 'eval.txt:2') == [1]


def test_pictures_are_files_although_unreadable_ones_are_skipped(tmp_path):
    for name in ('cat', 'dog'):
        (tmp_path / 'in' / name).mkdir(parents=True)
        for i in range(20):
            (tmp_path / 'in' / name / f'{i}: a.png').write_bytes(picture(value=i) if i % 5 else b'none')
    found = Prepared(image_folder, tmp_path / 'data', f'image_dir={tmp_path}/in', 'max_bad_share=0.5', 'image_size=4')
    for split in ('train', 'eval'):
        stored = [one['id'][1][0].decode() for one in decoded(found.source, split)]
        assert names(found.source, split, len(stored)) == [f'{tmp_path}/in/{name}' for name in stored]


@pytest.mark.parametrize('is_older', [False, True])
def test_pictures_of_a_moved_directory_are_files_although_unreadable_ones_are_skipped(tmp_path, is_older):
    for name in ('cat', 'dog'):
        (tmp_path / 'in' / name).mkdir(parents=True)
        for i in range(20):
            (tmp_path / 'in' / name / f'{i}.png').write_bytes(picture(value=i) if i % 5 else b'none')
    hparams = 'max_bad_share=0.5', 'image_size=4'
    Prepared(image_folder, tmp_path / 'data', f'image_dir={tmp_path}/in', *hparams)
    (listed,) = tmp_path.glob('data/*/unreadable.txt')
    assert sorted(line.partition(':')[0] for line in listed.read_text().splitlines()) == sorted(
        f'{name}/{i}.png' for name in ('cat', 'dog') for i in (0, 5, 10, 15)
    )
    if is_older:  # It wrote absolute paths.
        listed.write_text(''.join(f'{tmp_path}/in/{line}\n' for line in listed.read_text().splitlines()))
    (tmp_path / 'in').rename(tmp_path / 'moved')
    found = Prepared(image_folder, tmp_path / 'data', f'image_dir={tmp_path}/moved', *hparams)
    assert len([*tmp_path.glob('data/image_folder-*')]) == 1  # Nothing was converted anew.
    for split in ('train', 'eval'):
        stored = [one['id'][1][0].decode() for one in decoded(found.source, split)]
        assert [place['file'] for place in found.places(split)] == [f'{tmp_path}/moved/{name}' for name in stored]


def test_pictures_of_a_table_are_named_by_it(tmp_path):
    for i in range(6):
        (tmp_path / f'{i}.png').write_bytes(picture(value=i))
    (tmp_path / 'a.csv').write_text('file,target\n' + ''.join(f'{i}.png,{"ab"[i % 2]}\n' for i in range(6)))
    found = Prepared(image_list, tmp_path / 'data', f'table_file={tmp_path}/a.csv', 'eval_share=0', 'image_size=4')
    assert names(found.source, 'train', 6) == [f'{i}.png' for i in range(6)]
    assert places(found.source, 'train', [4]) == [
        {'split': 'train', 'example': 4, 'file': f'{tmp_path}/a.csv', 'line': 6, 'picture': '4.png'}
    ]
    assert find(found.source, 'train', 'a.csv:6') == [4]


def test_tfrecord_files_are_named_with_the_number_of_the_record(tmp_path):
    for name, ids in (('train-0', range(3)), ('train-1', range(3, 5)), ('eval', range(2))):
        examples = [records.encode({'x': float(i), 'label': i % 2}) for i in ids]
        (tmp_path / f'{name}.tfrecord').write_bytes(b''.join(map(record, examples)))
    found = Prepared(tfrecord, tmp_path / 'data', f'tfrecord_dir={tmp_path}')
    expected = [f'{tmp_path}/train-{name}.tfrecord:{i}' for name, i in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1))]
    assert names(found.source, 'train', 5) == expected
    assert refused(find, found.source, 'train', 'train-1.tfrecord:2').endswith(
        'train-1.tfrecord has 2 records: their numbers are 0 to 1'
    )


def test_records_of_unknown_sources_have_a_number_and_a_place_in_the_converted_files(tmp_path, caplog):
    records.write(str(tmp_path), {'train': [{'id': i} for i in range(11)]}, num_shards=3)
    source = DataSource(of_files(), str(tmp_path), make_params())
    assert names(source, 'train', 11) == [f'train:{i}' for i in range(11)]
    expected = [{'split': 'train', 'example': i, 'tfrecord': f'{tmp_path}/train-0000{i % 3}-of-00003.tfrecord'} for i in (9, 2)]
    assert places(source, 'train', [9, 2]) == [{**expected[0], 'record': 3}, {**expected[1], 'record': 0}]
    assert find(source, 'train', 'train-00001-of-00003.tfrecord:2') == [7]
    assert (
        refused(find, source, 'train', 'train:11')
        == '--record=train:11: the split train has 11 records: their numbers are 0 to 10'
    )
    source.module.places = lambda split, data_dir, params: ({'file': str(i)} for i in range(10))
    assert places(source, 'train', [9, 2])[0] == {**expected[0], 'record': 3}
    assert 'has 11 records, but there are now 10 sources, so records are named by their TFRecord files' in caplog.text
    source.module.places = lambda split, data_dir, params: ({'file': f'a/{i}.png'} for i in range(11))
    assert [find(source, 'train', name) for name in ('3.png', os.path.abspath('a/3.png'), './a/3.png')] == [[3]] * 3
    assert find(source, 'train', 'b/3.png') == find(source, 'train', '') == find(source, 'train', ':3') == []
    assert [to_text(place) for place in places(DataSource(numbers(5), '', make_params()), 'train', [3])] == ['train:3']


@pytest.mark.parametrize('fold, folds', [(1, 2), (2, 3), (3, 3)])
def test_records_of_folds_have_the_numbers_of_all_folds_together(tmp_path, fold, folds):
    records.write(str(tmp_path), {'train': [{'id': i} for i in range(11)]}, num_shards=3)
    source = DataSource(of_files(), str(tmp_path), make_params(fold=fold, folds=folds))
    for split in ('train', 'eval'):
        ids = [one['id'][1][0] for one in decoded(source, split)]
        assert names(source, split, len(ids)) == [f'train:{i}' for i in ids]
        others = {*range(11)} - {*ids}
        assert all(find(source, split, f'train:{i}') == [] for i in others)
    assert tf.io.gfile.exists(places(source, 'eval', [1])[0]['tfrecord'])
