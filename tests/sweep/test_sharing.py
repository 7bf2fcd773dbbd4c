"""Tasks of a job array that share the trials of a study."""

import json
import os
import signal
import sys

import optuna
from optuna.trial import TrialState
import pytest

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.sweep.sharing import Sharing
from tests import forked
from tests.cluster.tasks import wait_until
from tests.shared import POLYNOMIAL, ROOT

FAKE = os.path.join(ROOT, 'tests', 'sweep', 'fake_trainer.py')
SWEEP = f"""
import sys
from estimator_trainer.common import processes
from estimator_trainer.common.commands import sweep

processes.SCRIPT = {FAKE!r}
sys.exit(sweep.main(['sweep.py', *sys.argv[1:]]))
"""


class Array:
    """Starts tasks of an array, each a sweep whose trials wait for the file `go`."""

    def __init__(self, directory, space, *flags):
        self.directory, self.output = directory, directory / 'output'
        (directory / 'space.json').write_text(json.dumps(space))
        paths = (f'--space={directory}/space.json', f'--data_dir={directory}/data', f'--output_dir={self.output}')
        self.command = [sys.executable, '-c', SWEEP, *POLYNOMIAL, *paths, '--freeze=waits', *flags]

    def start(self, task):
        with open(self.directory / f'{task}.txt', 'w') as log:
            environ = {**os.environ, 'SLURM_ARRAY_TASK_ID': task}
            return forked.Popen(self.command, stdout=log, stderr=log, cwd=self.directory, env=environ)

    def log(self, task):
        return (self.directory / f'{task}.txt').read_text()

    def wait_for(self, count):
        """Waits until as many trials have started."""
        wait_until(lambda: len([*self.output.glob('trial-*/started.json')]) == count)

    def go(self):
        (self.output / 'go').write_text('')

    def trials(self):
        return optuna.load_study(study_name='sweep', storage=f'sqlite:///{self.output}/study.db').trials


def test_tasks_of_an_array_share_the_trials_of_a_study_and_draw_different_ones(tmp_path):
    # No more than five, after which a trial would be pruned whenever its first evaluation is seen in time.
    array = Array(tmp_path, {'learning_rate': {'low': 0.1, 'high': 0.9}}, '--trials=5')
    tasks = [array.start(task) for task in '012']
    array.wait_for(3)
    array.go()
    assert [task.wait(100) for task in tasks] == [0, 0, 0], [*map(array.log, '012')]
    trials = array.trials()
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 5
    assert len({trial.params['learning_rate'] for trial in trials}) == 5
    assert {trial.user_attrs['array_task'] for trial in trials} == {*'012'}
    assert len(json.loads((array.output / 'trials.json').read_text())) == 5
    assert json.loads((array.output / 'results.json').read_text())['trials'] == 5


def test_a_task_resumes_its_own_trials_and_others_repeat_no_point(tmp_path):
    array = Array(tmp_path, {'learning_rate': [0.1, 0.2, 0.3, 0.4, 0.5]}, '--sampler=grid')
    first, second = array.start('0'), array.start('1')
    array.wait_for(2)
    second.send_signal(signal.SIGTERM)
    assert second.wait(100) == 143
    again = array.start('0')
    assert again.wait(100) == 1 and 'another sweep, or one of its runs, is active there' in array.log('0')
    array.go()
    assert first.wait(100) == 0
    states = [trial.state for trial in array.trials()]
    assert sorted(state.name for state in states) == ['COMPLETE'] * 4 + ['RUNNING']
    last = array.start('1')
    assert last.wait(100) == 0, array.log('1')
    trials = array.trials()
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 5
    assert sorted(trial.params['learning_rate'] for trial in trials) == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_the_script_of_a_job_array_runs_a_study_on_several_hosts(slurm, tmp_path):
    array = Array(tmp_path, {'learning_rate': [0.1, 0.2, 0.3, 0.4, 0.5]}, '--sampler=grid')
    array.output.mkdir()
    array.go()
    (tmp_path / '.venv/bin').mkdir(parents=True)
    (tmp_path / '.venv/bin/activate').write_text(f'PATH={os.path.dirname(sys.executable)}:$PATH\n')
    (tmp_path / 'sweep.py').write_text(SWEEP)
    command = [f'{ROOT}/deploy/slurm_sweep.sh', *array.command[3:]]
    ended = slurm.submit('--array=0-2', *command, cwd=tmp_path)
    logs = [path.read_text() for path in tmp_path.glob('sweep-*.log')]
    assert ended == [('COMPLETED', '0:0')] * 3 and len(logs) == 3, logs
    assert [trial.state for trial in array.trials()] == [TrialState.COMPLETE] * 5
    assert sorted(trial.params['learning_rate'] for trial in array.trials()) == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_a_sweep_that_has_all_trials_excludes_the_tasks_of_arrays(tmp_path):
    with Sharing(str(tmp_path), '3').lock(), Sharing(str(tmp_path), '4').lock():
        for task in ('', '3'):
            with pytest.raises(RunError, match='another sweep, or one of its runs, is active there'):
                Sharing(str(tmp_path), task).lock().__enter__()
    with Sharing(str(tmp_path)).lock(), pytest.raises(RunError, match='another sweep'):
        Sharing(str(tmp_path), '3').lock().__enter__()
