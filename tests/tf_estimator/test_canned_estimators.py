"""Estimators that TensorFlow makes: canned ones, and those of Keras models."""

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tests.tf_estimator.slope import BOTH_APIS, X, Y, loss_after

# Of protobuf 6, about TensorFlow 2.20's own code.
pytestmark = pytest.mark.filterwarnings('ignore:float_format is deprecated')

# 40 examples: the class is 1 where `size` is above 0.5, which is where `word` is 'big'; the target is 3 size + 1.
SIZES = np.float32(np.arange(40) / 40)
COLUMNS = {'size': SIZES, 'word': np.where(SIZES > 0.5, 'big', 'small')}


def input_fn_of(labels):
    return lambda: tf.data.Dataset.from_tensors((COLUMNS, labels)).repeat()


CLASSES, VALUES = input_fn_of(np.int32(SIZES > 0.5)), input_fn_of(3 * SIZES + 1)


def feature_columns():
    size = tf.feature_column.numeric_column('size')
    word = tf.feature_column.categorical_column_with_vocabulary_list('word', ['big', 'small'])
    linear = [tf.feature_column.bucketized_column(size, [0.25, 0.5, 0.75]), word]
    return linear, [size, tf.feature_column.embedding_column(word, 2), tf.feature_column.indicator_column(word)]


@BOTH_APIS
def test_a_canned_classifier_learns_the_classes_and_exports(api, tmp_path):
    linear, deep = feature_columns()
    adam = tf1.train.AdamOptimizer if api is tf1 else tf.keras.optimizers.legacy.Adam
    estimator = api.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=linear,
        dnn_feature_columns=deep,
        dnn_hidden_units=[8],
        dnn_optimizer=adam(0.05),
        config=tf.estimator.RunConfig(str(tmp_path), tf_random_seed=1),
    )
    estimator.train(CLASSES, steps=40)
    assert estimator.evaluate(CLASSES, steps=1)['accuracy'] == 1
    spec = tf.feature_column.make_parse_example_spec(linear + deep)
    path = estimator.export_saved_model(
        str(tmp_path / 'export'), tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    )
    example = tf.train.Example()
    example.features.feature['size'].float_list.value.append(0.9)
    example.features.feature['word'].bytes_list.value.append(b'big')
    predict = tf.saved_model.load(path.decode()).signatures['predict']
    answer = predict(examples=tf.constant([example.SerializeToString()]))
    assert answer['class_ids'].numpy() == 1


def test_a_canned_regressor_learns_a_line(tmp_path):
    estimator = tf.estimator.DNNRegressor(
        feature_columns=[tf.feature_column.numeric_column('size')],
        hidden_units=[16],
        optimizer=tf.keras.optimizers.legacy.Adam(0.05),
        config=tf.estimator.RunConfig(str(tmp_path), tf_random_seed=1),
    )
    estimator.train(VALUES, steps=100)
    # To answer the mean, whatever the input, would leave a loss of 0.75.
    assert estimator.evaluate(VALUES, steps=1)['average_loss'] < 0.05


@pytest.mark.filterwarnings('ignore:`Model.state_updates`')
def test_a_keras_model_becomes_an_estimator(tmp_path):
    layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer='zeros', input_shape=(1,))
    model = tf.keras.Sequential([layer])
    model.compile(tf.keras.optimizers.legacy.SGD(0.1), 'mse')
    estimator = tf.keras.estimator.model_to_estimator(model, model_dir=str(tmp_path))
    arrays = X[:, None], Y[:, None]
    estimator.train(lambda: tf.data.Dataset.from_tensors(arrays).repeat(), steps=3)
    assert estimator.evaluate(lambda: tf.data.Dataset.from_tensors(arrays), steps=1)['loss'] == pytest.approx(loss_after(3))
