"""The predictions of an input_fn come with the labels, pictures and single values of the same batch."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.prediction import predict_split
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.hparams import build

X = np.arange(50)


@pytest.fixture(scope='module')
def estimator(tmp_path_factory):
    """Predicts the feature x, as a canned classifier of texts does."""

    def model_fn(features, labels, mode):
        tf.get_variable('w', initializer=1.0)
        x = features['x'] if isinstance(features, dict) else features
        x = x[0] + 100 * x[1] if isinstance(x, tuple) else x
        names = tf.tile([['a', 'b']], [tf.size(x), 1])
        step = tf.assign_add(tf.train.get_global_step(), 1)
        return tf.estimator.EstimatorSpec(mode, {'y': tf.reshape(x, [-1]), 'all_classes': names}, tf.constant(0.0), step)

    made = tf.estimator.Estimator(model_fn, str(tmp_path_factory.mktemp('model')))
    made.train(lambda: ({'x': tf.constant(X)}, None), steps=1)
    return made


def predict(estimator, make):
    dataset = types.SimpleNamespace(input_fn=lambda split, params: make())
    source = DataSource(dataset, '', build.make_hparams('m', {}, 'd', {}))
    return list(predict_split(estimator, source, 'eval', estimator.latest_checkpoint()))


def in_any_order(features, labels):
    return tf.data.Dataset.from_tensor_slices((features, labels)).shuffle(50).batch(8)


def test_labels_are_those_of_the_same_examples_in_an_order_that_changes(estimator):
    features = {
        'x': X,
        'column': X[:, None] * 2.0,
        'vector': np.zeros([50, 3]),
        'image': np.zeros([50, 4, 4, 1]) + X.reshape(50, 1, 1, 1),
    }
    found = predict(estimator, lambda: in_any_order(features, {'label': X * 10, 'other': X, 'weight': X}))
    assert [one.fields['example'] for one in found] == [*range(50)] and {one.values['y'] for one in found} == {*X}
    assert [one.values['y'] for one in found] != [*X]
    for one in found:
        y = one.values['y']
        assert one.values.keys() == {'y', 'all_classes'} and one.label == 10 * y
        assert one.inputs == {'x': y, 'column': 2 * y} and one.image.tolist() == np.full([4, 4, 1], y).tolist()


@pytest.mark.parametrize(
    'labels, expected',
    [
        (X + 1, lambda y: y + 1),
        (X[:, None] + 1, lambda y: y + 1),
        ({'weight': X, 'target': X + 2}, lambda y: y + 2),
        (np.where(X > 20, b'b', b'c'), lambda y: 1 if y > 20 else -1),  # c is no class.
        ({'a': X, 'b': X}, lambda y: None),
        (np.zeros([50, 2]), lambda y: None),
    ],
)
def test_which_label_is_the_label(estimator, labels, expected):
    found = predict(estimator, lambda: in_any_order(X, labels))
    assert len(found) == 50
    for one in found:
        assert one.label == expected(one.values['y']) and one.inputs == {'input': one.values['y']}


def test_an_input_fn_may_return_features_alone_or_tensors_that_end(estimator):
    found = predict(estimator, lambda: tf.data.Dataset.from_tensor_slices({'x': X}).batch(8))
    assert [(one.values['y'], one.label) for one in found] == [(x, None) for x in X]

    def tensors():
        (x,) = tf.train.slice_input_producer([tf.constant(X)], num_epochs=1, shuffle=False)
        x = tf.train.batch([x], 8, allow_smaller_final_batch=True)
        return {'x': x}, x + 1

    assert [(one.values['y'], one.label) for one in predict(estimator, tensors)] == [(x, x + 1) for x in X]


def test_features_of_a_tuple_are_all_given(estimator):
    found = predict(estimator, lambda: in_any_order((X, X + 1), X))
    assert len(found) == 50
    for one in found:
        assert one.values['y'] == one.label + 100 * (one.label + 1)
        assert one.inputs == {'input_0': one.label, 'input_1': one.label + 1}
