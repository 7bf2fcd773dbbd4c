"""A run goes back to one of its checkpoints: what is newer is left behind, whole, and the run is as it was."""

import json
import os
import re
import shutil
import types

import pytest
from tensorboard.backend.event_processing.plugin_event_accumulator import TENSORS, EventAccumulator
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.runs import rollback
from estimator_trainer.common.storage import best_checkpoint, checkpoints, margins_file, metrics
from estimator_trainer.common.storage.metrics import add_metrics
from estimator_trainer.common.storage.objective import Objective
from tests.shared import DAMAGES, POLYNOMIAL, assert_equal, losses, read_weights, rows
from tests.storage.test_best_checkpoint import save

LOSSES = {2: 3.0, 4: 1.0, 6: 2.0, 8: 0.5}  # At each step that has a checkpoint.
CHANGES = [
    {'global_step': 2, 'hparams': {'learning_rate': [0.1, 0.2]}},
    {'global_step': 4, 'hparams': {'learning_rate': [0.2, 0.3], 'batch_size': [8, 16]}},
    {'global_step': 6, 'hparams': {'learning_rate': [0.3, 0.4]}},
]


def write_events(directory, steps):
    with tf.Graph().as_default():
        writer = tf.summary.FileWriter(directory)
    for step in steps:
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag='loss', simple_value=step)]), step)
    writer.close()


def steps_in(directory):
    """Returns the steps of the summaries in the event files of a directory, in their order."""
    paths = sorted(tf.io.gfile.glob(f'{directory}/*tfevents*'))
    return [event.step for path in paths for event in tf.train.summary_iterator(path) if event.summary.value]


@pytest.fixture
def output(tmp_path):
    """The output_dir of a run that has everything."""
    output = tmp_path / 'output'
    (output / 'input_state').mkdir(parents=True)
    for step, loss in LOSSES.items():
        path, result = save(output, step), {'global_step': step, 'eval': {'loss': loss}, 'train': {'loss': 0.0}}
        add_metrics(str(output), result)
        best_checkpoint.keep_if_best(path, str(output), Objective('loss', False), 'eval', result)
        (output / 'input_state' / f'{step}.input.index').write_text(str(step))
    write_events(f'{output}', range(1, 9))
    write_events(f'{output}/eval', LOSSES)
    write_events(f'{output}/evaluated_by_another_program', LOSSES)
    write_events(f'{output}/eval_of_another_run', LOSSES)
    (output / 'eval_of_another_run' / 'hparams.json').write_text('{}')
    saved = {'learning_rate': 0.4, 'batch_size': 16, 'override_history': CHANGES}
    (output / 'hparams.json').write_text(json.dumps(saved))
    for name in ('results.json', 'export/1/saved_model.pb', 'predictions.jsonl', 'graph.pbtxt', 'margins.f16'):
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text(name)
    return output


def contents(directory):
    """Returns {path: content} of a directory; of event files, their steps."""
    paths = [path for path in directory.rglob('*') if path.is_file() and path.suffix != '.lock']
    return {
        str(path.relative_to(directory)): steps_in(path.parent) if 'tfevents' in path.name else path.read_bytes()
        for path in paths
    }


def left_in(directory):
    return sorted(int(path.name[11:-6]) for path in directory.glob('model.ckpt-*.index'))


def go_back(output, **options):
    options = Options(**{'from_step': 4, **options})
    step = rollback.target(str(output), options)
    if step is not None:
        rollback.roll_back(str(output), step, options)
    return step


def test_what_is_newer_is_left_behind_whole_and_the_run_is_as_it_was_at_the_step(output):
    whole = contents(output)
    assert go_back(output) == 4
    abandoned = output / 'abandoned' / '1'
    assert (left_in(output), left_in(abandoned)) == ([2, 4], [6, 8])
    assert tf.train.latest_checkpoint(str(output)) == f'{output}/model.ckpt-4'
    assert tf.train.load_variable(f'{abandoned}/model.ckpt-8', 'w') == 8
    for directory, steps in ((output, '24'), (abandoned, '68')):
        assert sorted(os.listdir(directory / 'input_state')) == [f'{step}.input.index' for step in steps]
    assert (steps_in(output), steps_in(output / 'eval')) == ([1, 2, 3, 4], [2, 4])
    assert (steps_in(abandoned), steps_in(abandoned / 'eval')) == ([*range(1, 9)], [*LOSSES])
    table = ['global_step,split,loss', '2,eval,3.0', '2,train,0.0', '4,eval,1.0', '4,train,0.0']
    assert (output / 'metrics.csv').read_text().splitlines() == table
    best = json.loads((output / 'best' / 'best.json').read_text())
    assert (best['global_step'], best['eval'], best['train']) == (4, {'loss': 1.0}, {'loss': 0.0})
    assert tf.train.load_variable(best_checkpoint.find_best(str(output)), 'w') == 4
    assert tf.train.load_variable(f'{abandoned}/best/model.ckpt-8', 'w') == 8
    saved = {'learning_rate': 0.2, 'batch_size': 8, 'override_history': CHANGES[:1]}
    assert json.loads((output / 'hparams.json').read_text()) == saved
    margins_file.restart(str(output), 3)  # As the training from there does.
    for name in ('metrics.csv', 'hparams.json', 'results.json', 'best/best.json', 'margins.f16'):
        assert (abandoned / name).read_bytes() == whole[name]
    kept = [name for name in whole if name.startswith(('export', 'predictions', 'graph', 'evaluated_by', 'eval_of'))]
    assert len(kept) == 6 and all(contents(output)[name] == whole[name] for name in kept)
    assert not (output / 'rollback.json').exists() and not (output / 'results.json').exists()


def test_the_same_command_goes_back_once_and_another_one_again(output, caplog):
    assert go_back(output, override_hparams='learning_rate=0.5') == 4
    assert go_back(output, override_hparams='learning_rate=0.5', train_steps=100) is None
    for number, options in enumerate(({'override_hparams': 'learning_rate=0.6'}, {'freeze': 'w'}, {'from_step': 2}), 2):
        save(output, 6)
        assert go_back(output, **options) == options.get('from_step', 4)
        expected = ([4, 6], 2) if 'from_step' in options else ([6], 4)
        assert (left_in(output / 'abandoned' / str(number)), left_in(output)[-1]) == expected
    options = Options(from_step=2)
    rollback.say_if_done(str(output), options)
    path = output / 'abandoned' / '4' / 'rollback.json'
    message = f'--from_step=2: this command went back before, and now resumes; to go back again, delete {path}.'
    assert caplog.messages[-1] == message
    path.unlink()
    assert rollback.target(str(output), options) == 2


class Killed(BaseException):
    pass


CHANGING = [(tf.io.gfile, 'rename'), (tf.io.gfile, 'makedirs'), (tf.io.gfile, 'copy'), (tf.io.gfile, 'remove')]
CHANGING += [(os, 'link'), (os, 'rename'), (tf.train, 'update_checkpoint_state')]


def kill_at(number, monkeypatch):
    """Ends the process, as it were, before the change of the file system of this number."""
    left = iter(range(number))

    def until_then(call):
        def change(*arguments, **options):
            if next(left, None) is None:
                raise Killed
            return call(*arguments, **options)

        return change

    for module, name in CHANGING:
        monkeypatch.setattr(module, name, until_then(getattr(module, name)))


@pytest.mark.parametrize('step', [4, 8])
def test_a_roll_back_that_is_killed_at_any_moment_is_finished_by_the_next_training(output, tmp_path, monkeypatch, step):
    if step == 8:  # The run has only the copy in best/.
        for path in output.glob('model.ckpt-8.*'):
            path.unlink()
        save(output, 10)
    shutil.copytree(output, tmp_path / 'before')
    assert go_back(output, from_step=step) == step
    expected, number = contents(output), 0
    while True:
        shutil.rmtree(output)
        shutil.copytree(tmp_path / 'before', output)
        with monkeypatch.context() as patch:
            kill_at(number, patch)
            try:
                go_back(output, from_step=step)
                break
            except Killed:
                number += 1
        rollback.finish(str(output))
        checkpoints.recover(str(output))
        assert go_back(output, from_step=step) in (None, step)  # Only if it was killed before it began.
        assert contents(output) == expected, number
    assert number > 10


def test_a_roll_back_that_has_begun_counts_for_a_training_by_the_directory_alone(output):
    with pytest.MonkeyPatch.context() as patch:
        kill_at(4, patch)
        with pytest.raises(Killed):
            go_back(output)
    assert rollback.target(str(output), Options()) == 4 and rollback.target(str(output), Options(overwrite=True)) is None
    rollback.finish(str(output))
    assert rollback.target(str(output), Options()) is None


@pytest.mark.parametrize('text', ['{}', '{"step": "4", "folder": 1}', '{"step": 4, "folder": "../1"}', '{"step": 4', '[]'])
def test_a_corrupt_record_of_a_roll_back_is_named_and_changes_nothing(output, text):
    (output / 'rollback.json').write_text(text)
    before = contents(output)
    for function in (rollback.finish, lambda directory: rollback.target(directory, Options())):
        with pytest.raises(UsageError, match=f'^{output}/rollback.json: .*; delete it$'):
            function(str(output))
    assert contents(output) == before


def test_a_roll_back_that_has_begun_is_refused_if_its_checkpoint_is_gone(output):
    (output / 'rollback.json').write_text('{"step": 5, "folder": 1}')
    before = contents(output)
    with pytest.raises(RunError, match=f'^{output}/rollback.json: there is no intact checkpoint of step 5 any longer: delete'):
        rollback.finish(str(output))
    assert contents(output) == before


def test_a_step_without_an_intact_checkpoint_is_refused_with_those_that_there_are(output, tmp_path):
    DAMAGES['flipped'](output / 'model.ckpt-6.data-00000-of-00001')
    for step in (6, 7):
        there_are = 'it has 2, 4, 6, 8, and the best, of step 8'
        with pytest.raises(UsageError, match=f'^--from_step={step}: {output} has no .* of step {step}; {there_are}$'):
            go_back(output, from_step=step)
    with pytest.raises(UsageError, match=f'^--from_step=3: {tmp_path} has no intact checkpoint of step 3; it has none$'):
        go_back(tmp_path, from_step=3)
    shutil.rmtree(output / 'best')
    with pytest.raises(UsageError, match=f'^--from_step=best: there is none in {output}/best: give a step$'):
        go_back(output, from_step='best')
    assert not (output / 'abandoned').exists()


def test_the_best_without_a_checkpoint_any_longer_is_replaced_with_a_warning(output, caplog):
    for path in output.glob('model.ckpt-4.*'):
        path.unlink()
    go_back(output, from_step=6)
    assert json.loads((output / 'best' / 'best.json').read_text())['global_step'] == 6
    message = f'{output}/best: the best evaluation that remains, loss=1.0 at step 4, has no checkpoint any longer: the '
    assert [text.startswith(message) for text in caplog.messages] == [True]


def test_an_event_file_is_cut_even_where_a_killed_process_has_left_it(output):
    (path,) = output.glob('*tfevents*')
    path.write_bytes(path.read_bytes()[:-3])
    go_back(output)
    assert steps_in(output) == [1, 2, 3, 4] and (output / 'abandoned' / '1' / path.name).stat().st_size > path.stat().st_size


def test_an_evaluator_waits_until_the_chief_has_gone_back(output, monkeypatch, caplog):
    options, naps = Options(from_step=4), []

    def sleep(seconds):
        naps.append(seconds)
        if len(naps) == 70:
            go_back(output)

    clock = types.SimpleNamespace(monotonic=lambda: len(naps), sleep=sleep)
    monkeypatch.setattr(rollback, 'time', clock)
    caplog.set_level('INFO', 'tensorflow')
    rollback.wait(str(output), options)
    assert len(naps) == 70 and caplog.messages.count('Waiting for the chief to go back to --from_step=4.') == 2
    rollback.wait(str(output), options)
    assert len(naps) == 70


def points(directory):
    """Returns the steps that TensorBoard shows for the loss."""
    accumulator = EventAccumulator(str(directory), {TENSORS: 0})
    accumulator.Reload()
    return [event.step for event in accumulator.Tensors('loss')]


def rename_events(directory):
    """Gives event files the names of an earlier time: those that a run writes within the same second would replace them."""
    for path in directory.rglob('*tfevents*'):
        path.rename(path.with_name(re.sub(r'tfevents\.\d+', 'tfevents.1000000000', path.name)))


def test_a_training_goes_back_and_ends_as_before_or_otherwise_with_other_hyper_parameters(run, tmp_path, monkeypatch):
    output, rate = tmp_path / 'output', '--override_hparams=learning_rate=0.02'
    flags = (*POLYNOMIAL, '--save_checkpoints_steps=5', '--save_summary_steps=1', '--eval_steps=2', '--keep_checkpoint_max=0')
    code, result, _ = run(*flags, '--train_steps=20')
    table, whole, saved = rows(output / 'metrics.csv'), read_weights(output), (output / 'hparams.json').read_text()
    rename_events(output)
    with monkeypatch.context() as patch:  # It is interrupted, and started again.
        patch.setattr(metrics, 'abandon', lambda *arguments: 1 / 0)
        assert run(*flags, '--train_steps=20', '--from_step=10')[0] == 1 and left_in(output)[-1] == 10
    code, again, log = run(*flags, '--train_steps=20', '--from_step=10')
    assert (code, again) == (0, result) and f'The run is back at step 10; what was newer is in {output}/abandoned/1.' in log
    assert min(losses(log)) == 10 and rows(output / 'metrics.csv') == table
    assert_equal(read_weights(output), whole)
    assert_equal(read_weights(output / 'abandoned' / '1' / 'model.ckpt-20'), whole)
    for directory in (output, output / 'abandoned' / '1'):
        assert points(directory) == [*range(1, 21)] and points(directory / 'eval') == [5, 10, 15, 20]
    code, result, log = run(*flags, '--train_steps=25', '--from_step=10')  # As a supervisor starts it again.
    assert (code, result['global_step'], min(losses(log))) == (0, 25, 20) and 'WARNING --from_step=10: this command went' in log

    code, result, log = run(*flags, '--train_steps=15', '--from_step=5', rate)
    history = json.loads((output / 'hparams.json').read_text())['override_history']
    assert code == 0 and history == [{'global_step': 5, 'hparams': {'learning_rate': [0.5, 0.02]}}], log
    assert (read_weights(output)['w'] != read_weights(output / 'abandoned' / '2' / 'model.ckpt-15')['w']).all()
    code, _, err = run('--hparams=learning_rate=0.5', '--from_step=10')  # The changed rate is from before step 10.
    assert code == 2 and 'learning_rate was 0.02, now it is 0.5' in err and left_in(output)[-1] == 15
    code, _, log = run('--from_step=5', '--train_steps=20')  # By the directory alone: with the rate of that step.
    assert code == 0, log
    assert_equal(read_weights(output), whole)
    assert (output / 'hparams.json').read_text() == saved
    code, _, err = run('--from_step=10', '--train_steps=10')
    assert code == 2 and 'trainer.py: --from_step=10: training ends at step 10, so nothing would be trained: raise' in err
    assert left_in(output)[-1] == 20 and not (output / 'rollback.json').exists()
    code, _, err = run('--from_step=5', '--overwrite')
    assert code == 2 and '--overwrite starts over, and --from_step goes on from a checkpoint: give one of the two' in err
    assert sorted(os.listdir(output / 'abandoned')) == ['1', '2', '3']


def test_a_program_goes_back_to_the_best_step_with_the_state_of_its_input(tmp_path, caplog):
    def input_fn(split, params):
        dataset = tf.data.Dataset.range(40).map(lambda i: tf.cast(i, tf.float32) / 40)
        return dataset.shuffle(30).batch(4).repeat() if split == 'train' else dataset.batch(4)

    def model_fn(features, labels, mode):
        y = tf.get_variable('w', [], initializer=tf.zeros_initializer()) * features
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, y)
        loss, step = tf.reduce_mean(tf.square(y - 3 * features)), tf.train.get_global_step()
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        metrics = {'distance': tf.metrics.mean(tf.abs(tf.cast(step, tf.float32) - 6))}
        return tf.estimator.EstimatorSpec(mode, y, loss, train_op, eval_metric_ops=metrics)

    options = {'train_steps': 12, 'save_checkpoints_steps': 2, 'keep_checkpoint_max': 1, 'best_metric': 'distance:min'}
    run = api.train(model_fn, input_fn, str(tmp_path), **options)
    whole, result = read_weights(tmp_path), run.metrics
    assert result['best'] == {'global_step': 6, 'eval': result['best']['eval']} and left_in(tmp_path) == [12]
    with pytest.raises(UsageError, match=r'^from_step=4: .* it has 12, and the best, of step 6$'):
        api.train(model_fn, input_fn, str(tmp_path), from_step=4, **options)
    with pytest.raises(UsageError, match='^from_step=best: the best checkpoint is of step 6, and training ends at step 6, so'):
        run.train(6, from_step='best')
    assert left_in(tmp_path) == [12]
    run.evaluate(checkpoint='latest')  # This leaves a file of events open.
    again = api.train(model_fn, input_fn, str(tmp_path), from_step='best', **options)
    assert {*points(tmp_path / 'eval')} >= {8, 10, 12}
    assert again.metrics == result and 'anew' not in caplog.text
    assert_equal(read_weights(tmp_path), whole)
    assert left_in(tmp_path / 'abandoned' / '1') == left_in(tmp_path) == [12]
