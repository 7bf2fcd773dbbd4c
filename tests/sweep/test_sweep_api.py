"""Sweeps from Python, with a fake trainer."""

import os
import subprocess
import sys

import numpy as np
import pytest

import estimator_trainer
from estimator_trainer.common import processes
from estimator_trainer.common.errors import RunError, UsageError
from tests import forked
from tests.cluster import tiny_data
from tests.shared import ROOT, refused, rows


@pytest.fixture
def search(tmp_path, monkeypatch):
    """Calls sweep(space, ...) on the polynomial, with tests/sweep/fake_trainer.py."""
    monkeypatch.setattr(subprocess, 'Popen', forked.Popen)
    monkeypatch.setattr(processes, 'SCRIPT', os.path.join(ROOT, 'tests', 'sweep', 'fake_trainer.py'))
    options = {'model': 'polynomial', 'dataset': 'polynomial', 'output_dir': tmp_path / 'output', 'train_steps': 20}
    return lambda space, **changes: estimator_trainer.sweep(space, **{**options, **changes})


def test_a_search_returns_its_trials_and_the_best(search, tmp_path):
    space = {'learning_rate': np.array([0.5, 0.25]), 'piecewise_boundaries': ((5, np.int64(9)),)}
    found = search(space, sampler='grid', jobs=2, hparams={'momentum': 0.5}, best_metric='loss:max')
    assert [row['hparams']['learning_rate'] for row in found.trials] == [0.5, 0.25]
    assert found.best == found.trials[0] and (found.best['value'], found.best['state']) == (1, 'complete')
    assert found.best['hparams']['piecewise_boundaries'] == [5, 9]
    assert found.output_dir == str(tmp_path / 'output') and repr(found) == f'Sweep({found.output_dir!r})'
    (tmp_path / 'space.json').write_text('{"learning_rate": [0.5, 0.25], "piecewise_boundaries": [[5, 9]]}')
    again = search(tmp_path / 'space.json', hparams='momentum=0.5', best_metric='loss:max')
    assert again.trials == found.trials
    assert 'momentum was 0.5, now it is 0.9' in refused(search, space, best_metric='loss:max')


def test_a_search_is_a_data_frame(search, tmp_path, monkeypatch):
    pandas = pytest.importorskip('pandas')
    found = search({'learning_rate': [0.5, 0.25]}, sampler='grid', seeds=2)
    frame = found.frame()
    assert frame['seed_2'].tolist() == [0.5, 0.25] and frame['learning_rate'].tolist() == [0.5, 0.25]
    assert [*frame.columns] == [*rows(tmp_path / 'output' / 'trials.csv')[0]] and isinstance(frame, pandas.DataFrame)
    monkeypatch.setitem(sys.modules, 'pandas', None)
    with pytest.raises(RunError, match='pandas is not installed: pip install pandas, or read .trials'):
        found.frame()


def test_a_module_is_passed_by_name(search, tmp_path):
    tiny_data.write(tmp_path / 'data')
    options = {'model': tiny_data, 'dataset': tiny_data, 'data_dir': tmp_path / 'data', 'hparams': {'batch_size': 10}}
    assert search({'learning_rate': [0.5]}, **options).best['value'] == 0.5


def test_a_mistake_is_one_line(search, tmp_path):
    for options, message in (
        ({'jobs': 0}, 'jobs=0: 0 is not an integer in the range'),
        ({'sampler': 'x'}, 'sampler=x: value should be one of <tpe|grid>'),
        ({'schedule': 'train'}, 'schedule is for trainer.py: each trial of a sweep trains and evaluates'),
        ({'model': object()}, 'model is an object, but each trial is a process that imports it: give a name or a module'),
        ({'target': 'y'}, 'target is for a dataset that is a table in memory'),
        ({'space': 5}, 'space must be a dict of names and values, or the path of a JSON file, not an int'),
        ({'space': {'learning_rate': [object()]}}, 'space: <object object at'),
        ({'space': {}}, 'space: names no hyper-parameter'),
        ({'space': '/nowhere'}, 'space: /nowhere: cannot be read'),
        ({'hparams': {'learning_rate': 3.0}}, 'space: learning_rate is also set by a flag'),
        (
            {'sampler': 'grid', 'space': {'learning_rate': {'low': 1, 'high': 2}}},
            'space: learning_rate is a range without "step"',
        ),
        ({'output_dir': 'gs://bucket/x'}, 'output_dir=gs://bucket/x: a sweep needs a local directory'),
    ):
        with pytest.raises(UsageError) as raised:
            search(**{'space': {'learning_rate': [0.1]}, **options})
        assert str(raised.value).startswith(message) and not (tmp_path / 'output').exists()
