"""What the Estimator gets from a model module: the exact loss, one set of metrics, the rate that is drawn."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.training import graphs
from tests.linear import X, Y, input_fn, linear, loss_of, make_estimator, scalars

ModeKeys = tf.estimator.ModeKeys


def sgd_steps(steps, rates, decay=0.0):
    """The same training in NumPy."""
    w = np.array([1.0, 2.0])
    for step in range(steps):
        rows = np.arange(4 * step, 4 * step + 4) % 10
        x, y = X[rows], Y[rows]
        w = w - rates[step] * (2 * x.T @ (x @ w - y) / 4 + 2 * decay * w)
    return w


@pytest.mark.parametrize('towers', [0, 1, 2, 4])
def test_training_is_that_of_numpy_whatever_the_towers(tmp_path, towers):
    estimator = make_estimator(tmp_path, towers)
    estimator.train(input_fn(), max_steps=6)
    np.testing.assert_allclose(estimator.get_variable_value('w')[:, 0], sgd_steps(6, [0.1] * 6), rtol=1e-5)


@pytest.mark.parametrize('towers', [0, 1, 2, 4])
def test_evaluation_is_that_of_numpy_with_a_ragged_last_batch(tmp_path, towers):
    estimator = make_estimator(tmp_path, towers)
    estimator.train(input_fn(), max_steps=1)
    result = estimator.evaluate(input_fn(repeat=False))
    expected = loss_of(sgd_steps(1, [0.1]))
    assert result['loss'] == pytest.approx(expected, rel=1e-5)
    assert result['loss_again'] == pytest.approx(expected, rel=1e-5)
    assert result['examples'] == 1


def test_regularization_is_trained_and_counted_once(tmp_path):
    estimator = make_estimator(tmp_path, towers=2, text=',decay=0.5')
    estimator.train(input_fn(), max_steps=3)
    w = sgd_steps(3, [0.1] * 3, decay=0.5)
    np.testing.assert_allclose(estimator.get_variable_value('w')[:, 0], w, rtol=1e-5)
    assert estimator.evaluate(input_fn(repeat=False))['loss'] == pytest.approx(loss_of(w) + 0.5 * np.square(w).sum(), rel=1e-5)


def test_the_rate_in_tensorboard_is_the_one_that_is_applied(tmp_path):
    estimator = make_estimator(tmp_path, text=',learning_rate_schedule=cosine,warmup_steps=2')
    estimator.train(input_fn(), max_steps=6)
    rates = [0.05, 0.1] + [0.05 * (1 + np.cos(np.pi * i / 4)) for i in range(4)]
    drawn = scalars(tmp_path)['learning_rate']
    np.testing.assert_allclose([drawn[step + 1] for step in range(6)], rates, rtol=1e-5)
    np.testing.assert_allclose(estimator.get_variable_value('w')[:, 0], sgd_steps(6, rates), rtol=1e-5)


def test_the_tags_in_tensorboard_are_bare_and_hold_the_batchs_values(tmp_path):
    estimator = make_estimator(tmp_path, towers=2)
    estimator.train(input_fn(), max_steps=3)
    estimator.evaluate(input_fn(repeat=False))
    training, evaluation = scalars(tmp_path), scalars(tmp_path / 'eval')
    assert {'loss', 'learning_rate', 'loss_again', 'examples/sec', 'input/wait_fraction'} <= set(training)
    assert {'loss', 'loss_again'} <= set(evaluation)
    assert training['loss_again'][3] == pytest.approx(training['loss'][3], rel=1e-5)
    assert training['loss'][3] != pytest.approx(training['loss'][2])


def test_metrics_see_the_weights_that_the_step_began_with(tmp_path):
    def metrics(features, labels, predictions, params):
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            w_0 = tf.get_variable('w')[0, 0]
        return {'w_0': (w_0, w_0)}

    estimator = make_estimator(tmp_path, model=types.SimpleNamespace(model=linear, eval_metrics=metrics))
    with tf.Graph().as_default() as graph:  # The order that the graph sets: two runs rarely show another one.
        tf.train.create_global_step()
        estimator.model_fn({'x': tf.constant(X[:4])}, {'y': tf.constant(Y[:4])}, ModeKeys.TRAIN, estimator.config)
        (update,) = (op for op in graph.get_operations() if op.type == 'ResourceApplyGradientDescent')
        reads = {op for op in graph.get_operations() if op.type == 'ReadVariableOp' and op.name.startswith('metrics/')}
    assert reads and reads <= graphs.ancestors([update])

    estimator.train(input_fn(), max_steps=3)
    for step, found in scalars(tmp_path)['w_0'].items():
        assert found == pytest.approx(sgd_steps(step - 1, [0.1] * step)[0], rel=1e-5)


def test_batch_norm_updates_run_once_a_step(tmp_path):
    def model(features, labels, mode, params):
        x = tf.layers.batch_normalization(
            features['x'], training=mode == ModeKeys.TRAIN, momentum=0.5, center=False, scale=False
        )
        y = tf.layers.dense(x, 1)[:, 0]
        return {'y': y}, tf.square(y - labels['y'])

    estimator = make_estimator(tmp_path, towers=2, model=types.SimpleNamespace(model=model))
    estimator.train(input_fn(), max_steps=2)
    mean = np.zeros(2)
    for step in range(2):
        mean = 0.5 * mean + 0.5 * X[np.arange(4 * step, 4 * step + 2) % 10].mean(0)  # The first tower's half.
    np.testing.assert_allclose(estimator.get_variable_value('batch_normalization/moving_mean'), mean, rtol=1e-5)


def test_each_tower_and_its_gradients_are_on_its_device_in_the_training_graph(tmp_path):
    estimator = make_estimator(tmp_path, towers=2)
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        estimator.model_fn({'x': tf.constant(X[:4])}, {'y': tf.constant(Y[:4])}, ModeKeys.TRAIN, estimator.config)
        for i in range(2):
            products = [op for op in graph.get_operations() if op.type == 'MatMul' and f'model/tower_{i}/' in op.name]
            assert any(op.name.startswith('gradients/') for op in products)
            assert any(op.name.startswith('model/') for op in products)
            assert all(op.device.lower().endswith(f'cpu:{i}') for op in products), [op.device for op in products]


def test_prediction_and_export_need_no_labels_and_no_towers(tmp_path):
    estimator = make_estimator(tmp_path, towers=2)
    estimator.train(input_fn(), max_steps=1)
    predicted = [p['y'] for p in estimator.predict(lambda: tf.data.Dataset.from_tensors({'x': X}))]
    np.testing.assert_allclose(predicted, X @ sgd_steps(1, [0.1]), rtol=1e-4)
    with tf.Graph().as_default() as graph:
        estimator.model_fn({'x': tf.constant(X)}, None, ModeKeys.PREDICT, estimator.config)
        assert not any('tower' in op.name or 'CPU:1' in op.device for op in graph.get_operations())


@pytest.mark.parametrize('prediction', [lambda y: tf.reduce_sum(y), lambda y: y[:2]])
def test_a_prediction_that_is_not_per_example_is_refused(tmp_path, prediction):
    def model(features, labels, mode, params):
        predictions, squares = linear(features, labels, mode, params)
        return {'sum': prediction(predictions['y'])}, squares

    def input_fn():
        return tf.data.Dataset.from_tensor_slices(({'x': X}, {'y': Y})).batch(5, drop_remainder=True)

    with pytest.raises(
        UsageError, match=r'--model=m: model\(\): the prediction sum must be of shape \[batch, ...\], with a batch of 5, not '
    ):
        make_estimator(tmp_path, model=types.SimpleNamespace(model=model)).train(input_fn)


def test_a_metric_that_is_no_pair_is_refused(tmp_path):
    model = types.SimpleNamespace(model=linear, eval_metrics=lambda *args: {'mean': tf.reduce_mean(args[2]['y'])})
    with pytest.raises(
        UsageError,
        match=r'--model=m: eval_metrics\(\) must return pairs \(value, update_op\) of tensors, as '
        'tf.metrics makes them: mean is a tensor of float32',
    ):
        make_estimator(tmp_path, model=model).train(input_fn())


@pytest.mark.parametrize('towers', [0, 2])
@pytest.mark.parametrize('loss', [lambda loss: tf.reduce_mean(loss), lambda loss: loss[:, None], lambda loss: None])
def test_a_loss_that_is_not_per_example_is_refused(tmp_path, loss, towers):
    def model(features, labels, mode, params):
        predictions, squares = linear(features, labels, mode, params)
        return predictions, loss(squares)

    with pytest.raises(UsageError, match=r'--model=m: model\(\) must return a loss of shape \[batch\]'):
        make_estimator(tmp_path, towers, types.SimpleNamespace(model=model)).train(input_fn(), max_steps=1)


def averaged_sgd_steps(steps, decay):
    """The same training in NumPy; returns the weights and their moving average."""
    average = np.array([1.0, 2.0])
    for step in range(1, steps + 1):
        rate = min(decay, step / (9 + step))  # The step before is the number of updates.
        average = rate * average + (1 - rate) * sgd_steps(step, [0.1] * step)
    return sgd_steps(steps, [0.1] * steps), average


@pytest.mark.parametrize('towers', [0, 2])
def test_averages_of_the_weights_are_evaluated_predicted_with_and_exported(tmp_path, towers):
    estimator = make_estimator(tmp_path, towers, text=',ema_decay=0.3')
    estimator.train(input_fn(), max_steps=2)
    estimator.train(input_fn(), max_steps=4)  # A restart reads the first batches again.
    weights = estimator.get_variable_value('w')[:, 0]
    average = estimator.get_variable_value('w/ExponentialMovingAverage')[:, 0]
    assert np.abs(weights - average).min() > 1e-3
    assert estimator.evaluate(input_fn(repeat=False))['loss'] == pytest.approx(loss_of(average), rel=1e-5)
    predicted = [p['y'] for p in estimator.predict(lambda: tf.data.Dataset.from_tensors({'x': X}))]
    np.testing.assert_allclose(predicted, X @ average, rtol=1e-5)

    def receiver():
        x = tf.placeholder(tf.float32, [None, 2])
        return tf.estimator.export.ServingInputReceiver({'x': x}, {'x': x})

    path = estimator.export_saved_model(str(tmp_path / 'export'), receiver)
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ['serve'], path.decode()).signature_def['serving_default']
        found = session.run(signature.outputs['y'].name, {signature.inputs['x'].name: X})
    np.testing.assert_allclose(found, X @ average, rtol=1e-5)


def test_averages_follow_the_weights_and_soon_forget_the_first_ones(tmp_path):
    estimator = make_estimator(tmp_path, text=',ema_decay=0.25')
    estimator.train(input_fn(), max_steps=6)
    weights, average = averaged_sgd_steps(6, 0.25)
    np.testing.assert_allclose(estimator.get_variable_value('w')[:, 0], weights, rtol=1e-5)
    np.testing.assert_allclose(estimator.get_variable_value('w/ExponentialMovingAverage')[:, 0], average, rtol=1e-5)


def test_a_restart_resumes_during_accumulated_gradients(tmp_path):
    text = ',gradient_accumulation_steps=4,ema_decay=0.5'

    def batch():
        return tf.data.Dataset.from_tensors(({'x': X}, {'y': Y})).repeat()

    whole, parts = (make_estimator(tmp_path / name, text=text) for name in ('whole', 'parts'))
    whole.train(batch, max_steps=8)
    parts.train(batch, max_steps=2)
    np.testing.assert_array_equal(parts.get_variable_value('w')[:, 0], [1, 2])
    parts.train(batch, max_steps=7)
    parts.train(batch, max_steps=8)
    assert set(whole.get_variable_names()) == set(parts.get_variable_names())
    for name in whole.get_variable_names():
        np.testing.assert_array_equal(whole.get_variable_value(name), parts.get_variable_value(name), err_msg=name)
    assert not np.array_equal(whole.get_variable_value('w')[:, 0], [1, 2])
