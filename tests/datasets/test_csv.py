"""datasets/csv.py: from tables of a user's own to batches, predictions and an exported model."""

import os
import shutil

import numpy as np
import pytest

from common.data import records
from common.errors import RunError, UsageError
from datasets import csv
from hparams import build
from tests.datasets.own_data import Prepared, predicted, schema, serve


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


def test_tables_and_input_become_standardized_numbers_ids_and_labels(splits, tmp_path, prepared):
    found = prepared(splits, 'target=kind')
    with pytest.raises(UsageError, match='csv_file=.*/table: there is no split no'):
        found.read('no')
    assert found.source.is_parsed_once()
    features, labels = expected = found.read('eval')
    # x: mean 3, standard deviation 1.67; y: mean 7, deviation 1.63, missing in training, so there is an indicator of it.
    np.testing.assert_allclose(features['numeric'], [[0, 0, 1], [0, 0, 0]], atol=1e-6)
    numbers = sorted(found.read('train')[0]['numeric'][:, 0])
    np.testing.assert_allclose(numbers, np.array([-2, -1, 0, 0, 3]) / np.sqrt((4 + 1 + 9) / 5), rtol=1e-5)
    assert features['categorical'].tolist() == [[2], [0]]  # Rome is 1, Oslo 2; Bonn is only in eval.
    assert labels['label'].tolist() == [0, 1] and labels.keys() == {'label'}
    types = [features['numeric'].dtype, features['categorical'].dtype, labels['label'].dtype]
    assert types == [np.float32, np.int32, np.int32] and features.keys() == {'numeric', 'categorical'}
    inputs = shutil.copy(splits / 'eval.csv', tmp_path / 'input.csv')
    shutil.rmtree(splits)
    shutil.rmtree(tmp_path / 'data')  # Input is read by the metadata alone.
    features, errors = found.predict(inputs)
    assert not errors
    np.testing.assert_equal(features, expected[0])
    path = write(tmp_path / 'input.csv', 'x;y;city', [(3, 7, 'Rome'), ('three', 7, 'Rome'), (1,), ('', '', '')], ';')
    features, errors = found.predict(path)
    assert features['categorical'].tolist() == [[1], [0]]
    wrong = {3: "column x: 'three' is not a number", 4: '1 cells, but the header has 3'}
    assert errors == {line: f'{path}: line {line}: {text}' for line, text in wrong.items()}


def test_a_schema_gives_the_id_the_weight_and_the_task(tmp_path, prepared):
    path = write(tmp_path / 'a.csv', 'row,zip,note,w,income', [(f'r{i}', i % 4, 'n', i % 3 / 2, i % 2) for i in range(80)])
    kinds = {'zip': 'categorical', 'note': 'ignore'}
    given = schema(tmp_path, columns=kinds, target='income', task='regression', id='row', weight='w')
    features, labels = prepared(path, given, 'eval_share=0', 'max_vocabulary=3').read('train')
    assert features.keys() == {'categorical', 'example_id'} and labels.keys() == {'label', 'weight'}
    i = np.array([int(name[1:]) for name in features['example_id']])
    assert sorted(i) == list(range(80)) and labels['label'].dtype == labels['weight'].dtype == np.float32
    np.testing.assert_array_equal(labels['label'], i % 2)
    np.testing.assert_array_equal(labels['weight'], i % 3 / 2)
    np.testing.assert_array_equal(features['categorical'][:, 0], np.where(i % 4 == 3, 0, i % 4 + 1))


def test_sound_rows_of_a_file_are_trained_on_or_held_out(tmp_path, prepared, caplog):
    path = write(tmp_path / 'a.csv', 'x,y', [(i, i % 2, 3) if i == 7 else (i, i % 2) for i in range(100)])
    found = prepared(path, 'target=y', 'max_bad_share=0.01')
    x = found.metadata['columns'][0]
    numbers = [np.rint(found.read(split)[0]['numeric'][:, 0] * x['std'] + x['mean']).astype(int) for split in ('train', 'eval')]
    assert sorted(np.concatenate(numbers)) == [i for i in range(100) if i != 7] and 5 < len(numbers[1]) < 40
    assert x['mean'] == pytest.approx(numbers[0].mean())
    assert '1 of 100 rows are skipped; the first:' in caplog.text and 'line 9: 3 cells' in caplog.text
    for name, rows in (('train.csv', [(1, 0), (2, 1)]), ('eval.csv', [])):
        write(tmp_path / 'empty' / name, 'x,y', rows)
    with pytest.raises(RunError, match='empty/eval.csv: has no row for the split eval'):
        prepared(tmp_path / 'empty', 'target=y')


def test_any_change_converts_anew(splits, tmp_path, prepared, caplog):
    def count(*hparams):
        prepared(splits, *hparams)
        return len(os.listdir(tmp_path / 'data'))

    caplog.set_level('INFO', 'tensorflow')
    assert count('target=kind') == count('target=kind') == 1
    (first,) = os.listdir(tmp_path / 'data')
    changes = ('eval_share=0.1', 'min_count=1', 'max_vocabulary=9', 'max_bad_share=0.1', 'train_split=eval')
    assert [count('target=kind', change) for change in changes] == [2, 3, 4, 5, 6]
    assert [count('target=city'), count(schema(tmp_path, target='kind'))] == [7, 8] and 'can be deleted' not in caplog.text
    for number, name in enumerate(('eval.csv', 'train.csv'), 9):
        os.utime(splits / name, (1, 1))
        assert count('target=kind') == number
    lines = [record.getMessage() for record in caplog.records if 'can be deleted' in record.getMessage()]
    assert [line.count(f'{tmp_path}/data/csv-') for line in lines] == [1, 2]
    assert lines[0].startswith(f'{splits}: earlier conversions, ') and lines[0].endswith(f' them: {tmp_path}/data/{first}')
    for wrong in ('eval_share=0.91', 'max_bad_share=1.1', 'min_count=0', 'max_vocabulary=0', 'train_split=fold3'):
        with pytest.raises(UsageError, match='there is no split fold3' if 'fold3' in wrong else f'{wrong} must be'):
            prepared(splits, 'target=kind', wrong)


def test_data_of_other_columns_than_the_training_is_refused(tmp_path, prepared):
    path = tmp_path / 'a.csv'
    trained = prepared(write(path, 'x,kind', [(i % 7, 'ab'[i % 2]) for i in range(60)]), 'target=kind').metadata
    for header, message in (('x,kind', 'is categorical now'), ('z,kind', 'is missing now')):
        other = prepared(write(path, header, [('cde'[i % 3], 'ab'[i % 2]) for i in range(60)]), 'target=kind')
        with pytest.raises(UsageError, match=f'{path}: the column x, on which the model was trained as numeric, {message}'):
            csv.read('eval', str(tmp_path / 'data'), build.HParams(other.params, trained))


def test_a_model_learns_numbers_and_is_used_on_other_data(run, tmp_path):
    rows = [(i % 50, 'ab'[i % 2], 3 * (i % 50) + 100 * (i % 2) + 0.5) for i in range(300)]
    path = write(tmp_path / 'lines.csv', 'x,c,target', rows)
    flags = ('--model=mlp', '--dataset=csv', f'--data_dir={tmp_path}/data', '--train_steps=150')
    hparams = f'--hparams=csv_file={path},hidden_units=[16],learning_rate=0.02,batch_size=32'
    code, result, _ = run(*flags, hparams)
    assert code == 0 and result['eval']['mean_absolute_error'] < 15
    new, saved = write(tmp_path / 'new.csv', 'x,c', [(40, 'b'), (10, 'a')]), f'{tmp_path}/output/hparams.json'
    code, _, err = run(*flags, hparams.replace('lines', 'new'), '--schedule=evaluate')
    assert code == 2 and f'{saved}: csv_file was "{path}", now it is "{new}": reuse the saved values, with --hparams_' in err
    assert 'other data can be predicted, with --input=FILES, and evaluated, with --eval_splits=test, if it is the split' in err
    assert run(*flags, '--schedule=evaluate')[1]['eval'] == result['eval']
    shutil.rmtree(tmp_path / 'data')
    path.unlink()
    assert run(*flags, f'--hparams_set={saved}', '--schedule=predict', f'--input={new}')[0] == 0
    np.testing.assert_allclose([row['value'] for row in predicted(tmp_path / 'output')], [220.5, 30.5], atol=40)
    code, result, _ = run(*flags, '--schedule=export')
    assert code == 0
    examples = [records.encode({'x': 40.0, 'c': 'b'}), records.encode({'x': 10.0, 'c': 'a'})]
    found = serve(result['export'], 'examples:serving_default', {'examples': examples})
    np.testing.assert_allclose(found, [220.5, 30.5], atol=40)
