"""Steps of a run computed again: their losses, gradients and updates, compared with NumPy's; what a run cannot replay."""

import json
import math
import os
import re
import shutil
import tempfile
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.runs.reported_slices import read_records
from tests.pipeline.pipelines import make_params
from tests.shared import read_weights, rows

RATE, BATCH = 0.1, 4
RANDOM = np.random.RandomState(0)
X = RANDOM.uniform(-1, 1, [20, 2]).astype(np.float32)
Y = RANDOM.uniform(-1, 1, 20).astype(np.float32)


def model(features, labels, mode, params):
    y = tf.matmul(features['x'], tf.get_variable('w', initializer=[[1.0], [2.0]]))[:, 0]
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])


def read(split, data_dir, params):
    return tf.data.Dataset.from_tensor_slices((X, Y))


MODEL = types.SimpleNamespace(model=model)
DATASET = types.SimpleNamespace(
    prepare=lambda data_dir, params: None,
    read=read,
    parse=lambda mode, params, record: ({'x': record[0]}, {'y': record[1]}),
)


def train(directory, **options):
    hparams = {'batch_size': BATCH, 'optimizer': 'sgd', 'learning_rate': RATE, 'warmup_steps': 0}
    settings = {'train_steps': 8, 'save_checkpoints_steps': 4, 'save_summary_steps': 2, 'schedule': 'train', **options}
    return api.train(MODEL, DATASET, directory, hparams=hparams, **settings)


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """A run of 8 steps, with checkpoints of steps 0, 4 and 8."""
    return train(str(tmp_path_factory.mktemp('run') / 'run'))


@pytest.fixture
def copied(trained, tmp_path):
    shutil.copytree(trained.output_dir, tmp_path / 'run')
    return api.load(str(tmp_path / 'run'), MODEL, DATASET)


def stamps(directory):
    """Returns {path: (content, time of the last change)} of all files below a directory."""
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names]
    return {path: (open(path, 'rb').read(), os.stat(path).st_mtime_ns) for path in paths}


def lines(result, kind):
    with open(result['lines']) as file:
        return [line for line in map(json.loads, file) if line['kind'] == kind]


def test_losses_gradients_and_updates_are_those_of_numpy_and_the_run_is_only_read(trained, tmp_path, monkeypatch):
    temporary = tmp_path / 'temporary'
    temporary.mkdir()
    monkeypatch.setattr(tempfile, 'tempdir', str(temporary))
    before = stamps(trained.output_dir)
    (tmp_path / 'events.out.tfevents.1.host.replay').touch()  # Of an earlier one.
    result = trained.replay('6:7', str(tmp_path))
    assert len([*tmp_path.glob('events.*')]) == 1
    assert stamps(trained.output_dir) == before and not [*temporary.iterdir()]
    assert (result['from_step'], result['first_difference'], result['largest_difference']) == (4, None, 0)
    assert result['compared_losses'] == 2  # Steps 5 and 7.
    weights = read_weights(f'{trained.output_dir}/model.ckpt-4')['w'].astype(float)
    examples, variables = lines(result, 'example'), lines(result, 'variable')
    losses = {line['step']: line['loss'] for line in lines(result, 'loss')}
    numbers = api.load(trained.output_dir, MODEL, DATASET).replay(5, str(tmp_path / 'first'))
    numbers = {5: [line['example'] for line in lines(numbers, 'example')]}
    numbers |= {step: [line['example'] for line in examples if line['step'] == step] for step in (6, 7)}
    for step in (5, 6, 7):
        errors = (X[numbers[step]] @ weights)[:, 0] - Y[numbers[step]]
        gradient = 2 * X[numbers[step]].T @ errors[:, None] / BATCH
        assert losses[step] == pytest.approx(np.square(errors).mean(), rel=1e-5)
        if step > 5:
            found = [line for line in examples if line['step'] == step]
            np.testing.assert_allclose([line['loss'] for line in found], np.square(errors), rtol=1e-4)
            assert [line['loss'] for line in found] == sorted([line['loss'] for line in found], reverse=True)
            norms = np.linalg.norm(2 * X[numbers[step]] * errors[:, None], axis=1)
            np.testing.assert_allclose([line['gradient_norm'] for line in found], norms, rtol=1e-4)
            (of_w,) = [line for line in variables if line['step'] == step]
            facts = {'zeros': 0, 'nan': 0, 'infinite': 0, 'size': 2}
            for name, values in (('gradient', gradient), ('update', RATE * gradient)):
                expected = {'norm': np.linalg.norm(values), 'largest': np.abs(values).max(), **facts}
                assert of_w[name] == pytest.approx(expected, rel=1e-3)
        weights -= RATE * gradient
    assert {row['global_step']: row['step_loss'] for row in rows(f'{trained.output_dir}/metrics.csv', mode='train')}[
        '7'
    ] == str(np.float32(losses[7]))
    (product,) = [line for line in lines(result, 'layer') if line['step'] == 7 and line['op'] == 'MatMul']
    assert product['output']['size'] == BATCH
    html = (tmp_path / 'replay.html').read_text()
    worst = max((6, 7), key=losses.get)
    assert f'<h1>Step {worst}: loss' in html and all(f'train:{number}<' in html for number in numbers[worst])


def test_the_first_loss_that_differs_is_named_with_what_does(copied, caplog):
    path = f'{copied.output_dir}/metrics.csv'
    with open(path) as file:
        text = file.read()
    logged = {row['global_step']: row['step_loss'] for row in rows(path, mode='train')}
    changed = f'{float(logged["7"]) + 0.5:.6f}'
    with open(path, 'w') as file:
        file.write(text.replace(logged['7'], changed))
    result = copied.replay(8)
    assert result['first_difference'] == 7 and result['largest_difference'] == pytest.approx(0.5, abs=1e-5)
    assert f'the loss of step 7 was {changed[:5]}' in caplog.text and 'What differs: ' in caplog.text
    assert os.path.dirname(result['lines']) == f'{copied.output_dir}-replay'


@pytest.mark.parametrize(
    'step, message',
    [
        (9, '^step=9: the run in .* has only reached step 8'),
        ('5:9', '^step=5:9: the run in .* has only reached step 8'),
        ('7:5', '^step=7:5 is neither a step, from 1 on'),
        (0, '^step=0 is neither a step'),
        ('', '^schedule=replay needs step'),
        ('x', '^step=x is neither a step'),
    ],
)
def test_a_step_that_is_none_of_the_run_is_named(trained, step, message):
    with pytest.raises(UsageError, match=message):
        trained.replay(step)


def test_without_a_checkpoint_before_a_step_the_first_possible_one_is_named(copied):
    for path in (f'{copied.output_dir}/model.ckpt-{step}.index' for step in (0, 4)):
        os.remove(path)
    with pytest.raises(UsageError, match='no intact checkpoint before this step: the first step that can be replayed is 9'):
        copied.replay(3)
    os.remove(f'{copied.output_dir}/flags.json')
    with pytest.raises(UsageError, match='lacks flags.json or hparams.json: it is no run'):
        copied.replay(3)


def test_a_damaged_checkpoint_is_passed_over(copied, tmp_path):
    with open(f'{copied.output_dir}/model.ckpt-4.data-00000-of-00001', 'r+b') as file:
        file.write(b'damage')
    assert copied.replay(6, str(tmp_path / 'replay'))['from_step'] == 0


def test_a_run_of_which_only_the_best_checkpoint_is_left_goes_on_from_it(copied, tmp_path):
    best = os.path.join(copied.output_dir, 'best')
    os.mkdir(best)
    for name in os.listdir(copied.output_dir):
        if name.startswith('model.ckpt-4.'):
            shutil.move(f'{copied.output_dir}/{name}', best)
        elif name.startswith('model.ckpt-'):
            os.remove(f'{copied.output_dir}/{name}')
    with open(f'{best}/best.json', 'w') as file:
        json.dump({'checkpoint': 'model.ckpt-4', 'metric': 'loss', 'value': 1.0, 'split': 'eval', 'is_max': False}, file)
    assert copied.replay(6, str(tmp_path / 'replay'))['from_step'] == 4


def test_a_model_with_other_variables_is_named_and_how_to_go_on(copied):
    def wider(features, labels, mode, params):
        predictions, loss = model(features, labels, mode, params)
        return predictions, loss if loss is None else loss + tf.get_variable('more', initializer=0.0)

    run = api.load(copied.output_dir, types.SimpleNamespace(model=wider), DATASET)
    with pytest.raises(RunError, match=r'^model=.* has changed since this run \(new: .*more.*\): restore its code$'):
        run.replay(6)


def test_a_run_that_resumed_with_other_hyper_parameters_is_replayed_with_those_of_each_step(copied, tmp_path):
    again = copied.train(12, override_hparams={'learning_rate': 0.01})
    os.remove(f'{again.output_dir}/model.ckpt-8.index')
    result = again.replay(12, str(tmp_path / 'replay'))
    assert (result['from_step'], result['compared_losses'], result['first_difference']) == (4, 4, None)


def test_the_step_at_which_training_ends_is_offered_and_its_origin_named(tmp_path, caplog):
    def bad(features, labels, mode, params):
        predictions, loss = model(features, labels, mode, params)
        step = tf.cast(tf.train.get_or_create_global_step(), tf.float32)
        masked = tf.where(step < 100, tf.zeros_like(loss), tf.log(-1 - loss))  # NaN, but of no account.
        return predictions, loss + masked + tf.sqrt(4.5 - step, name='of_step')

    output_dir = str(tmp_path / 'run')
    with pytest.raises(RunError, match='the loss of step 6 is nan'):
        api.train(
            types.SimpleNamespace(model=bad), DATASET, output_dir, hparams={'batch_size': 4}, train_steps=9, schedule='train'
        )
    command = re.search(r'schedule=replay step=(\d+) output_dir=(\S+) shows the step', caplog.text)
    assert command.groups() == ('6', output_dir)
    run = api.load(output_dir, types.SimpleNamespace(model=bad), DATASET)
    result = run.replay(6)
    assert result['not_finite'].startswith(f'model/of_step (Sqrt), made at {__file__}:') and math.isnan(float(result['loss']))
    with pytest.raises(UsageError, match='^step=7: the run in .* has only reached step 6'):
        run.replay(7)


@pytest.mark.parametrize('every, text', [(3, 'w is not finite by step 3'), (100, 'w is not finite after step 4')])
def test_a_variable_that_is_not_finite_although_the_losses_are_leads_to_the_step_that_made_it(tmp_path, caplog, every, text):
    def masking(features, labels, mode, params):
        w = tf.get_variable('w', initializer=[[1.0], [2.0]])
        step = tf.cast(tf.train.get_or_create_global_step(), tf.float32)
        y = tf.nn.relu(tf.matmul(features['x'] * tf.where(tf.equal(step, 1), np.nan, 1.0), w))[:, 0]
        y = tf.where(tf.math.is_finite(y), y, tf.zeros_like(y))
        return {'y': y}, None if labels is None else tf.square(y - labels['y'])

    output_dir, module = str(tmp_path / 'a run'), types.SimpleNamespace(model=masking)
    settings = {
        'hparams': {'batch_size': 4},
        'train_steps': 4,
        'save_checkpoints_steps': 4,
        'schedule': 'train',
        'save_summary_steps': every,
    }
    with pytest.raises(RunError, match=text):
        api.train(module, DATASET, output_dir, **settings)
    step = text.split()[-1]
    assert f"step={step} output_dir='{output_dir}' shows the step" in caplog.text
    run = api.load(output_dir, module, DATASET)
    with pytest.raises(UsageError, match='not finite after step 2: look at it by step=2$'):
        run.replay(int(step))
    assert (result := run.replay(2))['step'] == 2 and result['not_finite'].startswith('model/')


def batch_norm(features, labels, mode, params):
    net = tf.layers.batch_normalization(tf.layers.dense(features['x'], 4), training=mode == 'train')
    y = tf.layers.dense(net, 1)[:, 0]
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])


def program(features, labels, mode, params, config):
    net = tf.layers.dropout(tf.layers.dense(features['x'], 4), 0.5, training=mode == 'train')
    loss = tf.losses.mean_squared_error(labels['y'], tf.layers.dense(net, 1)[:, 0])
    train_op = tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def shuffled(split, params):
    return tf.data.Dataset.from_tensor_slices(({'x': X}, {'y': Y})).shuffle(20).repeat().batch(4)


@pytest.mark.parametrize(
    'model, dataset, options',
    [
        (types.SimpleNamespace(model=batch_norm), DATASET, {'num_towers': 2, 'steps_per_loop': 3}),
        (program, types.SimpleNamespace(input_fn=shuffled), {}),
    ],
)
def test_towers_loops_batch_norm_and_programs_are_replayed_to_the_bit(tmp_path, model, dataset, options):
    output_dir = str(tmp_path / 'run')
    hparams = {'batch_size': 4} if options else {}
    options = {'train_steps': 8, 'save_checkpoints_steps': 4, 'save_summary_steps': 1, 'schedule': 'train', **options}
    result = api.train(model, dataset, output_dir, hparams=hparams, **options).replay(7)
    assert (result['from_step'], result['compared_losses'], result['first_difference']) == (4, 3, None)
    (step,) = lines(result, 'step')
    assert step['loss'] == step['loss_as_inspected'] == result['loss']
    gradients = {line['name']: line['gradient']['norm'] for line in lines(result, 'variable')}
    assert {'dense/kernel', 'dense_1/kernel'} <= gradients.keys() and gradients['dense_1/kernel'] > 0


@pytest.mark.parametrize('again', [lambda run: run.replay(6), lambda run: run.verify()])
def test_a_run_of_float16_needs_a_gpu_again(copied, again, monkeypatch):
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind=None: [])
    path = f'{copied.output_dir}/flags.json'
    with open(path) as file:
        flags = json.load(file)
    with open(path, 'w') as file:
        json.dump({**flags, 'precision': 'float16'}, file)
    with pytest.raises(
        UsageError, match='was trained with (--)?precision=float16, which needs a GPU: train its steps again where'
    ):
        again(copied)


def summarizing(features, labels, mode, params):
    wide = tf.tile(features['x'], [1, 10])
    y = tf.layers.dense(tf.nn.relu(tf.layers.dense(wide, 64)), 1)
    tf.summary.histogram('y', y)  # Which keeps TensorFlow from fusing it with what follows, at the steps that write summaries.
    y = (y + tf.layers.dense(wide, 1))[:, 0]
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])


def test_summaries_of_some_steps_change_no_bit(tmp_path):
    options = {'hparams': {'batch_size': 8}, 'train_steps': 40, 'schedule': 'train'}
    options |= {'save_summary_steps': 1, 'save_checkpoints_steps': 40}
    found = api.train(types.SimpleNamespace(model=summarizing), DATASET, str(tmp_path / 'run'), **options).verify('all')
    assert [interval['text'] for interval in found['intervals']] == ['equal']


def test_a_record_that_is_twice_in_a_batch_is_read_for_each():
    found = read_records(DataSource(DATASET, '', make_params()), 'train', [3, 0, 3])
    assert [record[1] for record in found] == [Y[3], Y[0], Y[3]]
