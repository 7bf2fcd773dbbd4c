"""Custom and canned Estimators, and those of Keras models: training, evaluation, export, hooks, early stopping."""

import functools
import re
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tests.tf_estimator.slope import X, Y, input_fn, make_estimator, model_fn, slope_after

# Of protobuf 6, about TensorFlow 2.20's own code.
pytestmark = pytest.mark.filterwarnings('ignore:float_format is deprecated')
BOTH_APIS = pytest.mark.parametrize('api', [tf, tf1], ids=['tf', 'tf.compat.v1'])


def loss_after(steps):
    return 10 * 0.25**steps


def slope_of(estimator):
    return pytest.approx(float(estimator.get_variable_value('slope')), abs=1e-6)


def step_of(estimator):
    return int(estimator.get_variable_value('global_step'))


def serving_input_fn():
    x = tf1.placeholder(tf.float32, [None])
    return tf.estimator.export.ServingInputReceiver({'x': x}, {'x': x})


def served(path, x):
    """Returns the predictions of the SavedModel at `path`."""
    return tf.saved_model.load(str(path)).signatures['serving_default'](x=tf.constant(x))['y'].numpy()


def losses_in(directory):
    """Returns {step: loss} of the event files of a directory."""
    events = [event for path in directory.glob('events*') for event in tf1.train.summary_iterator(str(path))]
    return {event.step: value.simple_value for event in events for value in event.summary.value if value.tag == 'loss'}


def train_and_evaluate(estimator, steps, hooks=(), exporters=()):
    training = tf.estimator.TrainSpec(input_fn, max_steps=steps, hooks=hooks)
    evaluation = tf.estimator.EvalSpec(input_fn, steps=1, exporters=exporters, start_delay_secs=0, throttle_secs=0)
    return tf.estimator.train_and_evaluate(estimator, training, evaluation)


@BOTH_APIS
def test_an_estimator_trains_evaluates_predicts_and_exports(api, tmp_path):
    estimator = make_estimator(tmp_path, api)
    estimator.train(input_fn, steps=2)
    estimator.train(input_fn, max_steps=3)
    assert slope_of(estimator) == slope_after(3)
    metrics = estimator.evaluate(input_fn, steps=2)
    assert metrics == {'global_step': 3, 'loss': pytest.approx(loss_after(3)), 'error': pytest.approx(0.25 * 1.5)}
    np.testing.assert_allclose([p['y'] for p, _ in zip(estimator.predict(input_fn), range(2))], [1.75, 3.5])
    path = estimator.export_saved_model(str(tmp_path / 'export'), serving_input_fn)
    np.testing.assert_allclose(served(path.decode(), [1.0, -4.0]), [1.75, -7])


def test_training_has_hooks_listeners_and_a_run_config(tmp_path, caplog):
    caplog.set_level('INFO', 'tensorflow')
    estimator = make_estimator(tmp_path, save_checkpoints_steps=2, save_summary_steps=2)
    seen = mock.create_autospec(tf.estimator.SessionRunHook, instance=True)
    seen.before_run.return_value = tf.estimator.SessionRunArgs({'loss': 'Mean:0'})
    listener = mock.create_autospec(tf.estimator.CheckpointSaverListener, instance=True)
    listener.after_save.return_value = None
    evaluator = tf.estimator.experimental.InMemoryEvaluatorHook(estimator, input_fn, steps=1, every_n_iter=2)
    hooks = [seen, evaluator, tf.estimator.StopAtStepHook(last_step=5)]
    estimator.train(input_fn, hooks=hooks, saving_listeners=[listener])

    assert step_of(estimator) == 5
    seen_losses = [call.args[1].results['loss'] for call in seen.after_run.mock_calls]
    assert seen_losses == pytest.approx([loss_after(step) for step in range(5)])
    assert losses_in(tmp_path) == pytest.approx({1: 10, 3: loss_after(2), 5: loss_after(4)})
    begin, *calls = listener.mock_calls
    saves = [(when, step) for step in (0, 2, 4, 5) for when in ('before_save', 'after_save')]
    assert begin == mock.call.begin() and [(name, args[1]) for name, args, _ in calls] == [*saves, ('end', 5)]
    errors = re.findall(r'Saving dict .* error = ([\d.]+)', caplog.text)
    assert errors == ['3.0', '0.75', '0.1875', '0.09375']  # Before training, after two and four steps, at the end.


def test_training_stops_early_or_at_a_loss_that_is_not_a_number(tmp_path):
    estimator = make_estimator(tmp_path, rate=0, save_checkpoints_steps=1)
    make_hook = tf.estimator.experimental.stop_if_no_decrease_hook
    train_and_evaluate(estimator, 50, [make_hook(estimator, 'loss', 2, run_every_secs=None, run_every_steps=1)])
    assert 3 <= step_of(estimator) <= 7
    with pytest.raises(tf.estimator.NanLossDuringTrainingError):
        estimator.train(lambda: tf.data.Dataset.from_tensors(({'x': X}, Y * np.nan)).repeat(), steps=2)


def test_train_and_evaluate_evaluates_each_checkpoint_and_exports(tmp_path):
    estimator = make_estimator(tmp_path, save_checkpoints_steps=2)
    exporters = [
        tf.estimator.FinalExporter('final', serving_input_fn),
        tf.estimator.LatestExporter('latest', serving_input_fn, exports_to_keep=1),
        tf.estimator.BestExporter('best', serving_input_fn, exports_to_keep=2),
    ]
    metrics, exported = train_and_evaluate(estimator, 4, exporters=exporters)
    assert metrics['global_step'] == 4 and len(exported) == 3
    assert losses_in(tmp_path / 'eval') == pytest.approx({step: loss_after(step) for step in (2, 4)}, rel=1e-4)
    exports = {name: sorted((tmp_path / 'export' / name).iterdir()) for name in ('final', 'latest', 'best')}
    assert {name: len(paths) for name, paths in exports.items()} == {'final': 1, 'latest': 1, 'best': 2}
    np.testing.assert_allclose(served(exports['best'][-1], [1.0]), slope_after(4))


def test_a_warm_start_takes_over_the_variables_but_not_the_step_and_metrics_are_added(tmp_path):
    make_estimator(tmp_path / 'first').train(input_fn, steps=1)
    settings = tf.estimator.WarmStartSettings(str(tmp_path / 'first'), vars_to_warm_start='slope')
    second = make_estimator(tmp_path / 'second', warm_start_from=settings)
    second.train(input_fn, steps=1)
    assert (slope_of(second), step_of(second)) == (slope_after(2), 1)

    def add(features, labels, predictions):
        return {'mean': tf1.metrics.mean(features['x'] * predictions['y'])}

    metrics = tf.estimator.add_metrics(second, add).evaluate(input_fn, steps=1)
    assert metrics['mean'] == (1 * 1.5 + 2 * 3) / 2 and metrics['error'] == 0.75


def test_tpu_estimator_works_without_a_tpu_and_numpy_input_fn_feeds_arrays_in_order(tmp_path):
    def tpu_model_fn(features, labels, mode, params):
        assert params['batch_size'] == 2
        spec = model_fn(features, labels, mode, {})
        return tf1.estimator.tpu.TPUEstimatorSpec(mode, spec.predictions, loss=spec.loss, train_op=spec.train_op)

    arrays = tf1.estimator.inputs.numpy_input_fn({'x': X}, Y, batch_size=2, num_epochs=3, shuffle=False)
    config = tf1.estimator.tpu.RunConfig(tf1.estimator.tpu.TPUConfig(iterations_per_loop=2), model_dir=str(tmp_path))
    sizes = {'train_batch_size': 2, 'eval_batch_size': 2, 'predict_batch_size': 2}
    estimator = tf1.estimator.tpu.TPUEstimator(tpu_model_fn, config=config, use_tpu=False, **sizes)
    estimator.train(lambda params: arrays())
    assert step_of(estimator) == 3 and slope_of(estimator) == slope_after(3)
    assert estimator.evaluate(lambda params: arrays(), steps=1)['loss'] == pytest.approx(loss_after(3))
    assert [prediction['y'] for prediction in estimator.predict(lambda params: arrays())] == [1.75, 3.5] * 3


adam = functools.partial(tf.keras.optimizers.legacy.Adam, 0.2)
SIZES = np.float32(np.arange(40) / 40)
COLUMNS = {'size': SIZES, 'word': np.where(SIZES > 0.7, 'big', 'small')}
LINEAR = {'feature_columns': [tf.feature_column.numeric_column('size')], 'optimizer': adam}
DEEP = {**LINEAR, 'hidden_units': [16]}
CANNED = [('LinearClassifier', LINEAR), ('LinearRegressor', LINEAR), ('DNNRegressor', DEEP), ('BaselineClassifier', {})]


def labelled(labels):
    return lambda: tf.data.Dataset.from_tensors((COLUMNS, labels)).repeat()


@pytest.mark.parametrize('name, arguments', CANNED)
def test_each_canned_estimator_trains_and_evaluates(name, arguments, tmp_path):
    estimator = getattr(tf.estimator, name)(config=tf.estimator.RunConfig(str(tmp_path), tf_random_seed=1), **arguments)
    data = labelled(np.int32(SIZES > 0.7) if name.endswith('Classifier') else 3 * SIZES + 1)
    estimator.train(data, steps=20)
    assert estimator.evaluate(data, steps=1)['average_loss'] < 0.6


@BOTH_APIS
def test_a_canned_classifier_learns_from_columns_of_all_kinds_and_exports(api, tmp_path):
    size = tf.feature_column.numeric_column('size')
    word = tf.feature_column.categorical_column_with_vocabulary_list('word', ['big', 'small'])
    linear = [tf.feature_column.bucketized_column(size, [0.25, 0.5, 0.75]), word]
    deep = [size, tf.feature_column.embedding_column(word, 2), tf.feature_column.indicator_column(word)]
    classes = labelled(np.int32(SIZES > 0.7))
    estimator = api.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=linear,
        dnn_feature_columns=deep,
        dnn_hidden_units=[8],
        dnn_optimizer=tf1.train.AdamOptimizer(0.05) if api is tf1 else adam,
        config=tf.estimator.RunConfig(str(tmp_path), tf_random_seed=1),
    )
    estimator.train(classes, steps=40)
    assert estimator.evaluate(classes, steps=1)['accuracy'] == 1
    spec = tf.feature_column.make_parse_example_spec(linear + deep)
    receive = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    path = estimator.export_saved_model(str(tmp_path / 'export'), receive)
    example = tf.train.Example()
    example.features.feature['size'].float_list.value.append(0.9)
    example.features.feature['word'].bytes_list.value.append(b'big')
    predict = tf.saved_model.load(path.decode()).signatures['predict']
    assert predict(examples=tf.constant([example.SerializeToString()]))['class_ids'].numpy() == 1


@pytest.mark.filterwarnings('ignore:`Model.state_updates`')
def test_a_keras_model_becomes_an_estimator(tmp_path):
    layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer='zeros', input_shape=(1,))
    model = tf.keras.Sequential([layer])
    model.compile(tf.keras.optimizers.legacy.SGD(0.1), 'mse')
    estimator = tf.keras.estimator.model_to_estimator(model, model_dir=str(tmp_path))
    arrays = X[:, None], Y[:, None]
    estimator.train(lambda: tf.data.Dataset.from_tensors(arrays).repeat(), steps=3)
    assert estimator.evaluate(lambda: tf.data.Dataset.from_tensors(arrays), steps=1)['loss'] == pytest.approx(loss_after(3))
