"""Trials in separate processes: values, seeds, pruning, failures, stops, and resuming a study."""

import functools
import subprocess
import warnings

import optuna
from optuna.trial import TrialState
import pytest

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage.objective import Objective
from estimator_trainer.common.sweep.execution import run_trials
from estimator_trainer.common.sweep.sampling import make_sampler
from estimator_trainer.common.sweep.sharing import Sharing
from tests.sweep.test_study import LOWEST, SPACE, open_at


class Processes:
    """Starts `sh -c SCRIPT` for each run in its own directory, and reads its values from the file `values` there.

    The directory is NUMBER, or with several seeds NUMBER-INDEX.
    """

    def __init__(self, directory, *scripts, num_seeds=1):
        self.directory, self.scripts, self.num_seeds = directory, scripts, num_seeds
        self.started, self.running = [], []  # The latter before each start.

    def start(self, trial, index):
        directory = self._directory(trial, index)
        directory.mkdir(parents=True, exist_ok=True)
        script = self.scripts[min(trial.number, len(self.scripts) - 1)]
        self.running.append(sum(process.poll() is None for process in self.started))
        self.started.append(subprocess.Popen(['sh', '-c', script], cwd=directory))
        return self.started[-1]

    def read(self, trial, index):
        path = self._directory(trial, index) / 'values'
        return [float(line) for line in path.read_text().split()] if path.exists() else []

    def has_result(self, trial, index):
        return not (self._directory(trial, index) / 'cut').exists()

    def explain(self, trial, index, code):
        return f'{trial.number} ended with {code}'

    def _directory(self, trial, index):
        return self.directory / (f'{trial.number}' if self.num_seeds == 1 else f'{trial.number}-{index}')


def search(study, processes, num_trials, jobs=1, goal=LOWEST, space=SPACE, sampler='tpe', seed=1):
    make, sharing = functools.partial(make_sampler, sampler, space, seed), Sharing(str(processes.directory))
    return list(run_trials(study, make, space, goal, num_trials, jobs, processes, StopOnSignal(), sharing))


@pytest.mark.parametrize('goal, best, others', [(LOWEST, 1.5, 9), (Objective('accuracy', True), 3.0, 0)])
def test_a_trial_is_worth_its_best_evaluation(tmp_path, goal, best, others):
    study = open_at(tmp_path, goal)
    scripts = 'printf "2\\n1.5\\nnan\\n3\\n" > values', f'echo {others} > values'
    trial, _ = search(study, Processes(tmp_path, *scripts), 2, goal=goal)
    assert (trial.state, trial.value) == (TrialState.COMPLETE, best)
    assert {step: value for step, value in trial.intermediate_values.items() if value == value} == {1: 2, 2: 1.5, 4: 3}
    assert 0 <= trial.params['x'] <= 1 and study.best_trial.number == 0


def test_a_run_that_ends_before_its_training_has_no_value_though_its_exit_code_is_0(tmp_path):
    (trial,) = search(open_at(tmp_path), Processes(tmp_path, 'echo 1 > values; touch cut'), 1)
    assert trial.state == TrialState.PRUNED and trial.user_attrs['error'].endswith('before its training, with exit code 0')


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


def test_a_trial_on_a_full_disk_ends_the_search_and_resumes_in_the_next(tmp_path, monkeypatch):
    processes = Processes(tmp_path, 'echo 3 > values; exit 1')
    monkeypatch.setattr(processes, 'explain', lambda *given: 'trainer.py: model.ckpt-2: No space left on device')
    with pytest.raises(RunError, match='^trial 0: trainer.py: model.ckpt-2: No space left on device'):
        search(open_at(tmp_path), processes, 2)
    assert [trial.state for trial in open_at(tmp_path).trials] == [TrialState.RUNNING]
    processes.scripts = ['echo 2 > values']
    assert [trial.value for trial in search(open_at(tmp_path), processes, 2)] == [2, 2]


def test_a_search_that_is_resumed_draws_what_one_without_a_stop_does(tmp_path):
    drawn = []
    for name, parts in (('whole', [3]), ('parts', [1, 3])):
        (tmp_path / name).mkdir()
        for part in parts:
            search(open_at(tmp_path / name), Processes(tmp_path / name, 'echo 1 > values'), part)
        drawn.append([trial.params['x'] for trial in open_at(tmp_path / name).trials])
    assert drawn[0] == drawn[1] and len({*drawn[0]}) == 3


def test_a_trial_that_ended_before_its_values_were_drawn_does_not_count(tmp_path):
    study = open_at(tmp_path)
    study.ask()
    (trial,) = search(study, Processes(tmp_path, 'echo 1 > values'), 1)
    assert (trial.number, trial.value) == (1, 1)


def test_a_trial_runs_with_each_seed_and_is_worth_their_mean(tmp_path):
    waiting = 'until [ -e ../0-2/values ]; do sleep 0.01; done; echo 2'
    script = f'case $PWD in *-0) echo 1;; *-1) {waiting};; *) echo 6;; esac > values'
    processes = Processes(tmp_path, script, num_seeds=3)
    (trial,) = search(open_at(tmp_path), processes, 1, jobs=2)
    assert (trial.state, trial.value) == (TrialState.COMPLETE, 3)
    assert trial.user_attrs['values'] == {'0': 1, '1': 2, '2': 6} and trial.intermediate_values == {1: 1}
    assert processes.running[:2] == [0, 0]  # The first seed decides whether the others follow.
    assert trial.user_attrs['seconds'] > 0


def test_a_failed_seed_fails_its_trial_and_no_other(tmp_path):
    script = 'case $PWD in */0-1) exit 5;; *) echo 1 > values;; esac'
    processes = Processes(tmp_path, script, num_seeds=3)
    first, second = search(open_at(tmp_path), processes, 2)
    assert (first.state, first.user_attrs['error']) == (TrialState.PRUNED, '0 ended with 5')
    assert (second.state, second.value, len(processes.started)) == (TrialState.COMPLETE, 1, 5)  # Without a third of the first.


def test_a_trial_that_its_first_seed_prunes_has_no_other(tmp_path):
    study = open_at(tmp_path)
    for _ in range(5):
        study.add_trial(optuna.create_trial(value=1, intermediate_values={1: 1.0}))
    processes = Processes(tmp_path, 'echo 9 > values; exec sleep 1000', num_seeds=2)
    (trial,) = search(study, processes, 6)
    assert (trial.state, len(processes.started)) == (TrialState.PRUNED, 1)


def test_a_trial_that_is_pruned_as_the_search_is_stopped_stays_pruned(tmp_path, monkeypatch):
    study = open_at(tmp_path)
    for _ in range(5):
        study.add_trial(optuna.create_trial(value=1, intermediate_values={1: 1.0}))
    processes = Processes(tmp_path, 'trap "" TERM; echo 9 > values; exec sleep 1000')

    def stop_at(trial, index, read=processes.read):
        if processes.started[-1].returncode is None and 'is_pruned' in trial.user_attrs:
            processes.started[-1].kill()
            raise KeyboardInterrupt
        return read(trial, index)

    monkeypatch.setattr(processes, 'read', stop_at)
    with pytest.raises(KeyboardInterrupt):
        search(study, processes, 6)
    monkeypatch.undo()
    processes.scripts = ['echo 0 > values']
    search(open_at(tmp_path), processes, 6)
    assert [trial.state for trial in open_at(tmp_path).trials[5:]] == [TrialState.PRUNED] and len(processes.started) == 1


def test_an_interrupted_trial_runs_its_missing_seeds_alone(tmp_path):
    processes = Processes(tmp_path, 'echo 1 > values; case $PWD in *-1) exit 143;; esac', num_seeds=3)
    with pytest.raises(RunError, match='interrupted'):
        search(open_at(tmp_path), processes, 1)
    processes.scripts = ['echo 4 > values']
    (trial,) = search(open_at(tmp_path), processes, 1)
    assert trial.user_attrs['values'] == {'0': 1, '1': 4, '2': 4} and trial.value == 3


@pytest.mark.parametrize('sampler', ['tpe', 'grid'])
def test_a_finite_space_ends_a_search_once_each_point_has_run(tmp_path, sampler):
    space = {
        'x': optuna.distributions.CategoricalDistribution([1, 2]),
        'y': optuna.distributions.FloatDistribution(0, 1, step=0.5),
    }
    study = open_at(tmp_path)
    study.add_trial(optuna.create_trial(value=3, params={'x': 2, 'y': 0.5}, distributions=space))
    processes = Processes(tmp_path, 'echo 1 > values', 'echo 1 > values', 'exit 1', 'echo 1 > values')
    search(study, processes, 4, jobs=2, space=space, sampler=sampler)
    search(open_at(tmp_path), processes, 100, jobs=2, space=space, sampler=sampler)
    points = [(trial.params['x'], trial.params['y']) for trial in study.trials]
    assert sorted(points) == [(1, 0), (1, 0.5), (1, 1), (2, 0), (2, 0.5), (2, 1)]
    assert sampler == 'tpe' or points[1:] == [(1, 0), (1, 0.5), (1, 1), (2, 0), (2, 1)]
