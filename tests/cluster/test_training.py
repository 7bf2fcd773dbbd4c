"""Clusters of real processes: the weights are those of one process, and of the same cluster undisturbed."""

import json
import re
import shutil
import signal

import numpy as np
import pytest

from tests.cluster.conftest import HPARAMS, RESTART, STEPS
from tests.cluster.tasks import addresses
from tests.shared import assert_equal, read_weights, rows

pytestmark = pytest.mark.slow

# Whatever changes the training at once, in float64 but for the rates.
OPTIONS = (
    f'--hparams={HPARAMS},uses_words=true,gradient_accumulation_steps=2,ema_decay=0.9,gradient_clip_norm=0.5,weight_decay=0.01',
    '--freeze=bias',
    '--num_towers=2',
    '--schedule=train',
)
HAS_BFLOAT16 = 'avx512f' in open('/proc/cpuinfo').read()


@pytest.fixture(scope='module')
def one(train):
    """A process by itself, which evaluates often, so that the others may be compared."""
    run = train(1)
    assert run.wait() == [0]
    return run


@pytest.fixture(scope='module')
def two(train):
    """A chief and a worker, undisturbed."""
    run = train(2)
    assert run.wait() == [0, 0]
    return run


def test_a_cluster_trains_as_one_process(one, two):
    assert_equal(two.weights(), one.weights(), 1e-6)  # Rates, and the loss's gradient, are float32.
    assert two.result() == one.result() and two.result('worker0') == {'global_step': STEPS}
    names = [sorted(path.name for path in run.output_dir.iterdir() if 'events' not in path.name) for run in (one, two)]
    assert names[0] == names[1]  # The chief writes what one process does, and workers nothing.
    evaluated = [[(row['global_step'], row['split']) for row in rows(run.output_dir / 'metrics.csv')] for run in (one, two)]
    assert evaluated[0] == evaluated[1] and len(evaluated[0]) == 3


def test_two_runs_of_a_cluster_are_equal_in_loops_of_several_steps_too(train, two):
    again = train(2, '--schedule=train', '--steps_per_loop=10', '--save_summary_steps=100')
    assert again.wait() == [0, 0]
    assert_equal(again.weights(), two.weights())


def test_a_signal_to_one_task_stops_all_after_the_same_step_and_the_training_resumes(train, two, tmp_path):
    run = train(2, '--schedule=train', directory=tmp_path, environ={'TINY_SECONDS': '0.1'})
    run.wait_for('chief0', 'step = 3')
    run.processes['worker0'].send_signal(signal.SIGTERM)
    assert run.wait() == [143, 143]
    step = int(read_weights(run.output_dir)['global_step'])
    assert 3 < step < STEPS
    for name in run.processes:
        assert 'SIGTERM: stopping after saving a checkpoint; rerun the command to resume.' in run.log(name)
    assert f'step = {step - 1}' in run.log('chief0') and f'step = {step}' not in run.log('chief0')
    resumed = train(2, directory=tmp_path)
    assert resumed.wait() == [0, 0]
    assert f'model.ckpt-{step}' in resumed.log('chief0')
    assert_equal(resumed.weights(), two.weights())
    assert resumed.result() == two.result()


def test_tasks_that_are_killed_end_the_others_and_a_new_start_is_as_if_nothing_had_been(train, two, tmp_path):
    for victim, name, step in (('chief0', 'chief', 7), ('worker0', 'worker 0', 17)):
        cluster = addresses(chief=1, worker=1)
        flags = ['--schedule=train', '--save_checkpoints_steps=5']
        run = train(2, *flags, directory=tmp_path, cluster=cluster, environ={'TINY_SECONDS': '0.05'})
        run.wait_for('chief0', f'step = {step}')
        run.processes[victim].send_signal(signal.SIGKILL)
        codes = dict(zip(run.processes, run.wait()))
        assert codes == {**dict.fromkeys(run.processes, 1), victim: -signal.SIGKILL}
        address = cluster[victim[:-1]][0]
        (other,) = {*run.processes} - {victim}
        assert run.error(other) == f'trainer.py: {name} ({address}) is lost; its own log may say why: {RESTART}'
        assert 'Traceback' not in run.log(other) and 'An error was raised' not in run.log(other)
        shutil.move(tmp_path / f'{victim}.err', tmp_path / f'{victim}.killed')
    assert int(read_weights(run.output_dir)['global_step']) >= 15
    last = train(2, '--schedule=train', directory=tmp_path)
    assert last.wait() == [0, 0]
    assert_equal(last.weights(), two.weights())
    assert int(last.weights()['global_step']) == STEPS


@pytest.fixture(scope='module')
def options(train, one):
    """A process and a cluster with many options, warm-started; only the chief is given the checkpoint."""
    flag = f'--warm_start_from={one.output_dir}'
    runs = [train(1, *OPTIONS, flag), train(2, *OPTIONS, only={'chief0': [flag], 'worker0': ['--warm_start_from=/nowhere']})]
    assert [run.wait() for run in runs] == [[0], [0, 0]]
    return runs


def test_options_give_what_they_give_in_one_process(options, one):
    alone, cluster = (run.weights() for run in options)
    assert_equal(cluster, alone, 1e-6)
    assert cluster['bias'] == one.weights()['bias'] and (cluster['hidden'] != one.weights()['hidden']).all()
    assert (alone['words'][1:] != 0).all() and len([name for name in cluster if 'ExponentialMovingAverage' in name]) >= 3


def test_batch_norm_and_bfloat16_train(train):
    flags = ['--schedule=train', f'--hparams={HPARAMS},normalizes=true']
    flags += ['--precision=bfloat16'] if HAS_BFLOAT16 else []
    run = train(2, *flags)
    assert run.wait() == [0, 0]
    losses = [float(loss) for loss in re.findall(r'loss = (\S+), step', run.log('chief0'))]
    assert len(losses) == STEPS and losses[-1] < losses[0] / 2
    weights = run.weights()
    assert all(np.isfinite(value).all() for value in weights.values())
    assert weights['batch_normalization/moving_variance'] != 1


def test_an_evaluator_evaluates_in_place_of_the_chief(train, two):
    run = train(2, evaluators=1)
    assert run.wait() == [0, 0, 0]
    assert run.result('chief0') == {'global_step': STEPS} and run.result('evaluator0') == two.result()
    assert json.loads((run.output_dir / 'results.json').read_text()) == two.result()
    assert 'Saving dict' not in run.log('chief0')
    assert_equal(run.weights(), two.weights())


def test_what_the_chief_has_done_is_not_done_again(train, two):
    directory = two.output_dir.parent
    before = (two.output_dir / 'checkpoint').stat()
    run = train(2, directory=directory)
    assert run.wait() == [0, 0]
    assert run.result()['global_step'] == STEPS and 'The chief has nothing to train.' in run.log('worker0')
    assert (two.output_dir / 'checkpoint').stat() == before


def test_the_chief_runs_other_schedules_alone(train, two):
    run = train(2, '--schedule=evaluate', evaluators=1, directory=two.output_dir.parent)
    assert run.wait() == [0, 0, 0]
    assert run.result()['global_step'] == STEPS
    for task in ('worker0', 'evaluator0'):
        assert run.result(task) == {} and '--schedule=evaluate: the chief runs it alone.' in run.log(task)
