"""Checks of the results of model and dataset modules' functions."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.plugins import dataset_contract, estimator_contract, model_contract
from estimator_trainer.hparams import build
from tests.shared import refused

TRAIN, EVAL, PREDICT = tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL, tf.estimator.ModeKeys.PREDICT
FEATURE = ': the feature a must be a tensor, not'
ID = ': the feature example_id must be a string or an integer of shape'
ONE_BATCH = ' must return features and labels of one batch, not of 3, 4 examples'
CLASS_NAMES = ': class_names must be a list of distinct strings, not'
NAMES = 'under names that are printable text, not'
A = ': the prediction a must be'
LOSS = ' must return a loss of shape [batch] and type float32, one for each example, not'
PAIRS = 'must return pairs (value, update_op) of tensors, as tf.metrics makes them: a is'
PARAMS = build.make_hparams('m', {}, 'd', {})


def check(parsed, mode=TRAIN, function='parse'):
    return dataset_contract.check_parsed(function, parsed, mode, PARAMS)


def sparse():
    return tf.sparse.eye(4)


def unknown():
    return tf.placeholder(tf.float32)


def test_what_a_parser_must_not_return_is_named_and_ids_are_texts_or_integers(session):
    for function, parsed, message in (
        ('parse', lambda: [{}], ' must return a pair (features, labels), not a list of 1'),
        ('parse', lambda: (np.zeros(2), {}), ' must return features as a dict, not a NumPy array of float64 (2,)'),
        ('parse', lambda: ({}, [3]), ' must return labels as a dict, not a list of 1'),
        ('parse', lambda: ({'a': None}, {}), f'{FEATURE} None'),
        ('parse', lambda: ({'a': {'b': 3}}, {}), f'{FEATURE} a dict: give each of its items a name beside a'),
        ('parse', lambda: ({}, None), ' must return labels in training and evaluation, not None: an empty dict if there'),
        ('parse', lambda: ({'example_id': 0.5}, {}), f'{ID} [], not a tensor of float32 ()'),
        ('parse', lambda: ({'example_id': [1]}, {}), f'{ID} [], not a tensor of int32 (1,)'),
        ('parse', lambda: ({'example_id': sparse()}, {}), f'{ID} [], not a SparseTensor'),
        ('parse_batch', lambda: ({'a': 3}, {}), ': the feature a must be of shape [batch, ...], not ()'),
        ('parse_batch', lambda: ({}, {'a': 3}), ': the label a must be of shape [batch, ...], not ()'),
        ('parse_batch', lambda: ({'example_id': [['a']]}, {}), f'{ID} [batch], not a tensor of string (1, 1)'),
        ('parse_batch', lambda: ({'a': [1, 2, 3]}, {'b': [[1], [2], [3], [4]]}), ONE_BATCH),
    ):
        for mode in (TRAIN, EVAL):
            assert refused(check, parsed(), mode, function).startswith(f'--dataset=d: {function}(){message}')
    for value in ('a', 3, tf.placeholder(tf.string)):
        assert 'example_id' in check(({'example_id': value}, {}))[0]
    assert 'example_id' in check(({'example_id': [3, 4]}, {}), TRAIN, 'parse_batch')[0]


def test_raw_inputs_must_be_of_a_batch_and_become_what_the_parser_makes(session):
    a = tf.TensorSpec([None, 2], tf.float32)
    assert dataset_contract.check_raw_specs({'a': a}, PARAMS) == {'a': a}
    for specs, message in (
        ([a], ' must return specs as a dict, not a list of 1'),
        ({'a': tf.float32}, ': a must be a tf.TensorSpec of shape [None, ...], not tf.float32'),
        ({'a': tf.TensorSpec([], tf.float32)}, ': a must be a tf.TensorSpec of shape [None, ...], not TensorSpec(shape=()'),
        ({'a': tf.TensorSpec([3], tf.float32)}, ': a must be a tf.TensorSpec of shape [None, ...], not TensorSpec(shape=(3,)'),
    ):
        assert refused(dataset_contract.check_raw_specs, specs, PARAMS).startswith(f'--dataset=d: raw_specs(){message}')
    for features, message in (
        (None, ' must return features as a dict, not None'),
        ({}, ': the feature a is missing, but parsing makes it float32 (None, 2)'),
        (
            {'a': tf.zeros([3, 1])},
            ': the feature a is a tensor of float32 (3, 1), but parsing makes it float32 (None, 2)',
        ),
        (
            {'a': tf.zeros([3, 2], tf.int32)},
            ': the feature a is a tensor of int32 (3, 2), but parsing makes it float32',
        ),
    ):
        message = f'--dataset=d: from_raw(){message}'
        assert refused(dataset_contract.check_raw_features, features, {'a': a}, PARAMS).startswith(message)


def test_batches_of_a_size_that_is_only_known_later_are_checked_then(session):
    a, b = (tf.placeholder(tf.float32, [None, *shape]) for shape in ([2], []))
    features, labels = check(({'a': a, 's': sparse(), 'x': unknown()}, {'b': b}), TRAIN, 'parse_batch')
    feed = {a: np.ones([3, 2]), b: [1, 2, 3]}
    assert session.run(labels['b'], feed).tolist() == [1, 2, 3] and isinstance(features['s'], tf.SparseTensor)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r'--dataset=d: parse_batch\(\) must return features and labels'):
        session.run(features['a'], {**feed, b: [1, 2]})
    assert check(({'a': a}, {}), TRAIN, 'parse_batch')[0]['a'] is a  # There is nothing to compare.
    assert check(({'a': a}, {'b': b}), TRAIN)[0]['a'] is a


def test_predictions_and_towers_need_dense_features_of_known_shape(session):
    assert check(({'a': [1]}, None), PREDICT)[1] is None
    dataset_contract.check_divisible({'a': tf.zeros([4])}, {'b': tf.zeros([4])}, PARAMS)
    for value, message in (
        (sparse(), 'must be a tensor, not a SparseTensor: tf.sparse.to_dense(it) makes one'),
        (unknown(), 'has an unknown shape: give it one, with tf.ensure_shape'),
    ):
        assert set(check(({'a': value}, {'b': value}))[0]) == {'a'}
        assert refused(check, ({'a': value}, {}), PREDICT) == f'--dataset=d: parse(): the feature a {message}'
        for kind, inputs in (('feature', ({'a': value}, {})), ('label', ({}, {'a': value}))):
            found = refused(dataset_contract.check_divisible, *inputs, PARAMS)
            assert found == f'--dataset=d with towers: the {kind} a {message}'


def test_metadata_that_cannot_be_saved_or_right_is_named_and_else_is_as_json_gives_it_back():
    for metadata, message in (
        ([], ' must return its items as a dict, not a list of 0'),
        ({'a': {1, 2}}, ' must return what JSON can represent: Object of type set is not JSON serializable'),
        ({'a': float('nan')}, ' must return what JSON can represent: Out of range float values are not JSON compliant'),
        ({'class_names': 'ab'}, f"{CLASS_NAMES} 'ab'"),
        ({'class_names': [1, 2]}, f'{CLASS_NAMES} [1, 2]'),
        ({'class_names': ['a', 'a']}, f"{CLASS_NAMES} ['a', 'a']"),
        ({'class_names': ['a', 'b'], 'num_classes': 3}, ': num_classes is 3, but there are 2 class_names'),
    ):
        assert refused(dataset_contract.check_metadata, metadata, PARAMS).startswith(f'--dataset=d: metadata(){message}')
    given = {'class_names': ('a', 'b'), 'num_classes': 2, 'mean': 0.5}
    assert dataset_contract.check_metadata(given, PARAMS) == {**given, 'class_names': ['a', 'b']}
    assert dataset_contract.check_metadata({'num_classes': 3}, PARAMS) == {'num_classes': 3}


def zeros(*shape, dtype=tf.float32):
    return tf.zeros(shape, dtype)


def call(returned, labels=None, mode=TRAIN, params=PARAMS):
    model = types.SimpleNamespace(model=lambda features, labels, mode, params: returned())
    return model_contract.call_model(model, {}, None if mode == PREDICT else labels or {}, mode, params)


def predicted(value):
    return lambda: ({'a': value()}, zeros(4))


def lost(value):
    return lambda: ({'a': zeros(4)}, value())


def test_what_a_model_must_not_return_is_named():
    for returned, message in (
        (lambda: None, ' must return a pair (predictions, loss), not None'),
        (lambda: (zeros(4), zeros(4)), ' must return predictions as a dict, not a tensor of float32 (4,)'),
        (lambda: ({}, zeros(4)), ' must return predictions, not an empty dict'),
        (lambda: ({5: zeros(4)}, zeros(4)), f' must return predictions {NAMES} 5'),
        (lambda: ({'': zeros(4)}, zeros(4)), f" must return predictions {NAMES} ''"),
        (lambda: ({'a\n': zeros(4)}, zeros(4)), rf" must return predictions {NAMES} 'a\n'"),
        (predicted(lambda: 3), f'{A} a tensor, not an int: tf.convert_to_tensor(it) makes one'),
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
    ):
        assert refused(call, returned).startswith(f'--model=m: model(){message}')


def test_a_model_without_labels_needs_no_loss_variables_are_predictions_too_and_class_weights_fit_the_classes(session):
    predictions, losses = call(lambda: [{'a': zeros(4), 'b': zeros(3)}, 'anything'], mode=PREDICT)
    assert list(predictions) == ['a', 'b'] and losses is None
    assert refused(call, lambda: ({'a': zeros()}, None), None, PREDICT).endswith('[batch, ...], not ()')
    variable = tf.get_variable('v', [4])
    assert call(lambda: ({'a': variable}, zeros(4)))[0] == {'a': variable}
    assert list(call_metrics(lambda: {'a': (variable, tf.no_op()), 'b': (variable, variable)})) == ['a', 'b']
    params = build.make_hparams('m', {}, 'd', {'num_classes': 3}, text='class_weights=[1,2]')
    message = refused(call, predicted(lambda: zeros(4)), {'label': tf.TensorSpec([4], tf.int32)}, TRAIN, params)
    assert message == 'class_weights has 2 weights for 3 classes'


@pytest.mark.parametrize(
    'text, names, message',
    [
        ('{cat:2,dgo:1}', ['cat', 'dog'], 'class_weights: there is no class dgo, did you mean dog?; the classes are: cat, dog'),
        ('{cat:0,dog:0}', ['cat', 'dog'], 'class_weights are all 0: nothing would be learned'),
        ('{cat:2}', [], 'class_weights: --dataset=d has no names of classes: give a list in their order'),
    ],
)
def test_names_of_class_weights_must_be_known(text, names, message):
    params = build.make_hparams('m', {}, 'd', {}, text=f'class_weights={text}')
    params = build.add_metadata(params, {'class_names': names})
    assert refused(call, predicted(lambda: zeros(4)), {'label': tf.TensorSpec([4], tf.int32)}, TRAIN, params) == message


def test_class_weights_of_a_mask_are_a_label_that_its_model_must_use(session):
    params = build.make_hparams('m', {}, 'd', {'num_classes': 2}, text='class_weights=[1,5]')
    labels, given = {'label': tf.constant([[[0, 1, 255]]])}, []

    def model(features, labels, mode, params):
        given.append(labels['pixel_weight'])
        return {'a': zeros(1)}, tf.reduce_sum(given[0], [1, 2])

    _, losses = model_contract.call_model(types.SimpleNamespace(model=model), {}, labels, TRAIN, params)
    weights, loss = session.run((given[0], losses['']))
    assert weights.tolist() == [[[1, 5, 0]]] and loss.tolist() == [6] and [*labels] == ['label']
    unweighted = lambda: call(predicted(lambda: zeros(4)), {'label': tf.zeros([4, 2, 2], tf.int32)}, TRAIN, params)  # noqa: E731
    message = refused(unweighted)
    assert message.startswith('class_weights: --model=m does not use the label pixel_weight, as')


def test_class_weights_by_name_multiply_the_losses_of_their_classes_and_others_count_once(session):
    params = build.make_hparams('m', {}, 'd', {}, text='class_weights={dog:0.5,cat:4}')
    params = build.add_metadata(params, {'class_names': ['cat', 'dog', 'owl']})
    labels = {'label': tf.constant([0, 1, 2, 0])}
    _, losses = call(lost(lambda: tf.constant([1.0, 2.0, 3.0, 4.0])), labels, TRAIN, params)
    assert session.run(losses['']).tolist() == [4, 1, 3, 16]


@pytest.mark.parametrize('mode', [TRAIN, EVAL])
def test_balanced_weights_are_those_of_the_counts(session, mode):
    params = build.make_hparams('m', {}, 'd', {}, text='class_weights=balanced')
    params = build.add_metadata(params, {'class_counts': [3, 1]})  # 4 / (2 * 3) and 4 / (2 * 1).
    labels = {'label': tf.constant([0, 1, 1, 0])}
    _, losses = call(lost(lambda: tf.ones([4])), labels, mode, params)
    assert session.run(losses['']).tolist() == pytest.approx([2 / 3, 2, 2, 2 / 3])


def call_metrics(returned):
    module = types.SimpleNamespace(eval_metrics=lambda features, labels, predictions, params: returned())
    return model_contract.call_eval_metrics(module, {}, {}, {}, PARAMS)


def of_keras():
    metric = tf.keras.metrics.Mean()
    metric(zeros(4))
    return {'a': (metric.result(), metric.updates[0])}


def test_metrics_that_cannot_be_evaluated_are_named():
    for returned, message in (
        (lambda: [tf.metrics.mean(1.0)], 'must return metrics as a dict, not a list of 1'),
        (lambda: {'a': 1.0}, f'{PAIRS} 1.0'),
        (lambda: {'a': (1.0, zeros())}, f'{PAIRS} (1.0, '),
        (lambda: {'a': (zeros(), 1.0)}, f'{PAIRS} (<tf.Tensor'),
        (lambda: {'a': (zeros(), zeros(), zeros())}, f'{PAIRS} (<tf.Tensor'),
        (lambda: {'a': [zeros(), zeros()]}, f'{PAIRS} [<tf.Tensor'),
        *(
            (lambda name=name: {name: tf.metrics.mean(1.0)}, f'must not name a metric {name}: the framework uses that name')
            for name in ('loss', 'global_step', 'split', 'mode', 'loss/a')
        ),
        (of_keras, 'makes the variable total, which nothing initializes, as tf.keras.metrics do: use tf.metrics'),
    ):
        assert refused(call_metrics, returned).startswith(f'--model=m: eval_metrics() {message}')


def test_a_model_may_be_without_metrics_and_hooks_and_hooks_and_optimizers_of_another_type_are_refused(session):
    for module in (types.SimpleNamespace(), types.SimpleNamespace(eval_metrics=None, hooks=None)):
        assert model_contract.call_eval_metrics(module, {}, {}, {}, PARAMS) == {}
        assert model_contract.make_hooks(module, TRAIN, PARAMS) == []
    module = types.SimpleNamespace(optimizer=lambda *arguments: 'adam', hooks=lambda *arguments: [3])
    for function, argument, message in (
        (model_contract.make_optimizer, 0.1, "optimizer() must return a tf.train.Optimizer, not 'adam'"),
        (model_contract.make_hooks, 'train', 'hooks() must return a list of tf.train.SessionRunHook, not [3]'),
    ):
        found = refused(function, module, argument, PARAMS).replace(' (tf is tensorflow.compat.v1)', '')
        assert found == f'--model=m: {message}'


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


def test_tensors_of_an_input_fn_are_features_alone_or_with_labels(session):
    x, y = zeros(2, 3), zeros(2)
    for made, features, labels in ((x, x, None), ({'x': x}, {'x': x}, None), ((x, y), x, y), ([{'x': x}, y], {'x': x}, y)):
        found = estimator_contract.check_batches('d', made)
        assert isinstance(found, tuple) and found[0] == features and found[1] is labels
    for made in (3, {}, {'x': 3}, (x, y, x), [x]):
        assert refused(estimator_contract.check_batches, 'd', made).startswith('d: input_fn() must return ')


def test_a_model_that_forgets_that_labels_may_be_none_is_told_so_with_its_line():
    def model(features, labels, mode, params):
        if 'own' in features:
            features.get('size').bit_length()
        return {'a': features['x']}, tf.cast(labels['label'], tf.float32)

    def predict(features):
        model_contract.call_model(types.SimpleNamespace(model=model), features, None, PREDICT, PARAMS)

    line = model.__code__.co_firstlineno + 3
    message = "labels are None in prediction, which it does not expect: TypeError: 'NoneType' object is not subscriptable ("
    found = refused(predict, {'x': tf.zeros([1])})
    assert found.startswith(f'--model=m: model(): {message}')
    assert found.endswith(f'test_module_contracts.py, line {line}): return (predictions, None) before')
    with pytest.raises(AttributeError, match="no attribute 'bit_length'"):  # Another None is an exception of its own.
        predict({'own': 1})
