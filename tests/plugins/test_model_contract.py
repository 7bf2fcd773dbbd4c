"""What the functions of a model module return is checked, and what is wrong named."""

import re
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.plugins import model_contract
from hparams import build

ModeKeys = tf.estimator.ModeKeys
NAMES = 'under names that are printable text, not'
PREDICTION = ': the prediction a must be a tensor, not'
LOSS = ' must return a loss of shape [batch] and type float32, one for each example, not'
PAIRS = 'must return pairs (value, update_op) of tensors, as tf.metrics makes them: a is'


PARAMS = build.make_hparams('m', {}, 'd', {})


def zeros(*shape):
    return tf.zeros(shape)


def call(returned, labels=None, mode=ModeKeys.TRAIN, params=PARAMS):
    """Calls a model that returns what a function of no arguments does."""
    model = types.SimpleNamespace(model=lambda features, labels, mode, params: returned())
    return model_contract.call_model(model, {}, None if mode == ModeKeys.PREDICT else labels or {}, mode, params)


def refused(function, *arguments):
    """Returns what the UsageError says that a function raises in a graph of its own."""
    with tf.Graph().as_default(), pytest.raises(UsageError) as error:
        function(*arguments)
    return str(error.value)


def predicted(value):
    return lambda: ({'a': value()}, zeros(4))


def lost(value):
    return lambda: ({'a': zeros(4)}, value())


@pytest.mark.parametrize(
    'returned, message',
    [
        (lambda: None, ' must return a pair (predictions, loss), not None'),
        (lambda: {'a': zeros(4)}, ' must return a pair (predictions, loss), not a dict'),
        (lambda: ({}, zeros(4), 3), ' must return a pair (predictions, loss), not a tuple of 3'),
        (lambda: (None, zeros(4)), ' must return predictions as a dict, not None'),
        (lambda: (zeros(4), zeros(4)), ' must return predictions as a dict, not a tensor of float32 (4,)'),
        (lambda: ({}, zeros(4)), ' must return predictions, not an empty dict'),
        (lambda: ({5: zeros(4)}, zeros(4)), f' must return predictions {NAMES} 5'),
        (lambda: ({'': zeros(4)}, zeros(4)), f" must return predictions {NAMES} ''"),
        (lambda: ({'a\n': zeros(4)}, zeros(4)), rf" must return predictions {NAMES} 'a\n'"),
        (predicted(lambda: None), f'{PREDICTION} None'),
        (predicted(lambda: 3), f'{PREDICTION} an int: tf.convert_to_tensor(it) makes one'),
        (predicted(lambda: {'b': zeros(4)}), f'{PREDICTION} a dict: give each of its items a name beside a'),
        (predicted(lambda: tf.sparse.eye(4)), f'{PREDICTION} a SparseTensor: tf.sparse.to_dense(it) makes one'),
        (
            predicted(lambda: tf.ragged.constant([[1], [2, 3]])),
            f'{PREDICTION} a RaggedTensor: its method to_tensor() makes one',
        ),
        (predicted(lambda: zeros(3, 2)), ': the prediction a must be of shape [batch, ...], with a batch of 4, not (3, 2)'),
        (
            lambda: ({'a': zeros()}, tf.placeholder(tf.float32, [None])),
            ': the prediction a must be of shape [batch, ...], not ()',
        ),
        (lost(lambda: tf.zeros([4], tf.float64)), f'{LOSS} a tensor of float64 (4,): tf.cast(loss, tf.float32)'),
        (lost(lambda: tf.zeros([4], tf.int32)), f'{LOSS} a tensor of int32 (4,)'),
        (lost(lambda: tf.zeros([4, 1], tf.float64)), f'{LOSS} a tensor of float64 (4, 1)'),
        (lost(zeros), f'{LOSS} a tensor of float32 ()'),
        (lost(lambda: 0.5), f'{LOSS} a float'),
        (lost(lambda: np.zeros(4, np.float32)), f'{LOSS} a NumPy array of float32 (4,)'),
        (lost(dict), ' must return a loss, not an empty dict'),
        (lost(lambda: {1: zeros(4)}), f' must return losses {NAMES} 1'),
        (lost(lambda: {'b': zeros(4), 'c': zeros()}), LOSS.replace('loss of', 'loss c of') + ' a tensor of float32 ()'),
        (
            lost(lambda: {'b': zeros(4), 'c': zeros(8)}),
            ': the losses must be of the same batch, but b is of (4,), and c of (8,)',
        ),
    ],
)
def test_what_a_model_must_not_return_is_named(returned, message):
    assert refused(call, returned) == f'--model=m: model(){message}'


def test_a_model_without_labels_need_not_return_a_loss(session):
    predictions, losses = call(lambda: [{'a': zeros(4), 'b': zeros(3)}, 'anything'], mode=ModeKeys.PREDICT)
    assert list(predictions) == ['a', 'b'] and losses is None
    assert refused(call, lambda: ({'a': zeros()}, None), None, ModeKeys.PREDICT).endswith('[batch, ...], not ()')


def test_variables_are_predictions_and_metrics_too(session):
    variable = tf.get_variable('v', [4])
    assert call(lambda: ({'a': variable}, zeros(4)))[0] == {'a': variable}
    module = types.SimpleNamespace(eval_metrics=lambda *arguments: {'a': (variable, tf.no_op()), 'b': (variable, variable)})
    assert list(model_contract.call_eval_metrics(module, {}, {}, {}, PARAMS)) == ['a', 'b']


def test_there_are_as_many_class_weights_as_classes():
    params = build.make_hparams('m', {}, 'd', {'num_classes': 3}, text='class_weights=[1,2]')
    labels = {'label': tf.TensorSpec([4], tf.int32)}
    message = refused(call, lambda: ({'a': zeros(4)}, zeros(4)), labels, ModeKeys.TRAIN, params)
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
        (lambda: None, 'must return metrics as a dict, not None'),
        (lambda: [tf.metrics.mean(1.0)], 'must return metrics as a dict, not a list of 1'),
        (lambda: {1: tf.metrics.mean(1.0)}, f'must return metrics {NAMES} 1'),
        (lambda: {'a': 1.0}, f'{PAIRS} 1.0'),
        (lambda: {'a': (1.0, zeros())}, f'{PAIRS} (1.0, '),
        (lambda: {'a': (zeros(), 1.0)}, f'{PAIRS} (<tf.Tensor'),
        (lambda: {'a': (zeros(), zeros(), zeros())}, f'{PAIRS} (<tf.Tensor'),
        (lambda: {'a': [zeros(), zeros()]}, f'{PAIRS} [<tf.Tensor'),
        (lambda: {'loss': tf.metrics.mean(1.0)}, 'must not name a metric loss: the framework uses that name'),
        (lambda: {'global_step': tf.metrics.mean(1.0)}, 'must not name a metric global_step: the framework uses'),
        (lambda: {'split': tf.metrics.mean(1.0)}, 'must not name a metric split: the framework uses'),
        (lambda: {'loss/a': tf.metrics.mean(1.0)}, 'must not name a metric loss/a: the framework uses'),
        (of_keras, 'makes the variable total, which nothing initializes, as tf.keras.metrics do: use tf.metrics'),
    ],
)
def test_metrics_that_cannot_be_evaluated_are_named(returned, message):
    assert refused(call_metrics, returned).startswith(f'--model=m: eval_metrics() {message}')


def test_a_model_may_be_without_metrics_and_hooks(session):
    for module in (types.SimpleNamespace(), types.SimpleNamespace(eval_metrics=None, hooks=None)):
        assert model_contract.call_eval_metrics(module, {}, {}, {}, PARAMS) == {}
        assert model_contract.make_hooks(module, ModeKeys.TRAIN, PARAMS) == []


@pytest.mark.parametrize('rate, expected', [(0.25, 0.25), (np.float64(0.5), 0.5), (2, 2.0), (lambda: tf.constant(3), 3.0)])
def test_a_learning_rate_is_a_number_or_a_scalar_tensor(session, rate, expected):
    module = types.SimpleNamespace(learning_rate=lambda *arguments: rate() if callable(rate) else rate)
    found = model_contract.learning_rate(module, tf.constant(0.0), 10, PARAMS)
    assert found.dtype == tf.float32 and session.run(found) == expected


@pytest.mark.parametrize('rate', [True, [0.1], None, '0.1'])
def test_a_learning_rate_that_is_no_number_is_refused(rate):
    module = types.SimpleNamespace(learning_rate=lambda *arguments: rate)
    message = refused(model_contract.learning_rate, module, 0.0, 10, PARAMS)
    assert message == f'--model=m: learning_rate() must return a number or a scalar tensor, not {rate!r}'


def test_a_learning_rate_that_is_another_tensor_is_refused(session):
    for rate, shown in ((zeros(1), 'float32 (1,)'), (tf.constant('a'), 'string ()')):
        module = types.SimpleNamespace(learning_rate=lambda *arguments, rate=rate: rate)
        with pytest.raises(UsageError, match=f'not a tensor of {re.escape(shown)}$'):
            model_contract.learning_rate(module, tf.constant(0.0), 10, PARAMS)


def test_the_functions_of_a_model_are_given_what_they_ask_for():
    calls = []
    names = ('model', 'eval_metrics', 'learning_rate', 'optimizer', 'hooks')
    module = types.SimpleNamespace(**{name: lambda *arguments: calls.append(arguments) for name in names})
    refused(model_contract.call_model, module, 'features', {}, 'train', PARAMS)
    refused(model_contract.call_eval_metrics, module, 'features', 'labels', 'predictions', PARAMS)
    refused(model_contract.learning_rate, module, 'step', 10, PARAMS)
    refused(model_contract.make_optimizer, module, 'rate', PARAMS)
    refused(model_contract.make_hooks, module, 'train', PARAMS)
    given = [('features', {}, 'train'), ('features', 'labels', 'predictions'), ('step', 10), ('rate',), ('train',)]
    assert calls == [(*arguments, PARAMS) for arguments in given]


def test_optimizers_and_hooks_of_another_type_are_refused():
    module = types.SimpleNamespace(optimizer=lambda *arguments: 'adam', hooks=lambda *arguments: [3])
    assert refused(model_contract.make_optimizer, module, 0.1, PARAMS) == (
        "--model=m: optimizer() must return a tf.train.Optimizer (tf is tensorflow.compat.v1), not 'adam'"
    )
    assert refused(model_contract.make_hooks, module, ModeKeys.TRAIN, PARAMS) == (
        '--model=m: hooks() must return a list of tf.train.SessionRunHook (tf is tensorflow.compat.v1), not [3]'
    )
