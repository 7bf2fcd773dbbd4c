"""What the functions of a model module return is checked, and what is wrong named."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.plugins import model_contract
from hparams import build
from tests.shared import refused

ModeKeys = tf.estimator.ModeKeys
NAMES = 'under names that are printable text, not'
A = ': the prediction a must be'
LOSS = ' must return a loss of shape [batch] and type float32, one for each example, not'
PAIRS = 'must return pairs (value, update_op) of tensors, as tf.metrics makes them: a is'
PARAMS = build.make_hparams('m', {}, 'd', {})


def zeros(*shape, dtype=tf.float32):
    return tf.zeros(shape, dtype)


def call(returned, labels=None, mode=ModeKeys.TRAIN, params=PARAMS):
    model = types.SimpleNamespace(model=lambda features, labels, mode, params: returned())
    return model_contract.call_model(model, {}, None if mode == ModeKeys.PREDICT else labels or {}, mode, params)


def predicted(value):
    return lambda: ({'a': value()}, zeros(4))


def lost(value):
    return lambda: ({'a': zeros(4)}, value())


@pytest.mark.parametrize(
    'returned, message',
    [
        (lambda: None, ' must return a pair (predictions, loss), not None'),
        (lambda: {'a': zeros(4), 'b': 3}, ' must return a pair (predictions, loss), not a dict'),
        (lambda: ({}, zeros(4), 3), ' must return a pair (predictions, loss), not a tuple of 3'),
        (lambda: (zeros(4), zeros(4)), ' must return predictions as a dict, not a tensor of float32 (4,)'),
        (lambda: ({}, zeros(4)), ' must return predictions, not an empty dict'),
        (lambda: ({5: zeros(4)}, zeros(4)), f' must return predictions {NAMES} 5'),
        (lambda: ({'': zeros(4)}, zeros(4)), f" must return predictions {NAMES} ''"),
        (lambda: ({'a\n': zeros(4)}, zeros(4)), rf" must return predictions {NAMES} 'a\n'"),
        (predicted(lambda: None), f'{A} a tensor, not None'),
        (predicted(lambda: 3), f'{A} a tensor, not an int: tf.convert_to_tensor(it) makes one'),
        (predicted(lambda: {'b': zeros(4)}), f'{A} a tensor, not a dict: give each of its items a name beside a'),
        (predicted(lambda: tf.sparse.eye(4)), f'{A} a tensor, not a SparseTensor: tf.sparse.to_dense(it) makes one'),
        (predicted(lambda: tf.ragged.constant([[1]])), f'{A} a tensor, not a RaggedTensor: its method to_tensor() makes one'),
        (predicted(lambda: zeros(3, 2)), f'{A} of shape [batch, ...], with a batch of 4, not (3, 2)'),
        (lambda: ({'a': zeros()}, tf.placeholder(tf.float32, [None])), f'{A} of shape [batch, ...], not ()'),
        (lost(lambda: zeros(4, dtype=tf.float64)), f'{LOSS} a tensor of float64 (4,): tf.cast(loss, tf.float32)'),
        (lost(lambda: zeros(4, dtype=tf.int32)), f'{LOSS} a tensor of int32 (4,)'),
        (lost(lambda: zeros(4, 1, dtype=tf.float64)), f'{LOSS} a tensor of float64 (4, 1)'),
        (lost(zeros), f'{LOSS} a tensor of float32 ()'),
        (lost(lambda: np.zeros(4, np.float32)), f'{LOSS} a NumPy array of float32 (4,)'),
        (lost(dict), ' must return a loss, not an empty dict'),
        (lost(lambda: {1: zeros(4)}), f' must return losses {NAMES} 1'),
        (lost(lambda: {'b': zeros(4), 'c': zeros()}), LOSS.replace('loss', 'loss c') + ' a tensor of float32 ()'),
        (lost(lambda: {'b': zeros(4), 'c': zeros(8)}), ': the losses must be of the same batch, but b is of (4,), and c of'),
    ],
)
def test_what_a_model_must_not_return_is_named(returned, message):
    assert refused(call, returned).startswith(f'--model=m: model(){message}')


def test_a_model_without_labels_need_not_return_a_loss(session):
    predictions, losses = call(lambda: [{'a': zeros(4), 'b': zeros(3)}, 'anything'], mode=ModeKeys.PREDICT)
    assert list(predictions) == ['a', 'b'] and losses is None
    assert refused(call, lambda: ({'a': zeros()}, None), None, ModeKeys.PREDICT).endswith('[batch, ...], not ()')


def test_variables_are_predictions_and_metrics_too(session):
    variable = tf.get_variable('v', [4])
    assert call(lambda: ({'a': variable}, zeros(4)))[0] == {'a': variable}
    assert list(call_metrics(lambda: {'a': (variable, tf.no_op()), 'b': (variable, variable)})) == ['a', 'b']


def test_there_are_as_many_class_weights_as_classes():
    params = build.make_hparams('m', {}, 'd', {'num_classes': 3}, text='class_weights=[1,2]')
    message = refused(call, predicted(lambda: zeros(4)), {'label': tf.TensorSpec([4], tf.int32)}, ModeKeys.TRAIN, params)
    assert message == 'class_weights has 2 weights for 3 classes'


def call_metrics(returned):
    module = types.SimpleNamespace(eval_metrics=lambda features, labels, predictions, params: returned())
    return model_contract.call_eval_metrics(module, {}, {}, {}, PARAMS)


def of_keras():
    metric = tf.keras.metrics.Mean()
    metric(zeros(4))
    return {'a': (metric.result(), metric.updates[0])}


@pytest.mark.parametrize(
    'returned, message',
    [
        (lambda: [tf.metrics.mean(1.0)], 'must return metrics as a dict, not a list of 1'),
        (lambda: {'a': 1.0}, f'{PAIRS} 1.0'),
        (lambda: {'a': (1.0, zeros())}, f'{PAIRS} (1.0, '),
        (lambda: {'a': (zeros(), 1.0)}, f'{PAIRS} (<tf.Tensor'),
        (lambda: {'a': (zeros(), zeros(), zeros())}, f'{PAIRS} (<tf.Tensor'),
        (lambda: {'a': [zeros(), zeros()]}, f'{PAIRS} [<tf.Tensor'),
        *(
            (lambda name=name: {name: tf.metrics.mean(1.0)}, f'must not name a metric {name}: the framework uses that name')
            for name in ('loss', 'global_step', 'split', 'loss/a')
        ),
        (of_keras, 'makes the variable total, which nothing initializes, as tf.keras.metrics do: use tf.metrics'),
    ],
)
def test_metrics_that_cannot_be_evaluated_are_named(returned, message):
    assert refused(call_metrics, returned).startswith(f'--model=m: eval_metrics() {message}')


def test_a_model_may_be_without_metrics_and_hooks(session):
    for module in (types.SimpleNamespace(), types.SimpleNamespace(eval_metrics=None, hooks=None)):
        assert model_contract.call_eval_metrics(module, {}, {}, {}, PARAMS) == {}
        assert model_contract.make_hooks(module, ModeKeys.TRAIN, PARAMS) == []


def call_rate(returned):
    module = types.SimpleNamespace(learning_rate=lambda *arguments: returned())
    return model_contract.learning_rate(module, tf.constant(0.0), 10, PARAMS)


def test_a_learning_rate_is_a_number_or_a_scalar_tensor(session):
    for rate, expected in ((0.25, 0.25), (np.float32(0.5), 0.5), (2, 2.0), (tf.constant(3), 3.0), (tf.constant(0.5), 0.5)):
        found = call_rate(lambda rate=rate: rate)
        assert found.dtype == tf.float32 and session.run(found) == expected
    for rate, shown in (
        (lambda: True, 'True'),
        (lambda: '0.1', "'0.1'"),
        (lambda: zeros(1), 'a tensor of float32 (1,)'),
        (lambda: tf.constant('a'), 'a tensor of string ()'),
    ):
        message = f'--model=m: learning_rate() must return a number or a scalar tensor, not {shown}'
        assert refused(call_rate, rate) == message


def test_the_functions_of_a_model_are_given_what_they_ask_for():
    calls = []
    names = ('model', 'eval_metrics', 'learning_rate', 'optimizer', 'hooks')
    module = types.SimpleNamespace(**{name: lambda *arguments: calls.append(arguments) for name in names})
    for function, *given in (
        (model_contract.call_model, 'features', {}, 'train'),
        (model_contract.call_eval_metrics, 'features', 'labels', 'predictions'),
        (model_contract.learning_rate, 'step', 10),
        (model_contract.make_optimizer, 'rate'),
        (model_contract.make_hooks, 'train'),
    ):
        refused(function, module, *given, PARAMS)
        assert calls.pop() == (*given, PARAMS)


def test_optimizers_and_hooks_of_another_type_are_refused():
    module = types.SimpleNamespace(optimizer=lambda *arguments: 'adam', hooks=lambda *arguments: [3])
    for function, argument, message in (
        (model_contract.make_optimizer, 0.1, "optimizer() must return a tf.train.Optimizer, not 'adam'"),
        (model_contract.make_hooks, 'train', 'hooks() must return a list of tf.train.SessionRunHook, not [3]'),
    ):
        found = refused(function, module, argument, PARAMS).replace(' (tf is tensorflow.compat.v1)', '')
        assert found == f'--model=m: {message}'
