"""Files that are no pictures, or none that can be read, are named, with a cure."""

import io
import sys
import types
import zlib

import numpy as np
from PIL import ExifTags, Image, features
import pytest

from estimator_trainer.common.formats import images
from tests.shared import raised

HEIC = b'\0\0\0\x18ftypheic\0\0\0\0mif1heic'


def encoded(format, image=None):
    content = io.BytesIO()
    (image or Image.new('RGB', (8, 6), (90, 90, 90))).save(content, format)
    return content.getvalue()


@pytest.mark.parametrize(
    'content, message',
    [
        (b'', 'is empty: copy it again'),
        (b'\0' * 5000, 'begins with zeros only'),
        (b'\0\0\0\x1cftypcrx \0\0', 'is a raw file of a camera: convert it to JPEG or PNG'),
        (b'\0\0\0\x20ftypisom\0\0', 'is a film, not a picture: remove it'),
        (b'\xff\x0a\xfa\x1f', 'is a JPEG XL file'),
        (b'\0' * 128 + b'DICM' + b'\1' * 9, 'is a DICOM file'),
        (b'%PDF-1.7', 'is a PDF file'),
        (encoded('EPS'), 'is a PostScript file'),  # A program, which Pillow would run.
        (b'version https://git-lfs.github.com/spec/v1\noid', 'is a pointer of Git LFS, not the picture: run git lfs pull'),
        (b'\xef\xbb\xbf\n<!DOCTYPE HTML><html>', 'is a web page, not a picture: download the picture again'),
        (b'<?xml version="1.0"?>\n<svg xmlns=""/>', 'is an SVG drawing: convert it'),
        (b'PK\3\4', 'is a zip file: unpack it'),
        (b'a text about <html', 'is not an image of a kind that Pillow reads'),
        (encoded('TGA'), 'is not an image of a kind that Pillow reads'),
        (encoded('PNG')[:45], 'is not an image that can be read: '),
    ],
)
def test_the_kind_of_a_file_that_is_no_picture_is_named_with_a_cure(content, message):
    assert raised(images.ImageError, images.decode, content).startswith(message)


def test_heic_needs_a_package_which_the_message_names_and_which_is_then_used(monkeypatch):
    monkeypatch.setitem(sys.modules, 'pillow_heif', None)  # As if it were not installed.
    message = raised(images.ImageError, images.decode, HEIC)
    assert message == 'is a HEIC file, as of phones: pip install pillow-heif, or convert it to JPEG or PNG'
    calls = []
    package = types.SimpleNamespace(register_heif_opener=lambda: calls.append('registered'))
    monkeypatch.setitem(sys.modules, 'pillow_heif', package)
    images.decode(encoded('PNG'))
    assert not calls
    raised(images.ImageError, images.decode, HEIC)
    assert calls == ['registered']


@pytest.mark.parametrize('format', [*(name for name in ('AVIF', 'WEBP') if features.check(name.lower())), 'TIFF'])
def test_pictures_are_decoded_by_their_content(format, monkeypatch):
    np.testing.assert_allclose(images.to_pixels(images.decode(encoded(format)), 4, 3), 90, atol=2)
    for name in [name for name in Image.OPEN if name == format != 'TIFF']:
        monkeypatch.delitem(Image.OPEN, name)
        assert 'TIFF' in Image.OPEN
        message = raised(images.ImageError, images.decode, encoded(format))
        assert ('is an AVIF file, which needs a newer Pillow' in message) == (format == 'AVIF')


def test_an_orientation_that_graphs_do_not_read_turns_no_picture():
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    xmp += b'xmlns:tiff="http://ns.adobe.com/tiff/1.0/"><rdf:Description tiff:Orientation="6"/></rdf:RDF></x:xmpmeta>'
    content, exif = io.BytesIO(), Image.Exif()
    Image.new('L', (8, 6)).save(content, 'JPEG', xmp=xmp)
    assert images.orientation(images.decode(content.getvalue())) == 1
    exif[ExifTags.Base.Orientation] = 6
    for format in ('JPEG', 'PNG', 'WEBP', 'TIFF'):
        Image.new('L', (8, 6)).save(content := io.BytesIO(), format, exif=exif)
        assert images.orientation(Image.open(content)) == 6
    Image.new('L', (8, 6)).save(content := io.BytesIO(), 'PNG')
    data = exif.tobytes().removeprefix(b'Exif\0\0')
    chunk = b'eXIf' + data
    chunk = len(data).to_bytes(4, 'big') + chunk + zlib.crc32(chunk).to_bytes(4, 'big')
    late = content.getvalue()[:-12] + chunk + content.getvalue()[-12:]  # After the pixels, before the end.
    assert images.orientation(Image.open(io.BytesIO(late))) == 6


def test_a_picture_that_pillow_has_not_loaded_is_turned_once():
    image, exif = Image.fromarray(np.arange(12, dtype=np.uint8).reshape(3, 4)), Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    for format in ('TIFF', 'PNG'):
        image.save(content := io.BytesIO(), format, exif=exif)
        upright = images.normalize(Image.open(content))
        np.testing.assert_array_equal(upright, np.asarray(image)[::-1].T)  # A quarter of a turn clockwise.
    cut = Image.open(io.BytesIO(content.getvalue()[:-25]))
    assert raised(images.ImageError, images.normalize, cut).startswith('is not an image that can be read: ')


def test_pictures_that_are_too_large_or_have_32_bits_are_refused(monkeypatch):
    large = encoded('PNG', Image.new('L', (40, 40)))
    monkeypatch.setattr(Image, 'MAX_IMAGE_PIXELS', 700)
    assert raised(images.ImageError, images.decode, large) == 'has more than 1,400 pixels: scale it down'
    for mode in ('I', 'F', 'LAB'):
        image = images.decode(encoded('TIFF', Image.new(mode, (4, 4))))
        message = f'has pixels of the mode {mode}: save it with 8 or 16 bits, in gray or RGB'
        assert raised(images.ImageError, images.to_pixels, image, 2, 3) == message
    deep = images.decode(encoded('TIFF', Image.fromarray(np.full([4, 4], 25607, np.uint16))))
    np.testing.assert_array_equal(images.to_pixels(deep, 2, 1), 100)
