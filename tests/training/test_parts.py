"""Optimizers, learning rates, hooks and named losses of a model module, and learning rates by layer."""

import re
import sys
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from tests.cluster import tiny_data
from tests.linear import X, Y, input_fn, linear, make_estimator, scalars
from tests.shared import read_weights

FLAGS = ('--model=tests.training.model_with_parts', '--dataset=tests.cluster.tiny_data', '--save_checkpoints_steps=10')
HPARAMS = 'batch_size=12,learning_rate=0.5,learning_rate_factors=[hidden:0.5],gradient_accumulation_steps=2,ema_decay=0.9'


def gradient(w, step):
    rows = np.arange(4 * step, 4 * step + 4) % 10
    return 2 * X[rows].T @ (X[rows] @ w - Y[rows]) / 4


@pytest.mark.parametrize('towers', [0, 2])
def test_the_optimizer_and_the_rate_of_a_model_are_used(tmp_path, towers):
    model = types.SimpleNamespace(
        model=linear,
        optimizer=lambda rate, params: tf.train.MomentumOptimizer(rate, 0.5, use_nesterov=True),
        learning_rate=lambda step, total_steps, params: params.learning_rate * (1 - step / total_steps),
    )
    estimator = make_estimator(tmp_path, towers, model, text=',warmup_steps=2,weight_decay=0.1')
    estimator.train(input_fn(), max_steps=4)
    w, velocity = np.array([1.0, 2.0]), 0.0
    for step in range(4):
        rate = 0.1 * (1 - step / 6) * min(1, (step + 1) / 2)
        assert scalars(tmp_path)['learning_rate'][step + 1] == pytest.approx(rate)
        change = gradient(w, step) + 0.1 * w
        velocity = 0.5 * velocity + change
        w = w - rate * (change + 0.5 * velocity)
    np.testing.assert_allclose(estimator.get_variable_value('w')[:, 0], w, rtol=1e-5)


def two_layers(features, labels, mode, params):
    tf.get_variable('unused', initializer=0.0)  # Has no gradient.
    first, second = (tf.get_variable(name, initializer=value) for name, value in (('a/w', 1.0), ('b/w', 2.0)))
    y = first * features['x'][:, 0] + second * features['x'][:, 1]
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])


@pytest.mark.parametrize('towers', [0, 2])
def test_rates_by_layer_are_those_of_numpy(tmp_path, towers):
    factors = '[^a/:0.5,w$:3,unused:2]'
    estimator = make_estimator(
        tmp_path, towers, types.SimpleNamespace(model=two_layers), f',learning_rate_factors={factors},gradient_clip_norm=1'
    )
    estimator.train(input_fn(), max_steps=3)
    w = np.array([1.0, 2.0])
    for step in range(3):
        change = gradient(w, step)
        w = w - 0.1 * np.array([0.5, 3.0]) * change / max(1, np.linalg.norm(change))
    assert [estimator.get_variable_value(name) for name in ('a/w', 'b/w')] == pytest.approx(w, rel=1e-5)


def test_a_factor_changes_what_adam_does_as_it_changes_the_rate(tmp_path):
    model = types.SimpleNamespace(model=two_layers, optimizer=lambda rate, params: tf.train.AdamOptimizer(rate))
    estimator = make_estimator(tmp_path, model=model, text=',learning_rate_factors=[b:0.1]')
    estimator.train(input_fn(), max_steps=1)
    changes = [abs(estimator.get_variable_value(name) - value) for name, value in (('a/w', 1.0), ('b/w', 2.0))]
    assert changes == pytest.approx([0.1, 0.01], rel=1e-3)  # Adam's first change is the rate, whatever the gradient.


@pytest.mark.parametrize(
    'factors, message',
    [
        ('[c:2]', 'learning_rate_factors: c matches none of the variables that are trained: unused, a/w, b/w'),
        (
            '[a]',
            'learning_rate_factors: a is not a regular expression and a positive number, such as dense:0.1; --freeze keeps',
        ),
        ('[a:0]', 'learning_rate_factors: a:0 is not a regular expression and a positive number'),
        ('[a:nan]', 'learning_rate_factors: a:nan is not a regular expression and a positive number'),
        ('[(:2]', 'learning_rate_factors: ( is not a regular expression: missing )'),
    ],
)
def test_factors_that_mean_nothing_are_refused(tmp_path, factors, message):
    estimator = make_estimator(
        tmp_path, model=types.SimpleNamespace(model=two_layers), text=f',learning_rate_factors={factors}'
    )
    with pytest.raises(UsageError) as error:
        estimator.train(input_fn(), max_steps=1)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize('towers', [0, 2])
def test_named_losses_are_added_up_and_shown_each(tmp_path, towers):
    def model(features, labels, mode, params):
        predictions, loss = linear(features, labels, mode, params)
        tf.summary.histogram('outputs', predictions['y'])
        return predictions, {'square': loss, 'absolute': 3 * tf.abs(predictions['y'] - labels['y'])}

    module = types.SimpleNamespace(model=model, learning_rate=lambda step, total_steps, params: 0)
    estimator = make_estimator(tmp_path, towers, module)
    estimator.train(input_fn(), max_steps=2)
    evaluated = estimator.evaluate(input_fn(repeat=False))
    errors = X @ [1.0, 2.0] - Y
    for values, rows in (
        (evaluated, range(10)),
        ({name: points[2] for name, points in scalars(tmp_path).items()}, range(4, 8)),
    ):
        square, absolute = np.square(errors[rows]).mean(), 3 * np.abs(errors[rows]).mean()
        found = [values[name] for name in ('loss/square', 'loss/absolute', 'loss')]
        assert found == pytest.approx([square, absolute, square + absolute], rel=1e-5)
    assert {'loss/square', 'loss/absolute'} <= set(scalars(tmp_path / 'eval'))


def test_summaries_of_a_model_have_the_same_tags_with_towers(tmp_path):
    def model(features, labels, mode, params):
        with tf.name_scope('inner'):
            tf.summary.histogram('inputs', features['x'])
            tf.summary.scalar('first', features['x'][0, 0])
            tf.summary.scalar('second', features['x'][0, 1], family='coordinates')
        return linear(features, labels, mode, params)

    tags = []
    for towers in (0, 2):
        make_estimator(tmp_path / str(towers), towers, types.SimpleNamespace(model=model)).train(input_fn(), max_steps=1)
        (path,) = (tmp_path / str(towers)).glob('events*')
        events = [*tf.train.summary_iterator(str(path))]
        tags.append({value.tag for event in events for value in event.summary.value})
        assert scalars(tmp_path / str(towers))['model/inner/first'][1] == X[0, 0]
    assert tags[0] == tags[1] and any(tag.startswith('coordinates/') for tag in tags[0])
    assert {'model/inner/inputs', 'model/inner/first', 'model/loss'} <= tags[0]


@pytest.mark.parametrize(
    'part, value, message',
    [
        ('optimizer', 'adam', "optimizer() must return a tf.train.Optimizer (tf is tensorflow.compat.v1), not 'adam'"),
        ('learning_rate', True, 'learning_rate() must return a number or a scalar tensor, not True'),
        ('learning_rate', [0.1], 'learning_rate() must return a number or a scalar tensor, not [0.1]'),
        ('learning_rate', None, 'learning_rate() must return a number or a scalar tensor, not None'),
        ('hooks', None, 'hooks() must return a list of tf.train.SessionRunHook (tf is tensorflow.compat.v1), not None'),
        ('hooks', [print], 'hooks() must return a list of tf.train.SessionRunHook'),
    ],
)
def test_parts_of_another_type_are_refused(tmp_path, part, value, message):
    model = types.SimpleNamespace(model=linear, **{part: lambda *arguments: value})
    with pytest.raises(UsageError) as error:
        make_estimator(tmp_path, model=model).train(input_fn(), max_steps=1)
    assert str(error.value).startswith(f'--model=m: {message}')


@pytest.mark.parametrize(
    'losses, message',
    [
        (lambda loss: {}, 'must return a loss, not an empty dict'),
        (lambda loss: {'a': loss, 'b': tf.reduce_mean(loss)}, 'must return a loss b of shape [batch] and type float32'),
        (
            lambda loss: {'a': tf.ensure_shape(loss, [4]), 'b': tf.zeros([8])},
            'the losses must be of the same batch, but a is of (4,), and b of (8,)',
        ),
        (lambda loss: {1: loss}, 'must return losses under names that are printable text, not 1'),
    ],
)
def test_losses_that_are_not_per_example_are_refused(tmp_path, losses, message):
    def model(features, labels, mode, params):
        predictions, loss = linear(features, labels, mode, params)
        return predictions, losses(loss)

    with pytest.raises(UsageError) as error:
        make_estimator(tmp_path, model=types.SimpleNamespace(model=model)).train(input_fn(), max_steps=1)
    assert str(error.value).removeprefix('--model=m: model()').lstrip(': ').startswith(message)


def test_ftrl_does_not_go_with_a_learning_rate_of_the_model(run, tmp_path):
    tiny_data.write(tmp_path / 'tiny')
    module = tmp_path / 'of_user'
    module.mkdir()
    (module / '__init__.py').touch()
    (module / 'net.py').write_text(
        'from tests.cluster.tiny_model import get_params, model\n\n\n'
        'def learning_rate(step, total_steps, params):\n    return 0.1\n'
    )
    sys.path.append(str(tmp_path))
    flags = ('--model=of_user.net', '--dataset=tests.cluster.tiny_data', f'--data_dir={tmp_path / "tiny"}')
    code, _, err = run(*flags, '--train_steps=1', '--hparams=optimizer=ftrl,batch_size=12')
    sys.path.remove(str(tmp_path))
    assert code == 2 and err.splitlines()[-1].endswith('optimizer=ftrl needs a constant learning rate, without learning_rate()')


@pytest.fixture
def train(run, tmp_path):
    """Trains the module with parts: train(name, flag, ...) -> (log, weights)."""
    tiny_data.write(tmp_path / 'tiny')

    def call(name, *flags):
        output_dir = str(tmp_path / name)
        given = (*FLAGS, f'--hparams={HPARAMS}', f'--data_dir={tmp_path / "tiny"}', *flags)
        code, _, log = run(*given, output_dir=output_dir)
        assert code == 0, log
        return log, read_weights(output_dir)

    return call


def test_a_restart_with_parts_resumes_exactly_in_loops_too(train):
    _, expected = train('whole', '--train_steps=40', '--num_towers=2')
    train('parted', '--train_steps=40', '--num_towers=2', '--hparams=' + HPARAMS + ',last_step=10')
    log, found = train(
        'parted', '--train_steps=40', '--num_towers=2', '--steps_per_loop=5', '--hparams=' + HPARAMS + ',last_step=10'
    )
    assert 'Restoring parameters' in log
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_hooks_see_the_steps_of_training_and_the_batches_of_each_evaluation(train):
    log, weights = train('hooked', '--train_steps=40', '--steps_per_loop=5', '--hparams=' + HPARAMS + ',last_step=20')
    assert weights['global_step'] == 20  # At which the hook stopped the training.
    assert re.findall(r'The hook of (.*)\.', log) == [
        'eval has seen [10]',
        'eval has seen [20]',
        'train has seen [1, 6, 10, 15, 20]',
    ]
