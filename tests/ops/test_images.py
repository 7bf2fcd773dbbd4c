"""Output of running graphs: grids, labeled images, summaries of variables, printed tensors."""

import io

import numpy as np
from PIL import Image, ImageFont
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops import debug, images
from estimator_trainer.common.training.parallel import make_parallel
from tests.evaluated import CPUS, summary_values

GRID = np.random.RandomState(0).randint(0, 256, [5, 4, 6, 3]).astype(np.uint8)
DIGITS = np.random.RandomState(0).randint(0, 256, [3, 28, 28, 1]).astype(np.uint8)
SAME = DIGITS[[0, 0]]
VALUES = np.random.RandomState(0).normal(size=[30, 4]).astype(np.float32)
RED, GREEN = [200, 0, 0], [0, 110, 0]
LABEL, PREDICTION = slice(112, 132), slice(132, 152)  # The lines of a caption.


def test_images_of_a_grid_grey_and_float_ones_too_stand_row_after_row_with_white_lines_between():
    (grid,) = images.draw_grid(GRID)
    assert grid.shape == (2 * 4 + 2, 3 * 6 + 2 * 2, 3)
    for i, image in enumerate(GRID):
        y, x = i // 3 * 6, i % 3 * 8
        np.testing.assert_array_equal(grid[y : y + 4, x : x + 6], image)
    assert (grid[4:6] == 255).all() and (grid[:, 6:8] == 255).all() and (grid[6:, 16:] == 255).all()
    (grid,) = images.draw_grid(GRID, columns=5)
    assert grid.shape == (4, 5 * 6 + 4 * 2, 3)
    np.testing.assert_array_equal(grid[:, 32:], GRID[4])
    assert (images.draw_grid(GRID[:0]) == 255).all()
    grey = GRID[:, :, :, :1]
    np.testing.assert_array_equal(images.draw_grid(grey)[0, :4, :6], np.repeat(grey[0], 3, axis=2))
    shades = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    for error in (-0.4, 0, 0.4):  # Values between two shades are drawn as the nearer one.
        np.testing.assert_array_equal(images.draw_grid(np.float32(shades + error) / 255), images.draw_grid(shades))
    assert images.draw_grid(np.float32([[[[-0.5], [1.5]]]]))[0, 0, :, 0].tolist() == [0, 255]


def test_a_labeled_image_is_enlarged_and_captioned_red_where_the_prediction_is_wrong_and_green_where_it_is_right():
    found = images.draw_labeled(DIGITS, [7, 2, 1], [7, 3, 1])
    assert found.shape == (3, 112 + 40, 112, 3)
    for image, picture, color, other in zip(DIGITS, found, (GREEN, RED, GREEN), (RED, GREEN, RED)):
        np.testing.assert_array_equal(picture[0:112:4, 0:112:4], np.repeat(image, 3, axis=2))
        assert (picture[112:] == color).all(-1).sum() > 10 and not (picture == other).all(-1).any()
    # Large and colored ones stay unchanged, and floats are drawn like bytes.
    image = np.random.RandomState(0).randint(0, 256, [1, 120, 130, 3]).astype(np.uint8)
    found = images.draw_labeled(image, [1], [1])
    np.testing.assert_array_equal(found[0, :120], image[0])
    np.testing.assert_array_equal(images.draw_labeled(image.astype(np.float32) / 255, [1], [1]), found)


def test_the_caption_shows_the_label_and_the_prediction_by_the_names_of_classes_if_they_are_known():
    for labels, predictions, differing in (([7, 7], [1, 2], PREDICTION), ([1, 2], [7, 7], LABEL)):
        first, second = images.draw_labeled(SAME, labels, predictions)
        assert [line for line in (LABEL, PREDICTION) if (first[line] != second[line]).any()] == [differing]
    named, numbered, other = (images.draw_labeled(SAME, [0, 7], [1, 7], n) for n in (['cat', 'dog'], None, ['cat', 'emu']))
    assert (named[0] != numbered[0]).any() and (named[1] == numbered[1]).all()  # There is no name for the class 7.
    long = images.draw_labeled(SAME[:1], [0], [0], ['i' * 99])
    assert (long[0, 112:, -4:] == 255).all() and (long[0, 112:, -20:] != 255).any()  # Shortened, with a margin.
    assert (named[0][LABEL] == other[0][LABEL]).all() and (named[0][PREDICTION] != other[0][PREDICTION]).any()


def test_names_are_shown_in_what_the_font_has_with_numbers_beside_where_that_is_not_all_and_shortened_to_a_width():
    names = ['caf\xe9', '\u732b', 'why?', 'x']
    assert [images.class_text(i, names) for i in (0, 1, 2, 3, 4, -1)] == ['caf\xe9', '1: \u732b', 'why?', 'x', '4', '-1']
    assert images.class_text(2, None) == '2'
    assert images.drawable('caf\xe9 \u732b~\n') == 'cafe ?~?'
    font = ImageFont.load_default(16)
    width = font.getlength('abcdef')
    assert images.shorten('abcdef', width, font) == 'abcdef'
    short = images.shorten('abcdefg', width, font)
    assert short.endswith('\u2026') and 'abcdefg'.startswith(short[:-1]) and font.getlength(short) <= width
    assert font.getlength(f'{"abcdefg"[: len(short)]}\u2026') > width
    assert images.shorten('abc', 0, font) == '\u2026'


@pytest.mark.parametrize('size, shown', [(0, 0), (3, 2)])
def test_summaries_hold_the_images_of_the_first_tower_and_are_drawn_only_when_asked_for(session, monkeypatch, size, shown):
    drawn = []  # The number of images in each call of the drawing functions.
    for name, draw in (('draw_grid', images.draw_grid), ('draw_labeled', images.draw_labeled)):
        monkeypatch.setattr(images, name, lambda batch, *rest, draw=draw: drawn.append(len(batch)) or draw(batch, *rest))
    batch, numbers = tf.placeholder(tf.uint8, [None, 28, 28, 1]), tf.placeholder(tf.int32, [None])
    feed = {batch: DIGITS[:size], numbers: [7, 2, 1][:size]}

    def tower(pixels, numbers):
        with tf.name_scope('deep'):
            images.image_grid('grid', pixels)
            images.labeled_images('inputs', pixels, numbers, numbers + 1)
        return numbers

    session.run(make_parallel(tower, CPUS[:2], pixels=batch, numbers=numbers), feed)
    assert not drawn
    found = summary_values(session, tf.summary.merge_all(), feed)
    assert drawn == [shown, shown]
    values = {value.tag: np.asarray(Image.open(io.BytesIO(value.image.encoded_image_string))) for value in found}
    np.testing.assert_array_equal(values.pop('grid/image'), np.squeeze(images.draw_grid(DIGITS[:shown])[0]))
    assert list(values) == [f'inputs/image/{i}' for i in range(shown)]
    for value, expected in zip(values.values(), images.draw_labeled(DIGITS, [7, 2, 1], [8, 3, 2])):
        np.testing.assert_array_equal(value, expected)


def test_variable_summaries_are_the_moments_the_extremes_and_a_histogram_once_for_all_towers(session):
    with tf.variable_scope('layer'):
        variable = tf.get_variable('kernel', initializer=VALUES)
    with tf.name_scope('elsewhere'):
        debug.variable_summaries(variable)
    session.run(tf.global_variables_initializer())
    found = {value.tag: value for value in summary_values(session, tf.summary.merge_all())}
    histogram = found.pop('layer/kernel/histogram').histo
    assert list(found) == [f'layer/kernel/{name}' for name in ('mean', 'stddev', 'min', 'max')]
    expected = [VALUES.mean(), VALUES.std(), VALUES.min(), VALUES.max()]
    np.testing.assert_allclose([value.simple_value for value in found.values()], expected, rtol=1e-4)
    np.testing.assert_allclose([histogram.num, histogram.sum], [120, VALUES.sum()], rtol=1e-4)

    def tower(x):
        debug.variable_summaries(tf.identity(x, name='hidden'))
        return x

    make_parallel(tower, CPUS, x=tf.placeholder_with_default(VALUES, [None, 4]))
    tags = {value.tag for value in summary_values(session, tf.summary.merge_all())} - {*found, 'layer/kernel/histogram'}
    assert tags == {f'hidden/{name}' for name in ('histogram', 'max', 'mean', 'min', 'stddev')}


def test_print_tensor_prints_its_message_or_name_shortened_when_the_result_is_used_and_only_then(session, capfd):
    x = tf.placeholder(tf.float32, [None, 2], name='x')
    printed = debug.print_tensor(x, 'hidden units')
    session.run(x, {x: [[1, 2]]})
    assert capfd.readouterr() == ('', '')
    assert session.run(2 * printed, {x: [[1, 2], [3, 4]]}).tolist() == [[2, 4], [6, 8]]
    out, err = capfd.readouterr()
    assert out == '' and err.split() == ['hidden', 'units', '[2', '2]', '[[1', '2]', '[3', '4]]']
    session.run(debug.print_tensor(tf.constant([7], name='seven')))
    assert capfd.readouterr().err == 'seven:0 [1] [7]\n'
    session.run(debug.print_tensor(tf.range(100), 'x'))
    assert capfd.readouterr().err == 'x [100] [0 1 2 ... 97 98 99]\n'
    session.run(debug.print_tensor(tf.range(100), 'x', summarize=-1))
    assert capfd.readouterr().err.count(' ') == 101
