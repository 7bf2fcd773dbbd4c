"""metrics.csv with rows of the training: appended, repaired, removed, and invisible to what reads evaluations."""

import math
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.storage import metrics_file
from estimator_trainer.common.storage.history import add_training, read_history, start_training
from estimator_trainer.common.storage.metrics import add_metrics, read_evaluations, read_metric
from tests import forked

HEADER = 'global_step,split,mode,loss,learning_rate\n'


def train(directory, *steps):
    for step in steps:
        add_training(str(directory), 'train', step, {'loss': 1 / step, 'learning_rate': None})


def test_a_row_of_the_training_is_appended_without_writing_the_file_again(tmp_path, monkeypatch):
    train(tmp_path, 1)
    monkeypatch.setattr(metrics_file, 'write', None)
    inode = (tmp_path / 'metrics.csv').stat().st_ino
    train(tmp_path, 101)
    assert (tmp_path / 'metrics.csv').read_text() == f'{HEADER}1,train,train,1.0,\n101,train,train,0.00990099,\n'
    assert (tmp_path / 'metrics.csv').stat().st_ino == inode


def test_evaluations_widen_the_file_and_later_rows_follow_its_columns(tmp_path):
    add_metrics(str(tmp_path), {'global_step': 3, 'train': {'a,b': 0.5}})  # Of an older version.
    train(tmp_path, 4)
    add_metrics(str(tmp_path), {'global_step': 4, 'train': {'a,b': 0.75, 'loss': 2.0}})
    train(tmp_path, 5)
    assert (tmp_path / 'metrics.csv').read_text().splitlines() == [
        'global_step,split,"a,b",mode,loss,learning_rate',
        '3,train,0.5,,,',
        '4,train,,train,0.25,',
        '4,train,0.75,,2.0,',
        '5,train,,train,0.2,',
    ]
    assert read_evaluations(str(tmp_path)) == [
        {'global_step': 3, 'train': {'a,b': 0.5}},
        {'global_step': 4, 'train': {'a,b': 0.75, 'loss': 2.0}},
    ]
    assert read_metric(str(tmp_path), 'train', 'loss') == [2.0]


@pytest.mark.parametrize('cut', ['1', '101', '101,train', '101,train,tra', '101,train,train,0.0', '101,train,train,0.009,'])
def test_a_row_that_was_cut_is_none_and_the_next_takes_its_place(tmp_path, cut):
    (tmp_path / 'metrics.csv').write_text(f'{HEADER}1,train,train,1.0,\n{cut}')
    assert list(read_history(str(tmp_path)).training['global_step']) == [1]
    train(tmp_path, 2)
    assert (tmp_path / 'metrics.csv').read_text() == f'{HEADER}1,train,train,1.0,\n2,train,train,0.5,\n'


def test_an_evaluation_that_was_cut_is_damage(tmp_path):
    (tmp_path / 'metrics.csv').write_text(f'{HEADER}1,train,train,1.0,\n2,eval,,0.1')
    with pytest.raises(RunError, match='metrics.csv: is not a table of metrics: delete it'):
        read_evaluations(str(tmp_path))


@pytest.mark.parametrize('row', ['7,train,train,0.5x,0.1', '7,train,,0.5x,0.1'])
def test_a_value_that_is_no_number_is_named_with_its_step(tmp_path, row):
    (tmp_path / 'metrics.csv').write_text(f'{HEADER}{row}\n')
    with pytest.raises(RunError, match='metrics.csv: loss of train at step 7 is not a number: 0.5x: delete it'):
        read_evaluations(str(tmp_path))


FULL = """
import resource, sys
from estimator_trainer.common import files
from tests.storage.test_metrics_file import train

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    train(sys.argv[1], 3)
except OSError as error:
    print(files.explain(error))
"""


def test_a_full_disk_is_named_and_costs_the_row_that_it_cuts_alone(tmp_path):
    train(tmp_path, 1, 2)
    whole = (tmp_path / 'metrics.csv').read_text()
    process = forked.run([sys.executable, '-c', FULL, str(tmp_path), str(len(whole) + 5)])
    assert process.stdout == f'{tmp_path}/metrics.csv: File too large\n', process.stderr
    assert (tmp_path / 'metrics.csv').read_text() == f'{whole}3,tra'
    train(tmp_path, 3)
    assert (tmp_path / 'metrics.csv').read_text() == f'{whole}3,train,train,0.333333,\n'


def test_a_training_that_resumes_repeats_no_row_and_keeps_the_evaluations(tmp_path):
    train(tmp_path, 1, 101, 201, 251)
    add_metrics(str(tmp_path), {'global_step': 250, 'eval': {'loss': 0.5}})
    add_metrics(str(tmp_path), {'global_step': 300, 'eval': {'loss': 0.25}})
    start_training(str(tmp_path), 250)
    train(tmp_path, 251)
    found = read_history(str(tmp_path))
    assert list(found.training['global_step']) == [1, 101, 201, 251]
    assert list(found.evaluations['eval']['global_step']) == [250, 300]
    start_training(str(tmp_path), 0)
    assert 'loss' not in read_history(str(tmp_path)).training and read_metric(str(tmp_path), 'eval', 'loss') == [0.5, 0.25]


def test_the_history_has_a_column_of_numbers_for_each_name(tmp_path):
    add_training(str(tmp_path), 'train', 1, {'loss': np.float32(0.1), 'learning_rate': 0.5, 'examples/sec': None})
    add_training(str(tmp_path), 'train', 3, {'loss': np.float32(0.2), 'learning_rate': 0.25, 'examples/sec': 32.0})
    add_metrics(
        str(tmp_path), {'global_step': 2, 'train': {'loss': math.nan, 'recalls': [0.5, 1.0]}, 'eval': {'loss': math.inf}}
    )
    found = read_history(str(tmp_path))
    expected = {'global_step': [1, 3], 'loss': [0.1, 0.2], 'learning_rate': [0.5, 0.25], 'examples/sec': [math.nan, 32]}
    assert [*found.training] == [*expected] and found.training['global_step'].dtype == np.int64
    for name, column in expected.items():
        np.testing.assert_array_equal(found.training[name], column)
    assert {split: {*columns} for split, columns in found.evaluations.items()} == dict.fromkeys(
        ['train', 'eval'], {'global_step', 'loss'}
    )
    assert math.isnan(found.evaluations['train']['loss'][0]) and found.evaluations['eval']['loss'][0] == math.inf
    nothing = read_history(str(tmp_path / 'nowhere'))
    assert [*nothing.training] == ['global_step'] and not nothing.training['global_step'].size and nothing.evaluations == {}


def test_remote_files_get_no_rows_of_the_training_which_is_said(tmp_path, caplog):
    start_training('ram://history', 0)
    add_training('ram://history', 'train', 1, {'loss': 1.0})
    assert 'ram://history: metrics.csv gets no rows of the training' in caplog.text
    assert not tf.io.gfile.exists('ram://history/metrics.csv')
