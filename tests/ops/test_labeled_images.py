"""Pictures with labels and predictions."""

import io

import numpy as np
from PIL import Image
import pytest
import tensorflow.compat.v1 as tf

from common.ops import labeled_images
from common.training.parallel import make_parallel
from tests.evaluated import CPUS

IMAGES = np.random.RandomState(0).randint(0, 256, [3, 28, 28, 1]).astype(np.uint8)
RED, GREEN = np.array([200, 0, 0]), np.array([0, 110, 0])


def count(picture, colour):
    return int((picture == colour).all(-1).sum())


def test_a_labeled_image_is_enlarged_and_captioned():
    drawn = labeled_images.draw(IMAGES, [7, 2, 1], [7, 3, 1])
    assert drawn.shape == (3, 112 + 40, 112, 3)
    for image, picture in zip(IMAGES, drawn):
        np.testing.assert_array_equal(picture[0:112:4, 0:112:4], np.repeat(image, 3, axis=2))


def test_labeled_images_are_red_where_the_prediction_is_wrong_and_green_where_it_is_right():
    drawn = labeled_images.draw(IMAGES, [7, 2, 1], [7, 3, 1])
    for picture, colour, other in zip(drawn, (GREEN, RED, GREEN), (RED, GREEN, RED)):
        assert count(picture[112:], colour) > 10
        assert count(picture, other) == 0


def test_the_caption_of_a_labeled_image_shows_the_label_and_the_prediction():
    same = labeled_images.draw(IMAGES[[0, 0]], [7, 7], [7, 7])
    np.testing.assert_array_equal(same[0], same[1])
    label, prediction = slice(112, 132), slice(132, 152)
    differ = labeled_images.draw(IMAGES[[0, 0]], [7, 7], [1, 2])
    assert (differ[0][label] == differ[1][label]).all() and (differ[0][prediction] != differ[1][prediction]).any()
    differ = labeled_images.draw(IMAGES[[0, 0]], [1, 2], [7, 7])
    assert (differ[0][label] != differ[1][label]).any() and (differ[0][prediction] == differ[1][prediction]).all()


def test_the_caption_of_a_labeled_image_shows_names_of_classes_if_they_are_known():
    names = ['cat', 'dog']
    named = labeled_images.draw(IMAGES[[0, 0]], [0, 7], [1, 7], names)
    numbered = labeled_images.draw(IMAGES[[0, 0]], [0, 7], [1, 7])
    assert (named[0] != numbered[0]).any() and (named[1] == numbered[1]).all()  # There is no name for the class 7.
    other = labeled_images.draw(IMAGES[[0, 0]], [0, 7], [1, 7], ['cat', 'emu'])
    assert (named[0][112:132] == other[0][112:132]).all() and (named[0][132:] != other[0][132:]).any()


def test_labeled_images_of_floats_are_drawn_like_bytes():
    floats = IMAGES.astype(np.float32) / 255
    np.testing.assert_array_equal(labeled_images.draw(floats, [1] * 3, [1] * 3), labeled_images.draw(IMAGES, [1] * 3, [1] * 3))


def test_large_and_coloured_labeled_images_stay_as_they_are():
    image = np.random.RandomState(0).randint(0, 256, [1, 120, 130, 3]).astype(np.uint8)
    np.testing.assert_array_equal(labeled_images.draw(image, [1], [1])[0, :120], image[0])


def test_the_summary_of_labeled_images_holds_each_under_a_bare_tag_and_is_drawn_only_when_asked_for(session, monkeypatch):
    calls = []
    monkeypatch.setattr(labeled_images, 'draw', lambda *args: calls.append(1) or original(*args))
    with tf.name_scope('deep'), tf.name_scope('inside'):
        images = tf.constant(IMAGES)
        labeled_images.labeled_images('inputs', images, tf.constant([7, 2, 1]), tf.constant([7, 3, 1]))
    merged = tf.summary.merge_all()
    session.run(tf.reduce_sum(tf.cast(images, tf.int32)))
    assert not calls
    summary = tf.Summary.FromString(session.run(merged))
    assert len(calls) == 1
    assert [value.tag for value in summary.value] == [f'inputs/image/{i}' for i in range(3)]
    decoded = np.asarray(Image.open(io.BytesIO(summary.value[1].image.encoded_image_string)))
    np.testing.assert_array_equal(decoded, original(IMAGES, [7, 2, 1], [7, 3, 1])[1])


@pytest.mark.parametrize('size', [0, 3])
def test_the_batch_of_labeled_images_may_be_unknown_or_empty_and_shared_by_towers(session, size):
    images = tf.placeholder(tf.uint8, [None, 28, 28, 1])
    numbers = tf.placeholder(tf.int32, [None])

    def tower(images, numbers):
        labeled_images.labeled_images('inputs', images, numbers, numbers)
        return numbers

    make_parallel(tower, CPUS[:2], images=images, numbers=numbers)
    feed = {images: IMAGES[:size], numbers: [1, 2, 3][:size]}
    summary = tf.Summary.FromString(session.run(tf.summary.merge_all(), feed))
    assert len(summary.value) == {0: 0, 3: 2}[size]  # The first tower's share.


def test_a_training_draws_labeled_images_only_at_the_steps_that_save_summaries(run, monkeypatch):
    calls = []
    monkeypatch.setattr(labeled_images, 'draw', lambda *args: calls.append(len(args[0])) or original(*args))
    code, _, _ = run(
        '--schedule=train', '--train_steps=25', '--save_summary_steps=10', '--hparams=filters=[4],dense_units=8,batch_size=16'
    )
    assert code == 0
    assert calls == [8, 8, 8]  # At the steps 1, 11 and 21.


original = labeled_images.draw
