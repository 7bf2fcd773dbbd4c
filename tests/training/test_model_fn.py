"""What an Estimator gets from a model module: the exact loss, one set of metrics, weights of examples, averages, parts."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.training import graphs
from tests.linear import X, Y, gradient, in_session, input_fn, linear, loss_of, make_estimator, scalars, train_in_session


def sgd_steps(steps, decay=0.0):
    w = np.array([1.0, 2.0])
    for step in range(steps):
        w = w - 0.1 * (gradient(w, step) + 2 * decay * w)
    return w


@pytest.mark.parametrize('towers', [0, 1, 4])
def test_training_and_evaluation_are_those_of_numpy_whatever_the_towers(tmp_path, towers):
    estimator = make_estimator(tmp_path, towers, text=',decay=0.5')
    estimator.train(input_fn(), max_steps=6)
    w = sgd_steps(6, decay=0.5)
    np.testing.assert_allclose(estimator.get_variable_value('w')[:, 0], w, rtol=1e-5)
    result = estimator.evaluate(input_fn(repeat=False))  # Its last batch is smaller.
    del result['global_step']
    expected = {'loss': loss_of(w) + 0.5 * np.square(w).sum(), 'loss_again': loss_of(w), 'examples': 1}
    assert result == pytest.approx(expected, rel=1e-5)
    training = scalars(tmp_path)
    assert {'learning_rate', 'examples/sec', 'input/wait_fraction'} <= set(training)
    assert {'loss', 'loss_again'} <= set(scalars(tmp_path / 'eval'))
    before = sgd_steps(5, decay=0.5)
    loss = np.square(X[:4] @ before - Y[:4]).mean()
    assert training['loss_again'][6] == pytest.approx(loss, rel=1e-5)
    assert training['loss'][6] == pytest.approx(loss + 0.5 * np.square(before).sum(), rel=1e-5)


def test_metrics_see_the_weights_that_the_step_began_with(tmp_path):
    def metrics(features, labels, predictions, params):
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            w_0 = tf.get_variable('w')[0, 0]
        return {'w_0': (w_0, w_0)}

    model = types.SimpleNamespace(model=linear, eval_metrics=metrics)
    with in_session(make_estimator(tmp_path, 0, model)):  # The order that the graph sets: two runs rarely show another one.
        ops = tf.get_default_graph().get_operations()
        (update,) = (op for op in ops if op.type == 'ResourceApplyGradientDescent')
        reads = {op for op in ops if op.type == 'ReadVariableOp' and op.name.startswith('metrics/')}
        weights = [op for op in ops if op.type == 'HistogramSummary' and op.name.startswith('weights/')]
        assert reads and reads <= graphs.ancestors([update])
        assert [op.inputs[1].op in graphs.ancestors([update]) for op in weights] == [True]


def test_each_tower_and_its_gradients_are_on_its_device(tmp_path):
    with in_session(make_estimator(tmp_path, 2)) as (session, _):
        for i in range(2):
            products = [op for op in session.graph.get_operations() if op.type == 'MatMul' and f'model/tower_{i}/' in op.name]
            assert {op.name.partition('/')[0] for op in products} == {'model', 'gradients'}
            assert all(op.device.lower().endswith(f'cpu:{i}') for op in products), [op.device for op in products]


def test_towers_need_inputs_that_can_be_split(session, tmp_path):
    estimator = make_estimator(tmp_path, towers=2)
    with pytest.raises(UsageError, match='^--dataset=d with towers: the feature x '):
        estimator.model_fn({'x': tf.placeholder(tf.float32)}, {'y': tf.constant(Y)}, 'train', estimator.config)


LABELS = np.arange(10) % 3
WEIGHTS = np.linspace(0, 2, 10).astype(np.float32)
CLASS_WEIGHTS = np.array([0.5, 1.0, 4.0])


@pytest.mark.parametrize(
    'towers, text, labels, weights',
    [
        (0, '', {'weight': WEIGHTS}, WEIGHTS),
        (0, ',class_weights=[0.5,1,4]', {}, CLASS_WEIGHTS[LABELS]),
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
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn({'x': tf.constant(X)})
    path = estimator.export_saved_model(str(tmp_path / 'export'), receiver)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        signature = tf.saved_model.load(session, ['serve'], path.decode()).signature_def['serving_default']
        found = session.run(signature.outputs['y'].name, {signature.inputs['x'].name: X})
        assert not any('tower' in op.name or 'CPU:1' in op.device for op in graph.get_operations())
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


def test_ftrl_does_not_go_with_a_learning_rate_of_the_model(tmp_path):
    model = types.SimpleNamespace(model=linear, learning_rate=lambda *arguments: 0.1)
    with pytest.raises(UsageError, match='^--model=m: optimizer=ftrl needs a constant learning rate, without learning_rate'):
        train_in_session(make_estimator(tmp_path, 0, model, optimizer='ftrl'), 1)
    model.optimizer = lambda rate, params: tf.train.GradientDescentOptimizer(rate)  # The hyper-parameter is not used.
    train_in_session(make_estimator(tmp_path, 0, model, optimizer='ftrl'), 1)


def test_named_losses_are_added_up_and_shown_each(tmp_path):
    def model(features, labels, mode, params):
        predictions, loss = linear(features, labels, mode, params)
        return predictions, {'square': loss, 'absolute': 3 * tf.abs(predictions['y'] - labels['y'])}

    estimator = make_estimator(tmp_path, 2, types.SimpleNamespace(model=model, learning_rate=lambda *arguments: 0))
    estimator.train(input_fn(), max_steps=2)
    evaluated = estimator.evaluate(input_fn(repeat=False))
    errors = X @ [1.0, 2.0] - Y
    trained = {name: points[2] for name, points in scalars(tmp_path).items()}
    for values, rows in ((evaluated, range(10)), (trained, range(4, 8))):
        square, absolute = np.square(errors[rows]).mean(), 3 * np.abs(errors[rows]).mean()
        found = [values[name] for name in ('loss/square', 'loss/absolute', 'loss')]
        assert found == pytest.approx([square, absolute, square + absolute], rel=1e-5)
    assert {'loss/square', 'loss/absolute'} <= set(scalars(tmp_path / 'eval'))
