"""The figures about predicted masks match NumPy."""

import numpy as np
import pytest

from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.report import segmentation


def predictions():
    right, wrong = np.array([[0, 1], [255, 255]]), np.array([[1, 0], [0, 255]])
    for number, (label, classes) in enumerate([(right, [[0, 1], [1, 1]]), (wrong, [[1, 1], [1, 0]]), (None, [[0, 0], [0, 0]])]):
        yield Prediction({'example': number}, {'class': np.array(classes)}, None, np.zeros([2, 2, 3], np.float32), label)


def test_counts_and_the_pictures_with_the_most_wrong_pixels():
    found = segmentation.collect(predictions(), 3, 5)
    assert found.counts.tolist() == [[1, 2, 0], [0, 2, 0], [0, 0, 0]] and found.pictures == 2
    shown = segmentation.figures(found, ['sky', 'car', 'dog'])
    sky, car, dog = shown['classes']
    assert sky[1:] == pytest.approx((3, 1 / 3, 1, 1 / 3)) and car[1:] == pytest.approx((2, 2 / 4, 2 / 4, 1))
    assert dog.pixels == 0 and np.isnan(dog[2:]).all()
    assert shown['text'] == (
        'Of 5 pixels in 2 pictures, without those to ignore, 60.0 % are predicted correctly; always predicting sky, the most '
        'frequent class, would be correct for 60.0 %. The mean IoU of the classes is 0.4167.'
    )
    assert [[cell.examples for cell in row] for row in shown['matrix']] == found.counts.tolist()
    (mistake,) = segmentation.mistakes(found, {'num_classes': 3})
    assert mistake[:4] == ('example 1', '0 50.0 %, 1 25.0 %', '1 75.0 %, 0 25.0 %', '66.7 % of pixels wrong')
    assert mistake.picture != mistake.tinted and mistake.tinted.startswith('data:image/png')


def test_a_split_without_masks_has_no_figures():
    assert segmentation.collect([*predictions()][2:], 3, 5) is None
    label = np.zeros([2, 2], int)
    for values in ({}, {'class': np.zeros([])}, {'mask': label}):  # Of a model that names them otherwise.
        assert segmentation.collect([Prediction({}, values, label=label)], 3, 5) is None
