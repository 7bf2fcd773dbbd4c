"""The rest of tf.contrib: hyper-parameters, optimizers, heads, predictors, images, data and layers."""

import contextlib
import gzip
import itertools
import os
import re
import struct
import sys
import types

import tf_estimator  # noqa: F401 - before TensorFlow
from tf_estimator.tf1 import buckets, data, dimensions, estimator, image, layers, lookup, mnist, opt, predictor, sparsemax
from tf_estimator.tf1.feature_column import sequence_input_layer
from tf_estimator.tf1.hparam import HParams, parse_values
from tf_estimator.tf1.modules import Package

from google.protobuf import text_format
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import lookup_ops

learn = Package('tensorflow.contrib.learn')
RANDOM = np.random.RandomState(2)


def run(*fetches, feeds=None):
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return session.run(fetches, feeds)


def test_hyper_parameters_keep_their_types_and_take_text_json_and_dicts():
    params = HParams(rate=0.1, units=[8, 4], name='x', is_on=False, steps=3, nothing=None)
    assert params.parse('rate=1, units=[1,2,3],name=a b,is_on=true,steps=-2').parse('units[1]=7') is params
    assert params.values() == {'rate': 1.0, 'units': [1, 7, 3], 'name': 'a b', 'is_on': True, 'steps': -2, 'nothing': None}
    assert params.parse_json('{"steps": 5}').steps == 5 and params.set_from_map({'units': [9]}).units == [9]
    assert params.get('rate') == 1.0 and params.get('other', 5) == 5 and 'rate' in params and 'other' not in params
    assert params.to_json(sort_keys=True).startswith('{"is_on": true, "name": "a b"')
    params.del_hparam('name')
    params.add_hparam('name', 2)
    assert str(HParams(b=1, a=[2])) == 'b=1,a=[2]' and repr(HParams(b=1, a=[2])) == "HParams([('a', [2]), ('b', 1)])"
    for text, message in (
        ('other=1', 'Unknown hyperparameter: other'),
        ('steps=1.5', "Could not parse hparam steps of type int from '1.5'"),
        ('is_on=maybe', 'Could not parse hparam is_on of type bool'),
        ('rate', 'Malformed hyperparameter value: rate'),
        ('units[3]=1', r'units has no value at \[3\] to set'),
        ('steps=7,steps=8', 'Multiple assignments to steps in '),
        ('units=[1,2],units[0]=3', 'Multiple assignments to units in '),
    ):
        with pytest.raises(ValueError, match=message):
            params.parse(f'name=9,{text}')
    assert params.name == 2  # An error changes nothing.
    assert params.parse('units=[1 2, 3],is_on=2').units == [1, 2, 3] and params.is_on is True
    assert HParams(name='x').parse('name=a]b ,').name == 'a]b '  # As it was.
    for name, value in (('steps', 1.5), ('is_on', 1), ('units', 3), ('rate', [1.0]), ('rate', 'x'), ('rate', None)):
        with pytest.raises(ValueError):
            params.set_hparam(name, value)
    with pytest.raises(ValueError, match='reserved: rate'):
        params.add_hparam('rate', 2)


def test_text_is_parsed_by_the_types_of_names():
    kinds = {'x': int, 'sizes': float, 'arr': int, 'a.b': str, 'is_on': bool}
    assert parse_values('x=5,sizes=[1,2e-1],arr[1]=3, arr[ 0 ] = -4,a.b=c d,is_on=True', kinds) == {
        'x': 5,
        'sizes': [1.0, 0.2],
        'arr': {1: 3, 0: -4},
        'a.b': 'c d',
        'is_on': True,
    }
    assert parse_values('', kinds) == {} and parse_values('x=1,y=[2],z[0]=3', kinds, ignore_unknown=True) == {'x': 1}
    for text, message in (
        ('y=1', 'Unknown hyperparameter: y'),
        ('x=1,x=[2]', 'Multiple assignments to x in x=1,x='),
        ('arr[1]=1,arr[1]=2', 'Multiple assignments to arr'),
        ('arr[1]=1,arr=2', 'Multiple assignments to arr'),
        ('arr=[1,2],arr[1]=2', 'Multiple assignments to arr'),
        ('arr[1]=[1,2]', 'Assignment of a list to a list index'),
        ('arr[-1]=2', 'Malformed hyperparameter value: arr'),
        ('x=1.5', "Could not parse hparam x of type int from '1.5'"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_values(text, kinds)


def test_hyper_parameters_are_saved_in_the_messages_of_tensorflow_1():
    values = {'rate': 0.5, 'units': [8, 4], 'name': 'é', 'names': ['x', 'y'], 'is_on': True, 'rates': [0.25], 'flags': [False]}
    message = HParams(**values, steps=-3).to_proto()
    fields = {  # As hparam.proto of TensorFlow 1 numbers them.
        'units': b'\x22\x04\x0a\x02\x08\x04',
        'rate': b'\x15\x00\x00\x00\x3f',
        'is_on': b'\x38\x01',
        'name': b'\x1a\x02\xc3\xa9',
        'flags': b'\x42\x03\x0a\x01\x00',
    }
    assert {name: message.hparam[name].SerializeToString() for name in fields} == fields
    hparam_pb2 = Package('tensorflow.contrib.training').python.training.hparam_pb2
    read = text_format.Merge(str(message), hparam_pb2.HParamDef())
    for found in (HParams(read), HParams.from_proto(hparam_pb2.HParamDef.FromString(message.SerializeToString()))):
        assert found.values() == {**values, 'steps': -3} and found.parse('steps=4').steps == 4
    with pytest.raises(ValueError, match='mutually exclusive'):
        HParams(message, rate=1)
    with pytest.raises(ValueError, match="Unsupported parameter type: <class 'NoneType'> of nothing"):
        HParams(nothing=None).to_proto()


def test_a_transposed_convolution_has_the_constant_sizes_of_its_output(monkeypatch):
    for owner, name in ((tf.nn, 'conv2d_transpose'), (tf.Dimension, '__init__')):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    dimensions.mend()
    with tf.Graph().as_default():
        image, kernel = tf.placeholder(tf.float32, [None, 4, 4, 3]), tf.ones([5, 5, 2, 3])
        for sizes, expected in (([6, 8, 8, 2], [6, 8, 8, 2]), (tf.stack([tf.shape(image)[0], 8, 8, 2]), [None, 8, 8, 2])):
            assert tf.nn.conv2d_transpose(image, kernel, sizes, [1, 2, 2, 1]).shape.as_list() == expected


def updated(optimizer, gradient, start, steps=2, **options):
    """Returns the values of a variable and its other variables after steps with this gradient."""
    with tf.Graph().as_default():
        variable = tf.get_variable('v', initializer=np.float32(start), use_resource=options.pop('use_resource', False))
        train = optimizer().apply_gradients([(gradient(), variable)], **options)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(steps):
                session.run(train)
            return session.run({other.op.name: other for other in tf.global_variables()})


@pytest.mark.parametrize('use_resource', [False, True])
def test_optimizers_follow_their_formulas(use_resource):
    start, gradient = np.array([1.0, -2.0]), np.array([0.5, 0.25])
    m = v = np.zeros(2)
    expected, looking_ahead = start.copy(), start.copy()
    for step in (1, 2):
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        rate = 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        expected = expected - 0.01 * expected - rate * m / (np.sqrt(v) + 1e-8)
        looking_ahead -= rate * (0.9 * m + 0.1 * gradient) / (np.sqrt(v) + 1e-8)
    dense = lambda: tf.constant(gradient, tf.float32)  # noqa: E731
    found = updated(lambda: opt.AdamWOptimizer(0.01, 0.1), dense, start, use_resource=use_resource)
    np.testing.assert_allclose(found['v'], expected, rtol=1e-4)
    found = updated(lambda: opt.NadamOptimizer(0.1), dense, start, use_resource=use_resource)
    np.testing.assert_allclose(found['v'], looking_ahead, rtol=1e-4)
    row = lambda: tf.IndexedSlices(tf.constant([[0.25], [0.0]]), tf.constant([1, 1]), tf.constant([2, 1]))  # noqa: E731
    found = updated(lambda: opt.NadamOptimizer(0.1), row, start[:, None], use_resource=use_resource)
    np.testing.assert_allclose(found['v'], [[1.0], [looking_ahead[1]]], rtol=1e-4)
    # A row without a gradient keeps its moments and its value.
    sparse = lambda: tf.IndexedSlices(tf.constant([[0.5]]), tf.constant([1]), tf.constant([2, 1]))  # noqa: E731
    found = updated(lambda: opt.LazyAdamOptimizer(0.1), sparse, start[:, None], use_resource=use_resource)
    np.testing.assert_allclose(found['v'], [[1.0], [-2.2]], rtol=1e-4)
    assert found['v/Adam'][0] == 0 and found['v/Adam'][1] == pytest.approx(0.5 * (1 - 0.9**2))
    found = updated(lambda: opt.AdaMaxOptimizer(0.1), sparse, start[:, None], use_resource=use_resource)
    assert found.keys() == {'v', 'v/AdaMax', 'v/AdaMax_1', 'beta1_power'}
    np.testing.assert_allclose(found['v'], [[1.0], [-2.2]], rtol=1e-4)
    np.testing.assert_allclose([found['v/AdaMax'], found['v/AdaMax_1']], [[[0], [0.5 * (1 - 0.9**2)]], [[0], [0.5]]], rtol=1e-4)
    itself = lambda: tf.identity(tf.global_variables()[0])  # noqa: E731
    found = updated(lambda: opt.AdaMaxOptimizer(0.1), itself, start, use_resource=use_resource)
    moved = start - 0.1 * np.sign(start)
    moved -= 0.1 / (1 - 0.9**2) * (0.09 * start + 0.1 * moved) / (0.999 * np.abs(start))
    np.testing.assert_allclose(found['v'], moved, rtol=1e-4)
    optimizer = lambda: opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(1.0), 0.5)  # noqa: E731
    averaged = updated(optimizer, dense, start, use_resource=True)
    np.testing.assert_allclose(averaged['v'], start - 2 * gradient)
    np.testing.assert_allclose(averaged['v/ExponentialMovingAverage'], start - 1.25 * gradient)  # 0.25 * 0 + 0.25 * 1 + 0.5 * 2
    clipped = updated(
        lambda: estimator.clip_gradients_by_norm(tf.train.GradientDescentOptimizer(1.0), 1.0),
        lambda: tf.constant([3.0, 4.0]),
        [0.0, 0.0],
        1,
    )
    np.testing.assert_allclose(clipped['v'], [-0.6, -0.8], rtol=1e-6)


@pytest.mark.parametrize('use_resource', [False, True])
@pytest.mark.parametrize('is_skipped', [False, True])
@pytest.mark.parametrize('use_nesterov', [False, True])
def test_a_rate_follows_the_norm_of_a_variable(use_resource, is_skipped, use_nesterov):
    gradient, expected, momentum = np.array([0.5, 0.25]), np.array([1.0, -2.0]), np.zeros(2)
    for _ in range(2):
        size = np.linalg.norm(expected)
        ratio = 1 if is_skipped else 0.001 * size / (np.linalg.norm(gradient) + 0.1 * size)
        update = 10 * ratio * (gradient + 0.1 * expected * (not is_skipped))
        momentum = 0.9 * momentum + update
        expected = expected - (0.9 * momentum + update if use_nesterov else momentum)
    options = {'weight_decay': 0.1, 'skip_list': ['v'] if is_skipped else ['bias'], 'use_nesterov': use_nesterov}
    optimizer = lambda: opt.LARSOptimizer(10.0, **options)  # noqa: E731
    found = updated(optimizer, lambda: tf.constant(gradient, tf.float32), [1.0, -2.0], use_resource=use_resource)
    np.testing.assert_allclose(found['v'], expected, rtol=1e-5)
    assert found.keys() == {'v', 'v/LARSOptimizer'}
    found = updated(optimizer, lambda: tf.constant([0.5, 0.25]), [0.0, 0.0], 1, use_resource=use_resource)
    np.testing.assert_allclose(found['v'], gradient * (-19 if use_nesterov else -10), rtol=1e-6)  # There is no norm.


@pytest.mark.parametrize('use_resource', [False, True])
def test_an_algorithm_of_scipy_computes_the_loss_and_sets_the_variables(use_resource, monkeypatch):
    """The loss is (a - 1)^2 + rate * (b0^2 + 3 b1^2), with a rate of 2."""
    calls = []

    def minimize(function, start, bounds, constraints, **options):
        calls.append((start.tolist(), bounds, options.pop('callback'), options))
        for x in ([3.0, 1.0, -1.0], [1.0, 0.0, 0.5]):
            calls.append([np.asarray(value).tolist() for value in function(np.array(x))])
        calls.append([(c['type'], float(c['fun'](np.array(x))), c['jac'](np.array(x)).tolist()) for c in constraints])
        return types.SimpleNamespace(x=np.array([1.0, 0.25, 0.0]), fun=0.125, message='found')

    monkeypatch.setitem(sys.modules, 'scipy', types.SimpleNamespace(optimize=types.SimpleNamespace(minimize=minimize)))
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope('', use_resource=use_resource):
            a, b = tf.get_variable('a', initializer=5.0), tf.get_variable('b', initializer=[6.0, 7.0])
        tf.get_variable('untouched', initializer=8.0)
        rate, fetched = tf.placeholder(tf.float32, []), []
        loss = (a - 1) ** 2 + rate * (tf.gather(b, 0) ** 2 + 3 * tf.gather(b, 1) ** 2)
        interface = Package('tensorflow.contrib.opt').ScipyOptimizerInterface
        bounds = {b: (0, [1, np.inf])}
        optimizer = interface(loss, [a, b], [a * b[0]], [b[1]], bounds, method='SLSQP', options={'maxiter': 5})
        for wrong in ('bounds', 'jac', 'callback', 'constraints'):
            with pytest.raises(ValueError, match='var_to_bounds' if wrong == 'bounds' else f'{wrong} cannot be given'):
                interface(loss, [a, b], **{wrong: None})
        with pytest.raises(NotImplementedError, match='Own._minimize'):
            type('Own', (interface,), {'_minimize': print})
        session.run(tf.global_variables_initializer())
        optimizer.minimize(session, {rate: 2.0}, [a, rate], print, lambda *values: fetched.append(values))
        assert [value.tolist() for value in session.run(tf.global_variables())] == [1.0, [0.25, 0.0], 8.0]
    options = {'jac': True, 'method': 'SLSQP', 'options': {'maxiter': 5}}
    assert calls == [
        ([5.0, 6.0, 7.0], [(-np.inf, np.inf), (0, 1), (0, np.inf)], print, options),
        [12.0, [4.0, 4.0, -12.0]],
        [1.5, [0.0, 0.0, 6.0]],
        [('eq', 0.0, [0.0, 1.0, 0.0]), ('ineq', 0.5, [0.0, 0.0, 1.0])],
    ]
    assert fetched == [(3.0, 2.0), (1.0, 2.0)]


def test_a_clipping_optimizer_has_the_slots_of_its_optimizer():
    with tf.Graph().as_default():
        v = tf.get_variable('v', initializer=1.0)
        clipping = estimator.clip_gradients_by_norm(tf.train.MomentumOptimizer(1.0, 0.5), 1.0)
        clipping.minimize(v)
        assert clipping.get_slot_names() == ['momentum'] and clipping.get_slot(v, 'momentum').op.name == 'v/Momentum'


@pytest.mark.parametrize('is_dict', [False, True])
def test_a_swapping_saver_saves_averages_under_the_names_of_variables(tmp_path, is_dict):
    with tf.Graph().as_default():
        with tf.variable_scope('', use_resource=True):
            split = tf.get_variable('split', [4], None, tf.ones_initializer(), partitioner=tf.fixed_size_partitioner(2))
            v = tf.get_variable('v', initializer=3.0)
        optimizer = opt.MovingAverageOptimizer(tf.train.MomentumOptimizer(1.0, 0.0), 0.5)
        train = optimizer.minimize(tf.reduce_sum(split) + v)  # From 1 to 0, and from 3 to 2.
        assert optimizer.get_slot_names() == ['momentum'] and optimizer.get_slot(v, 'momentum').op.name == 'v/Momentum'
        average = next(x for x in tf.global_variables() if x.op.name == 'v/ExponentialMovingAverage')
        saver = optimizer.swapping_saver({'renamed': v, 'its_average': average} if is_dict else None)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(train)
            path = saver.save(session, str(tmp_path / 'model'))
    names = ['renamed', 'its_average'] if is_dict else ['v', 'v/ExponentialMovingAverage']
    assert [tf.train.load_variable(path, name) for name in names] == [2.5, 2.0]
    if not is_dict:
        values = [tf.train.load_variable(path, f'split{suffix}').tolist() for suffix in ('', '/ExponentialMovingAverage')]
        assert values == [[0.5] * 4, [0.0] * 4]


@pytest.mark.parametrize('use_resource', [False, True])
def test_weights_decay_where_they_have_a_gradient(use_resource):
    start = np.array([[1.0], [2.0], [4.0]])
    sparse = lambda: tf.IndexedSlices(tf.constant([[1.0], [1.0]]), tf.constant([2, 2]), tf.constant([3, 1]))  # noqa: E731
    make = lambda: opt.MomentumWOptimizer(0.5, 0.1, 0.0)  # noqa: E731
    found = updated(make, sparse, start, 1, use_resource=use_resource)
    np.testing.assert_allclose(found['v'], [[1.0], [2.0], [4 - 2 - 0.2]], rtol=1e-6)
    assert 'v/MomentumW' in found
    undecayed = updated(make, sparse, start, 1, use_resource=use_resource, decay_var_list=[])
    np.testing.assert_allclose(undecayed['v'], [[1.0], [2.0], [4 - 0.2]], rtol=1e-6)


@pytest.mark.parametrize('is_chosen, expected', [(True, 2 - 1 - 0.1), (False, 2 - 0.1)])
def test_weights_of_replicas_decay(is_chosen, expected):
    with tf.Graph().as_default():
        strategy = tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'])
        with strategy.scope():
            v = tf.get_variable('v', initializer=2.0, aggregation=tf.VariableAggregation.SUM)
            optimizer = opt.MomentumWOptimizer(0.5, 0.1, 0.0)

            def step():
                loss = v * tf.constant(0.5)  # Gradients are summed over the replicas.
                return optimizer.minimize(loss, decay_var_list=[v] if is_chosen else [])

            train = strategy.experimental_local_results(strategy.extended.call_for_each_replica(step))
        with tf.Session(config=tf.ConfigProto(device_count={'CPU': 2})) as session:
            session.run(tf.global_variables_initializer())
            session.run(train)
            np.testing.assert_allclose(session.run([*v.values]), expected, rtol=1e-6)


def model_fn(features, labels, mode):
    w = tf.get_variable('w', initializer=2.0)
    predictions = {'y': w * features['x']}
    loss = None if labels is None else tf.reduce_mean((predictions['y'] - labels) ** 2)
    train_op = loss is not None and tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op or None)


def input_fn():
    return {'x': tf.constant([1.0, 2.0])}, tf.constant([2.0, 4.0])


def serving_input_fn():
    x = tf.placeholder(tf.float32, [None], 'x')
    return tf.estimator.export.ServingInputReceiver({'x': x}, {'x': x})


def test_predictors_of_estimators_and_saved_models_compute_with_feeds_by_name(tmp_path, caplog):
    trained = learn.Estimator(model_fn, str(tmp_path / 'model')).fit(input_fn=input_fn, steps=2)
    exported = trained.export_saved_model(str(tmp_path / 'export'), serving_input_fn).decode()
    for found in (predictor.from_saved_model(exported), predictor.from_estimator(trained, serving_input_fn)):
        ((name, values),) = found({'x': [1.0, 3.0]}).items()
        assert name in ('y', 'output') and values.tolist() == [2.0, 6.0]
        with pytest.raises(ValueError, match='unexpected keys'):
            found({'z': [1.0]})
    with pytest.raises(ValueError, match='Got signature_def_key other'):
        predictor.from_saved_model(exported, 'other')
    canned = tf.estimator.LinearRegressor([tf.feature_column.numeric_column('x')], str(tmp_path / 'canned'))
    canned.train(lambda: input_fn()[:2], steps=1)
    parsing = tf.estimator.export.build_parsing_serving_input_receiver_fn({'x': tf.io.FixedLenFeature([], tf.float32)})
    example = tf.train.Example(features=tf.train.Features(feature={'x': tf.train.Feature(float_list={'value': [2.0]})}))
    found = predictor.from_estimator(canned, parsing)({'inputs': [example.SerializeToString()]})
    (expected,) = itertools.islice(canned.predict(lambda: {'x': tf.constant([2.0])}), 1)
    np.testing.assert_allclose(found['outputs'][0], expected['predictions'], rtol=1e-6)
    initial = predictor.from_estimator(learn.Estimator(model_fn, str(tmp_path / 'new')), serving_input_fn)
    assert (
        initial({'x': [3.0]})['y'] == [6.0] and f'{tmp_path}/new has no checkpoint: it predicts by the initial' in caplog.text
    )
    forwarded = estimator.forward_features(trained, 'x')
    predictions = itertools.islice(forwarded.predict(lambda: input_fn()[0]), 2)  # They never end.
    assert [found['x'] for found in predictions] == [1.0, 2.0]


def test_predictors_of_the_estimators_of_tf_contrib_learn_have_their_inputs_and_outputs(tmp_path):
    def model(features, labels, mode):
        spec = model_fn(features, labels, mode)
        outputs = {'head': (None, {'twice': 2 * spec.predictions['y']})}
        return learn.ModelFnOps(mode, spec.predictions, spec.loss, spec.train_op, output_alternatives=outputs)

    def inputs():
        x = tf.placeholder(tf.float32, [None])
        return learn.utils.input_fn_utils.InputFnOps({'x': x + 1}, None, {'given': x})

    make, trained = predictor.from_contrib_estimator, learn.Estimator(model, str(tmp_path / 'model'))
    trained.fit(input_fn=input_fn, steps=1)
    for key in (None, 'head'):
        ((name, values),) = make(trained, inputs, output_alternative_key=key)({'given': [1.0, 3.0]}).items()
        assert name == 'twice' and values.tolist() == [8.0, 16.0]
    found = make(trained, inputs, 'features_input_alternative')
    assert [*found.feed_tensors] == ['x'] and found({'x': [3.0]})['twice'] == [12.0]
    for keys, message in (
        (('other',), 'no input_alternative_key other'),
        ((None, 'other'), r"output_alternative_key other, but the keys are \['head'\]"),
        ((None, 'serving_default'), r"output_alternative_key serving_default, but the keys are \['head'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            make(trained, inputs, *keys)
    regressor = learn.LinearRegressor([tf.feature_column.numeric_column('x')], str(tmp_path / 'regressor'))
    regressor.fit(input_fn=lambda: (input_fn()[0], tf.constant([[2.0], [4.0]])), steps=1)
    ((name, values),) = make(regressor, inputs)({'given': [0.0, 1.0]}).items()
    expected = [*itertools.islice(regressor.predict(input_fn=lambda: input_fn()[0]), 2)]
    assert name == 'scores' and values.tolist() == expected and expected[0] != expected[1]


def test_an_experiment_trains_evaluates_and_exports(tmp_path):
    config = learn.RunConfig(model_dir=str(tmp_path), save_checkpoints_steps=2)

    def make(run_config, hparams):
        export, error = learn.make_export_strategy(serving_input_fn), learn.MetricSpec(tf.metrics.mean_absolute_error, 'y')
        return learn.Experiment(
            learn.Estimator(model_fn, config=run_config),
            input_fn,
            input_fn,
            train_steps=3,
            eval_steps=1,
            export_strategies=[export],
            eval_metrics={'error': error},
        )

    metrics, exports = learn.learn_runner.run(make, run_config=config, schedule='train_and_evaluate')
    assert metrics == {'loss': 0.0, 'global_step': 3, 'error': 0.0} and len(exports) == 1 and os.path.exists(exports[0])


def test_heads_train_with_the_optimizers_of_tensorflow_1_and_run_the_update_ops():
    logits, optimizer = np.array([[0.5, -0.5, 1.0], [2.0, 0.0, -1.0]], np.float32), tf.train.GradientDescentOptimizer
    losses = np.log(np.exp(logits).sum(1)) - logits[[0, 1], [2, 0]]
    for reduction, expected in (('weighted_sum_over_batch_size', losses.mean()), ('weighted_sum', losses.sum())):
        with tf.Graph().as_default():
            step = tf.train.create_global_step()
            updates = tf.get_variable('updates', initializer=0.0)
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, updates.assign_add(1.0))
            shift = tf.get_variable('shift', initializer=np.zeros(3, np.float32))
            head = estimator.multi_class_head(3, loss_reduction=reduction)
            spec = head.create_estimator_spec({}, 'train', logits + shift, tf.constant([[2], [0]]), optimizer(0.1))
            loss, _ = run(spec.loss, spec.train_op)
            assert loss == pytest.approx(expected, rel=1e-5) and step is not None
    heads = (estimator.binary_classification_head(), estimator.regression_head(), estimator.multi_label_head(2))
    for head, label in zip(heads, ([[1.0]], [[1.0]], [[1, 0]])):
        with tf.Graph().as_default():
            tf.train.create_global_step()
            w = tf.get_variable('w', [1, len(label[0])])
            spec = head.create_estimator_spec({}, 'train', w, tf.constant(label), optimizer(0.1), regularization_losses=[5.0])
            loss, total, _ = run(tf.losses.get_losses()[-1], spec.loss, spec.train_op)
            assert np.isfinite(total) and total == pytest.approx(loss + 5)


def test_heads_of_other_losses_have_the_arguments_of_tensorflow_1():
    logits = np.array([[0.5], [-1.0]], np.float32)
    rates, chances = np.exp(logits), 1 / (1 + np.exp(-logits))
    for head, label, losses, prediction in (
        (estimator.poisson_regression_head('w', 1, compute_full_loss=False), [[2.0], [1.0]], rates - [[1], [-1]], rates),
        (
            estimator.logistic_regression_head('w'),
            [[0.2], [1.0]],
            -np.array([[0.2], [1]]) * np.log(chances) - np.array([[0.8], [0]]) * np.log(1 - chances),
            chances,
        ),
    ):
        with tf.Graph().as_default():
            tf.train.create_global_step()
            spec = head.create_estimator_spec({'w': tf.constant([[3.0], [1.0]])}, 'eval', logits, tf.constant(label))
            (loss,) = run(spec.loss)
            (found,) = run(head.create_estimator_spec({}, 'infer', logits).predictions['predictions'])
        assert loss == pytest.approx((3 * losses[0, 0] + losses[1, 0]) / 2, rel=1e-5)
        np.testing.assert_allclose(found, prediction, rtol=1e-5)


def test_recurrent_estimators_predict_from_the_last_step_and_clip_gradients(tmp_path):
    contrib, modes = Package('tensorflow.contrib.estimator'), []
    columns = [tf.feature_column.sequence_numeric_column('x')], [tf.feature_column.numeric_column('c')]
    rows, context, labels, weights = [[0.3, -0.5], [0.2]], [[1.0], [-2.0]], [1, 0], [[300.0], [100.0]]

    def input_fn():
        x = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], rows[0] + rows[1], [2, 2])
        return {'x': x, 'c': tf.constant(context), 'w': tf.constant(weights)}, tf.constant(labels)

    def cell(mode):
        modes.append(mode)
        return tf.nn.rnn_cell.BasicRNNCell(3)

    def logits(value):
        found = []
        for row, (known,) in zip(rows, context):
            state = np.zeros(3)
            for x in row:
                kernel = value('rnn/rnn/basic_rnn_cell/kernel')
                state = np.tanh(np.concatenate([[x, known], state]) @ kernel + value('rnn/rnn/basic_rnn_cell/bias'))
            found.append(state @ value('rnn/logits/dense/kernel') + value('rnn/logits/dense/bias'))
        return np.array(found)

    config = tf.estimator.RunConfig(str(tmp_path / 'model'), tf_random_seed=1)
    estimator = contrib.RNNClassifier(
        *map(iter, columns), num_units=[3], weight_column='w', optimizer='SGD', config=config
    ).train(input_fn, steps=1)
    before, after = (tf.train.load_checkpoint(f'{tmp_path}/model/model.ckpt-{step}').get_tensor for step in (0, 1))
    names = [
        f'rnn/{name}'
        for name in ('rnn/basic_rnn_cell/kernel', 'rnn/basic_rnn_cell/bias', 'logits/dense/kernel', 'logits/dense/bias')
    ]
    norm = np.sqrt(sum(np.sum((after(name) - before(name)) ** 2) for name in names))
    np.testing.assert_allclose(norm, 0.05 * 5, rtol=1e-4)  # The learning rate by the norm of clipped gradients.
    predicted = np.array([one['logits'] for one in itertools.islice(estimator.predict(input_fn), 2)])
    np.testing.assert_allclose(predicted, logits(after), rtol=1e-4)
    losses = np.log1p(np.exp(-np.array([[1], [-1]]) * logits(after)))  # Of binary labels.
    np.testing.assert_allclose(estimator.evaluate(input_fn, 1)['loss'], np.mean(losses * weights), rtol=1e-4)

    options = {'rnn_cell_fn': cell, 'optimizer': tf.train.AdamOptimizer(), 'model_dir': str(tmp_path / 'of_a_head')}
    estimator = contrib.RNNEstimator(contrib.regression_head(), *columns, **options).train(input_fn, steps=1)
    predicted = np.array([one['predictions'] for one in itertools.islice(estimator.predict(input_fn), 2)])
    np.testing.assert_allclose(predicted, logits(estimator.get_variable_value), rtol=1e-4)
    assert modes == ['train', 'infer']
    with pytest.raises(ValueError, match='num_units and cell_type must not be specified when using rnn_cell_fn'):
        contrib.RNNClassifier(*columns, num_units=[3], rnn_cell_fn=cell)
    with pytest.raises(ValueError, match='must be a `_SequentialHead` object'):
        contrib.RNNEstimator(contrib.regression_head(), *columns, num_units=[3], return_sequences=True)
    with pytest.raises(ValueError, match="Supported cell types are .*'lstm'.* but given rnn"):
        contrib.RNNClassifier(*columns, num_units=[3], cell_type='rnn').train(input_fn, steps=1)


def test_several_heads_are_one_whose_loss_is_the_weighted_sum_of_theirs():
    heads = [estimator.multi_class_head(3, name='kind'), estimator.regression_head(name='size')]
    with tf.Graph().as_default():
        tf.train.create_global_step()
        logits = {
            'kind': tf.get_variable('kind', initializer=[[0.0, 0, 0]]),
            'size': tf.get_variable('size', initializer=[[1.0]]),
        }
        labels = {'kind': tf.constant([[2]]), 'size': tf.constant([[4.0]])}
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        spec = estimator.multi_head(heads, [2.0, 1.0]).create_estimator_spec({}, 'train', logits, labels, optimizer)
        assert run(spec.loss, spec.train_op)[0] == pytest.approx(2 * np.log(3) + (4 - 1) ** 2)
        of_each = [loss for loss in tf.losses.get_losses() if loss.shape.rank == 0]
        assert run(of_each)[0] == pytest.approx([np.log(3), (4 - 1) ** 2])


@pytest.mark.parametrize('keeps_rest', [False, True])
def test_examples_gather_in_buckets_of_their_lengths(keeps_rest):
    examples = [1, 5, 2, 3, 9, 4, 1, 7]  # Of as many numbers; 9 is left out.
    with tf.Graph().as_default(), tf.Session() as session:
        n = tf.train.input_producer(tf.constant(examples), num_epochs=1, shuffle=False).dequeue()
        lengths, batch = buckets.bucket_by_sequence_length(
            n,
            {'x': tf.fill([n], n)},
            2,
            [3, 5],
            dynamic_pad=True,
            allow_smaller_final_batch=keeps_rest,
            keep_input=n < 9,
        )
        assert batch['x'].shape.as_list() == [None if keeps_rest else 2, None]
        session.run(tf.local_variables_initializer())
        coordinator, found = tf.train.Coordinator(), []
        threads = tf.train.start_queue_runners(session, coordinator)
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                found.append([values.tolist() for values in session.run([lengths, batch['x']])])
        coordinator.request_stop()
        coordinator.join(threads)
    full = [[[1, 2], [[1, 0], [2, 2]]], [[3, 4], [[3, 3, 3, 0], [4] * 4]], [[5, 7], [[5] * 5 + [0] * 2, [7] * 7]]]
    assert sorted(found) == sorted(full + [[[1], [[1]]]] * keeps_rest)
    with pytest.raises(ValueError, match='bucket_boundaries must increase'):
        buckets.bucket_by_sequence_length(1, [], 2, [3, 3])
    with pytest.raises(ValueError, match='2 buckets need as many batch sizes and capacities, not 1, 2'):
        buckets.bucket([], 0, [2], 2)


def test_the_batch_of_a_list_of_one_in_buckets_is_a_tensor():
    with tf.Graph().as_default():
        _, batch = buckets.bucket([tf.constant(1.0)], 0, 2, 1)
        _, of_dict = buckets.bucket({'x': tf.constant(1.0)}, 0, 2, 1)
        _, of_lengths = buckets.bucket_by_sequence_length(1, [tf.constant([1.0])], 2, [3])
    assert tf.is_tensor(batch) and batch.shape == [2] and [*of_dict] == ['x'] and len(of_lengths) == 1


def test_sparsemax_is_the_nearest_point_of_the_simplex_and_its_loss_has_their_difference_as_gradient():
    logits, labels = RANDOM.normal(0, 2, [6, 5]), RANDOM.dirichlet(np.ones(5), 6)
    with tf.Graph().as_default():
        z, q = tf.constant(logits), tf.constant(labels)
        p = sparsemax.sparsemax(z)
        loss = sparsemax.sparsemax_loss(z, p, q)
        found, losses, gradients = run(p, loss, *tf.gradients(loss, z))
    low, high = logits.min(1, keepdims=True) - 1, logits.max(1, keepdims=True)
    for _ in range(60):  # By halves: the sum of what is above the threshold is 1.
        middle = (low + high) / 2
        is_above = np.maximum(logits - middle, 0).sum(1, keepdims=True) < 1
        low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
    expected = np.maximum(logits - low, 0)
    assert (expected == 0).any()
    np.testing.assert_allclose(found, expected, atol=1e-12)
    values = ((logits**2 - low**2) * (expected > 0) / 2 + labels**2 / 2 - labels * logits).sum(1)
    np.testing.assert_allclose(losses, values, rtol=1e-9)
    np.testing.assert_allclose(gradients, expected - labels, atol=1e-9)  # Proposition 3 of the paper.


def test_images_are_moved_by_pixels_and_turned_counterclockwise():
    picture = np.arange(9, dtype=np.float32).reshape(3, 3)
    with tf.Graph().as_default():
        moved, turned, batch = run(
            image.translate(picture, [1, 0]), image.rotate(picture, np.pi / 2), image.rotate(picture[None, :, :, None], [np.pi])
        )
    np.testing.assert_array_equal(moved, [[0, 0, 1], [0, 3, 4], [0, 6, 7]])
    np.testing.assert_array_equal(turned, np.rot90(picture))
    np.testing.assert_array_equal(batch[0, :, :, 0], picture[::-1, ::-1])


def test_embeddings_feature_columns_and_tables_of_old_have_their_arguments(caplog):
    with tf.Graph().as_default():
        embedded = layers.embed_sequence(tf.constant([[1, 0]]), 3, 2, scope='words')
        (table,) = tf.global_variables()
        found, values = run(embedded, table)
        assert table.op.name == 'words/embeddings' and tf.model_variables() == [table]
        np.testing.assert_array_equal(found, values[[[1, 0]]])
        ids = tf.constant([[1, 2, 0], [0, 0, 0]])
        bags = [layers.bow_encoder(ids, 3, 2, is_sparse, tf.constant_initializer([1, 2, 4, 8, 16, 32])) for is_sparse in (1, 0)]
        assert tf.model_variables()[1].op.name == 'bow_encoder/embeddings'
        found = run(*bags)  # An id of 0 counts only if the lookup is not sparse; without others, it is all there is.
        np.testing.assert_allclose(found, [[[10, 20], [1, 2]], [[7, 14], [1, 2]]])
    kind = layers.sparse_column_with_keys('kind', ['a', 'b'])
    crossed = layers.crossed_column([layers.sparse_column_with_hash_bucket('place', 5), kind], 7)
    assert crossed.keys == ('place', kind) and not caplog.messages
    assert layers.crossed_column(['a', 'b'], 7, 'sum', None, None, 5).hash_key == 5
    with pytest.raises(ValueError, match='^crossed_column: ckpt_to_load_from is not supported'):
        layers.crossed_column(['a', 'b'], 7, ckpt_to_load_from='model', tensor_name_in_ckpt='w')
    with pytest.raises(ValueError, match=r"^sparse_column_with_hash_bucket\('x'\): TensorFlow 2 has no hash_keys: omit them$"):
        layers.sparse_column_with_hash_bucket('x', 5, hash_keys=[[1, 2]])
    layers.sparse_column_with_integerized_feature('number', 3, 'mean')
    assert caplog.messages == [
        "tf.contrib.layers: combiner='mean' of a column is ignored: linear Estimators take sparse_combiner, combined ones "
        'linear_sparse_combiner.'
    ]
    buckets_of = layers.one_hot_column(layers.sparse_column_with_integerized_feature('number', 3))
    with tf.Graph().as_default():
        (found,) = run(tf.feature_column.input_layer({'number': tf.constant([[1], [5], [14]])}, [buckets_of]))
    np.testing.assert_array_equal(found, np.eye(3)[[1, 2, 2]])
    columns = [layers.real_valued_column('x', 2), layers.embedding_column(kind, 1, initializer=tf.ones_initializer())]
    with tf.Graph().as_default():
        features = {'x': tf.constant([[1.0, 2.0]]), 'kind': tf.constant([['b']])}
        assert run(layers.input_from_feature_columns(features, columns))[0].tolist() == [[1.0, 1.0, 2.0]]
    with tf.Graph().as_default():
        table = lookup.HashTable(tf.lookup.KeyValueTensorInitializer(['a', 'b'], [1, 2]), -1, name='t')
        assert table.init is table.initializer
        words = lookup.index_table_from_tensor(mapping=tf.constant(['x', 'y']), default_value=9)
        back = lookup.index_to_string_table_from_tensor(mapping=tf.constant(['x', 'y']), default_value='?')
        found = run(
            *(t.lookup(tf.constant(keys)) for t, keys in ((table, ['b', 'z']), (words, ['y', 'q']), (back, np.int64([1, 5]))))
        )
        assert [values.tolist() for values in found] == [[2, -1], [1, 9], [b'y', b'?']]
        batches = tf.data.Dataset.range(5).apply(data.batch_and_drop_remainder(2))
        assert [run(tf.data.make_one_shot_iterator(batches).get_next())[0].tolist()] == [[0, 1]]


def test_the_last_batch_of_an_epoch_of_features_is_read(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / 'records')) as writer:
        for number in range(10):
            feature = {'x': tf.train.Feature(int64_list={'value': [number]})}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    spec = {'x': tf.io.FixedLenFeature([], tf.int64)}
    with tf.Graph().as_default(), tf.Session() as session:
        batch = data.read_batch_features(str(tmp_path / 'records'), 4, spec, randomize_input=False, num_epochs=1)
        found = [session.run(batch)['x'].tolist() for _ in range(3)]
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_window_slides_over_a_dataset():
    """Expected are the examples of TensorFlow 1.15's documentation: windows that are not full are dropped."""

    def windows(values, *args, **options):
        batches = tf.data.Dataset.from_tensor_slices(values).apply(data.sliding_window_batch(*args, **options))
        batch = tf.data.make_one_shot_iterator(batches).get_next()
        found = []
        with tf.Session() as session, contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                found.append(tf.nest.map_structure(np.ndarray.tolist, session.run(batch)))
        return found

    with tf.Graph().as_default():
        numbers = np.arange(1, 7)
        assert windows(numbers, 3) == [[1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]
        assert windows(numbers, 3, window_shift=2) == windows(numbers, 3, 2) == [[1, 2, 3], [3, 4, 5]]
        assert windows(numbers, window_size=3, window_stride=2) == [[1, 3, 5], [2, 4, 6]]
        assert windows(({'a': numbers[:3]}, numbers[3:]), 2) == [({'a': [1, 2]}, [4, 5]), ({'a': [2, 3]}, [5, 6])]
        assert windows({'a': numbers[:2]}, 2) == [{'a': [1, 2]}]
        assert windows((numbers[:2],), 2) == [([1, 2],)]
    with pytest.raises(ValueError, match='`stride` and `window_shift`'):
        data.sliding_window_batch(3, stride=1, window_shift=1)


def test_columns_of_sequences_have_the_variables_of_tensorflow_1():
    with tf.Graph().as_default():
        ids = tf.feature_column.sequence_categorical_column_with_identity('ids', 3)
        columns, features = [tf.feature_column.embedding_column(ids, 2)], {'ids': tf.sparse.from_dense([[2, 1], [1, 0]])}
        found, _ = sequence_input_layer(features, columns)
        sequence_input_layer(features, columns)
        with tf.variable_scope('scope'):
            sequence_input_layer(features, columns, trainable=False)
        scopes = ['sequence_input_layer', 'sequence_input_layer_1', 'scope/sequence_input_layer']
        tables = [f'{scope}/ids_embedding/embedding_weights' for scope in scopes]
        assert [variable.op.name for variable in tf.global_variables()] == tables
        assert [variable.op.name for variable in tf.trainable_variables()] == tables[:2]
        table = np.arange(6, dtype=np.float32).reshape(3, 2)
        with tf.Session() as session:
            tf.global_variables()[0].load(table, session)
            assert session.run(found).tolist() == [[[4, 5], [2, 3]], [[2, 3], [0, 0]]]


def test_embeddings_of_old_columns_start_with_a_deviation_of_the_number_of_ids():
    column = layers.embedding_column(layers.sparse_column_with_hash_bucket('word', 10000), 4)
    with tf.Graph().as_default():
        layers.input_from_feature_columns({'word': tf.constant(['a'])}, [column])
        values = run(*tf.global_variables())[0]
    truncated = 0.8796  # The deviation of a normal distribution that is cut off at 2.
    assert np.std(values) == pytest.approx(truncated / np.sqrt(10000), rel=0.03)


def test_tables_that_change_and_sets_have_their_names():
    with tf.Graph().as_default():
        ids = lookup.string_to_index(tf.constant(['b', 'x']), ['a', 'b'])
        ids, texts = run(ids, lookup.index_to_string(tf.constant([0, 7], tf.int64), ['a', 'b'], '?'))
    assert ids.tolist() == [1, -1] and texts.tolist() == [b'a', b'?']
    with tf.Graph().as_default():
        table = Package('tensorflow.contrib.lookup').MutableDenseHashTable(tf.int64, tf.int64, -1, 0, -2)
        with tf.control_dependencies([table.insert(tf.constant([3], tf.int64), tf.constant([5], tf.int64))]):
            found = table.lookup(tf.constant([3, 4], tf.int64))
        metrics = Package('tensorflow.contrib.metrics')
        size = metrics.set_size(metrics.set_difference(tf.constant([[1, 2, 3]]), tf.constant([[2, 4, 5]])))
        found, size, counts = run(found, size, metrics.confusion_matrix([0, 1, 1], [1, 1, 1]))
    assert found.tolist() == [5, -1] and size.tolist() == [2] and counts.tolist() == [[0, 1], [0, 2]]


def test_tables_take_a_hasher_in_its_place(tmp_path):
    file = tmp_path / 'words.txt'
    file.write_text('a\nb\n')
    hasher = Package('tensorflow.contrib.lookup').StrongHashSpec([1, 2])
    with tf.Graph().as_default():
        words = tf.constant(['b', *'cdefghijkl'])
        expected = lookup_ops.index_table_from_tensor(['a', 'b'], 9, hasher_spec=hasher)
        fast = lookup_ops.index_table_from_tensor(['a', 'b'], 9)
        tables = [
            lookup.index_table_from_tensor(['a', 'b'], 9, -1, hasher),
            lookup.index_table_from_tensor(None, 9, -1, hasher, tf.string, 'table', vocabulary_list=['a', 'b']),
            lookup.string_to_index_table_from_tensor(['a', 'b'], 9, -1, hasher),
            lookup.string_to_index_table_from_file(str(file), 9, None, -1, hasher, 'table'),
        ]
        expected, fast, *found = run(*(table.lookup(words) for table in (expected, fast, *tables)))
    assert [ids.tolist() for ids in found] == [expected.tolist()] * 4 and expected.tolist() != fast.tolist()


def test_a_strategy_takes_the_arguments_of_tensorflow_1():
    make, reduce = Package('tensorflow.contrib.distribute').MirroredStrategy, tf.distribute.HierarchicalCopyAllReduce()
    for arguments, options in (
        ((['/cpu:0'], None, None, reduce, False), {}),
        ((), {'num_gpus': 0, 'auto_shard_dataset': True}),
    ):
        strategy = make(*arguments, **options)
        assert strategy.num_replicas_in_sync == 1 and (strategy.extended._cross_device_ops is reduce) == bool(arguments)


def test_texts_become_ids_of_their_words():
    processor = learn.preprocessing.VocabularyProcessor(4, min_frequency=1)
    ids = np.array([*processor.fit_transform(['b a b', 'a c b', 'a a'])])
    assert ids.tolist() == [[2, 1, 2, 0], [1, 0, 2, 0], [1, 1, 0, 0]]  # By frequency: a 4, b 3; c occurs once.
    assert [*processor.transform(['c a z b a'])][0].tolist() == [0, 1, 0, 2]
    assert [*processor.reverse([[1, 2, 0, 0]])] == ['a b <UNK> <UNK>']


def test_a_vocabulary_is_ordered_by_frequency_and_alphabet_and_saved_as_text(tmp_path):
    processor = learn.preprocessing.VocabularyProcessor(3, min_frequency=1)
    processor.fit(['c a-b once', "B's a-b B's c"])
    words = ['<UNK>', "B's", 'a-b', 'c']
    assert processor.vocabulary_._reverse_mapping == words and processor.vocabulary_._freq == {"B's": 2, 'a-b': 2, 'c': 2}
    assert [*learn.preprocessing.tokenizer(['HTTPServer DoIt ünder'])] == [['HTTP', 'Server', 'Do', 'It', 'ünder']]
    processor.save(str(tmp_path / 'vocabulary'))
    restored = learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / 'vocabulary'))
    assert [ids.tolist() for ids in restored.transform(["c z a-b B's", ''])] == [[3, 0, 2], [0, 0, 0]]
    assert len(restored.vocabulary_) == 4 and vars(restored.vocabulary_) == vars(processor.vocabulary_)
    vocabulary = learn.preprocessing.CategoricalVocabulary()
    for word, count in (('x', 5), ('b', 3), ('a', 3), ('y', 1)):
        vocabulary.add(word, count)
    vocabulary.trim(1, max_frequency=5)
    assert vocabulary._mapping == {'<UNK>': 0, 'a': 1, 'b': 2}


def test_a_vocabulary_that_cannot_be_read_is_to_be_fitted_again(tmp_path):
    own = learn.preprocessing.VocabularyProcessor(2, tokenizer_fn=lambda texts: map(list, texts)).fit(['ab'])
    own.save(str(tmp_path / 'own'))
    (tmp_path / 'pickle').write_bytes(b'\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x01a\x94.')
    for name, message in (('own', 'its tokenizer_fn is not saved'), ('pickle', 'was not saved here; pickles')):
        with pytest.raises(ValueError, match=f'{name}: {message}.*: fit the VocabularyProcessor again'):
            learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / name))


@pytest.mark.parametrize('seed, graph_seed', [(3, None), (None, 5), (3, 5)])
def test_mnist_is_shuffled_by_the_seed_of_an_op_or_graph(seed, graph_seed):
    with tf.Graph().as_default():
        tf.set_random_seed(graph_seed)
        found = mnist.DataSet(np.zeros([9, 1, 1, 1], np.uint8), np.arange(9), seed=seed)
    random, order = np.random.RandomState(seed or graph_seed), np.arange(9)
    random.shuffle(order)
    np.testing.assert_array_equal(found.next_batch(9)[1], order)
    changed = np.arange(9)
    random.shuffle(changed)
    np.testing.assert_array_equal(found.next_batch(9)[1], order[changed])


def test_mnist_without_examples_gives_empty_batches():
    images, labels = np.zeros([3, 2, 2, 1], np.uint8), np.arange(3)
    for found, size in ((mnist.DataSet(images, labels), 0), (mnist.DataSet(images[:0], labels[:0]), 5)):
        assert [values.shape for values in found.next_batch(size)] == [(0, 4), (0,)]


def test_mnist_is_read_from_its_files_in_batches_and_a_download_is_checked(tmp_path, monkeypatch):
    images, labels = RANDOM.randint(256, size=[7, 2, 2]).astype(np.uint8), np.arange(7, dtype=np.uint8)
    for split in ('train', 't10k'):
        for name, array, magic in (
            (f'{split}-images-idx3-ubyte.gz', images, 2051),
            (f'{split}-labels-idx1-ubyte.gz', labels, 2049),
        ):
            with gzip.open(tmp_path / name, 'wb') as file:
                file.write(struct.pack(f'>{1 + array.ndim}i', magic, *array.shape) + array.tobytes())
    found = mnist.read_data_sets(str(tmp_path), one_hot=True, validation_size=2)
    assert [split.num_examples for split in found] == [5, 2, 7]
    np.testing.assert_allclose(found.validation.images, images[:2].reshape(2, 4) / 255, rtol=1e-6)
    assert found.test.labels[3].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    seen = [found.train.next_batch(3) for _ in range(3)]
    assert [x.shape for x, _ in seen] == [(3, 4)] * 3 and found.train.epochs_completed == 1
    epoch = np.concatenate([y for _, y in seen])[:5].argmax(1)
    assert sorted(epoch) == [2, 3, 4, 5, 6]
    os.remove(tmp_path / 'train-images-idx3-ubyte.gz')

    class Response:
        def __enter__(self):
            return types.SimpleNamespace(read=lambda: gzip.compress(b'other'))

        def __exit__(self, *unused):
            pass

    monkeypatch.setattr('urllib.request.urlopen', lambda url, timeout: Response())
    with pytest.raises(OSError, match=re.escape('train-images-idx3-ubyte.gz: is not the published file')):
        mnist.read_data_sets(str(tmp_path))
    assert not (tmp_path / 'train-images-idx3-ubyte.gz').exists()
