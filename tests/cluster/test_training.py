"""Clusters of real processes: the weights are those of one process, and of the same cluster undisturbed."""

import json
import re
import shutil
import signal

import pytest

from tests.cluster.conftest import HPARAMS, STEPS
from tests.shared import assert_equal, rows


@pytest.fixture(scope='module')
def undisturbed(train):
    """Runs of one process and of two."""
    one, two = train(1), train(2)
    assert (one.wait(), two.wait()) == ([0], [0, 0])
    return one, two


def test_a_cluster_trains_as_one_process(undisturbed):
    one, two = undisturbed
    assert_equal(two.weights(), one.weights(), 1e-6)  # Rates, and the loss's gradient, are float32.
    assert two.result() == one.result() and two.result('worker0') == {'global_step': STEPS}
    names = [sorted(path.name for path in run.output_dir.iterdir() if 'events' not in path.name) for run in (one, two)]
    assert names[0] == names[1]  # The chief writes the files of a single process, workers none.
    evaluated = [[(row['global_step'], row['split']) for row in rows(run.output_dir / 'metrics.csv')] for run in (one, two)]
    assert evaluated[0] == evaluated[1] and len(evaluated[0]) == 3


def test_stopped_and_then_lost_tasks_resume_to_the_same_bits(train, undisturbed, tmp_path):
    """Also: a signal to one stops all after the same step; loops of several steps and an evaluator change no bit."""
    (_, two), slow = undisturbed, {'directory': tmp_path, 'environ': {'TINY_SECONDS': '1'}}
    stopped = train(2, '--schedule=train', **slow)
    stopped.wait_for('chief0', 'step = 3')
    stopped.send('worker0', signal.SIGTERM)
    assert stopped.wait() == [143, 143]
    step = int(stopped.weights()['global_step'])
    assert 3 < step < STEPS
    for task in stopped.processes:
        assert 'SIGTERM: stopping after saving a checkpoint; rerun the command to resume.' in stopped.log(task)
    assert f'step = {step - 1}' in stopped.log('chief0') and f'step = {step}' not in stopped.log('chief0')

    killed = train(2, '--schedule=train', '--save_checkpoints_steps=5', **slow)
    killed.wait_for_step('chief0', (step // 5 + 1) * 5 + 1)
    killed.send('chief0', signal.SIGKILL)
    assert killed.wait() == [-signal.SIGKILL, 1]
    assert f'model.ckpt-{step}' in killed.log('chief0')
    assert killed.error('worker0') == killed.loss('chief')
    assert 'Traceback' not in killed.log('worker0') and 'An error was raised' not in killed.log('worker0')
    assert step < int(killed.weights()['global_step']) < STEPS

    last = train(2, '--steps_per_loop=10', '--save_summary_steps=100', evaluators=1, directory=tmp_path)
    assert last.wait() == [0, 0, 0]
    assert_equal(last.weights(), two.weights())
    assert last.result() == {'global_step': STEPS} and last.result('evaluator0') == two.result()
    assert json.loads((last.output_dir / 'results.json').read_text()) == two.result()
    assert 'Saving dict' not in last.log('chief0')

    again = train(2, directory=tmp_path)
    assert again.wait() == [0, 0]
    assert again.result()['global_step'] == STEPS and 'The chief has nothing to train.' in again.log('worker0')


def test_options_have_the_same_effect_as_in_one_process(train, undisturbed):
    """Combines all options that affect training, in float64 except for the rates."""
    hparams = 'uses_words=true,gradient_accumulation_steps=2,ema_decay=0.9,gradient_clip_norm=0.5,weight_decay=0.01'
    flags = (f'--hparams={HPARAMS},{hparams}', '--freeze=bias', '--num_towers=2', '--schedule=train')
    one, _ = undisturbed
    start = f'--warm_start_from={one.output_dir}'  # Only the chief's checkpoint is read.
    runs = [train(1, *flags, start), train(2, *flags, only={'chief0': [start], 'worker0': ['--warm_start_from=/nowhere']})]
    assert [run.wait() for run in runs] == [[0], [0, 0]]
    alone, cluster = (run.weights() for run in runs)
    assert_equal(cluster, alone, 1e-6)
    assert cluster['bias'] == one.weights()['bias'] and (cluster['hidden'] != one.weights()['hidden']).all()
    assert (alone['words'][1:] != 0).all() and len([name for name in cluster if 'ExponentialMovingAverage' in name]) >= 3


def test_a_mistake_in_the_graph_leaves_the_run_that_was_to_be_overwritten(train, undisturbed, tmp_path):
    shutil.copytree(undisturbed[1].output_dir, tmp_path / 'output')
    run = train(2, '--overwrite', '--freeze=nosuch', directory=tmp_path)
    assert run.wait()[0] == 2 and '--freeze=nosuch: matches none of the variables' in run.error('chief0')
    assert_equal(run.weights(), undisturbed[1].weights())


def test_a_run_goes_on_with_fewer_tasks_of_which_some_have_fewer_examples_as_if_undisturbed(train, tmp_path):
    """Of 13 examples, three tasks have 5, 4 and 4, which stop in the middle of an accumulation; four towers 4, 3, 3 and 3."""
    hparams = (
        'batch_size=13,uses_words=true,gradient_accumulation_steps=2,ema_decay=0.9,gradient_clip_norm=0.5,weight_decay=0.01'
    )
    flags = f'--hparams={hparams},optimizer=momentum,learning_rate=0.05', '--schedule=train'
    alone = train(1, *flags)
    three = train(3, *flags, '--train_steps=31', directory=tmp_path)
    assert (alone.wait(), three.wait()) == ([0], [0, 0, 0])
    two = train(2, *flags, '--num_towers=2', directory=tmp_path)
    assert two.wait() == [0, 0]
    assert int(two.weights()['global_step']) == STEPS
    assert_equal(two.weights(), alone.weights(), 1e-6)
    last = {run: [line for line in run.log('chief0').splitlines() if f'step = {STEPS - 1}' in line] for run in (alone, two)}
    assert last[alone] and loss_of(last[alone]) == pytest.approx(loss_of(last[two]), abs=1e-5)


def loss_of(lines):
    return float(re.search(r'loss = (\S+?),', lines[-1])[1])


def test_early_stopping_stops_all_at_the_same_step(train):
    run = train(2, '--early_stopping_patience=1', '--early_stopping_min_delta=0.1', '--eval_every_steps=5')
    assert run.wait() == [0, 0]
    found = [float(row['loss']) for row in rows(run.output_dir / 'metrics.csv')]
    improves = [i == 0 or loss < min(found[:i]) - 0.1 for i, loss in enumerate(found)]
    assert improves == [True] * (len(found) - 1) + [False]
    steps = [run.result(task)['global_step'] for task in run.processes]
    assert steps == [5 * len(found)] * 2 and steps[0] < STEPS


def test_a_hook_that_stops_training_where_tasks_do_not_wait_is_rejected(train):
    flags = ('--model=tests.training.model_with_parts', '--schedule=train', '--save_checkpoints_steps=10')
    run = train(2, *flags, '--hparams=batch_size=12,last_step=15')
    assert run.wait() == [2, 2]
    text = ' a hook of the model stops training after step 15: in a cluster that is possible only at multiples of 10, '
    assert all(text in run.error(task) for task in run.processes)
