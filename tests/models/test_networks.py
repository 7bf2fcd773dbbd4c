"""The networks of mlp, resnet and text_cnn match NumPy, and they learn."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops import inputs as flat
from estimator_trainer.models import mlp, resnet, text_cnn, unet
from tests.evaluated import evaluate, variable_values
from tests.models.shared import ModeKeys, make_params, train

RANDOM = np.random.RandomState(0)
X = RANDOM.uniform(-1, 1, [200, 2]).astype(np.float32)
IDS = RANDOM.randint(0, 6, [200, 2])
IMAGES = np.random.RandomState(0).uniform(size=[7, 9, 8, 3]).astype(np.float32)
VOCABULARY = {'vocabulary_size': 9}
NARROW = 'embedding_size=3,num_filters=4,filter_widths=[2,3]'
# Longer and shorter than the widest filter, an unknown token's 0 within a text, and an empty text.
TEXTS = [[5, 2, 8, 1, 3], [4, 4], [7], [3, 0, 6, 2], []]


# Without statistics, the target is unchanged.
@pytest.mark.parametrize('max_tables', [1, 64])
@pytest.mark.parametrize('statistics, mean, std', [({}, 0, 1), ({'target_mean': 10.0, 'target_std': 2.0}, 10, 2)])
def test_mlp_and_its_loss_are_those_of_numpy(statistics, mean, std, max_tables, monkeypatch):
    monkeypatch.setattr(flat, '_MAX_TABLES', max_tables)
    metadata = {'vocabulary_sizes': {'a b': [6, 7]}, **statistics}
    params = make_params(mlp, 'task=regression,hidden_units=[4],embedding_size=3', metadata)

    def compute(ids, table, scalar, label):
        features = {'a b': ids, 'table': table, 'scalar': scalar}
        predictions, loss = mlp.model(features, {'label': label}, ModeKeys.EVAL, params)
        return predictions['value'], loss

    others = (X[:9].reshape(9, 1, 2), X[9:18, 0], X[9:18, 1])
    value, loss = evaluate(compute, IDS[:9], *others)
    with pytest.raises(tf.errors.InvalidArgumentError, match='indices.* is not in'):
        evaluate(compute, IDS[:9] + [6, 0], *others)
    # Variables in the order of their names: dense/bias, dense/kernel, dense_1/bias, dense_1/kernel, embeddings.
    shapes = [[4], [9, 4], [1], [4, 1], *([[13, 3]] if max_tables == 1 else [[6, 3], [7, 3]])]
    bias, kernel, bias_1, kernel_1, *tables = [variable_values(i, shape) for i, shape in enumerate(shapes)]
    first, second = tables if len(tables) > 1 else np.split(tables[0], [6])
    inputs = np.concatenate([first[IDS[:9, 0]], second[IDS[:9, 1]], X[9:18, :1], X[:9]], 1)
    expected = mean + std * (np.maximum(inputs @ kernel + bias, 0) @ kernel_1 + bias_1)[:, 0]
    np.testing.assert_allclose(value, expected, rtol=1e-4)
    np.testing.assert_allclose(loss, np.square((expected - X[9:18, 1]) / std), rtol=1e-3)


def test_mlp_learns_exclusive_or_of_a_number_and_a_category_and_a_regression_with_a_normalized_target(tmp_path):
    labels = np.int32((X[:, 0] > 0) ^ (IDS[:, 0] % 2 == 1))
    features, metadata = {'x': X, 'id': IDS[:, 0].astype(np.int64)}, {'vocabulary_sizes': {'id': 6}}
    metrics, predictions = train(tmp_path / 'xor', mlp, features, {'label': labels}, 150, 'learning_rate=0.01', metadata)
    assert metrics['accuracy'] > 0.98 and metrics['auc'] > 0.99
    assert (predictions['class'] == labels).mean() == pytest.approx(metrics['accuracy'])

    target = (1000 + 50 * X[:, 0] * X[:, 1] + 20 * X[:, 1]).astype(np.float32)
    metadata = {'target_mean': float(target.mean()), 'target_std': float(target.std())}
    text = 'task=regression,learning_rate=0.01'
    metrics, predictions = train(tmp_path / 'regression', mlp, {'x': X}, {'label': target}, 200, text, metadata)
    error = predictions['value'] - target
    assert metrics['rmse'] == pytest.approx(np.sqrt(np.square(error).mean()), rel=1e-3)
    assert metrics['mean_absolute_error'] == pytest.approx(np.abs(error).mean(), rel=1e-3)
    assert metrics['rmse'] < 2 < target.std()


def test_a_block_of_resnet_whose_convolutions_give_nothing_passes_every_other_pixel_on(session):
    net = resnet.residual_block(tf.constant(IMAGES), 5, 2, is_training=False)
    session.run(tf.global_variables_initializer())
    scale = next(v for v in tf.global_variables() if v.op.name == 'batch_normalization_1/gamma')
    scale.load(np.zeros([5]), session)
    expected = np.zeros([7, 5, 4, 5], np.float32)
    expected[..., :3] = IMAGES[:, ::2, ::2]
    np.testing.assert_array_equal(session.run(net), expected)
    offset = next(v for v in tf.global_variables() if v.op.name == 'batch_normalization_1/beta')
    offset.load(np.full([5], 0.5), session)
    np.testing.assert_array_equal(session.run(net), expected + 0.5)


def test_only_the_first_block_of_the_later_stages_of_resnet_halves_the_image(session):
    resnet.model({'image': tf.constant(IMAGES)}, None, ModeKeys.PREDICT, make_params(resnet, 'depth=14,width=2'))
    sizes = [op.outputs[0].shape.as_list()[1:] for op in session.graph.get_operations() if op.type == 'Conv2D']
    assert sizes == [[9, 8, 32]] * 5 + [[5, 4, 64]] * 4 + [[3, 2, 128]] * 4


def test_resnet_learns_which_way_stripes_run(tmp_path):
    stripes = np.tile([[0.0, 1.0]], [8, 4])
    images = np.stack([stripes, stripes.T] * 8)[..., None] + np.random.RandomState(0).normal(size=[16, 8, 8, 1], scale=0.2)
    labels = np.arange(16, dtype=np.int32) % 2
    text = 'depth=8,num_classes=2,learning_rate=0.02,label_smoothing=0.1,augment_shift=1,mixup_alpha=0.2'
    metrics, predictions = train(tmp_path, resnet, {'image': images.astype(np.float32)}, {'label': labels}, 30, text)
    assert metrics['accuracy'] == metrics['auc'] == 1 and metrics['loss'] < 0.5
    assert list(predictions['class']) == list(labels)


def pad(texts, length):
    return np.array([[*text, *[0] * (length - len(text))] for text in texts], np.int32).reshape(len(texts), length)


def in_numpy(text):
    """The probabilities of a text by loops over its windows."""
    # Variables in the order of their names: dense/bias, dense/kernel, embedding, filters_2/bias, filters_2/kernel, ...
    shapes = [[2], [8, 2], [9, 3], [4], [2 * 3, 4], [4], [3 * 3, 4]]
    # They have both signs: a window that reaches into the padding may have the maximum.
    bias, kernel, embedding, *filters = [np.random.RandomState(i).normal(size=shape) for i, shape in enumerate(shapes)]
    vectors = embedding[text] if text else np.zeros([0, 3])
    maxima = []
    for width, filter_bias, filter_kernel in ((2, *filters[:2]), (3, *filters[2:])):
        padded = np.concatenate([vectors, np.zeros([max(width - len(text), 0), 3])])
        windows = [padded[i : i + width] for i in range(len(padded) - width + 1)]
        maxima.append(np.max([np.maximum(window.ravel() @ filter_kernel + filter_bias, 0) for window in windows], 0))
    logits = np.concatenate(maxima) @ kernel + bias
    return np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()


def test_text_cnn_is_that_of_numpy_however_long_the_padding(session):
    ids = tf.placeholder(tf.int32, [None, None])
    params = make_params(text_cnn, NARROW, VOCABULARY)
    probabilities = text_cnn.model({'text': ids}, None, ModeKeys.PREDICT, params)[0]['probabilities']
    for i, variable in enumerate(sorted(tf.global_variables(), key=lambda variable: variable.name)):
        variable.load(np.random.RandomState(i).normal(size=variable.shape), session)
    for texts, length in ((TEXTS, 9), (TEXTS, 5), ([[7], []], 1), ([[], []], 0)):  # Down to shorter than every filter.
        found = session.run(probabilities, {ids: pad(texts, length)})
        np.testing.assert_allclose(found, [in_numpy(text) for text in texts], rtol=1e-4)
    assert session.run(probabilities, {ids: pad([], 5)}).shape == (0, 2)  # As a tower's share of a small batch may be.


def test_text_cnn_learns_the_order_of_two_words(tmp_path):
    random = np.random.RandomState(0)
    texts, labels = [], np.arange(64, dtype=np.int32) % 2
    for label in labels:
        words = list(random.randint(3, 9, random.randint(0, 8)))
        place = random.randint(0, len(words) + 1)
        texts.append(words[:place] + ([1, 2] if label else [2, 1]) + words[place:])
    text = 'embedding_size=8,num_filters=8,learning_rate=0.02,label_smoothing=0.1'
    metrics, predictions = train(tmp_path, text_cnn, {'text': pad(texts, 10)}, {'label': labels}, 100, text, VOCABULARY)
    assert metrics['accuracy'] == metrics['auc'] == 1 and list(predictions['class']) == list(labels)


def test_unet_gives_a_class_for_each_pixel_of_pictures_of_any_size():
    for shape, depth in (([2, 9, 13, 1], 3), ([2, 5, 5, 1], 2), ([1, 6, 4, 1], 0)):
        with tf.Graph().as_default():
            params = make_params(unet, f'filters=2,depth={depth},num_classes=3,batch_norm=false')
            found, loss = unet.model(
                {'image': tf.zeros(shape)}, {'label': tf.zeros(shape[:3], tf.int32)}, ModeKeys.EVAL, params
            )
            assert found['class'].shape == shape[:3] and found['probabilities'].shape == [*shape[:3], 3]
            assert loss.shape == shape[:1]


def test_classes_and_losses_of_unet_are_the_same_in_towers():
    params = make_params(unet, 'filters=2,depth=2,num_classes=3,batch_norm=false')
    labels = np.random.RandomState(1).randint(0, 3, [7, 9, 8]).astype(np.int32)
    labels[0], labels[1, :4] = 255, 255  # To be ignored.

    def outputs(image, label):
        found, loss = unet.model({'image': image}, {'label': label}, ModeKeys.TRAIN, params)
        return found['class'], loss

    classes, loss = evaluate(outputs, 0.01 * IMAGES, labels)
    assert classes.shape == (7, 9, 8) and loss[0] == 0 < loss[1:].min()
