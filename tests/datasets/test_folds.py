"""Folds: each example is in the evaluation of exactly one, and in the training of the others."""

import collections
import unicodedata

import numpy as np
from PIL import Image
import pytest

from estimator_trainer.common import folds
from estimator_trainer.datasets import image_folder, table, text, tfrecord
from estimator_trainer.hparams.build import make_hparams
from tests.datasets.own_data import Prepared
from tests.shared import refused

FOLDS = 3
# 20 rows: 11 of class a, 7 of b and 2 of rare; the groups have 4 rows each, of mixed classes.
KINDS = ['a', 'b', 'a', 'rare', 'a'] * 2 + ['a', 'b'] * 5
ROWS = [f'{number},{number * 7 % 11},g{number // 4},{kind}' for number, kind in enumerate(KINDS)]


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / 'rows.csv'
    path.write_text('\n'.join(['number,x,patient,kind', *ROWS, '']))
    return path


def divided(csv, *hparams):
    """Returns the numbers of the rows {'train': ..., 'eval': ...} of each fold."""
    found = []
    for fold in range(1, FOLDS + 1):
        names = f'table_file={csv}', 'target=kind', f'folds={FOLDS}', f'fold={fold}', *hparams
        data = Prepared(table, csv.parent / 'data', *names)
        found.append({split: [place['line'] - 2 for place in data.places(split)] for split in ('train', 'eval')})
        assert [len(data.read(split)[1]['label']) for split in found[-1]] == [*map(len, found[-1].values())]
    return found


def check_division(found):
    evaluated = [row for fold in found for row in fold['eval']]
    assert sorted(evaluated) == [*range(20)]
    assert all(sorted(fold['train'] + fold['eval']) == [*range(20)] for fold in found)


def test_each_row_is_evaluated_in_one_fold_and_classes_and_sizes_differ_by_one_row_at_most(csv, caplog):
    found = divided(csv)
    check_division(found)
    assert sorted(len(fold['eval']) for fold in found) == [6, 7, 7]
    counts = [collections.Counter(KINDS[row] for row in fold['eval']) for fold in found]
    assert all(sorted(count[kind] for count in counts) in ([2, 2, 3], [3, 4, 4], [0, 1, 1]) for kind in ('a', 'b', 'rare'))
    assert 'rows.csv: folds lack classes: rare is in 2 of 3.' in caplog.text
    assert found == divided(csv)


def test_the_rows_of_a_group_are_in_one_fold_and_the_group_is_no_feature(csv):
    csv.write_text(csv.read_text().replace('patient', unicodedata.normalize('NFD', 'Fälle')))  # As macOS writes accents.
    found = divided(csv, 'group=Fälle')
    check_division(found)
    assert all(not {row // 4 for row in fold['train']} & {row // 4 for row in fold['eval']} for fold in found)
    data = Prepared(table, csv.parent / 'data', f'table_file={csv}', 'target=kind', 'folds=3', 'group=Fälle')
    assert 'Fälle' not in [column['name'] for column in data.metadata['columns']]


def test_statistics_are_of_the_training_rows_of_the_fold(csv):
    data = Prepared(table, csv.parent / 'data', f'table_file={csv}', 'target=kind', 'folds=3', 'fold=2')
    trained = [place['line'] - 2 for place in data.places('train')]
    (column,) = (column for column in data.metadata['columns'] if column['name'] == 'x')
    np.testing.assert_allclose(column['mean'], np.mean([row * 7 % 11 for row in trained]))


def test_numbers_are_divided_evenly_without_regard_to_their_values(csv):
    csv.write_text('x,target\n' + '\n'.join(f'{number % 5},{number}.5' for number in range(20)) + '\n')
    found = []
    for fold in range(1, FOLDS + 1):
        data = Prepared(table, csv.parent / 'data', f'table_file={csv}', 'folds=3', f'fold={fold}')
        found.append([place['line'] - 2 for place in data.places('eval')])
    assert sorted(row for fold in found for row in fold) == [*range(20)] and sorted(map(len, found)) == [6, 7, 7]


def test_a_directory_keeps_its_test_split_and_may_have_no_eval(csv):
    directory = csv.parent / 'splits'
    directory.mkdir()
    csv.rename(directory / 'train.csv')
    (directory / 'test.csv').write_text('number,x,patient,kind\n1,2,g9,b\n')
    hparams = f'table_file={directory}', 'target=kind', 'folds=3'
    data = Prepared(table, csv.parent / 'data', *hparams)
    assert len(data.read('eval')[1]['label']) == 7 and len(data.read('test')[1]['label']) == 1
    (directory / 'val.csv').write_text('number,x,patient,kind\n1,2,g9,b\n')
    message = refused(Prepared, table, csv.parent / 'data', *hparams)
    assert message.endswith(
        'folds of train take the place of the split eval, but there is val.csv: move it, or rename it to test'
    )


@pytest.mark.parametrize(
    'hparams, message',
    [
        (['folds=21'], 'folds=21: {} has only 20 rows: use fewer folds'),
        (['folds=6', 'group=patient'], 'folds=6: {} has only 5 groups of patient: use fewer folds'),
        (
            ['folds=3', 'group=who'],
            'group=who is no column of {}, which has: number, x, patient, kind: name the column whose values must not be in '
            'two folds',
        ),
        (['folds=3', 'group=kind'], 'group=kind is a target: name the column whose values must not be in two folds'),
        (['group=patient'], 'group=patient is for folds: add --folds=5'),
    ],
)
def test_folds_that_cannot_be_are_refused(csv, hparams, message):
    found = refused(Prepared, table, csv.parent / 'data', f'table_file={csv}', 'target=kind', *hparams)
    assert found == message.format(csv)


@pytest.mark.parametrize('missing', ['', 'NA', '?', 'unknown'])
def test_rows_without_a_group_are_refused(csv, missing):
    csv.write_text(csv.read_text().replace(',g0,', f',{missing},'))
    hparams = f'table_file={csv}', 'target=kind', 'folds=3', 'group=patient', 'missing=[unknown]'
    found = refused(Prepared, table, csv.parent / 'data', *hparams)
    assert found == f'group=patient: 4 rows of {csv} have no value there: give each its group'


def test_spellings_of_a_group_are_one(csv):
    lines = csv.read_text().replace(',g', ',').splitlines(keepends=True)
    csv.write_text(''.join(line.replace(',0,', ',0.0,') if i % 2 else line for i, line in enumerate(lines)))
    hparams = f'table_file={csv}', 'target=kind', 'folds=6', 'group=patient'
    found = refused(Prepared, table, csv.parent / 'data', *hparams)
    assert found == f'folds=6: {csv} has only 5 groups of patient: use fewer folds'


def test_texts_are_divided_by_class(tmp_path):
    path, found = tmp_path / 'lines.txt', []
    path.write_text(''.join(f'{"good" if number % 3 else "bad"}\tline {number}\n' for number in range(12)))
    for fold in range(1, 5):
        data = Prepared(text, tmp_path / 'data', f'text_file={path}', 'folds=4', f'fold={fold}')
        found.append([place['line'] - 1 for place in data.places('eval')])
        assert len(data.read('train')) == 9
    assert sorted(line for fold in found for line in fold) == [*range(12)]
    assert [sum(line % 3 == 0 for line in fold) for fold in found] == [1, 1, 1, 1]


def test_pictures_are_divided_by_class(tmp_path, caplog):
    for name, count in (('cat', 5), ('dog', 3)):
        (tmp_path / 'pictures' / name).mkdir(parents=True)
        for number in range(count):
            Image.new('RGB', (4, 4), (number * 9, 200, 200)).save(tmp_path / 'pictures' / name / f'{number}.png')
    found = []
    for fold in range(1, 5):
        data = Prepared(
            image_folder, tmp_path / 'data', f'image_dir={tmp_path}/pictures', 'image_size=4', 'folds=4', f'fold={fold}'
        )
        held_out = [features['example_id'] for features, _ in data.read('eval')]
        assert len(held_out) == 2 and len(data.read('train')) == 6
        found += held_out
    assert len({*found}) == 8
    assert 'folds lack classes, of fewer pictures than 4: dog has 3.' in caplog.text
    (tmp_path / 'pictures' / 'dog').rename(tmp_path / 'dog')
    (tmp_path / 'pictures' / 'dog').mkdir()
    (tmp_path / 'dog' / '1.png').rename(tmp_path / 'pictures' / 'dog' / '1.png')
    message = refused(Prepared, image_folder, tmp_path / 'data', f'image_dir={tmp_path}/pictures', 'folds=2')
    assert message.endswith('1.png: is the only file of its class: evaluation needs another')


def test_records_whose_features_are_described_together_are_refused():
    params = make_hparams('m', {}, 'tfrecord', tfrecord.get_params(), text='folds=2')
    assert refused(tfrecord.prepare, 'data', params).startswith('folds=2: --dataset=tfrecord describes features by all records')


def test_groups_are_spread_by_their_classes():
    # Each of four groups has one class; by size alone, both groups of class 1 could be in one fold.
    groups, classes = np.repeat([0, 1, 2, 3], [8, 8, 2, 2]), np.repeat([0, 0, 1, 1], [8, 8, 2, 2])
    found = folds.grouped(groups, classes, 2)
    assert [np.bincount(classes[found == fold]).tolist() for fold in (0, 1)] == [[8, 2], [8, 2]]


def test_a_class_in_one_fold_is_named_as_one_that_a_run_does_not_train_on():
    found, classes = np.array([0, 1, 2, 2, 2]), np.array([0, 0, 0, 1, 1])
    assert folds.lacking(found, classes, ['all', 'late'], 3) == ['late is in 1 of 3, whose run trains on none of it']


@pytest.mark.parametrize(
    'values, message',
    [((1, 1), 'folds=1 leaves nothing to train on: use 2 or more, or 0 for none'), ((3, 4), 'fold=4 must be at most folds=3')],
)
def test_a_fold_that_does_not_exist_is_refused(values, message):
    folds.check(0, 4)
    folds.check(3, 3)
    assert refused(folds.check, *values) == message


def test_all_folds_have_the_task_of_all_rows(tmp_path):
    path = tmp_path / 'a.csv'
    path.write_text('\n'.join(['x,target', *(f'{i % 7},{i // 5}' for i in range(100)), '3,20', '']))  # One row of the 21st.
    tasks = [
        Prepared(table, tmp_path / 'data', f'table_file={path}', 'folds=5', f'fold={fold}').metadata['task']
        for fold in range(1, 6)
    ]
    assert tasks == ['regression'] * 5
