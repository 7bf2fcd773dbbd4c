"""What the functions of a model module return is checked, and what is wrong named."""

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
LABELS = {'label': [0, 1, 1, 0]}


def make_params(text='', dataset=None):
    return build.make_hparams('m', {}, 'd', dataset or {}, text=text)


def zeros(*shape):
    return tf.zeros(shape)


def call(returned, labels=None, text='', mode=ModeKeys.TRAIN):
    """Calls a model that returns what a function of no arguments does."""
    model = types.SimpleNamespace(model=lambda features, labels, mode, params: returned())
    labels = None if mode == ModeKeys.PREDICT else {name: tf.constant(value) for name, value in (labels or {}).items()}
    return model_contract.call_model(model, {}, labels, mode, make_params(text))


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
        (
            predicted(lambda: zeros(3, 2)),
            ': the prediction a must be of shape [batch, ...], with a batch of 4, not (3, 2)',
        ),
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
        (
            lost(lambda: {'b': zeros(4), 'c': zeros()}),
            LOSS.replace('loss of', 'loss c of') + ' a tensor of float32 ()',
        ),
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
    assert refused(call, lambda: ({'a': zeros()}, None), None, '', ModeKeys.PREDICT).endswith('[batch, ...], not ()')


def test_variables_are_predictions_and_metrics_too(session):
    variable = tf.get_variable('v', [4])
    assert call(lambda: ({'a': variable}, zeros(4)))[0] == {'a': variable}
    module = types.SimpleNamespace(eval_metrics=lambda *arguments: {'a': (variable, tf.no_op()), 'b': (variable, variable)})
    assert list(model_contract.call_eval_metrics(module, {}, {}, {}, make_params())) == ['a', 'b']


@pytest.mark.parametrize(
    'labels, text, expected',
    [
        ({}, '', [1, 2, 3, 4]),
        ({'weight': [1, 0, 2, 3]}, '', [1, 0, 6, 12]),
        (LABELS, 'class_weights=[0.5,3]', [0.5, 6, 9, 2]),
        ({**LABELS, 'weight': [1, 0, 2, 3]}, 'class_weights=[0.5,3]', [0.5, 0, 18, 6]),
        ({}, 'class_weights=[3]', [3, 6, 9, 12]),
        ({}, 'class_weights=[0]', [0, 0, 0, 0]),
    ],
)
def test_the_losses_are_weighted_by_example_and_class(session, labels, text, expected):
    losses = [1.0, 2.0, 3.0, 4.0]
    _, found = call(lambda: ({'a': zeros(4)}, tf.constant(losses)), labels, text)
    assert session.run(found) == {'': pytest.approx(expected)}
    _, found = call(lambda: ({'a': zeros(4)}, {'b': tf.constant(losses), 'c': zeros(4)}), labels, text)
    assert session.run(found) == {'b': pytest.approx(expected), 'c': pytest.approx([0] * 4)}


@pytest.mark.parametrize(
    'labels, text, message',
    [
        (
            {'weight': [[1.0]] * 4},
            '',
            '--dataset=d: the label weight must be of shape [batch], not (4, 1): it is the weight of the example in the loss',
        ),
        (LABELS, 'class_weights=[1,-2]', 'class_weights=[1.0, -2.0] must be at least 0'),
        (LABELS, 'class_weights=[0,0]', 'class_weights are all 0: nothing would be learned'),
        *(
            (labels, 'class_weights=[1,2]', 'class_weights: --dataset=d has no classes: no label named label, int [batch]')
            for labels in ({}, {'label': [0.0] * 4}, {'label': [[0]] * 4})
        ),
    ],
)
def test_weights_that_no_loss_can_have_are_named(labels, text, message):
    assert refused(call, lambda: ({'a': zeros(4)}, zeros(4)), labels, text) == message


def test_there_are_as_many_class_weights_as_classes():
    model = types.SimpleNamespace(model=lambda *arguments: ({'a': zeros(4)}, zeros(4)))
    params = make_params('class_weights=[1,2]', {'num_classes': 3})
    message = refused(lambda: model_contract.call_model(model, {}, {'label': tf.constant([0] * 4)}, ModeKeys.TRAIN, params))
    assert message == 'class_weights has 2 weights for 3 classes'


def call_metrics(returned):
    module = types.SimpleNamespace(eval_metrics=lambda features, labels, predictions, params: returned())
    return model_contract.call_eval_metrics(module, {}, {}, {}, make_params())


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
        assert model_contract.call_eval_metrics(module, {}, {}, {}, make_params()) == {}
        assert model_contract.make_hooks(module, ModeKeys.TRAIN, make_params()) == []


@pytest.mark.parametrize('rate, expected', [(0.25, 0.25), (np.float64(0.5), 0.5), (2, 2.0), (lambda: tf.constant(3), 3.0)])
def test_a_learning_rate_is_a_number_or_a_scalar_tensor(session, rate, expected):
    module = types.SimpleNamespace(learning_rate=lambda *arguments: rate() if callable(rate) else rate)
    found = model_contract.learning_rate(module, tf.constant(0.0), 10, make_params())
    assert found.dtype == tf.float32 and session.run(found) == expected


@pytest.mark.parametrize(
    'part, value, message',
    [
        ('optimizer', 'adam', "optimizer() must return a tf.train.Optimizer (tf is tensorflow.compat.v1), not 'adam'"),
        *(
            ('learning_rate', value, f'learning_rate() must return a number or a scalar tensor, not {value}')
            for value in (True, [0.1], None)
        ),
        (
            'learning_rate',
            lambda: zeros(1),
            'learning_rate() must return a number or a scalar tensor, not a tensor of float32 (1,)',
        ),
        (
            'learning_rate',
            lambda: tf.constant('a'),
            'learning_rate() must return a number or a scalar tensor, not a tensor of string ()',
        ),
        ('hooks', None, 'hooks() must return a list of tf.train.SessionRunHook (tf is tensorflow.compat.v1), not None'),
        ('hooks', [3], 'hooks() must return a list of tf.train.SessionRunHook (tf is tensorflow.compat.v1), not [3]'),
    ],
)
def test_parts_of_another_type_are_refused(part, value, message):
    def returned(*arguments):
        return value() if callable(value) else value

    module, params = types.SimpleNamespace(**{part: returned}), make_params()
    calls = {
        'optimizer': lambda: model_contract.make_optimizer(module, tf.constant(0.1), params),
        'learning_rate': lambda: model_contract.learning_rate(module, tf.constant(0.0), 10, params),
        'hooks': lambda: model_contract.make_hooks(module, ModeKeys.TRAIN, params),
    }
    assert refused(calls[part]) == f'--model=m: {message}'
