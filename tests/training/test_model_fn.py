"""The model_fn of a model module: exact losses, metrics, weights of examples, averages, rates, hooks."""

import re
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common import graphs, processor
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.inference.evaluator import Evaluator
from estimator_trainer.common.ops.layers import dense_stack
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.training import layer_rates, learning_rate, model_fn, optimizer
from estimator_trainer.common.training import step as training_step
from estimator_trainer.hparams import build
from estimator_trainer.hparams.defaults import TABLE
from tests.cluster import tiny_data
from tests.linear import MODEL, X, Y, gradient, in_session, input_fn, linear, loss_of, make_estimator, scalars, train_in_session
from tests.shared import assert_equal, losses, read_weights, refused

LABELS = np.arange(10) % 3
WEIGHTS = np.linspace(0, 2, 10).astype(np.float32)
CLASS_WEIGHTS = np.array([0.5, 1.0, 4.0])


def sgd_steps(steps, decay=0.0):
    w = np.array([1.0, 2.0])
    for step in range(steps):
        w = w - 0.1 * (gradient(w, step) + 2 * decay * w)
    return w


@pytest.mark.parametrize('towers', [0, 1, 4])
def test_training_and_evaluation_match_numpy_with_any_towers(tmp_path, towers):
    def model(features, labels, mode, params):
        with tf.name_scope('inner'):
            tf.summary.histogram('inputs', features['x'])
            tf.summary.scalar('first', features['x'][0, 0])
            tf.summary.scalar('second', features['x'][0, 1], family='coordinates')
        predictions, loss = linear(features, labels, mode, params)
        error = tf.stop_gradient(predictions['y'] - labels['y'])
        return predictions, {'square': loss, 'absolute': 3 * tf.abs(error)}

    module = types.SimpleNamespace(model=model, eval_metrics=MODEL.eval_metrics)
    estimator = make_estimator(tmp_path, towers, module, ',decay=0.5')
    estimator.train(input_fn(), max_steps=6)
    before, after = (sgd_steps(steps, decay=0.5) for steps in (5, 6))
    np.testing.assert_allclose(estimator.get_variable_value('w')[:, 0], after, rtol=1e-5)
    evaluated, curves = estimator.evaluate(input_fn(repeat=False)), scalars(tmp_path)  # Its last batch is smaller.
    for found, w, rows in ((evaluated, after, range(10)), ({name: curves[name].get(6) for name in curves}, before, range(4))):
        errors = X[rows] @ w - Y[rows]
        square, absolute = np.square(errors).mean(), 3 * np.abs(errors).mean()
        expected = {'loss/square': square, 'loss/absolute': absolute, 'loss_again': square, 'examples': 1}
        expected['loss'] = square + absolute + 0.5 * np.square(w).sum()
        assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    assert evaluated.keys() == {*expected, 'global_step'} and {*expected} <= scalars(tmp_path / 'eval').keys()
    assert {'learning_rate', 'examples/sec', 'input/wait_fraction', 'model/inner/inputs', 'model/loss'} <= curves.keys()
    assert curves['model/inner/first'][1] == X[0, 0] and curves['coordinates/model/inner/coordinates/second'][1] == X[0, 1]


@pytest.mark.parametrize('precision', ['float32', 'bfloat16'])
@pytest.mark.parametrize('towers', [0, 2])
def test_layers_are_made_for_the_precision_of_their_training(tmp_path, monkeypatch, towers, precision):
    def model(features, labels, mode, params):
        net = dense_stack(features['x'], [3], mode == tf.estimator.ModeKeys.TRAIN)
        return linear({'x': net[:, :2]}, labels, mode, params)

    monkeypatch.setattr(processor, 'has_amx', lambda: True)
    options = Options(save_summary_steps=1, precision=precision)
    with in_session(make_estimator(tmp_path, towers, model, options=options)) as (session, _):
        scopes = {op.name.partition('relu')[0] for op in session.graph.get_operations() if op.type == 'Bitcast'}
    of_towers = {f'model/tower_{i}/' for i in range(towers)} or {'model/'}
    assert {scope for scope in scopes if scope.startswith('model/')} == (of_towers if precision == 'bfloat16' else set())


def test_each_tower_is_on_its_device_and_metrics_see_the_weights_that_the_step_began_with(tmp_path):
    def metrics(features, labels, predictions, params):
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            w_0 = tf.get_variable('w')[0, 0]
        return {'w_0': (w_0, w_0)}

    model = types.SimpleNamespace(model=linear, eval_metrics=metrics)
    with in_session(make_estimator(tmp_path, 2, model)) as (session, _):
        ops = session.graph.get_operations()
    for i in range(2):
        products = [op for op in ops if op.type == 'MatMul' and f'model/tower_{i}/' in op.name]
        assert {op.name.partition('/')[0] for op in products} == {'model', 'gradients'}
        assert all(op.device.lower().endswith(f'cpu:{i}') for op in products), [op.device for op in products]
    # Checks the order in the graph, as runs rarely expose another one.
    (update,) = (op for op in ops if op.type == 'ResourceApplyGradientDescent')
    reads = {op for op in ops if op.type == 'ReadVariableOp' and op.name.startswith('metrics/')}
    weights = [op for op in ops if op.type == 'HistogramSummary' and op.name.startswith('weights/')]
    assert reads and reads <= graphs.ancestors([update])
    assert [op.inputs[1].op in graphs.ancestors([update]) for op in weights] == [True]


def test_histograms_of_many_weights_are_of_evenly_spaced_ones_of_all_columns(session, monkeypatch):
    monkeypatch.setattr(training_step, '_MAX_IN_HISTOGRAM', 6)
    few, many = (tf.get_variable(name, initializer=np.arange(count)) for name, count in (('few', 5), ('many', 25)))
    matrix = tf.get_variable('matrix', initializer=np.arange(24).reshape(8, 3))
    session.run(tf.global_variables_initializer())
    sampled = [values.tolist() for values in session.run([training_step._sample(each) for each in (few, many, matrix)])]
    assert sampled == [[0, 1, 2, 3, 4], [0, 4, 8, 12, 16, 20, 24], [0, 4, 8, 12, 16, 20]]
    assert {value % 3 for value in sampled[2]} == {0, 1, 2}


def test_towers_need_inputs_that_can_be_split(session, tmp_path):
    estimator = make_estimator(tmp_path, towers=2)
    with pytest.raises(UsageError, match='^--dataset=d with towers: the feature x '):
        estimator.model_fn({'x': tf.placeholder(tf.float32)}, {'y': tf.constant(Y)}, 'train', estimator.config)


@pytest.mark.parametrize(
    'towers, text, labels, weights',
    [
        (0, '', {'weight': WEIGHTS}, WEIGHTS),
        (3, ',class_weights=[0.5,1,4]', {'weight': WEIGHTS}, WEIGHTS * CLASS_WEIGHTS[LABELS]),
        (0, ',class_weights=[3]', {}, np.full(10, 3.0)),
    ],
)
def test_weights_of_examples_and_classes_multiply_the_losses_exactly(tmp_path, towers, text, labels, weights):
    start = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 1.0]])

    def model(features, labels, mode, params):
        logits = tf.matmul(features['x'], tf.get_variable('w', initializer=start.astype(np.float32)))
        return {'logits': logits}, tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels['label'], logits=logits)

    examples = {'x': X}, {'label': LABELS, **labels}
    estimator = make_estimator(tmp_path, towers, model, text)
    found, _ = train_in_session(estimator, 3, lambda: tf.data.Dataset.from_tensors(examples).repeat())
    w = start
    for _ in range(3):  # The mean is over the number of examples.
        p = np.exp(X @ w) / np.exp(X @ w).sum(1, keepdims=True)
        w = w - 0.1 * X.T @ (weights[:, None] * (p - np.eye(3)[LABELS])) / 10
    np.testing.assert_allclose(found['w'], w, rtol=1e-4)


def test_wrong_weights_are_refused():
    for text, labels, message in (
        (',class_weights=[0,0,0]', {}, 'class_weights are all 0: nothing would be learned'),
        (',class_weights=[1,2]', {}, 'class_weights: --dataset=d has no classes: no label named label'),
        (',class_weights=[1,2]', {'label': Y}, 'class_weights: --dataset=d has no classes: no label named label'),
        ('', {'weight': X}, '--dataset=d: the label weight must be of shape [batch], not (10, 2)'),
    ):
        examples, estimator = ({'x': X}, {'y': Y, **labels}), make_estimator('/nowhere', text=text)
        found = refused(train_in_session, estimator, 0, lambda examples=examples: tf.data.Dataset.from_tensors(examples))
        assert found.startswith(message)


def test_averages_of_the_weights_are_evaluated_and_exported_without_towers(tmp_path):
    estimator = make_estimator(tmp_path, 2, text=',ema_decay=0.25')
    estimator.train(input_fn(), max_steps=4)
    average = np.array([1.0, 2.0])
    for step in range(1, 5):
        decay = min(0.25, step / (9 + step))  # The step before is the number of updates.
        average = decay * average + (1 - decay) * sgd_steps(step)
    np.testing.assert_allclose(estimator.get_variable_value('w')[:, 0], sgd_steps(4), rtol=1e-5)
    np.testing.assert_allclose(estimator.get_variable_value('w/ExponentialMovingAverage')[:, 0], average, rtol=1e-5)
    assert np.abs(sgd_steps(4) - average).min() > 1e-3
    assert estimator.evaluate(input_fn(repeat=False))['loss'] == pytest.approx(loss_of(average), rel=1e-5)
    evaluator = Evaluator(estimator, input_fn(repeat=False), 'eval', 3, 0)
    assert evaluator.evaluate(estimator.latest_checkpoint())['loss'] == pytest.approx(loss_of(average), rel=1e-5)
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn({'x': tf.constant(X)})
    path = estimator.export_saved_model(str(tmp_path / 'export'), receiver)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        signature = tf.saved_model.load(session, ['serve'], path.decode()).signature_def['serving_default']
        found = session.run(signature.outputs['y'].name, {signature.inputs['x'].name: X})
        assert not any('tower' in op.name for op in graph.get_operations())
    np.testing.assert_allclose(found, X @ average, rtol=1e-4)


def test_the_optimizer_and_the_rate_of_a_model_are_used_and_the_rate_is_drawn(tmp_path):
    model = types.SimpleNamespace(
        model=linear,
        optimizer=lambda rate, params: tf.train.MomentumOptimizer(rate, 0.5, use_nesterov=True),
        learning_rate=lambda step, total_steps, params: params.learning_rate * (1 - step / total_steps),
    )
    found, curves = train_in_session(make_estimator(tmp_path, 2, model, ',warmup_steps=2,weight_decay=0.1'), 4)
    w, velocity = np.array([1.0, 2.0]), 0.0
    for step in range(4):
        rate = 0.1 * (1 - step / 6) * min(1, (step + 1) / 2)
        assert curves[step]['learning_rate'] == pytest.approx(rate)
        change = gradient(w, step) + 0.1 * w
        velocity = 0.5 * velocity + change
        w = w - rate * (change + 0.5 * velocity)
    np.testing.assert_allclose(found['w'][:, 0], w, rtol=1e-5)
    # FTRL needs a constant rate, but here the hyper-parameter is not used.
    train_in_session(make_estimator(tmp_path, 0, model, optimizer='ftrl'), 1)
    del model.optimizer
    with pytest.raises(UsageError, match='^--model=m: optimizer=ftrl needs a constant learning rate, without learning_rate'):
        train_in_session(make_estimator(tmp_path, 0, model, optimizer='ftrl'), 1)


def two_layers(features, labels, mode, params):
    tf.get_variable('unused', initializer=0.0)  # Has no gradient.
    first, second = (tf.get_variable(name, initializer=value) for name, value in (('a/w', 1.0), ('b/w', 2.0)))
    y = first * features['x'][:, 0] + second * features['x'][:, 1]
    return {'y': y}, tf.square(y - labels['y'])


def test_rates_by_layer_are_those_of_numpy_and_change_what_adam_does(tmp_path):
    text = ',learning_rate_factors=[^a/:0.5,w$:3,unused:2],gradient_clip_norm=1'
    found, _ = train_in_session(make_estimator(tmp_path, 2, two_layers, text), 3)
    w = np.array([1.0, 2.0])
    for step in range(3):
        change = gradient(w, step)
        w = w - 0.1 * np.array([0.5, 3.0]) * change / max(1, np.linalg.norm(change))
    assert [found['a/w'], found['b/w']] == pytest.approx(w, rel=1e-5)
    found, _ = train_in_session(make_estimator(tmp_path, 0, two_layers, ',learning_rate_factors=[b:0.1]', optimizer='adam'), 1)
    # Adam's first change is the rate, whatever the gradient.
    assert [abs(found['a/w'] - 1), abs(found['b/w'] - 2)] == pytest.approx([0.1, 0.01], rel=1e-3)


def test_frozen_variables_do_not_change(tmp_path, caplog):
    def train(freeze):
        return train_in_session(make_estimator(tmp_path, 0, two_layers, options=Options(freeze=freeze)), 1)[0]

    caplog.set_level('INFO')
    found = train('^a')
    assert found['a/w'] == 1 and found['b/w'] != 2 and 'Frozen: a/w' in caplog.messages
    for freeze, matched in (('nosuch', 'none'), ('.', 'all')):
        assert refused(train, freeze) == f'--freeze={freeze}: matches {matched} of the variables: unused, a/w, b/w'


def test_hyper_parameters_that_do_not_go_together_are_refused():
    def check(text):
        model_fn.check_hparams(build.make_hparams('m', {}, 'd', {}, text=text))

    check('optimizer=ftrl,warmup_fraction=1,initial_lr_factor=1')
    for text, message in (
        ('optimizer=lion', 'is not one of adam, adamw, adagrad, ftrl, momentum, rmsprop, sgd'),
        ('optimizer=ftrl,learning_rate_schedule=cosine', 'needs a constant learning rate: give learning_rate_sched'),
        ('optimizer=ftrl,warmup_steps=1', 'needs a constant learning rate: give learning_rate_sched'),
        ('learning_rate_schedule=linear', 'is not one of constant, exponential, piecewise, cosine, cyclic, one_cycle'),
        ('piecewise_boundaries=[10]', 'must be steps in ascending order, as many as piecewise_factors=[0.1, 0.01]'),
        ('piecewise_boundaries=[20, 20]', 'must be steps in ascending order, as many as piecewise_factors=[0.1, 0.01]'),
    ):
        assert (
            refused(check, text)
            .removeprefix('--hparams: ')
            .startswith((f'{text} {message}', f'{text.partition(",")[0]} {message}'))
        )
    assert 'learning_rate_factors: a is not a regular expression' in refused(check, 'learning_rate_factors=[a]')
    for name, made in (('optimizer', optimizer.OPTIMIZERS), ('learning_rate_schedule', learning_rate.RATE_SCHEDULES)):
        assert TABLE[name].choices == tuple(made)


def test_factors_are_found_by_expressions_and_those_that_mean_nothing_are_refused(session):
    a, b, c = (tf.get_variable(name, []) for name in ('a', 'b', 'c/w'))
    # The first expression that fits counts; it may have colons.
    params = types.SimpleNamespace(learning_rate_factors=['(?:b):2', 'b|c:3'])
    assert layer_rates.variable_factors([a, b, c], params) == {'a': 1, 'b': 2, 'c/w': 3}
    no_factor = 'is not a regular expression and a positive number, such as dense:0.1; --freeze keeps'
    for item, message in (
        ('c:2', 'c matches none of the trainable variables: a, b'),
        *((item, f'{item} {no_factor}') for item in ('a', ':2', '0.5', 'a:0', 'a:inf', 'a:nan')),
        ('(:2', '( is not a regular expression: missing ), unterminated subpattern at position 0'),
    ):
        params.learning_rate_factors[1] = item
        assert refused(layer_rates.variable_factors, [a, b], params).startswith(f'learning_rate_factors: {message}')


def test_a_training_with_parts_resumes_exactly_in_loops_and_another_starts_from_it_and_keeps_what_is_frozen(run, tmp_path):
    data = f'--data_dir={tiny_data.write(tmp_path / "tiny")}'
    hparams = 'learning_rate_factors=[hidden:0.5],gradient_accumulation_steps=2,ema_decay=0.9'

    def train(name, hparams, *flags):
        modules = ('--model=tests.training.model_with_parts', '--dataset=tests.cluster.tiny_data', '--num_towers=2')
        period = ('--train_steps=20', '--save_checkpoints_steps=10', '--save_summary_steps=5')
        hparams = f'--hparams=batch_size=12,learning_rate=0.5,{hparams}'
        code, result, log = run(*modules, *period, hparams, data, *flags, output_dir=tmp_path / name)
        return code, result, log, re.findall(r'The hook of (.*)\.', log), read_weights(tmp_path / name)

    _, result, log, _, whole = train('whole', hparams)
    code, *_, seen, weights = train('parted', f'{hparams},last_step=5')
    assert (code, weights['global_step']) == (0, 5)  # The hook stopped training there.
    assert seen == ['eval has seen [5]', 'train has seen [1, 2, 3, 4, 5]']
    code, parted_result, parted_log, seen, weights = train('parted', f'{hparams},last_step=5', '--steps_per_loop=7')
    assert (code, parted_result) == (0, result)
    assert seen == ['eval has seen [10]', 'eval has seen [20]', 'train has seen [6, 10, 11, 16, 20]']
    assert_equal(weights, whole)
    assert [*losses(parted_log)] == [5, 10, 15] and losses(parted_log)[15] == losses(log)[15]
    curves, parted_curves = (scalars(tmp_path / name) for name in ('whole', 'parted'))
    for name in ('loss', 'loss/square', 'gradient_norm', 'learning_rate'):
        assert [*curves[name]] == [1, 6, 11, 16] and parted_curves[name] == curves[name]

    flags = ('--warm_start_names=hidden/:hidden/', '--warm_start_exclude=bias', '--freeze=hidden/kernel', '--schedule=train')
    code, _, log, _, weights = train('other', '', f'--warm_start_from={tmp_path / "whole"}', *flags, '--train_steps=1')
    assert (code, weights['global_step']) == (0, 1) and 'skipped: excluded' in log
    code, _, log, _, weights = train('other', '', '--warm_start_from=gone', *flags, '--train_steps=2')  # It may be gone by now.
    assert code == 0 and 'Starting from the weights' not in log and '--warm_start_from is not used: ' in log
    hidden, output = ((weights[name], whole[f'{name}/ExponentialMovingAverage']) for name in ('hidden/kernel', 'output/kernel'))
    np.testing.assert_array_equal(*hidden)
    assert (output[0] != output[1]).all()
    code, _, log, *_ = train('other', '', '--train_steps=3', '--schedule=train', '--freeze=')
    assert code == 1 and re.search(
        r'model.ckpt-2: has no variable hidden/\S+: use the --freeze with which', log.splitlines()[-1]
    )


@pytest.mark.parametrize(('total', 'count', 'rest'), [(20, 32, 20), (20, 8, 4), (24, 8, 0), (20, 1, 0), (1, 8, 0)])
def test_steps_at_the_end_whose_gradients_are_accumulated_in_vain_are_said(total, count, rest, caplog):
    model_fn._warn_of_rest(total, build.make_hparams('m', {}, 'd', {}, text=f'gradient_accumulation_steps={count}'))
    text = f'gradient_accumulation_steps={count}: of {total} steps, the last {rest} change no weights: their gradients wait for'
    assert [message.startswith(text) for message in caplog.messages] == [True] * bool(rest)
