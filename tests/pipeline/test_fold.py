"""Folds of datasets that have none of their own: by the numbers of the training records."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.size import count_examples
from estimator_trainer.common.records import records
from estimator_trainer.common.records.elements import elements
from tests.pipeline.pipelines import INFINITE, UNKNOWN, make_params, numbers, of_files
from tests.shared import refused


def divided(module, folds, data_dir=''):
    """Returns the records of the splits of each fold."""
    found = []
    for fold in range(1, folds + 1):
        source = DataSource(module, data_dir, make_params(folds=folds, fold=fold))
        both = {split: [*elements(functools.partial(source.read, split))] for split in ('train', 'eval')}
        assert {split: count_examples(source, split) for split in both} == {split: len(both[split]) for split in both}
        found.append(both)
    return found


@pytest.mark.parametrize('count', [11, UNKNOWN])
def test_each_record_is_evaluated_in_one_fold_and_trained_on_in_the_others(count):
    found = divided(numbers(count), 4)
    everything = [*range(11 if count == 11 else 10)]
    assert sorted(np.concatenate([fold['eval'] for fold in found]).tolist()) == everything
    assert all(sorted([*fold['train'], *fold['eval']]) == everything for fold in found)
    assert [*found[1]['eval']] == [1, 5, 9]


def test_the_records_of_files_are_divided_and_other_splits_are_whole(tmp_path):
    examples = [records.encode({'id': number}) for number in range(7)]
    records.write(str(tmp_path), {'train': examples, 'test': examples[:3]}, fingerprint='x')
    found = divided(of_files(), 2, str(tmp_path))
    assert [len(fold['eval']) for fold in found] == [4, 3]
    assert sorted(record for fold in found for record in fold['eval']) == sorted(examples)
    source = DataSource(of_files(), str(tmp_path), make_params(folds=2))
    assert [*elements(lambda: source.read('test'))] == examples[:3]


@pytest.mark.parametrize('count, reason', [(INFINITE, 'has no end'), (3, 'has only 3 records')])
def test_records_that_cannot_be_divided_are_refused(count, reason):
    source = DataSource(numbers(count), '', make_params(folds=4))
    with tf.Graph().as_default():
        assert refused(source.read, 'eval') == f'folds=4: the split train of --dataset=numbers {reason}'


def test_the_batches_of_an_input_fn_are_refused():
    module = numbers(3, input_fn=lambda split, params: None)
    source = DataSource(module, '', make_params(folds=2))
    assert refused(source.make_batches, 'train').startswith('folds=2: --dataset=numbers has input_fn, of whose batches')
    assert dataclasses.replace(source, params=make_params()).params.folds == 0
