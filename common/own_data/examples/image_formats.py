"""Formats of image files, recognized by their first bytes; some look like text or pixels, so more than the mark is checked."""

JPEG, PNG, GIF, BMP = DECODED = ('JPEG', 'PNG', 'GIF', 'BMP')  # Those that each version of TensorFlow decodes.
_MARKS = {
    b'\xff\xd8\xff': JPEG,
    b'\x89PNG': PNG,
    b'GIF87a': GIF,
    b'GIF89a': GIF,
    b'II*\0': 'TIFF',
    b'MM\0*': 'TIFF',
    b'\0\0\0\x0cJXL ': 'JPEG XL',
    b'\0\0\0\x0cjP  ': 'JPEG 2000',
}
_BRANDS = {b'avif': 'AVIF', b'avis': 'AVIF', b'heic': 'HEIC', b'heix': 'HEIC', b'mif1': 'HEIC', b'msf1': 'HEIC'}
_BMP_HEADERS = (12, 16, 40, 52, 56, 64, 108, 124)  # Sizes of the second header, one per version of the format.
_FEW_BITS = tuple(bits.to_bytes(2, 'little') for bits in (1, 4, 8, 16))  # Per pixel, of which TensorFlow makes no colors.


def format_of(content: bytes) -> str:
    """Returns the format of an image file, such as JPEG, AVIF or WebP; '' if the bytes are none."""
    for mark, name in _MARKS.items():
        if content.startswith(mark):
            return name
    if content[:4] == b'RIFF' and content[8:12] == b'WEBP':
        return 'WebP'
    if content[4:8] == b'ftyp':
        return _BRANDS.get(content[8:12], '')
    if _is_bmp(content):
        return 'BMP of fewer than 24 bits' if content[28:30] in _FEW_BITS else BMP
    return ''


def is_decoded(content: bytes) -> bool:
    """Whether bytes are an image file of a format that TensorFlow decodes."""
    return format_of(content) in DECODED


def _is_bmp(content):
    """Whether there are both headers of a BMP file: text may begin with BM, too."""
    if content[:2] != b'BM' or len(content) < 26:
        return False
    pixels, header = (int.from_bytes(content[i : i + 4], 'little') for i in (10, 14))
    return header in _BMP_HEADERS and pixels >= 14 + header
