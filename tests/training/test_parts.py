"""Functions of a model module: optimizers, learning rates, hooks and weights of losses; and rates by layer."""

import re
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.plugins import model_contract
from common.training import layer_rates
from common.training.options import TrainingOptions
from hparams import build
from tests.cluster import tiny_data
from tests.linear import X, Y, gradient, in_session, linear, make_estimator, train_in_session
from tests.shared import assert_equal, read_weights


def two_layers(features, labels, mode, params):
    tf.get_variable('unused', initializer=0.0)  # Has no gradient.
    first, second = (tf.get_variable(name, initializer=value) for name, value in (('a/w', 1.0), ('b/w', 2.0)))
    y = first * features['x'][:, 0] + second * features['x'][:, 1]
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])


def test_rates_by_layer_are_those_of_numpy(tmp_path):
    text = ',learning_rate_factors=[^a/:0.5,w$:3,unused:2],gradient_clip_norm=1'
    found, _ = train_in_session(make_estimator(tmp_path, 2, two_layers, text), 3)
    w = np.array([1.0, 2.0])
    for step in range(3):
        change = gradient(w, step)
        w = w - 0.1 * np.array([0.5, 3.0]) * change / max(1, np.linalg.norm(change))
    assert [found['a/w'], found['b/w']] == pytest.approx(w, rel=1e-5)


def test_a_factor_changes_what_adam_does_as_it_changes_the_rate(tmp_path):
    found, _ = train_in_session(make_estimator(tmp_path, 0, two_layers, ',learning_rate_factors=[b:0.1]', optimizer='adam'), 1)
    changes = [abs(found['a/w'] - 1), abs(found['b/w'] - 2)]
    assert changes == pytest.approx([0.1, 0.01], rel=1e-3)  # Adam's first change is the rate, whatever the gradient.


def test_variables_that_freeze_matches_stay_as_they_are(tmp_path, caplog):
    def train(freeze):
        return train_in_session(make_estimator(tmp_path, 0, two_layers, options=TrainingOptions(freeze=freeze)), 1)[0]

    caplog.set_level('INFO')
    found = train('^a')
    assert found['a/w'] == 1 and found['b/w'] != 2 and 'Frozen: a/w' in caplog.messages
    for freeze, matched in (('nosuch', 'none'), ('.', 'all')):
        with pytest.raises(UsageError, match=f'^--freeze={freeze}: matches {matched} of the variables: unused, a/w, b/w$'):
            train(freeze)


NO_FACTOR = 'is not a regular expression and a positive number, such as dense:0.1; --freeze keeps'


@pytest.mark.parametrize(
    'item, message',
    [
        ('c:2', 'c matches none of the variables that are trained: a, b'),
        *((item, f'{item} {NO_FACTOR}') for item in ('a', ':2', '0.5', 'a:0', 'a:inf', 'a:nan')),
        ('(:2', '( is not a regular expression: missing ), unterminated subpattern at position 0'),
    ],
)
def test_factors_are_found_by_expressions_and_those_that_mean_nothing_are_refused(session, item, message):
    a, b, c = (tf.get_variable(name, []) for name in ('a', 'b', 'c/w'))
    # The first expression that fits counts; it may have colons.
    params = types.SimpleNamespace(learning_rate_factors=['(?:b):2', 'b|c:3'])
    assert layer_rates.variable_factors([a, b, c], params) == [1, 2, 3]
    params.learning_rate_factors[1] = item
    with pytest.raises(UsageError, match='^' + re.escape(f'learning_rate_factors: {message}')):
        layer_rates.variable_factors([a, b], params)


def test_summaries_of_a_model_have_the_same_tags_with_towers(tmp_path):
    def model(features, labels, mode, params):
        with tf.name_scope('inner'):
            tf.summary.histogram('inputs', features['x'])
            tf.summary.scalar('first', features['x'][0, 0])
            tf.summary.scalar('second', features['x'][0, 1], family='coordinates')
        return linear(features, labels, mode, params)

    tags = []
    for towers in (0, 2):
        with in_session(make_estimator(tmp_path, towers, model)) as (session, _):
            values = tf.Summary.FromString(session.run(tf.summary.merge_all())).value
        tags.append({value.tag: value.simple_value for value in values})
    assert tags[0].keys() == tags[1].keys() and tags[1]['model/inner/first'] == X[0, 0]
    assert {'model/inner/inputs', 'model/inner/first', 'model/loss'} <= tags[0].keys()
    assert any(tag.startswith('coordinates/') for tag in tags[0])


@pytest.mark.parametrize(
    'text, labels, message',
    [
        ('class_weights=[1,-2]', {}, 'class_weights=[1.0, -2.0] must be at least 0'),
        ('class_weights=[0,0,0]', {}, 'class_weights are all 0: nothing would be learned'),
        ('class_weights=[1,2]', {}, 'class_weights: --dataset=d has no classes: no label named label'),
        ('class_weights=[1,2]', {'label': Y}, 'class_weights: --dataset=d has no classes: no label named label'),
        ('', {'weight': X}, '--dataset=d: the label weight must be of shape [batch], not (10, 2)'),
    ],
)
def test_wrong_weights_are_refused(text, labels, message):
    model = types.SimpleNamespace(model=lambda *_: ({'y': tf.constant(Y)}, tf.constant(Y)))
    labels = {name: tf.constant(value) for name, value in labels.items()}
    with pytest.raises(UsageError, match='^' + re.escape(message)):
        model_contract.call_model(model, {}, labels, 'train', build.make_hparams('m', {}, 'd', {}, text=text))


def test_a_training_with_parts_resumes_exactly_and_its_hooks_see_the_steps_at_which_it_ends_a_loop(run, tmp_path):
    tiny_data.write(tmp_path / 'tiny')
    hparams = 'learning_rate=0.5,learning_rate_factors=[hidden:0.5],gradient_accumulation_steps=2,ema_decay=0.9'

    def train(name, hparams, *flags):
        modules = ('--model=tests.training.model_with_parts', '--dataset=tests.cluster.tiny_data', '--num_towers=2')
        period = ('--train_steps=20', '--save_checkpoints_steps=10', f'--data_dir={tmp_path / "tiny"}')
        code, _, log = run(*modules, *period, f'--hparams=batch_size=12,{hparams}', *flags, output_dir=tmp_path / name)
        assert code == 0, log
        return re.findall(r'The hook of (.*)\.', log), read_weights(tmp_path / name)

    _, whole = train('whole', hparams)
    seen, weights = train('parted', f'{hparams},last_step=5')
    assert weights['global_step'] == 5  # At which the hook stopped the training.
    assert seen == ['eval has seen [5]', 'train has seen [1, 2, 3, 4, 5]']
    seen, weights = train('parted', f'{hparams},last_step=5', '--steps_per_loop=6')
    assert seen == ['eval has seen [10]', 'eval has seen [20]', 'train has seen [6, 10, 16, 20]']
    assert_equal(weights, whole)
