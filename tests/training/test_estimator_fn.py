"""The model_fn of a program's own Estimator, in a bare graph."""

import functools
import types

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.training.estimator_fn import EstimatorFn
from estimator_trainer.common.training.training import Training
from estimator_trainer.hparams import build
from tests.linear import X, Y
from tests.shared import refused

ModeKeys = tf.estimator.ModeKeys


def make(model_fn, tmp_path, text='', dataset=None, has_input_fn=True, devices=()):
    """Returns an Estimator; model_fn is a function of (features, labels, mode, params)."""
    params, names_read = build.make_hparams('m', {}, 'd', {}, '', text), set()
    given = build.ReadHParams(params, names_read)

    def call(features, labels, mode, config):
        return model_fn(features, labels, mode, given)

    training = Training(Options(save_summary_steps=1), total_steps=3, has_input_fn=has_input_fn)
    wrapped = EstimatorFn(call, dataset or types.SimpleNamespace(), training, params, names_read, devices)
    return tf.estimator.Estimator(wrapped, config=tf.estimator.RunConfig(str(tmp_path), save_summary_steps=0))


def batches():
    return tf.data.Dataset.from_tensor_slices(({'x': X}, Y)).repeat().batch(4)


def linear(features, labels, mode, params, step=True):
    prediction = tf.layers.dense(features['x'], 1)[:, 0]
    loss = tf.losses.mean_squared_error(labels, prediction)
    optimizer = tf.train.GradientDescentOptimizer(params['learning_rate'])
    train_op = optimizer.minimize(loss, tf.train.get_global_step() if step else None)
    return tf.estimator.EstimatorSpec(mode, prediction, loss, train_op)


def test_a_train_op_that_does_not_count_its_steps_is_refused(tmp_path):
    estimator = make(lambda *args: linear(*args, step=False), tmp_path)
    message = refused(estimator.train, batches, max_steps=3)
    assert message.startswith('--model=m: its train_op adds 0 to the global step, not 1: give global_step=')


def test_a_changed_hyper_parameter_that_the_module_does_not_read_is_refused(tmp_path):
    make(linear, tmp_path, 'learning_rate=0.3').train(batches, max_steps=1)
    message = refused(make(linear, tmp_path / 'other', 'gradient_clip_norm=1').train, batches, max_steps=1)
    assert message.startswith('--model=m: gradient_clip_norm=1.0 has no effect, as the module makes the training step')
    # Those of the input count where the framework makes the batches.
    with pytest.raises(UsageError, match='shuffle_buffer=7 has no effect'):
        make(linear, tmp_path / 'other', 'shuffle_buffer=7').train(batches, max_steps=1)


def test_a_framework_dataset_gives_plain_features_by_column_the_weight_among_them_and_one_tensor_of_labels(tmp_path):
    seen = []

    def model_fn(features, labels, mode, params):
        seen.append((type(features), {name: value.shape.as_list() for name, value in features.items()}, labels))
        return tf.estimator.EstimatorSpec(mode, features['x'])

    dataset = types.SimpleNamespace(by_column=lambda params, features: {'first': features['x'][:, :1]})
    estimator = make(model_fn, tmp_path, dataset=dataset, has_input_fn=False)
    with tf.Graph().as_default():
        features = {'x': tf.constant(X), 'example_id': tf.constant(['a'] * 10)}
        labels = {'y': tf.constant(Y), 'weight': tf.ones([10])}
        spec = estimator.model_fn(features, labels, ModeKeys.PREDICT, estimator.config)
        assert seen == [(dict, {'x': [10, 2], 'first': [10, 1], 'weight': [10]}, labels['y'])]
        assert [*spec.predictions] == ['predictions'] and [*spec.export_outputs] == ['serving_default']
        estimator.model_fn(features, {**labels, 'z': labels['y']}, ModeKeys.PREDICT, estimator.config)
        assert {*seen[1][2]} == {'y', 'z'}


def test_training_ends_with_a_warning_where_the_batches_of_an_input_fn_end(tmp_path, caplog):
    estimator = make(linear, tmp_path)
    estimator.train(lambda: batches().take(2), max_steps=3)
    assert estimator.get_variable_value('global_step') == 2
    assert 'Training ends at step 2, as input_fn() has no more batches: let it repeat its data.' in caplog.text
    with pytest.raises(Exception, match=r'input_fn\(\) has no batch to train on at step 2'):
        estimator.train(lambda: batches().take(0), max_steps=3)


def test_a_canned_classifiers_class_has_its_name_among_exported_outputs_and_only_predictions_are_exported(tmp_path):
    params = build.add_metadata(build.make_hparams('m', {}, 'd', {}, '', ''), {'class_names': ['no', 'yes']})
    columns = [tf.feature_column.numeric_column('x', [2])]
    canned = tf.estimator.LinearClassifier(columns, model_dir=str(tmp_path))
    training = Training(Options(), total_steps=3)
    wrapped = EstimatorFn(canned.model_fn, types.SimpleNamespace(), training, params, set())
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.create_global_step()
        spec = wrapped({'x': tf.constant([[1.0, 2.0]])}, None, ModeKeys.PREDICT, {}, canned.config)
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        assert session.run(spec.predictions['class']).tolist() == [0]
        assert {*spec.export_outputs} == {'predict', 'serving_default'}
        assert session.run(spec.export_outputs['serving_default'].outputs['class_name']).tolist() == [b'no']


def test_an_exception_of_a_canned_estimator_is_one_line_and_that_of_the_programs_code_is_its_own(tmp_path):
    canned = tf.estimator.LinearClassifier([tf.feature_column.numeric_column('z', [2])], model_dir=str(tmp_path))
    training = Training(Options(), total_steps=3, has_input_fn=True)
    params = build.make_hparams('m', {}, 'd', {}, '', '')
    wrapped = EstimatorFn(canned.model_fn, types.SimpleNamespace(), training, params, set())
    message = refused(wrapped, {'x': X}, None, ModeKeys.PREDICT, {}, canned.config)
    assert message == '--model=m: its Estimator raises ValueError: Feature z is not in features dictionary.'
    with pytest.raises(KeyError, match='x'):
        make(linear, tmp_path).model_fn({}, Y, ModeKeys.EVAL, canned.config)


def test_a_training_step_that_leaves_out_updates_is_warned_of(tmp_path, caplog):
    def model_fn(features, labels, mode, params, layer, runs):
        normed = layer(features['x'])
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS) if runs else []):
            return linear({'x': normed}, labels, mode, params)

    def tf_layer(x):
        return tf.layers.batch_normalization(x, training=True)

    def keras_layer(x):
        return tf.keras.layers.BatchNormalization()(x, training=True)

    for i, (layer, runs) in enumerate([(tf_layer, True), (tf_layer, False), (keras_layer, False)]):
        caplog.clear()
        fn = functools.partial(model_fn, layer=layer, runs=runs)
        make(lambda *args, fn=fn: fn(*args), tmp_path / str(i)).train(batches, max_steps=1)
        assert ('--model=m: its train_op leaves out 2 updates, as of the averages of batch norm' in caplog.text) == (not runs)


@pytest.mark.parametrize('name', ['loss', 'global_step', 'split', 'mode'])
def test_a_metric_with_the_name_of_one_that_each_evaluation_adds_is_refused(tmp_path, name):
    def model_fn(features, labels, mode, params):
        return tf.estimator.EstimatorSpec(mode, loss=tf.constant(1.0), eval_metric_ops={name: tf.metrics.mean(labels)})

    estimator = make(model_fn, tmp_path)
    message = refused(estimator.model_fn, {'x': X}, Y, ModeKeys.EVAL, estimator.config)
    assert message.startswith(f'--model=m: eval_metric_ops has {name}, which each evaluation has')


def test_nested_features_are_listed_by_their_paths_and_predictions_with_tuples_as_keys_too(tmp_path, caplog):
    def nested(features, labels, mode, params):
        return linear({'x': features['a']['x']}, labels, mode, params)

    tf.logging.set_verbosity(tf.logging.INFO)
    make(nested, tmp_path).train(lambda: batches().map(lambda features, labels: ({'a': features}, labels)), max_steps=1)
    assert 'Input a/x: float32' in caplog.text

    def heads(features, labels, mode, params):
        return tf.estimator.EstimatorSpec(mode, {('one', 'y'): features['x'], ('two', 'y'): features['x']})

    estimator = make(heads, tmp_path)
    with tf.Graph().as_default():
        spec = estimator.model_fn({'x': tf.constant(X)}, None, ModeKeys.PREDICT, estimator.config)
    assert [*spec.predictions] == ['one/y', 'two/y']


def test_weights_of_examples_that_the_training_step_does_not_read_are_warned_of(tmp_path, caplog):
    def weighted(features, labels, mode, params):
        loss = tf.reduce_mean(features['weight'] * tf.square(labels - tf.layers.dense(features['x'], 1)[:, 0]))
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn():
        return batches().map(lambda features, labels: (features, {'y': labels, 'weight': tf.ones_like(labels)}))

    for name, model_fn in {'weighted': weighted, 'linear': linear}.items():
        caplog.clear()
        make(model_fn, tmp_path / name, has_input_fn=False).train(input_fn, max_steps=1)
        assert ('--model=m: does not read the feature weight' in caplog.text) == (name == 'linear')


@pytest.mark.parametrize('is_late', [True, False])
def test_a_saver_that_leaves_out_variables_is_refused(tmp_path, is_late):
    def model_fn(features, labels, mode, params):
        tf.train.get_or_create_global_step()
        saver = None if is_late else tf.train.Saver()
        spec = linear(features, labels, mode, params)
        return spec._replace(scaffold=tf.train.Scaffold(saver=saver or tf.train.Saver()))

    train = functools.partial(make(model_fn, tmp_path).train, batches, max_steps=1)
    if is_late:
        train()
    else:
        assert refused(train).startswith(
            '--model=m: the saver of its Scaffold leaves out dense/kernel, dense/bias: make it after'
        )


@pytest.mark.parametrize('devices', [(), ('/cpu:0', '/cpu:0')])
def test_a_local_init_op_of_the_program_initializes_variables_of_the_framework_and_tables_of_all_towers_too(tmp_path, devices):
    def model_fn(features, labels, mode, params):
        own = tf.Variable(1.0, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES])
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([0], [2.0]), 0.0)
        spec = linear(features, labels * table.lookup(tf.constant(0)), mode, params)
        train_op = tf.group(spec.train_op, tf.debugging.assert_equal(own, 5.0))
        local_init_op = tf.group(own.assign(5.0), tf.tables_initializer())
        return spec._replace(train_op=train_op, scaffold=tf.train.Scaffold(local_init_op=local_init_op))

    make(model_fn, tmp_path, devices=devices).train(batches, max_steps=2)


def test_a_spec_of_another_mode_is_refused(tmp_path):
    estimator = make(lambda features, labels, mode, params: linear(features, labels, ModeKeys.TRAIN, params), tmp_path)
    message = refused(estimator.evaluate, lambda: batches().take(1))
    assert message == '--model=m: model_fn() returns a spec of mode train where mode is eval'


def test_updates_of_a_program_whose_hooks_train_are_not_missed(tmp_path, caplog):
    def model_fn(features, labels, mode, params):
        spec = linear(features, labels, mode, params)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(tf.get_variable('mean', [], trainable=False), 0.1))
        return spec._replace(train_op=tf.assign_add(tf.train.get_global_step(), 1))

    make(model_fn, tmp_path).train(batches, max_steps=1)
    assert 'leaves out' not in caplog.text
