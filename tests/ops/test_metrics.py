"""The area under the ROC curve, precision and recall at thresholds, and confusion matrices, compared with NumPy."""

import html
import io
import re

import numpy as np
from PIL import Image
import pytest
from tensorboard.plugins.text import text_plugin
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops import metrics
from estimator_trainer.common.training.parallel import make_parallel
from tests.evaluated import CPUS, summary_values

RANDOM = np.random.RandomState(0)
PROBABILITIES = RANDOM.dirichlet(np.ones(4), size=50).astype(np.float32)
LABELS, PREDICTIONS = RANDOM.randint(0, 4, [2, 50])
COUNTS = np.array([[((LABELS == label) & (PREDICTIONS == predicted)).sum() for predicted in range(4)] for label in range(4)])
BATCHES = slice(0, 20), slice(20, 40), slice(40, 50)


def compute_auc(labels, scores, batch=500):
    """Returns the value after all batches, and that of the last update."""
    with tf.Graph().as_default(), tf.Session() as session:
        label, score = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])
        value, update = metrics.auc(label, score)
        session.run(tf.local_variables_initializer())
        for i in range(0, len(labels), batch):
            last = session.run(update, {label: labels[i : i + batch], score: scores[i : i + batch]})
        return session.run(value), last


@pytest.mark.parametrize('shift, spread, tolerance', [(1, 1.5, 2e-5), (0.001, 0.001, 1e-4)])
def test_the_area_is_the_share_of_pairs_in_the_right_order_also_of_scores_that_lie_close_together(shift, spread, tolerance):
    labels = np.random.RandomState(0).randint(0, 2, 3000)
    scores = np.random.RandomState(1).normal(shift * labels, spread).astype(np.float32)
    positive, negative = scores[labels == 1][:, None], scores[labels == 0]
    value, last = compute_auc(labels, scores)
    assert 0.6 < value < 0.8 and value == last
    assert value == pytest.approx(((positive > negative) + (positive == negative) / 2).mean(), abs=tolerance)


def test_areas_worked_out_by_hand():
    for labels, scores, expected in (
        ([0, 0, 1, 1], [-2, -1, -0.5, 3], 1),
        ([1, 7, 0, 0], [-2, -1, -0.5, 3], 0),
        ([0, 1, 0, 1], [1, 1, 1, 1], 0.5),
        ([0, 1], [-0.0, 0.0], 0.5),
        ([0, 1, 1], [-np.inf, np.inf, -1], 1),
        ([0, 1, 0, 1, 1], [-3, -3, 2, 1, 5], 3.5 / 6),
        ([1, 1], [1, 2], np.nan),
    ):
        found = compute_auc(np.array(labels), np.array(scores, np.float32), batch=2)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize('devices', [[], CPUS])
def test_the_pr_curve_is_that_of_all_batches_also_of_certain_probabilities_and_of_none(session, devices):
    labels, probabilities = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None, 4])
    gathered = make_parallel(lambda probabilities: probabilities * 1, devices, probabilities=probabilities)
    value, update = metrics.pr_curve(labels, gathered, num_thresholds=11)
    session.run(tf.local_variables_initializer())
    for batch in BATCHES:
        session.run(update, {labels: LABELS[batch], probabilities: PROBABILITIES[batch]})
    (found,) = summary_values(session, value)
    assert found.metadata.plugin_data.plugin_name == 'pr_curves'
    is_right = np.eye(4, dtype=bool)[LABELS]
    for threshold, column in zip(np.arange(11) / np.float32(10), tf.make_ndarray(found.tensor).T):
        chosen = PROBABILITIES >= threshold
        right, wrong = (chosen & is_right).sum(), (chosen & ~is_right).sum()
        expected = right, wrong, 150 - wrong, 50 - right, right / max(right + wrong, 1), right / 50
        np.testing.assert_allclose(column, expected, rtol=1e-6)
    value, update = metrics.pr_curve(tf.constant([0, 1]), tf.constant([[1.0, 0.0], [0.0, 1.0]]), num_thresholds=3)
    empty = metrics.pr_curve(tf.zeros([0], tf.int32), tf.zeros([0, 2]))
    session.run(tf.local_variables_initializer())
    assert session.run(update).tolist() == [[2, 0, 0], [0, 0, 2]]
    curve = tf.make_ndarray(summary_values(session, value)[0].tensor)
    assert curve.tolist() == [[2, 2, 2], [2, 0, 0], [0, 2, 2], [0, 0, 0], [0.5, 1, 1], [1, 1, 1]]
    assert session.run(empty[1]).shape == (2, 101)
    assert not tf.make_ndarray(summary_values(session, empty[0])[0].tensor).any()
    assert not tf.get_collection(tf.GraphKeys.SUMMARIES)  # The curve is of evaluations alone.


def test_probabilities_that_are_nan_count_as_0_in_the_pr_curve(session):
    _, update = metrics.pr_curve(tf.constant([1]), tf.constant([[np.nan, 1.0]]), num_thresholds=3)
    session.run(tf.local_variables_initializer())
    assert session.run(update).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_cells_of_a_confusion_matrix_are_green_or_red_by_their_share_of_the_row_and_show_the_count_if_they_are_large():
    middles = [56 + 160 * i + 40 for i in range(3)]  # Beside the numbers written there.
    (picture,) = metrics.draw_matrix(np.array([[4, 0, 0], [1, 1, 2], [0, 0, 0]]))
    shades = picture[np.ix_(middles, middles)]
    assert shades[0].tolist() == [[0, 110, 0], [255, 255, 255], [255, 255, 255]]
    # By hand: the root of a quarter is one half of the colour, the root of a half 0.707 of it.
    assert shades[1].tolist() == [[227, 127, 127], [127, 182, 127], [216, 74, 74]]
    assert shades[2].tolist() == [[255, 255, 255]] * 3
    # The counts are written into the cells.
    one, other = (metrics.draw_matrix(np.diag([1, 1, count]))[0] for count in (7, 8))
    differ = np.argwhere((one != other).any(-1))
    assert len(differ) and (abs(differ - (56 + 160 * 2 + 80)) < 15).all()
    for count, is_lighter in ((1, False), (2, True)):  # Black up to a quarter of the row, white above.
        (picture,) = metrics.draw_matrix(np.array([[count, 3], [0, 0]]))
        brightness = picture.astype(int).sum(-1)
        ink = brightness[56 + 100 : 56 + 140, 56 + 100 : 56 + 140] - brightness[60, 60]
        assert ((ink > 0).any(), (ink < 0).any()) == (is_lighter, not is_lighter)
    (picture,) = metrics.draw_matrix(np.eye(1000, dtype=int))
    assert picture.shape == (1057, 1057, 3)
    assert (picture[56 + np.arange(1000), 56 + np.arange(1000)] == [0, 110, 0]).all()
    assert metrics.draw_matrix(np.eye(30, dtype=int)).shape[1] < 600
    borders = [(metrics.draw_matrix(np.zeros([size, size]))[0, 57:, 57:] == 220).all(-1).any() for size in (20, 21)]
    assert borders == [True, False]  # Cells of 24 pixels have numbers, those of 22 none.


def test_tensorboard_shows_names_of_classes_as_they_are():
    names = [
        '>50K',
        '<=50K',
        '<b>',
        '# a',
        '1. a',
        '- a',
        '*a*',
        'a_b_c',
        'R&D',
        '&lt;',
        '[a](b)',
        'a|b',
        '`a`',
        'a\\b',
        '10 %',
    ]
    page = text_plugin.text_array_to_html(np.array([[metrics._as_markdown(name) for name in names]]), enable_markdown=True)
    shown = re.findall(r'<td>\s*<p>(.*?)</p>\s*</td>', page, re.DOTALL)
    assert [html.unescape(text) for text in shown] == names


@pytest.mark.parametrize('names', [None, ['cat', 'dog', 'emu', 'a name that is much too long for its cell']])
def test_a_confusion_matrix_counts_all_batches_and_towers_and_has_a_table_up_to_a_hundred_classes(session, monkeypatch, names):
    calls, draw = [], metrics.draw_matrix
    monkeypatch.setattr(metrics, 'draw_matrix', lambda *arguments: calls.append(arguments) or draw(*arguments))
    labels, predictions = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    gathered = make_parallel(lambda x: tf.identity(x), CPUS, x=predictions)
    value, update = metrics.confusion_matrix(labels, gathered, 4, names)
    session.run(tf.local_variables_initializer())
    for batch in BATCHES:
        counts = session.run(update, {labels: LABELS[batch], predictions: PREDICTIONS[batch]})
    assert not calls
    np.testing.assert_array_equal(counts, COUNTS)
    picture, table = summary_values(session, value)
    assert len(calls) == 1
    drawn = np.asarray(Image.open(io.BytesIO(picture.image.encoded_image_string)))
    np.testing.assert_array_equal(drawn, draw(COUNTS, names)[0])
    assert (drawn != draw(COUNTS)[0]).any() == (names is not None)
    words = names or ['0', '1', '2', '3']
    expected = [['label \\ predicted', *words]] + [[word, *map(str, row)] for word, row in zip(words, COUNTS)]
    assert tf.make_ndarray(table.tensor).astype(str).tolist() == expected
    for num_classes, parts in ((100, 2), (101, 1)):
        value, _ = metrics.confusion_matrix([0], [0], num_classes)
        session.run(tf.local_variables_initializer())
        assert len(summary_values(session, value)) == parts
