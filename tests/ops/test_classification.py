"""What classifiers have in common: the loss by its formula in NumPy, outputs and metrics."""

import numpy as np
import tensorflow.compat.v1 as tf

from common.ops.classification import classification_loss, classification_metrics, classifier_outputs
from tests.evaluated import evaluate

LOGITS = np.random.RandomState(0).normal(size=[9, 4]).astype(np.float32)
LABEL, OTHER = (np.random.RandomState(i).randint(0, 4, 9).astype(np.int32) for i in (1, 2))
SHARE = np.random.RandomState(3).uniform(size=9).astype(np.float32)
SMOOTHING = np.full([9], 0.1, np.float32)
LOG_PROBABILITIES = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
ONE_HOT, OTHER_ONE_HOT = np.eye(4)[LABEL], np.eye(4)[OTHER]


def loss_of(names, *arrays):
    return evaluate(lambda logits, *labels: classification_loss(dict(zip(names, labels)), logits), LOGITS, *arrays)


def test_the_loss_is_the_cross_entropy():
    np.testing.assert_allclose(loss_of(['label'], LABEL), -LOG_PROBABILITIES[range(9), LABEL], rtol=1e-5)


def test_the_loss_of_labels_alone_has_the_ops_of_tensorflows_cross_entropy():
    def ops(fn):
        with tf.Graph().as_default() as graph:
            fn(tf.constant(LABEL), tf.constant(LOGITS))
            return [op.name for op in graph.get_operations()]

    assert ops(lambda label, logits: classification_loss({'label': label}, logits)) == ops(
        lambda label, logits: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
    )


def test_mixup_is_the_cross_entropy_to_the_mixed_labels():
    target = SHARE[:, None] * ONE_HOT + (1 - SHARE[:, None]) * OTHER_ONE_HOT
    found = loss_of(['label', 'mixup_label', 'mixup_share'], LABEL, OTHER, SHARE)
    np.testing.assert_allclose(found, -(target * LOG_PROBABILITIES).sum(1), rtol=1e-5)


def test_label_smoothing_spreads_a_share_of_the_target_over_all_classes():
    target = 0.9 * ONE_HOT + 0.1 / 4
    found = loss_of(['label', 'label_smoothing'], LABEL, SMOOTHING)
    np.testing.assert_allclose(found, -(target * LOG_PROBABILITIES).sum(1), rtol=1e-5)


def test_mixed_labels_are_smoothed():
    target = 0.9 * (SHARE[:, None] * ONE_HOT + (1 - SHARE[:, None]) * OTHER_ONE_HOT) + 0.1 / 4
    found = loss_of(['label', 'mixup_label', 'mixup_share', 'label_smoothing'], LABEL, OTHER, SHARE, SMOOTHING)
    np.testing.assert_allclose(found, -(target * LOG_PROBABILITIES).sum(1), rtol=1e-5)


def outputs(labels):
    with tf.Graph().as_default(), tf.Session() as session:
        logits = tf.constant(LOGITS)
        labels = labels if labels is None else {'label': tf.constant(labels)}
        predictions, loss = classifier_outputs({}, labels, logits, embedding=2 * logits)
        return session.run(predictions), loss


def test_predictions_without_labels_have_neither_loss_nor_embedding():
    predictions, loss = outputs(None)
    assert loss is None and set(predictions) == {'class', 'probabilities'}
    np.testing.assert_array_equal(predictions['class'], LOGITS.argmax(1))
    np.testing.assert_allclose(predictions['probabilities'], np.exp(LOG_PROBABILITIES), rtol=1e-5)


def test_predictions_with_labels_have_the_embedding():
    predictions, loss = outputs(LABEL)
    assert loss.shape.as_list() == [9]
    np.testing.assert_array_equal(predictions['embedding'], 2 * LOGITS)


def test_only_gray_and_rgb_images_are_shown():
    for shape, expected in (([9, 5, 5, 1], 1), ([9, 5, 5, 3], 1), ([9, 5, 5, 2], 0), ([9, 5], 0)):
        with tf.Graph().as_default():
            label = {'label': tf.constant(LABEL)}
            classifier_outputs({'image': tf.zeros(shape)}, label, tf.constant(LOGITS), tf.zeros([9, 2]))
            assert len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == expected


def test_two_classes_have_an_auc():
    def metrics(num_classes):
        with tf.Graph().as_default(), tf.Session() as session:
            logits = tf.constant(LOGITS[:, :num_classes])
            label = tf.constant(LABEL % num_classes)
            predictions = {'class': tf.argmax(logits, 1), 'probabilities': tf.nn.softmax(logits)}
            found = classification_metrics({'label': label}, predictions, num_classes)
            session.run(tf.local_variables_initializer())
            return {name: session.run(update) for name, (_, update) in found.items() if name in ('accuracy', 'auc')}

    score = LOGITS[:, 1] - LOGITS[:, 0]
    is_positive = LABEL % 2 == 1
    pairs = (score[is_positive][:, None] > score[~is_positive]).mean()
    found = metrics(2)
    np.testing.assert_allclose(found['auc'], pairs, rtol=1e-6)
    np.testing.assert_allclose(found['accuracy'], ((score > 0) == is_positive).mean(), rtol=1e-6)
    assert set(metrics(4)) == {'accuracy'}
