"""Trials in separate processes: values, pruning, failures, stops, and resuming a study."""

import subprocess
import warnings

import optuna
from optuna.trial import TrialState
import pytest

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage.metrics import Objective
from estimator_trainer.common.sweep.study import open_study, run_trials
from estimator_trainer.hparams.defaults import DEFAULTS

SPACE = {'x': optuna.distributions.FloatDistribution(0, 1)}
LOWEST = Objective('loss', False)


def open_at(directory, goal=LOWEST, seed=1, setup=None):
    return open_study(str(directory), goal, seed, setup or {})


class Processes:
    """Starts `sh -c SCRIPT` for each trial in its own directory, and reads its values from the file `values` there."""

    def __init__(self, directory, *scripts):
        self.directory, self.scripts = directory, scripts
        self.started, self.running = [], []  # The latter before each start.

    def start(self, trial):
        directory = self.directory / f'{trial.number}'
        directory.mkdir(exist_ok=True)
        script = self.scripts[min(trial.number, len(self.scripts) - 1)]
        self.running.append(sum(process.poll() is None for process in self.started))
        self.started.append(subprocess.Popen(['sh', '-c', script], cwd=directory))
        return self.started[-1]

    def read(self, trial):
        path = self.directory / f'{trial.number}' / 'values'
        return [float(line) for line in path.read_text().split()] if path.exists() else []

    def explain(self, trial, code):
        return f'{trial.number} ended with {code}'


def search(study, processes, num_trials, jobs=1, goal=LOWEST):
    return list(run_trials(study, SPACE, goal, num_trials, jobs, processes, StopOnSignal()))


@pytest.mark.parametrize('goal, best, others', [(LOWEST, 1.5, 9), (Objective('accuracy', True), 3.0, 0)])
def test_a_trial_is_worth_its_best_evaluation(tmp_path, goal, best, others):
    study = open_at(tmp_path, goal)
    scripts = 'printf "2\\n1.5\\nnan\\n3\\n" > values', f'echo {others} > values'
    trial, _ = search(study, Processes(tmp_path, *scripts), 2, goal=goal)
    assert (trial.state, trial.value) == (TrialState.COMPLETE, best)
    assert {step: value for step, value in trial.intermediate_values.items() if value == value} == {1: 2, 2: 1.5, 4: 3}
    assert 0 <= trial.params['x'] <= 1 and study.best_trial.number == 0


def test_as_many_trials_run_at_once_as_there_are_jobs(tmp_path):
    # The first ones wait for each other, so that fewer at once would come to no end.
    waits = 'touch ../on-$$; while [ $(ls .. | grep -c on-) -lt 3 ]; do sleep 0.05; done; echo 1 > values'
    processes = Processes(tmp_path, waits)
    assert len(search(open_at(tmp_path), processes, 7, jobs=3)) == 7
    assert processes.running[:3] == [0, 1, 2] and max(processes.running) == 2  # Others, when one starts.


def test_failures_do_not_end_the_search(tmp_path):
    scripts = ['exit 1', 'kill -9 $$', 'true', 'echo nan > values', 'echo 1 > values; exit 1', 'echo 1 > values']
    trials = search(open_at(tmp_path), Processes(tmp_path, *scripts), 6)
    assert [trial.state for trial in trials] == [TrialState.PRUNED] * 5 + [TrialState.COMPLETE]
    never, errors = 'loss was never a number', [trial.user_attrs['error'] for trial in trials[:5]]
    assert errors == ['0 ended with 1', '1 ended with -9', never, never, '4 ended with 1']


def test_a_stopped_trial_ends_the_search_and_resumes_in_the_next(tmp_path):
    processes = Processes(tmp_path, 'echo 3 > values; exit 143')
    with pytest.raises(RunError, match='trial 0 was interrupted: rerun the command to resume'):
        search(open_at(tmp_path), processes, 2)
    before = open_at(tmp_path).trials
    assert [trial.state for trial in before] == [TrialState.RUNNING]
    with warnings.catch_warnings():
        warnings.simplefilter('error')  # Optuna warns where a step is reported twice.
        processes.scripts = ['echo 2 >> values']
        first, second = search(open_at(tmp_path), processes, 2)
    assert (first.number, first.params) == (0, before[0].params)
    assert (first.value, first.intermediate_values) == (2, {1: 3.0, 2: 2.0})
    assert second.number == 1


def test_the_seed_decides_what_a_study_draws_and_never_the_same_again(tmp_path):
    drawn = []
    for name, seed in (('a', 1), ('b', 1), ('c', 2), ('c', 2)):
        (tmp_path / name).mkdir(exist_ok=True)
        study = open_at(tmp_path / name, seed=seed)
        drawn.append([study.ask(SPACE).params['x'] for _ in range(2)])
    assert drawn[0] == drawn[1] != drawn[2] and len({*drawn[2], *drawn[3]}) == 4


def test_a_study_refuses_another_setup_but_for_hyperparameters_that_came_later(tmp_path):
    directory = tmp_path / '#a%41 {b}&c=d?e;f'  # Any name is one of a directory.
    directory.mkdir()
    setup = {**DEFAULTS, 'a': 1, 'b': (1,), '--warm_start_exclude': ''}
    open_at(directory, setup={key: value for key, value in setup.items() if key not in ('momentum', '--warm_start_exclude')})
    open_at(directory, setup=setup)
    with pytest.raises(UsageError, match='study.db: .*: use the same values, or choose another --output_dir$') as error:
        open_at(directory, setup={**setup, 'momentum': 0.5, 'a': 2, 'c': 3})
    for change in ('momentum was 0.9, now it is 0.5', 'a was 1, now it is 2', 'c was absent, now it is 3'):
        assert change in str(error.value)
    assert [*tmp_path.iterdir()] == [directory] and [path.name for path in directory.iterdir()] == ['study.db']


def test_an_invalid_study_is_reported(tmp_path):
    (tmp_path / 'study.db').write_bytes(b'no database' * 1000)
    fix = 'check that it is not locked or corrupt, or choose another --output_dir'
    with pytest.raises(RunError, match=f'study.db: file is not a database: {fix}'):
        open_at(tmp_path)
