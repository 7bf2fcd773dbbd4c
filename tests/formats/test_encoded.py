"""Image files decoded in TensorFlow ops, as Pillow decodes them."""

import io
import struct

import numpy as np
from PIL import ExifTags, Image
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.formats import encoded, images


def save(image, kind, **options):
    content = io.BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def smooth(mode='RGB', size=(12, 10)):
    pixels = np.random.RandomState(3).randint(0, 256, [3, 4, len(mode)], np.uint8)
    return Image.fromarray(pixels.squeeze(), mode).resize(size, Image.Resampling.BICUBIC)


def on_canvas(gif, size, left, top):
    """Returns a GIF file whose first image is at a place of a canvas."""
    at = gif.index(b',' + bytes(4) + gif[6:10]) + 1  # Its place and size.
    return gif[:6] + struct.pack('<HH', *size) + gif[10:at] + struct.pack('<HH', left, top) + gif[at + 4 :]


@pytest.mark.parametrize('channels', [1, 3])
@pytest.mark.parametrize('options', [{}, {'transparency': 3}])
def test_an_image_of_a_gif_file_is_on_its_canvas(session, channels, options):
    content = tf.placeholder(tf.string, [])
    found, file = encoded.decode(content, channels), save(smooth().quantize(9), 'gif', **options)
    for size, left, top in (((12, 10), 0, 0), ((20, 13), 3, 2), ((12, 10), 2, 1), ((30, 300), 0, 290), ((13, 10), 1, 0)):
        placed = on_canvas(file, size, left, top)
        picture = images.decode(placed)
        assert picture.size == (max(size[0], left + 12), max(size[1], top + 10))
        expected = np.asarray(images.normalize(picture, channels), np.float32)
        value = session.run(found, {content: placed})
        np.testing.assert_allclose(
            value, expected.reshape([*expected.shape[:2], channels]), atol=1, err_msg=f'{size} {left} {top}'
        )
    at = file.index(b'!') if b'!' in file[:800] else file.index(b',' + bytes(4))
    far = file[:at] + b'!\xfe' + 600 * (b'\xff' + 255 * b'c') + b'\0' + file[at:]  # A comment of 150 KB.
    if not options:  # Transparent pixels of such a file are black.
        expected = np.asarray(images.normalize(images.decode(far), channels), np.float32)
        np.testing.assert_allclose(
            session.run(found, {content: far})[..., 0], expected.reshape([10, 12, channels])[..., 0], atol=1
        )


@pytest.mark.parametrize('channels', [1, 3])
def test_files_are_decoded_on_white_and_later_frames_left_out(session, channels):
    content = tf.placeholder(tf.string, [])
    found = encoded.decode(content, channels)
    frames = [Image.new('RGB', (8, 8), color) for color in ((60, 60, 60), 'blue')]
    striped = [smooth().quantize(9).transpose(turn) for turn in (0, 1)]
    deep = Image.fromarray(np.full([5, 6], 25607, np.uint16))
    for kind, image, options, atol in (
        ('png', smooth(), {}, 1),
        ('png', smooth('L'), {}, 0),
        ('png', smooth('RGBA'), {}, 1.01),
        ('png', smooth().quantize(9), {}, 1),
        ('png', smooth().quantize(9), {'transparency': 0}, 1),
        ('png', deep, {}, 0),
        ('png', Image.new('LA', (4, 3), (50, 0)), {}, 0),
        ('jpeg', smooth(), {'quality': 95}, 8),  # TensorFlow's default method is fast, not exact.
        ('bmp', smooth(), {}, 1),
        ('bmp', smooth('L'), {}, 0),
        ('bmp', smooth().quantize(9), {}, 1),
        ('gif', frames[0], {'save_all': True, 'append_images': frames[1:]}, 0),
        ('gif', smooth().quantize(9), {}, 1),
        ('gif', smooth().quantize(9), {'transparency': 3, 'comment': b'!\xf9\4' * 200}, 1),
        ('gif', striped[0], {'save_all': True, 'append_images': striped[1:], 'transparency': 0, 'loop': 0}, 1),
    ):
        file = save(image, kind, **options)
        expected = np.asarray(images.normalize(images.decode(file), channels), np.float32)
        value = session.run(found, {content: file})
        np.testing.assert_allclose(value, expected.reshape([*expected.shape[:2], channels]), atol=atol, err_msg=kind)


def test_a_picture_is_turned_by_its_exif_orientation_if_that_is_intact(session):
    content, square = tf.placeholder(tf.string, []), tf.placeholder(tf.float32, [None, None, 3])
    orientation = encoded.orientation(content)
    turned, shape = encoded.turn(square, orientation), encoded.size(content)
    picture, exif = smooth(size=(16, 16)), Image.Exif()
    exif[ExifTags.Base.Make] = 'a'  # An entry before.
    for number in range(10):  # Two are invalid.
        exif[ExifTags.Base.Orientation] = number
        for kind in ('jpeg', 'png', 'webp'):
            file = save(picture, kind, exif=exif)
            upright = np.asarray(images.normalize(images.decode(file)))
            stored = np.asarray(images.decode(file), np.float32)
            np.testing.assert_array_equal(session.run(turned, {content: file, square: stored}), upright, f'{kind} {number}')
        assert session.run(orientation, {content: file}) == (number if 1 <= number <= 8 else 1)
    little = b'Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0'
    wrong_type = b'Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x05\0\0\0\x01\0\0\0\x1a\0\0\0\0'
    for data, expected in (
        (little, 6),
        (wrong_type, 1),
        (b'Exif\0\0MM\0*', 1),
        (b'Exif\0\0MM\0*\xff\xff\xff\xff', 1),
        (b'Ex', 1),
    ):
        assert session.run(orientation, {content: save(smooth(), 'jpeg', exif=data)}) == expected, data
    files = (save(smooth(), 'jpeg'), save(smooth(), 'png'))
    assert [session.run(shape, {content: file}) for file in files] == [(10, 12), (0, 0)]
    assert session.run(orientation, {content: b''}) == 1
