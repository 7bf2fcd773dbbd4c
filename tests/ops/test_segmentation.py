"""Segmentation: the loss and metrics of pixels match NumPy and scikit-learn; colors of masks."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops import segmentation
from estimator_trainer.common.targets import IGNORED
from tests.evaluated import evaluate, summary_values
from tests.shared import refused

RANDOM = np.random.RandomState(0)
LABELS = RANDOM.randint(0, 3, [5, 4, 6]).astype(np.int32)
LABELS[RANDOM.uniform(size=LABELS.shape) < 0.3] = IGNORED
LABELS[3] = IGNORED
LOGITS = RANDOM.normal(size=[5, 4, 6, 4]).astype(np.float32)  # Of four classes, one of which has no pixel.
WEIGHTS = RANDOM.uniform(size=LABELS.shape).astype(np.float32)


def expected_loss(weights):
    probabilities = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
    losses = []
    for label, of_pixels, weight in zip(LABELS, probabilities, weights):
        terms = [-w * np.log(p[n]) for n, p, w in zip(label.ravel(), of_pixels.reshape(-1, 4), weight.ravel()) if n != IGNORED]
        losses.append(np.mean(terms) if terms else 0)
    return losses


def test_the_loss_is_the_mean_of_known_pixels_and_zero_without_any():
    for weights in (None, WEIGHTS):

        def loss(labels, logits, weights):
            return segmentation.pixel_loss({'label': labels, 'pixel_weight': weights}, logits)

        found = evaluate(loss, LABELS, LOGITS, np.ones_like(WEIGHTS) if weights is None else weights)
        np.testing.assert_allclose(found, expected_loss(np.ones_like(WEIGHTS) if weights is None else weights), rtol=1e-5)


def metrics_over(batches, num_classes, names=None, dtype=tf.int32):
    """Returns the values of the metrics after batches of (labels, classes)."""
    with tf.Graph().as_default(), tf.Session() as session:
        labels, classes = (tf.placeholder(kind, [None, None, None]) for kind in (dtype, tf.int32))
        metrics = segmentation.segmentation_metrics({'label': labels}, {'class': classes}, num_classes, names)
        session.run(tf.local_variables_initializer())
        for batch in batches:
            updated = session.run([update for _, update in metrics.values()], dict(zip((labels, classes), batch)))
        values = session.run({name: value for name, (value, _) in metrics.items() if name != 'confusion_matrix'})
        return values, dict(zip(metrics, updated)), summary_values(session, metrics['confusion_matrix'][0])


def test_metrics_are_exact_over_batches_and_match_numpy_and_scikit_learn():
    classes = LOGITS[..., :3].argmax(-1)
    classes[classes == 2] = 0  # Class 2 is never predicted.
    found, updated, pictures = metrics_over([(LABELS[:2], classes[:2]), (LABELS[2:], classes[2:])], 4, ['a', 'b c', 'd', 'e'])
    known = LABELS != IGNORED
    label, predicted = LABELS[known], classes[known]
    iou = [((label == i) & (predicted == i)).sum() / ((label == i) | (predicted == i)).sum() for i in range(3)]
    assert [found[f'iou_{name}'] for name in ('a', 'b_c', 'd')] == pytest.approx(iou) and iou[2] == 0
    assert np.isnan(found['iou_e'])  # It neither occurs nor is predicted, so it does not count.
    assert found['mean_iou'] == updated['mean_iou'] == pytest.approx(np.mean(iou))
    assert found['pixel_accuracy'] == pytest.approx((label == predicted).mean())
    assert updated['confusion_matrix'].sum() == known.sum() and len(pictures) == 2
    jaccard_score = pytest.importorskip('sklearn.metrics').jaccard_score
    assert found['mean_iou'] == pytest.approx(jaccard_score(label, predicted, average='macro'))


@pytest.mark.parametrize('dtype', [np.int64, np.uint8])
def test_masks_may_be_of_any_integers(dtype):
    found = evaluate(lambda labels, logits: segmentation.pixel_loss({'label': labels}, logits), LABELS.astype(dtype), LOGITS)
    np.testing.assert_allclose(found, expected_loss(np.ones_like(WEIGHTS)), rtol=1e-5)
    found, _, _ = metrics_over([([[[99, 3], [IGNORED, 1]]], [[[99, 2], [0, 1]]])], 100, dtype=dtype)
    assert found['pixel_accuracy'] == pytest.approx(2 / 3)


def test_many_classes_have_a_mean_alone_and_no_pixels_are_nan():
    found, _, _ = metrics_over([(np.full([1, 2, 2], 70), np.full([1, 2, 2], 70))], 71)
    assert found == {'pixel_accuracy': 1, 'mean_iou': 1}
    found, _, _ = metrics_over([(np.full([1, 2, 2], IGNORED), np.zeros([1, 2, 2]))], 2)
    assert all(map(np.isnan, found.values()))


def test_a_label_that_is_no_mask_of_the_picture_is_one_line():
    for shape, dtype in (([2], tf.int32), ([2, 4, 5], tf.int32), ([2, 4, 4], tf.float32)):
        with tf.Graph().as_default():
            labels = {'label': tf.zeros(shape, dtype)}
            found = refused(segmentation.segmenter_outputs, {}, labels, tf.zeros([2, 4, 4, 3]))
        assert 'but the model needs masks, int (2, 4, 4): --dataset=image_folder reads them' in found


def test_colors_are_those_of_pascal_voc_and_tint_all_but_the_background_and_ignored_pixels():
    colors = segmentation.palette()
    known = {
        0: (0, 0, 0),
        1: (128, 0, 0),
        2: (0, 128, 0),
        7: (128, 128, 128),
        8: (64, 0, 0),
        20: (0, 64, 128),
        255: (224, 224, 192),
    }
    assert {number: tuple(colors[number]) for number in known} == known
    tinted = segmentation.overlay(np.full([1, 4, 1], 0.8, np.float32), np.array([[0, 1, 2, 255]]))
    assert tinted[0].tolist() == [[204] * 3, [166, 102, 102], [102, 166, 102], [204] * 3]
