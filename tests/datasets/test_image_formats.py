"""Tests for the recognition of image files."""

import io
import struct

from PIL import Image
import pytest

from estimator_trainer.common.own_data.examples.image_formats import format_of, is_decoded


def saved(kind, mode='RGB'):
    content = io.BytesIO()
    Image.new(mode, (5, 4)).save(content, kind)
    return content.getvalue()


@pytest.mark.parametrize(
    'content, expected',
    [
        (saved('jpeg'), 'JPEG'),
        (saved('png'), 'PNG'),
        (saved('gif'), 'GIF'),
        (saved('bmp'), 'BMP'),
        (saved('bmp', 'P'), 'BMP of fewer than 24 bits'),
        (saved('bmp', '1'), 'BMP of fewer than 24 bits'),
        (b'BM' + struct.pack('<IHHI', 0, 0, 0, 26) + struct.pack('<I', 12) + bytes(8), 'BMP'),  # Of OS/2, without a size.
        (saved('webp'), 'WebP'),
        (saved('tiff'), 'TIFF'),
        (b'\0\0\0\x1cftypavif\0\0\0\0', 'AVIF'),
        (b'\0\0\0\x18ftypheic\0\0\0\0', 'HEIC'),
        (b'\0\0\0\x18ftypisom\0\0\0\0', ''),  # A video.
        (b'\0\0\0\x0cJXL \r\n\x87\n', 'JPEG XL'),
        (b'BM1021', ''),
        (b'BM' + b' a text that begins like a bitmap', ''),
        (b'BM', ''),
        (b'GIF87 is no picture', ''),
        (b'', ''),
        (bytes(784), ''),
    ],
)
def test_the_format_is_in_the_first_bytes(content, expected):
    assert format_of(content) == expected
    assert is_decoded(content) == (expected in ('JPEG', 'PNG', 'GIF', 'BMP'))
