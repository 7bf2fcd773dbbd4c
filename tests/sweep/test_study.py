"""A study in its file: its setup, and damage."""

import optuna
import pytest

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.storage.objective import Objective
from estimator_trainer.common.sweep.study import open_study
from estimator_trainer.hparams.defaults import DEFAULTS

SPACE = {'x': optuna.distributions.FloatDistribution(0, 1)}
LOWEST = Objective('loss', False)


def open_at(directory, goal=LOWEST, setup=None):
    return open_study(str(directory), goal, setup or {})


def test_a_study_refuses_another_setup_but_for_hyperparameters_that_came_later(tmp_path):
    directory = tmp_path / '#a%41 {b}&c=d?e;f'  # Any name is one of a directory.
    directory.mkdir()
    setup = {**DEFAULTS, 'a': 1, 'b': (1,), '--warm_start_exclude': ''}
    setup |= {'--seeds': 1, '--freeze': '', '--eval_splits': ['eval'], '--precision': 'bfloat16'}
    later = ('momentum', '--warm_start_exclude', '--seeds', '--freeze', '--eval_splits', '--precision')
    open_at(directory, setup={key: value for key, value in setup.items() if key not in later})
    with pytest.raises(UsageError, match='--seeds was 1, now it is 3'):
        open_at(directory, setup={**setup, '--seeds': 3})
    open_at(directory, setup=setup)
    with pytest.raises(UsageError, match='study.db: .*: use the same values, or choose another --output_dir$') as error:
        open_at(directory, setup={**setup, 'momentum': 0.5, 'a': 2, 'c': 3})
    for change in ('momentum was 0.9, now it is 0.5', 'a was 1, now it is 2', 'c was absent, now it is 3'):
        assert change in str(error.value)
    assert [*tmp_path.iterdir()] == [directory] and [path.name for path in directory.iterdir()] == ['study.db']


def test_a_study_refuses_other_data_than_that_of_its_trials(tmp_path):
    open_at(tmp_path)  # Of an older version, which did not know its data.
    open_study(str(tmp_path), LOWEST, {}, {'train': '1', 'eval': '2'})
    open_at(tmp_path)
    open_study(str(tmp_path), LOWEST, {}, {'train': '1', 'test': '3'})
    with pytest.raises(
        UsageError, match='study.db: the data of eval and test has changed since .*: restore it, or choose anoth'
    ):
        open_study(str(tmp_path), LOWEST, {}, {'train': '1', 'eval': '3', 'test': '4'})
    open_study(str(tmp_path), LOWEST, {}, {'train': '1', 'eval': '2', 'test': '3'})


def test_an_invalid_study_is_reported(tmp_path):
    (tmp_path / 'study.db').write_bytes(b'no database' * 1000)
    fix = 'check that it is not locked or corrupt, and that its disk has space, or choose another --output_dir'
    with pytest.raises(RunError, match=f'study.db: file is not a database: {fix}'):
        open_at(tmp_path)
