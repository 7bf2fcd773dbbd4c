"""tf.contrib.learn: Estimators of the model_fns of old, their configuration, and Experiments."""

import functools
import types

import tf_estimator  # noqa: F401 - before TensorFlow
from tf_estimator.tf1 import layers
from tf_estimator.tf1.learn import evaluation_metrics, learners
from tf_estimator.tf1.modules import Package

from google.protobuf import text_format
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

learn = Package('tensorflow.contrib.learn')
X, Y = np.array([[1.0], [2.0], [4.0]]), np.array([3.0, 5.0, 9.0])


def model_fn(features, targets, mode, params):
    """Predicts w times the features; trained with the targets 3, 5 and 9 and a rate of 0, w stays 2."""
    predictions = tf.get_variable('w', initializer=2.0) * features[:, 0]
    loss = tf.reduce_mean(tf.abs(predictions - targets))  # In predictions, too: the targets are placeholders then.
    if mode == learn.ModeKeys.INFER:
        return predictions, None, None
    return predictions, loss, tf.train.GradientDescentOptimizer(params['rate']).minimize(loss, tf.train.get_global_step())


def test_a_model_fn_of_old_trains_evaluates_and_predicts_with_arrays(tmp_path):
    estimator = learn.Estimator(model_fn, str(tmp_path), params={'rate': 0.0}).fit(X, Y, steps=2)
    metrics = {
        'mean': learn.MetricSpec(tf.metrics.mean_absolute_error),
        'largest': lambda predictions, labels: tf.metrics.mean(tf.reduce_max(labels - predictions)),
    }
    found = estimator.evaluate(X, Y, metrics=metrics)
    assert found == {'loss': 1.0, 'mean': 1.0, 'largest': 1.0, 'global_step': 2}
    assert [*estimator.predict(X)] == [2.0, 4.0, 8.0]
    np.testing.assert_array_equal(estimator.predict(X, batch_size=2, as_iterable=False), [2.0, 4.0, 8.0])
    assert [[*batch] for batch in estimator.predict(X, batch_size=2, iterate_batches=True)] == [[2.0, 4.0], [8.0]]
    compatible = learn.SKCompat(estimator).fit(X, Y, steps=1)
    assert compatible.predict(X).tolist() == [2.0, 4.0, 8.0] and compatible.score(X, Y, metrics=metrics)['mean'] == 1.0
    for call, message in (
        (lambda: estimator.fit(), 'give an input_fn, or x'),
        (lambda: learn.Estimator(lambda features, labels: 0, params={}), 'does not have a params argument'),
        (
            lambda: learn.Estimator(lambda features, labels: 0, str(tmp_path)).fit(X, Y),
            'Unrecognized value returned by model_fn',
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def served(path, key='serving_default', **feeds):
    """Returns what a signature of a SavedModel returns."""
    with tf.Session(graph=tf.Graph()) as session:
        model = tf.saved_model.load(session, ['serve'], path)
        signature = model.signature_def[key]
        names = {name: info.name for name, info in signature.outputs.items()}
        return session.run(names, {signature.inputs[name].name: value for name, value in feeds.items()})


def test_arguments_of_old_of_canned_estimators_have_no_effect_are_refused_or_engineer_features(tmp_path):
    columns = [tf.feature_column.numeric_column('x')]
    options = {'enable_centered_bias': False, 'embedding_lr_multipliers': None}

    def reversed_sign(features, labels):
        return {'x': -features['x']}, labels

    model_dir = str(tmp_path / 'model')
    plain = learn.LinearRegressor(columns, model_dir, **options).fit({'x': X[:, 0]}, Y, steps=1)
    engineered = learn.LinearRegressor(columns, model_dir, feature_engineering_fn=reversed_sign, **options)
    np.testing.assert_array_equal([*engineered.predict({'x': -X[:, 0]})], [*plain.predict({'x': X[:, 0]})])
    assert len({*plain.predict({'x': X[:, 0]})}) == 3
    options |= {'fix_global_step_increment_bug': True, 'input_layer_min_slice_size': 2**20}
    learn.DNNLinearCombinedRegressor(str(tmp_path), linear_feature_columns=columns, **options)
    with pytest.raises(ValueError, match='^LinearClassifier: TensorFlow 2 has no enable_centered_bias: omit it$'):
        learn.LinearClassifier(columns, enable_centered_bias=True)
    with pytest.raises(ValueError, match='^LinearRegressor: TensorFlow 2 has no _joint_weights: omit it$'):
        learn.LinearRegressor(columns, _joint_weights=True)


def test_arguments_of_canned_estimators_by_position_are_in_the_order_of_old(tmp_path):
    columns, path = [tf.feature_column.numeric_column('x')], str(tmp_path)
    for make, values, outputs, optimizers in (
        (learn.DNNClassifier, ([2], columns, path, 3, 'w', 'SGD', tf.tanh, None, 1.0, False), 3, {'GradientDescent'}),
        (
            learn.DNNRegressor,
            ([2], columns, path, 'w', 'SGD', tf.tanh, None, 1.0, False, None, None, 4),
            4,
            {'GradientDescent'},
        ),
        (learn.LinearClassifier, (columns, path, 3, 'w', 'Adam', 1.0, False, False, None, None, [*'abc']), 3, {'Adam'}),
        (learn.LinearRegressor, (columns, path, 'w', 'Adam', 1.0, False, 4), 4, {'Adam'}),
        (
            learn.DNNLinearCombinedClassifier,
            (path, 3, 'w', columns, 'Adam', False, columns, 'SGD', [2], tf.tanh),
            3,
            {'Adam', 'GradientDescent'},
        ),
        (
            learn.DNNLinearCombinedRegressor,
            (path, 'w', columns, 'Adam', False, columns, 'SGD', [2], tf.tanh, None, 1.0, False, 4),
            4,
            {'Adam', 'GradientDescent'},
        ),
    ):
        estimator, is_classifier = make(*values), 'Classifier' in make.__name__
        with tf.Graph().as_default() as graph:
            tf.train.create_global_step()
            features = {name: tf.ones([5, 1]) for name in 'xw'}
            has_names = make is learn.LinearClassifier
            labels = tf.constant([['a']] * 5) if has_names else tf.zeros([5, 1 if is_classifier else 4], tf.int64)
            estimator._call_model_fn(features, labels, learn.ModeKeys.TRAIN, estimator.config)
            applied = {
                op.type.removeprefix('Resource').removeprefix('Apply') for op in graph.get_operations() if 'Apply' in op.type
            }
            assert applied == optimizers
        with tf.Graph().as_default() as graph:
            features = {'x': tf.ones([5, 1])}
            found = estimator._call_model_fn(features, None, learn.ModeKeys.INFER, estimator.config).predictions
            assert found['probabilities' if is_classifier else 'scores'].shape[1] == outputs
            assert any(op.type == 'Tanh' for op in graph.get_operations()) == ('DNN' in make.__name__)
    for values, options in (((columns,), {'feature_columns': columns}), ((None,) * 12, {})):
        with pytest.raises(TypeError, match='^LinearClassifier got too many values, or one by its position and its name$'):
            learn.LinearClassifier(*values, **options)


def test_an_export_serves_the_chosen_outputs(tmp_path):
    def several(features, labels, mode):
        w = tf.get_variable('w', initializer=2.0) * features['x']
        outputs = {'twice': (None, {'y': w}), 'four_times': (None, {'y': 2 * w})}
        train_op = tf.assign_add(tf.train.get_global_step(), 1)
        return learn.ModelFnOps(mode, {'y': w}, tf.reduce_sum(w), train_op, output_alternatives=outputs)

    def inputs():
        given = tf.placeholder(tf.float32, [None])
        return learn.utils.input_fn_utils.InputFnOps({'x': given + 1}, None, {'given': given})

    estimator = learn.Estimator(several, str(tmp_path / 'model')).fit({'x': X[:, 0]}, Y, steps=1)
    assert [row['y'] for row in estimator.predict({'x': X[:, 0]})] == [2.0, 4.0, 8.0]
    for key, expected in (('twice', [8.0]), ('four_times', [16.0])):
        path = estimator.export_savedmodel(str(tmp_path / key), inputs, key).decode()
        assert served(path, given=[3.0])['y'] == expected and served(path, 'twice', given=[3.0])['y'] == [8.0]
        strategy = learn.make_export_strategy(inputs, default_output_alternative_key=key)
        exported = strategy.export(estimator, str(tmp_path / f'{key}_strategy'), None, {}, True).decode()
        assert served(exported, given=[3.0])['y'] == expected
    for key, message in ((None, "one of .'four_times', 'twice'"), ('other', "key other, but .'four_times', 'twice'")):
        with pytest.raises(ValueError, match=message):
            estimator.export_savedmodel(str(tmp_path), inputs, key)
    regressor = learn.LinearRegressor([tf.feature_column.numeric_column('x')], str(tmp_path / 'canned'))
    regressor.fit({'x': X[:, 0]}, Y, steps=1)
    with tf.Graph().as_default():
        placeholders = learn.utils.input_fn_utils.build_default_serving_input_fn({'x': tf.zeros([4], tf.float32, 'x')})
    path = regressor.export_savedmodel(str(tmp_path / 'exported'), placeholders).decode()
    expected = [*regressor.predict({'x': X[:, 0]})]
    np.testing.assert_allclose(served(path, x=X[:, 0])['scores'], expected, rtol=1e-6)
    parsing = learn.utils.input_fn_utils.build_parsing_serving_input_fn({'x': tf.io.FixedLenFeature([1], tf.float32)})
    path = regressor.export_savedmodel(str(tmp_path / 'of_examples'), parsing).decode()
    examples = [f'features {{feature {{key: "x" value {{float_list {{value: {x}}}}}}}}}' for x in X[:, 0]]
    examples = [text_format.Parse(text, tf.train.Example()).SerializeToString() for text in examples]
    np.testing.assert_allclose(served(path, inputs=examples)['outputs'][:, 0], expected, rtol=1e-6)


@pytest.mark.parametrize('epochs', [1, None])
def test_batches_of_records_are_read_from_files(tmp_path, epochs):
    example = lambda value: tf.train.Example(  # noqa: E731
        features=tf.train.Features(feature={'x': tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))})
    )
    for file in (0, 1):
        with tf.io.TFRecordWriter(str(tmp_path / f'{file}.tfrecord')) as writer:
            for value in range(3):
                writer.write(example(10 * file + value).SerializeToString())
    tmp_path.joinpath('a.txt').write_text('header\none\ntwo\n')

    def batches(read, count):
        with tf.Graph().as_default(), tf.Session() as session:
            batch = read()
            return [session.run(batch) for _ in range(count)]

    options = dict(features={'x': tf.io.FixedLenFeature([], tf.int64)}, randomize_input=False, num_epochs=epochs)
    found = batches(lambda: learn.read_batch_record_features(str(tmp_path / '*.tfrecord'), 4, **options)['x'], 2)
    assert [batch.tolist() for batch in found] == [[0, 1, 2, 10], [11, 12] if epochs else [11, 12, 0, 1]]
    shuffled = batches(
        lambda: learn.io.read_batch_features(
            [str(tmp_path / '*.tfrecord')], 6, options['features'], tf.TFRecordReader, num_epochs=epochs
        ),
        1,
    )
    assert sorted(shuffled[0]['x']) == [0, 1, 2, 10, 11, 12]
    reader = lambda: tf.TextLineReader(skip_header_lines=1)  # noqa: E731
    lines = batches(lambda: learn.read_batch_examples(str(tmp_path / '*.txt'), 2, reader, False, epochs), 1)
    assert lines[0].tolist() == [b'one', b'two']
    with pytest.raises(ValueError, match='no WholeFileReader here'):
        learn.read_batch_examples(str(tmp_path / '*.txt'), 2, tf.WholeFileReader)


def test_features_are_engineered_and_a_key_chooses_the_predictions(tmp_path):
    def dict_fn(features, labels, mode, model_dir):
        assert model_dir == str(tmp_path)
        predictions, loss, train_op = model_fn(features['x'], labels, mode, {'rate': 0.0})
        return learn.ModelFnOps(mode, {'y': predictions, 'half': predictions / 2}, loss, train_op)

    def engineer(features, labels):
        return {'x': features['x'] + 1}, labels

    estimator = learn.Estimator(dict_fn, str(tmp_path), feature_engineering_fn=engineer).fit({'x': X}, Y, steps=1)
    found = estimator.evaluate({'x': X}, Y, metrics={('error', 'half'): lambda p, y: tf.metrics.mean_absolute_error(y, p)})
    assert found['error'] == pytest.approx((1 + 2 + 4) / 3)  # Of 3, 5, 9 and 2, 3, 5.
    assert estimator.predict({'x': X}, outputs=['half'], as_iterable=False)['half'].tolist() == [2.0, 3.0, 5.0]


def test_canned_estimators_take_arrays_and_predict_classes_and_scores(tmp_path):
    x = np.eye(3, dtype=np.float32).repeat(4, 0)
    y = np.arange(3).repeat(4)
    columns = [layers.real_valued_column('', dimension=3)]
    classifier = learn.LinearClassifier(columns, str(tmp_path / 'a'), n_classes=3).fit(x, y, steps=60)
    assert classifier.evaluate(x, y)['accuracy'] == 1.0
    np.testing.assert_array_equal(classifier.predict(x[::4], as_iterable=False), [0, 1, 2])
    assert [*classifier.predict_classes(x[::4])] == [0, 1, 2]
    found = learn.SKCompat(classifier).predict(x[::4])
    assert found.keys() == {'classes', 'logits', 'probabilities'}
    assert found['classes'].tolist() == [0, 1, 2] and found['probabilities'].argmax(1).tolist() == [0, 1, 2]
    share = classifier.evaluate(x, y, metrics={('share', 'classes'): lambda classes, y: tf.metrics.accuracy(y, classes)})
    assert share['share'] == 1.0 and learn.SKCompat(classifier).predict(x, outputs=['classes']).keys() == {'classes'}
    chances = np.array([*classifier.predict_proba(x[::4])])
    assert chances.shape == (3, 3) and (chances.argmax(1) == [0, 1, 2]).all()
    serving = tf.estimator.export.build_raw_serving_input_receiver_fn({'': tf.zeros([1, 3])})
    assert classifier.export_saved_model(str(tmp_path / 'export'), serving)
    named = learn.DNNClassifier([4], columns, str(tmp_path / 'b'), n_classes=3, label_keys=['a', 'b', 'c'])
    named.fit(input_fn=lambda: (tf.constant(x), tf.constant(np.array(['a', 'b', 'c'])[y])), steps=1)
    assert {*named.predict(x)} <= {b'a', b'b', b'c'}
    regressor = learn.LinearRegressor(columns[0], str(tmp_path / 'c'), optimizer=tf.train.GradientDescentOptimizer(0.0)).fit(
        x, y, steps=1
    )
    assert regressor.evaluate(x, y)['loss'] == pytest.approx((0 + 1 + 4) / 3)  # The mean of squares.
    for outputs in (None, ['scores']):
        predict = learn.SKCompat(regressor).predict
        assert [predict(x[:n], outputs=outputs)['scores'].tolist() for n in (1, 2)] == [[0.0], [0.0, 0.0]]
    assert [*regressor.predict(x[:2])] == [0.0, 0.0] and regressor.predict_scores(x, as_iterable=False).shape == (12,)


def test_canned_estimators_clip_gradients_by_their_norm(tmp_path):
    x, y = np.array([[1.0], [2.0], [4.0]]), np.array([3.0, 5.0, 9.0])
    gradients = -2 * np.array([(x[:, 0] * y).mean(), y.mean()])  # Of the weight and the bias, at zeros.
    columns = [layers.real_valued_column('')]
    for name, norm, expected in (
        ('clipped', 0.5, -0.5 * gradients / np.linalg.norm(gradients)),
        ('free', None, -gradients),
        ('off', 0, -gradients),
    ):
        optimizer = tf.train.GradientDescentOptimizer(1.0)
        regressor = learn.LinearRegressor(columns, str(tmp_path / name), None, optimizer, norm).fit(x, y, steps=1)
        weights = {name.rpartition('/')[2]: regressor.get_variable_value(name) for name in regressor.get_variable_names()}
        np.testing.assert_allclose([weights['weights'][0, 0], weights['bias_weights'][0]], expected, rtol=1e-5)


def test_columns_of_one_name_are_all_learned(tmp_path):
    x, y = np.arange(6, dtype=np.float32)[:, None], np.array([1.0, 2.0, 3.0, 10.0, 20.0, 30.0])
    age = layers.real_valued_column('')
    buckets = [layers.bucketized_column(age, bounds) for bounds in ([2.5], [0.5, 1.5], [3.5, 4.5])]
    regressor = learn.LinearRegressor([*buckets, buckets[0]], str(tmp_path), optimizer=tf.train.AdagradOptimizer(3.0))
    found = regressor.fit(x, y, steps=300).predict(x, as_iterable=False)
    np.testing.assert_allclose(found, y, atol=0.5)  # Each bucket has a weight of its own.
    columns = [layers.embedding_column(layers.sparse_column_with_integerized_feature('', 6), size) for size in (2, 3)]
    network = learn.DNNRegressor([4], columns, str(tmp_path / 'b')).fit(x.astype(np.int64), y, steps=1)
    shapes = [network.get_variable_value(n).shape for n in network.get_variable_names() if n.endswith('embedding_weights')]
    assert sorted(shapes) == [(6, 2), (6, 3)]


def test_a_monitor_evaluates_new_checkpoints_and_stops_a_training_that_does_not_become_better(tmp_path, caplog):
    config = learn.RunConfig(save_checkpoints_steps=2)
    monitor = learn.monitors.ValidationMonitor
    for name, rate, options, end, best in (
        ('same', 0.0, {'x': X, 'y': Y, 'early_stopping_rounds': 4}, 7, (True, 3, 1.0)),  # Looks at the steps 3, 5 and 7.
        ('better', -0.01, {'x': X, 'y': Y, 'early_stopping_rounds': 4, 'early_stopping_metric_minimize': False}, 8, None),
        ('free', 0.0, {'input_fn': learners._input_fn(X, Y, None, None), 'eval_steps': 1}, 8, (False, None, None)),
        ('once', 0.0, {'x': X, 'y': Y, 'early_stopping_rounds': 1, 'check_interval_secs': 1000}, 8, (False, 3, 1.0)),
    ):
        hook = monitor(every_n_steps=2, **{'check_interval_secs': None, **options})
        hook._looked_at_step = 1  # Checkpoints are of even steps: the order of hooks does not matter.
        estimator = learn.Estimator(model_fn, str(tmp_path / name), config, {'rate': rate}).fit(X, Y, steps=8, monitors=[hook])
        assert estimator.get_variable_value('global_step') == end
        if best:
            assert (hook.early_stopped, hook.best_step, hook.best_value) == best
        else:
            assert not hook.early_stopped and hook.best_step == 7 and hook.best_metrics['loss'] > 1
    counted = monitor(X, Y, every_n_steps=20, check_interval_secs=None, early_stopping_rounds=100)

    def in_tens(features, labels):
        loss, step = tf.reduce_mean(tf.get_variable('w', initializer=2.0) * features), tf.train.get_global_step()
        return None, loss, tf.assign_add(step, 10)

    learn.Estimator(in_tens, str(tmp_path / 'tens'), learn.RunConfig(save_checkpoints_steps=10)).fit(
        X, Y, max_steps=40, monitors=[counted]
    )
    assert (counted._looked_at_step, counted.best_step) == (40, 20)
    other, hook = monitor(X, Y), tf.train.SessionRunHook()
    for is_chief, expected in ((True, [other, hook]), (False, [hook])):
        task = types.SimpleNamespace(config=types.SimpleNamespace(is_chief=is_chief))
        assert learn.monitors.replace_monitors_with_hooks([other, hook], task) == expected
    assert 'early_stopping_metric' in str(pytest.raises(ValueError, _monitored, estimator, monitor).value)
    with pytest.raises(ValueError, match='give an input_fn, or x'):
        monitor()


def _monitored(estimator, monitor):
    hook = monitor(X, Y, every_n_steps=1, early_stopping_rounds=1, early_stopping_metric='no_such')
    estimator.fit(X, Y, steps=1, monitors=[hook])


def test_a_configuration_has_masters_and_the_sessions_settings(monkeypatch):
    monkeypatch.delenv('TF_CONFIG', raising=False)
    config = learn.RunConfig(master='grpc://a', evaluation_master='grpc://b', save_checkpoints_steps=5)
    assert (config.master, config.evaluation_master, config.save_checkpoints_secs) == ('grpc://a', 'grpc://b', None)
    by_position = learn.RunConfig('grpc://a', 0, False, 1, 7, 50, None, 5, 2, 3, 20, None, 'grpc://b', 'model')
    assert (by_position.tf_random_seed, by_position.save_summary_steps, by_position.save_checkpoints_steps) == (7, 50, 5)
    assert (by_position.evaluation_master, by_position.model_dir) == ('grpc://b', 'model')
    for values, options in (([7], {'tf_random_seed': 8}), ([None] * 13, {})):
        with pytest.raises(TypeError, match='^RunConfig got too many values, or one by its position and its name$'):
            learn.RunConfig('', 0, False, 1, *values, **options)
    config.tf_config.gpu_options.allow_growth = True
    assert config.replace(tf_random_seed=3).session_config.gpu_options.allow_growth
    assert learn.RunConfig().master == '' and learn.RunConfig(num_cores=2).tf_config.intra_op_parallelism_threads == 2


def test_an_experiment_calls_saving_listeners_and_refuses_what_it_does_not_know(tmp_path):
    class Listener(tf.train.CheckpointSaverListener):
        saved = 0

        def after_save(self, session, global_step_value):
            self.saved += 1

    def make(output_dir):
        estimator = learn.Estimator(model_fn, output_dir, params={'rate': 0.0})
        inputs = learners._input_fn(X, Y, None, None)
        return learn.Experiment(estimator, inputs, inputs, None, 1, None, saving_listeners=[listener])

    listener = Listener()
    assert isinstance(learn.run(make, str(tmp_path), 'train'), learn.Estimator) and listener.saved == 2  # At steps 0 and 1.
    assert learn.run(make, str(tmp_path), 'evaluate')['loss'] == 1.0
    with pytest.raises(ValueError, match='non-existent task no_such: there are .*train_and_evaluate'):
        learn.run(make, str(tmp_path), 'no_such')
    with pytest.raises(TypeError, match='no_such'):
        learn.Experiment(None, None, None, no_such=1)


def test_inputs_of_arrays_shuffle_by_default():
    x, found = np.arange(100.0), []
    for options in ({}, {'shuffle': False}):
        with tf.Graph().as_default():
            values = learn.io.numpy_input_fn({'x': x}, batch_size=100, **options)()['x']
            with tf.train.MonitoredSession() as session:
                found.append(session.run(values).tolist())
    assert sorted(found[0]) == found[1] == x.tolist() and found[0] != found[1]


def test_a_model_fn_takes_the_last_step_of_each_sequence():
    rnn_common = learn.submodule('python').submodule('learn').submodule('estimators').submodule('rnn_common')
    activations = np.arange(24.0).reshape(2, 4, 3)
    for dtype in (np.int32, np.int64):
        with tf.Graph().as_default(), tf.Session() as session:
            tensor = tf.constant(activations)
            found = rnn_common.select_last_activations(tensor, tf.constant([2, 4], dtype))
            last = rnn_common.select_last_activations(tensor, None)
            np.testing.assert_array_equal(session.run(found), [activations[0, 1], activations[1, 3]])
            np.testing.assert_array_equal(session.run(last), activations[:, 3])
    assert rnn_common.RNNKeys.SEQUENCE_LENGTH_KEY == 'sequence_length'


def test_optimizers_that_are_absent_none_or_names_have_the_rates_of_old(tmp_path):
    one = [tf.feature_column.numeric_column('x')]
    many = [*one, *(tf.feature_column.numeric_column(f'x{i}') for i in range(25))]
    network = dict(dnn_feature_columns=one, dnn_hidden_units=[1])

    def bias(make, **options):
        """Returns the bias after a step from 0 to 1: the gradient is -2, the accumulator 0.1 at first, and then 4.1."""
        regressor = make(model_dir=str(tmp_path), **options)
        with tf.Graph().as_default(), tf.Session() as session:
            tf.train.create_global_step()
            features = {column.key: tf.zeros([1, 1]) for column in many}
            spec = regressor._call_model_fn(features, tf.ones([1]), learn.ModeKeys.TRAIN, regressor.config)
            session.run(tf.global_variables_initializer())
            session.run(spec.train_op)
            has_network = 'dnn_feature_columns' in options
            assert has_network == any(op.type == 'Relu' for op in session.graph.get_operations())
            return session.run('dnn/logits/bias:0' if has_network else 'linear/linear_model/bias_weights:0')[0]

    for make, options, rate in (
        (learn.DNNLinearCombinedRegressor, dict(linear_feature_columns=one), 0.2),
        (learn.DNNLinearCombinedRegressor, dict(linear_feature_columns=one, linear_optimizer='Ftrl'), 0.2),
        (learn.DNNLinearCombinedRegressor, dict(linear_feature_columns=many, linear_optimizer=None), 26**-0.5),
        (learn.DNNLinearCombinedRegressor, network, 0.05),
        (learn.DNNLinearCombinedRegressor, {**network, 'dnn_optimizer': None, 'dnn_activation_fn': None}, 0.05),
        (learn.DNNLinearCombinedRegressor, {**network, 'dnn_optimizer': 'Adagrad', 'gradient_clip_norm': 9}, 0.05),
        (learn.LinearRegressor, dict(feature_columns=one, optimizer=None), 0.2),
        (learn.LinearRegressor, dict(feature_columns=many), 26**-0.5),
        (learn.LinearRegressor, dict(feature_columns=many, optimizer='Ftrl'), 0.2),
    ):
        assert bias(make, **options) == pytest.approx(2 * rate / 4.1**0.5), (make, options)
    assert learn.DNNClassifier([1], one, optimizer=None)


def test_the_loss_of_an_evaluation_with_weights_is_by_their_sum_as_the_mean_over_batches(tmp_path):
    x, y = np.zeros([4], np.float32), np.sqrt([2.0, 2.0, 5.0, 5.0])
    inputs = {'x': x, 'w': np.array([1, 1, 0, 0])}
    regressor = learn.LinearRegressor(
        [tf.feature_column.numeric_column('x')],
        str(tmp_path),
        'w',
        tf.train.GradientDescentOptimizer(0.0),
    ).fit(inputs, y, steps=1)
    assert regressor.evaluate(inputs, y)['loss'] == pytest.approx(2.0)
    inputs['w'] = np.array([1, 3, 1, 0])
    assert regressor.evaluate(inputs, y, batch_size=2)['loss'] == pytest.approx(3.5)  # The mean of 2 and 5.


def test_metrics_get_what_their_arguments_are_named_for():
    predictions, labels, inputs = {'a': 2, 'b': 30}, {'x': 500, 'y': 7000}, {'w': 10**5}
    for function, keys, expected in (
        (lambda target, prediction: target - prediction, ('a', 'x'), 500 - 2),
        (lambda logits, label: label - logits, ('a', 'x'), 500 - 2),
        (lambda targets, value: targets - value, ('b', 'y'), 7000 - 30),
        (lambda value, labels: labels - value, ('b', 'y'), 7000 - 30),
        (lambda value: value, ('b',), 30),
        (lambda other=1, predictions=0: predictions + other, ('b',), 31),
        (lambda value, weight: value + weight, ('b', None, 'w'), 10**5 + 30),
        (lambda weights, labels, predictions: (weights, labels, predictions), ('a', 'x', 'w'), (10**5, 500, 2)),
        (functools.partial(lambda predictions, label, labels: predictions + label + labels, label=1), ('a', 'x'), 503),
    ):
        one = labels if len(keys) > 1 and keys[1] else {'x': 500}
        spec = learn.MetricSpec(function, *keys)
        assert spec.create_metric_ops(inputs, one, predictions) == expected
    assert (spec.prediction_key, spec.label_key, spec.weight_key) == ('a', 'x', None)
    assert spec.metric_fn(labels=3, predictions=4) == 3 + 4 + 1
    for make, message in (
        (lambda: learn.MetricSpec(lambda value: value, label_key='x'), 'none of the arguments .*target'),
        (lambda: learn.MetricSpec(lambda value, labels: value, weight_key='w'), 'none of the arguments .*weight'),
        (lambda: learn.MetricSpec(lambda label, target: label), 'ambiguous arguments .*label.*target'),
        (
            lambda: learn.MetricSpec(lambda value: value).create_metric_ops(inputs, 1, predictions),
            'predictions a, b: .* a prediction_key',
        ),
        (
            lambda: learn.MetricSpec(lambda value: value, 'a').create_metric_ops(inputs, 1, 2),
            "prediction_key 'a', but only one prediction",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def test_functions_get_the_labels_of_their_key_or_the_only_ones():
    def measured(labels, predictions, **metrics):
        return evaluation_metrics.metric_fn(metrics.get('pairs', metrics))({}, labels, predictions)

    both = {('sum', 'a'): lambda predictions, labels: predictions + labels}
    assert measured({'a': 10, 'b': 20}, {'a': 1, 'b': 2}, pairs=both) == {'sum': 11}
    assert measured({'x': 10}, {'a': 1, 'b': 2}, pairs=both) == measured(10, {'a': 1, 'b': 2}, pairs=both) == {'sum': 11}
    assert measured({'x': 10, 'y': 20}, 1, larger=lambda p, labels: labels['y'] - labels['x'] - p) == {'larger': 9}


def test_predictions_and_problems_have_the_keys_of_old():
    estimators = learn.submodule('python').submodule('learn').submodule('estimators')
    for keys in (learn.PredictionKey, estimators.submodule('prediction_key').PredictionKey):
        assert (keys.CLASSES, keys.PROBABILITIES, keys.SCORES) == ('classes', 'probabilities', 'scores')
        assert (keys.LOGITS, keys.LOGISTIC, keys.TOP_K, keys.GENERIC) == ('logits', 'logistic', 'top_k', 'output')
    kinds = estimators.submodule('constants').ProblemType
    assert kinds is learn.ProblemType and (kinds.UNSPECIFIED, kinds.CLASSIFICATION) == (0, 1)
    assert (kinds.LINEAR_REGRESSION, kinds.LOGISTIC_REGRESSION) == (2, 3)
