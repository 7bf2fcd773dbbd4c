"""datasets/csv.py: from tables of a user's own to batches, predictions and an exported model."""

import json
import os
import shutil

import numpy as np
import pytest

from common.data import records
from common.errors import RunError, UsageError
from datasets import csv
from hparams import build
from tests.datasets.own_data import PREDICT, Prepared, schema, serve


def write(path, header, rows, delimiter=','):
    path.parent.mkdir(exist_ok=True)
    path.write_text('\n'.join([header, *(delimiter.join(map(str, row)) for row in rows)]) + '\n')
    return path


@pytest.fixture
def splits(tmp_path):
    """A directory with train.csv and eval.csv, whose numbers are known."""
    rows = [(1, 5, 'Rome', 'b'), (2, '', 'Rome', 'a'), (6, 7, 'Oslo', 'b'), (3, 'NA', 'Oslo', 'a'), (3, 9, 'Rome', 'a')]
    write(tmp_path / 'table' / 'train.csv', 'x,y,city,kind', rows)
    write(tmp_path / 'table' / 'eval.csv', 'city,kind,x,y', [('Oslo', 'a', 3, '?'), ('Bonn', 'b', '', 7)])
    return tmp_path / 'table'


@pytest.fixture
def prepared(tmp_path):
    return lambda path, *hparams: Prepared(csv, tmp_path / 'data', f'csv_file={path}', *hparams)


def test_a_table_becomes_standardized_numbers_ids_and_labels(splits, prepared):
    found = prepared(splits, 'target=kind')
    features, labels = found.read('eval')
    # y is missing in training, so there is an indicator of it.
    np.testing.assert_allclose(features['numeric'], [[0, 0, 1], [0, 0, 0]], atol=1e-6)
    assert features['categorical'].tolist() == [[2], [0]]  # Rome is 1, Oslo 2; Bonn is only in eval.
    assert labels['label'].tolist() == [0, 1] and labels.keys() == {'label'}
    types = [features['numeric'].dtype, features['categorical'].dtype, labels['label'].dtype]
    assert types == [np.float32, np.int32, np.int32] and features.keys() == {'numeric', 'categorical'}
    features, labels = found.read('train')
    # x: mean 3, variance (4 + 1 + 9 + 0 + 0) / 5; y: mean 7, variance 8 / 3.
    expected = np.array([[-2, -2], [-1, 0], [3, 0], [0, 0], [0, 2]]) / np.sqrt([14 / 5, 8 / 3])
    order = np.lexsort(expected.T[::-1]), np.lexsort(features['numeric'].T[2::-1])
    np.testing.assert_allclose(features['numeric'][order[1], :2], expected[order[0]], rtol=1e-5)
    assert features['numeric'][:, 2].sum() == 2 and labels['label'].sum() == 2


def test_a_schema_gives_the_id_the_weight_and_the_task(tmp_path, prepared):
    path = write(tmp_path / 'a.csv', 'row,zip,note,w,income', [(f'r{i}', i % 4, 'n', i % 3 / 2, i % 2) for i in range(80)])
    kinds = {'zip': 'categorical', 'note': 'ignore'}
    given = schema(tmp_path, columns=kinds, target='income', task='regression', id='row', weight='w')
    found = prepared(path, given, 'eval_share=0', 'min_count=20', 'max_vocabulary=3')
    assert found.metadata['vocabulary_sizes'] == {'categorical': [4]}
    features, labels = found.read('train')
    assert features.keys() == {'categorical', 'example_id'} and labels.keys() == {'label', 'weight'}
    i = np.array([int(name[1:]) for name in features['example_id']])
    assert sorted(i) == list(range(80)) and labels['label'].dtype == labels['weight'].dtype == np.float32
    np.testing.assert_array_equal(labels['label'], i % 2)
    np.testing.assert_array_equal(labels['weight'], i % 3 / 2)
    np.testing.assert_array_equal(features['categorical'][:, 0], np.where(i % 4 == 3, 0, i % 4 + 1))


def test_a_share_of_a_single_file_is_held_out_and_no_row_is_in_both(tmp_path, prepared):
    found = prepared(write(tmp_path / 'a.csv', 'x,y', [(i, i % 2) for i in range(1500)]), 'target=y', 'eval_share=0.3')
    x = found.metadata['columns'][0]
    numbers = [np.rint(found.read(split)[0]['numeric'][:, 0] * x['std'] + x['mean']).astype(int) for split in ('train', 'eval')]
    assert sorted(np.concatenate(numbers)) == list(range(1500))
    assert abs(len(numbers[1]) - 450) < 4 * np.sqrt(1500 * 0.3 * 0.7)
    assert x['mean'] == pytest.approx(numbers[0].mean()) and x['std'] == pytest.approx(numbers[0].std())


def test_any_split_may_be_trained_on_or_predicted(splits, prepared):
    shutil.copy(splits / 'train.csv', splits / 'fold2.csv')
    write(splits / 'train.csv', 'x,y,city,kind', [(100, 1, 'a', 'a')])
    write(splits / 'test.csv', 'x,y,city', [(3, 7, 'Rome')])
    found = prepared(splits, 'target=kind', 'train_split=fold2')
    assert found.metadata['columns'][0]['mean'] == 3
    assert [len(found.read(split)[1]['label']) for split in ('train', 'eval', 'fold2')] == [1, 2, 5]
    np.testing.assert_allclose(found.read('test', PREDICT)['numeric'], [[0, 0, 0]], atol=1e-6)
    with pytest.raises(UsageError, match='csv_file=.*/table: there is no split no: the splits are: eval, fold2, test, train'):
        found.read('no')
    write(splits / 'test.csv', 'x,city', [(1, 'Rome')])
    with pytest.raises(UsageError, match='test.csv: has no column y, which the model takes'):
        prepared(splits, 'target=kind', 'train_split=fold2')
    with pytest.raises(UsageError, match='there is no split fold3'):
        prepared(splits, 'target=kind', 'train_split=fold3')


def test_wrong_rows_are_named_or_skipped(tmp_path, prepared, caplog):
    rows = [(i, '', 3) if i == 7 else (i, '' if i == 8 else i % 2) for i in range(100)]
    path = write(tmp_path / 'a.csv', 'x,y', rows)
    with pytest.raises(RunError, match=f'{path}: line 9: 3 cells'):
        prepared(path, 'target=y')
    found = prepared(path, 'target=y', 'max_bad_share=0.02')
    assert sum(len(found.read(split)[1]['label']) for split in ('train', 'eval')) == 98
    assert '2 of 100 rows are skipped; the first:' in caplog.text and 'line 9: 3 cells' in caplog.text
    with pytest.raises(RunError, match='2 of 100 rows are wrong, more than max_bad_share=0.01; the first: .*line 9'):
        prepared(path, 'target=y', 'max_bad_share=0.01')
    given = schema(tmp_path, columns={'x': 'numeric'})
    with pytest.raises(RunError, match="line 4: column x: 'two' is not a number: .*max_bad_share"):
        prepared(write(path, 'x,y', [(1, 0), (2, 1), ('two', 1)]), 'target=y', given)


def test_a_changed_file_schema_or_hyper_parameter_converts_anew(splits, tmp_path, prepared, caplog):
    def count(*hparams):
        prepared(splits, *hparams)
        return len(os.listdir(tmp_path / 'data'))

    caplog.set_level('INFO', 'tensorflow')
    assert count('target=kind') == count('target=kind') == 1
    (first,) = os.listdir(tmp_path / 'data')
    changes = ('eval_share=0.1', 'min_count=1', 'max_vocabulary=9', 'max_bad_share=0.1', 'train_split=eval')
    assert [count('target=kind', change) for change in changes] == [2, 3, 4, 5, 6]
    assert count(schema(tmp_path, target='kind')) == 7
    assert 'can be deleted' not in caplog.text
    for number, name in enumerate(('eval.csv', 'train.csv'), 8):
        os.utime(splits / name, (1, 1))
        assert count('target=kind') == number
    outdated = [name for name in os.listdir(tmp_path / 'data') if name[:17] == first[:17]]
    lines = [record.getMessage() for record in caplog.records if 'can be deleted' in record.getMessage()]
    assert len(outdated) == 3 and lines[0] == (
        f'{splits}: earlier conversions, which can be deleted unless a training is reading them: {tmp_path}/data/{first}'
    )
    assert lines[1].count(f'{tmp_path}/data/csv-') == 2 and len(lines) == 2


@pytest.mark.parametrize(
    'hparam, message',
    [
        ('eval_share=0.91', 'eval_share=0.91 must be from 0 to 0.9'),
        ('max_bad_share=1.1', 'max_bad_share=1.1 must be from 0 to 1'),
        ('min_count=0', 'min_count=0 must be at least 1'),
        ('max_vocabulary=0', 'max_vocabulary=0 must be from 1 to 1000000'),
    ],
)
def test_a_wrong_hyper_parameter_is_refused(splits, prepared, hparam, message):
    with pytest.raises(UsageError, match=message):
        prepared(splits, 'target=kind', hparam)


def test_input_is_read_by_the_metadata_alone(splits, tmp_path, prepared):
    found = prepared(splits, 'target=kind')
    expected, _ = found.read('eval')
    inputs = shutil.copy(splits / 'eval.csv', tmp_path / 'input.csv')
    shutil.rmtree(splits)
    shutil.rmtree(tmp_path / 'data')
    features, errors = found.predict(inputs)
    assert not errors
    np.testing.assert_equal(features, expected)
    path = write(tmp_path / 'input.csv', 'x;y;city', [(3, 7, 'Rome'), ('three', 7, 'Rome'), (1,), ('', '', '')], ';')
    features, errors = found.predict(path)
    assert features['categorical'].tolist() == [[1], [0]]
    assert errors == {
        3: f"{path}: line 3: column x: 'three' is not a number",
        4: f'{path}: line 4: 1 cells, but the header has 3',
    }
    with pytest.raises(UsageError, match='input.csv: has no column y, city, which the model takes'):
        found.predict(write(path, 'x,z', [(1, 2)]))


def test_data_of_other_columns_than_the_training_is_refused(tmp_path, prepared):
    path = write(tmp_path / 'a.csv', 'x,kind', [(i % 7, 'ab'[i % 2]) for i in range(60)])
    trained = prepared(path, 'target=kind').metadata
    other = prepared(write(path, 'x,kind', [('cde'[i % 3], 'ab'[i % 2]) for i in range(60)]), 'target=kind')
    with pytest.raises(UsageError, match=f'csv_file={path}: the column x, .* as numeric, is categorical now'):
        csv.read('eval', str(tmp_path / 'data'), build.HParams(other.params, trained))


def test_a_model_learns_a_table_and_is_used_on_other_data(run, splits, tmp_path):
    rows = [(20 + i * 37 % 61, ('Rome', 'Paris', 'Oslo')[i % 3]) for i in range(300)]
    path = write(tmp_path / 'people.csv', 'age,city,target', [(*row, 'old' if row[0] > 50 else 'young') for row in rows])
    flags = ('--model=mlp', '--dataset=csv', f'--data_dir={tmp_path}/data', '--train_steps=100')
    hparams = f'--hparams=csv_file={path},hidden_units=[8],learning_rate=0.1,batch_size=32'
    code, result, _ = run(*flags, hparams)
    assert code == 0 and result['eval']['accuracy'] > 0.9
    new = write(tmp_path / 'new.csv', 'age,city', [(70, 'Rome'), (25, 'Bonn')])
    code, _, err = run(*flags, hparams.replace('people', 'new'), '--schedule=evaluate')
    saved = f'{tmp_path}/output/hparams.json'
    assert code == 2 and err.splitlines()[-1] == (
        f'trainer.py: {saved}: csv_file was "{path}", now it is "{new}": reuse the saved values, with --hparams_set={saved}, '
        'or choose another --output_dir; other data can be predicted, with --input=FILES, and evaluated, with '
        '--eval_splits=test, if it is the split test of a directory that was trained on'
    )
    code, result, _ = run(*flags, '--schedule=evaluate')
    assert code == 0 and result['eval']['accuracy'] > 0.9
    shutil.rmtree(tmp_path / 'data')
    path.unlink()
    assert run(*flags, f'--hparams_set={saved}', '--schedule=predict', f'--input={new}')[0] == 0
    with open(tmp_path / 'output' / 'predictions.jsonl') as file:
        assert [json.loads(line)['class_name'] for line in file] == ['old', 'young']
    code, result, _ = run(*flags, '--schedule=export')
    examples = [records.encode({'age': 70.0, 'city': 'Rome'}), records.encode({'age': 25.0})]
    assert code == 0 and serve(result['export'], 'examples:serving_default', {'examples': examples}) == [0, 1]
    feeds = {'numeric': [[2.0], [-2.0]], 'categorical': [[1], [0]]}
    assert serve(result['export'], 'serving_default', feeds) == [0, 1]
