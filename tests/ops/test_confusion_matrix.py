"""Confusion matrices: the counts, the picture, and how the Estimator writes them."""

import io

import numpy as np
from PIL import Image
import tensorflow.compat.v1 as tf

from common.ops import confusion_matrix
from common.training.parallel import make_parallel
from tests.evaluated import CPUS

RANDOM = np.random.RandomState(0)
LABELS, PREDICTIONS = RANDOM.randint(0, 3, [2, 50])
COUNTS = np.array([[((LABELS == label) & (PREDICTIONS == prediction)).sum() for prediction in range(3)] for label in range(3)])
# The cells' middles, beside the numbers written there; see the sizes in common/ops/confusion_matrix.py.
CENTRES = [56 + 160 * i + 40 for i in range(3)]


def cells(picture):
    return picture[np.ix_(CENTRES, CENTRES)].astype(int)


def test_cells_of_a_confusion_matrix_are_green_or_red_by_their_share_of_the_row():
    shades = cells(confusion_matrix.draw(np.array([[4, 0, 0], [1, 1, 2], [0, 0, 0]]))[0])
    assert shades[0].tolist() == [[0, 110, 0], [255, 255, 255], [255, 255, 255]]
    # By hand: the root of a quarter is one half of the colour, the root of a half 0.707 of it.
    assert shades[1].tolist() == [[227, 127, 127], [127, 182, 127], [216, 74, 74]]
    assert shades[2].tolist() == [[255, 255, 255]] * 3


def test_counts_are_written_into_the_cells_of_a_confusion_matrix():
    one, other = (confusion_matrix.draw(np.diag([1, 1, count]))[0] for count in (7, 8))
    differ = np.argwhere((one != other).any(-1))
    assert len(differ) and (abs(differ - (56 + 160 * 2 + 80)) < 15).all()
    for count, is_lighter in ((1, False), (2, True)):  # Black up to a quarter of the row, white above.
        (picture,) = confusion_matrix.draw(np.array([[count, 3], [0, 0]]))
        brightness = picture.astype(int).sum(-1)
        ink = brightness[56 + 100 : 56 + 140, 56 + 100 : 56 + 140] - brightness[60, 60]
        assert ((ink > 0).any(), (ink < 0).any()) == (is_lighter, not is_lighter)


def test_many_classes_are_small_cells_of_a_confusion_matrix_without_numbers():
    (picture,) = confusion_matrix.draw(np.eye(1000, dtype=int))
    assert picture.shape == (1057, 1057, 3)
    assert (picture[56 + np.arange(1000), 56 + np.arange(1000)] == [0, 110, 0]).all()
    assert confusion_matrix.draw(np.eye(30, dtype=int)).shape[1] < 600
    borders = [(confusion_matrix.draw(np.zeros([size, size]))[0, 57:, 57:] == 220).all(-1).any() for size in (20, 21)]
    assert borders == [True, False]  # Cells of 24 pixels have numbers, those of 22 none.


def summaries(session, num_classes, names=None):
    value, update = confusion_matrix.confusion_matrix([0], [0], num_classes, names)
    session.run(tf.local_variables_initializer())
    session.run(update)
    return list(tf.Summary.FromString(session.run(value)).value)


def test_a_confusion_matrix_shows_names_of_classes_in_picture_and_table(session):
    names = ['cat', 'dog', 'a name that is much too long for its cell']
    assert (confusion_matrix.draw(COUNTS, names) != confusion_matrix.draw(COUNTS)).any()
    words = tf.make_ndarray(summaries(session, 3, names)[1].tensor).astype(str)
    assert words[0].tolist() == ['label \\ predicted', *names] and words[1:, 0].tolist() == names


def test_more_than_a_hundred_classes_have_no_table_of_the_confusion_matrix(session):
    assert [len(summaries(session, num_classes)) for num_classes in (100, 101)] == [2, 1]


def test_the_confusion_matrix_counts_all_batches_and_is_drawn_once(session, monkeypatch):
    calls = []
    draw = confusion_matrix.draw
    monkeypatch.setattr(confusion_matrix, 'draw', lambda counts, names: calls.append(counts) or draw(counts))
    labels, predictions = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    value, update = confusion_matrix.confusion_matrix(labels, predictions, 3)
    session.run(tf.local_variables_initializer())
    for batch in (slice(0, 20), slice(20, 40), slice(40, 50)):
        counts = session.run(update, {labels: LABELS[batch], predictions: PREDICTIONS[batch]})
    assert not calls
    np.testing.assert_array_equal(counts, COUNTS)
    picture, table = tf.Summary.FromString(session.run(value)).value
    assert len(calls) == 1
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(picture.image.encoded_image_string))), draw(COUNTS)[0])
    expected = [['label \\ predicted', '0', '1', '2']] + [[str(i), *map(str, row)] for i, row in enumerate(COUNTS)]
    assert tf.make_ndarray(table.tensor).astype(str).tolist() == expected


def test_predictions_made_in_towers_count_once_in_the_confusion_matrix(session):
    predictions = make_parallel(lambda x: tf.identity(x), CPUS, x=tf.constant(PREDICTIONS))
    _, update = confusion_matrix.confusion_matrix(tf.constant(LABELS), predictions, 3)
    session.run(tf.local_variables_initializer())
    np.testing.assert_array_equal(session.run(update), COUNTS)
