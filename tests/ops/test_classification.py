"""Classifiers: the loss by its formula in NumPy, outputs and metrics."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.classification import classification_loss, classification_metrics, classifier_outputs
from tests.evaluated import evaluate, graph_size, summary_values

LOGITS = np.random.RandomState(0).normal(size=[9, 4]).astype(np.float32)
LABEL, OTHER = (np.random.RandomState(i).randint(0, 4, 9).astype(np.int32) for i in (1, 2))
SHARE = np.random.RandomState(3).uniform(size=9).astype(np.float32)
SMOOTHING = np.full([9], 0.1, np.float32)
LOG_PROBABILITIES = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
ONE_HOT, OTHER_ONE_HOT = np.eye(4)[LABEL], np.eye(4)[OTHER]
MIXED = SHARE[:, None] * ONE_HOT + (1 - SHARE[:, None]) * OTHER_ONE_HOT


def test_the_loss_is_the_cross_entropy_to_the_mixed_and_smoothed_labels():
    for labels, target in (
        ({}, ONE_HOT),
        ({'mixup_label': OTHER, 'mixup_share': SHARE}, MIXED),
        ({'label_smoothing': SMOOTHING}, 0.9 * ONE_HOT + 0.1 / 4),
        ({'mixup_label': OTHER, 'mixup_share': SHARE, 'label_smoothing': SMOOTHING}, 0.9 * MIXED + 0.1 / 4),
    ):

        def loss(logits, label, *others, names=tuple(labels)):
            return classification_loss({'label': label, **dict(zip(names, others))}, logits)

        found = evaluate(loss, LOGITS, LABEL, *labels.values())
        np.testing.assert_allclose(found, -(target * LOG_PROBABILITIES).sum(1), rtol=1e-5)
        # Labels alone need no more than TensorFlow's cross-entropy.
        theirs = graph_size(lambda: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=LABEL, logits=LOGITS))
        assert graph_size(classification_loss, {'label': LABEL}, LOGITS) == theirs


def test_predictions_have_a_loss_and_the_embedding_where_there_are_labels(session):
    logits = tf.constant(LOGITS)
    predictions, loss = classifier_outputs({}, None, logits, embedding=2 * logits)
    found = session.run(predictions)
    assert loss is None and set(found) == {'class', 'probabilities'}
    np.testing.assert_array_equal(found['class'], LOGITS.argmax(1))
    np.testing.assert_allclose(found['probabilities'], np.exp(LOG_PROBABILITIES), rtol=1e-5)
    predictions, loss = classifier_outputs({}, {'label': tf.constant(LABEL)}, logits, embedding=2 * logits)
    assert loss.shape.as_list() == [9]
    np.testing.assert_array_equal(session.run(predictions['embedding']), 2 * LOGITS)


@pytest.mark.parametrize('shape, count', [([9, 5, 5, 1], 8), ([9, 5, 5, 3], 8), ([9, 5, 5, 2], 0), ([9, 5], 0)])
def test_only_gray_and_rgb_images_are_shown_and_eight_at_most(session, shape, count):
    classifier_outputs({'image': tf.zeros(shape)}, {'label': tf.constant(LABEL)}, tf.constant(LOGITS), tf.zeros([9, 2]))
    summaries = tf.get_collection(tf.GraphKeys.SUMMARIES)
    assert sum(len(summary_values(session, summary)) for summary in summaries) == count


def metrics(num_classes, **labels):
    """Returns {name: value} of one batch."""
    with tf.Graph().as_default(), tf.Session() as session:
        logits = tf.constant(LOGITS[:, : min(num_classes, 4)])
        predictions = {'class': tf.argmax(logits, 1), 'probabilities': tf.nn.softmax(logits)}
        labels = {'label': tf.constant(LABEL % min(num_classes, 4)), **labels}
        found = classification_metrics(labels, predictions, num_classes)
        session.run(tf.local_variables_initializer())
        return {name: session.run(update) for name, (_, update) in found.items()}


def test_two_classes_have_an_auc_up_to_a_thousand_a_confusion_matrix_and_all_an_accuracy():
    score = LOGITS[:, 1] - LOGITS[:, 0]
    is_positive = LABEL % 2 == 1
    found = metrics(2)
    np.testing.assert_allclose(found['auc'], (score[is_positive][:, None] > score[~is_positive]).mean(), rtol=1e-6)
    np.testing.assert_allclose(found['accuracy'], ((score > 0) == is_positive).mean(), rtol=1e-6)
    pairs = SHARE[is_positive][:, None] * SHARE[~is_positive]
    of_weights = (pairs * (score[is_positive][:, None] > score[~is_positive])).sum() / pairs.sum()
    np.testing.assert_allclose(metrics(2, weight=SHARE)['auc'], of_weights, rtol=1e-6)
    assert found['confusion_matrix'].sum() == 9 and found['pr_curve'].sum() == 18
    assert set(metrics(3)) == set(metrics(1000)) == {'accuracy', 'pr_curve', 'confusion_matrix'}
    assert set(metrics(1001)) == {'accuracy', 'pr_curve'}
    share = SHARE[LOGITS.argmax(1) == LABEL].sum() / SHARE.sum()
    np.testing.assert_allclose(metrics(4, weight=SHARE)['accuracy'], share, rtol=1e-6)
