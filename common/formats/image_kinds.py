"""Kinds of files that are no picture of a known kind, by their first bytes, whatever their names."""

_AS_JPEG = 'convert it to JPEG or PNG'
_HEIC = f'is a HEIC file, as of phones: pip install pillow-heif, or {_AS_JPEG}'
_AVIF = f'is an AVIF file, which needs a newer Pillow: pip install --upgrade pillow, or {_AS_JPEG}'
# ISO 14496-12: files begin with a box 'ftyp', whose brand names the kind.
_BRANDS = {
    **dict.fromkeys((b'avif', b'avis'), _AVIF),
    **dict.fromkeys((b'heic', b'heix', b'heim', b'heis', b'hevc', b'hevx', b'mif1', b'msf1'), _HEIC),
    b'crx ': f'is a raw file of a camera: {_AS_JPEG}',
    b'qt  ': 'is a film, not a picture: remove it',
    **dict.fromkeys((b'isom', b'iso2', b'mp41', b'mp42', b'avc1', b'M4V '), 'is a film, not a picture: remove it'),
}
_STARTS = {
    b'\xff\x0a': f'is a JPEG XL file: {_AS_JPEG}',
    b'\0\0\0\x0cJXL ': f'is a JPEG XL file: {_AS_JPEG}',
    b'\0\0\0\x0cjP  ': f'is a JPEG 2000 file: {_AS_JPEG}',
    b'\xff\x4f\xff\x51': f'is a JPEG 2000 file: {_AS_JPEG}',
    b'8BPS': f'is a Photoshop file: {_AS_JPEG}',
    b'\0\0\1\0': f'is an icon (ICO): {_AS_JPEG}',
    b'DDS ': f'is a DDS file: {_AS_JPEG}',
    b'v/1\x01': f'is an OpenEXR file: {_AS_JPEG}',
    b'%PDF': f'is a PDF file: {_AS_JPEG}',
    b'%!PS': f'is a PostScript file: {_AS_JPEG}',
    b'PK\3\4': 'is a zip file: unpack it',
    b'\x1f\x8b': 'is a gzip file: unpack it',
    b'version https://git-lfs': 'is a pointer of Git LFS, not the picture: run git lfs pull',
}
_TEXTS = {
    b'<svg': f'is an SVG drawing: {_AS_JPEG}',
    b'<html': 'is a web page, not a picture: download the picture again',
    b'<!doctype html': 'is a web page, not a picture: download the picture again',
}


def is_heif(content: bytes) -> bool:
    """Whether a file is of the kind HEIC."""
    return _BRANDS.get(_brand(content)) == _HEIC


def describe_kind(content: bytes) -> str:
    """Returns what a file is, and the cure, to follow its path; '' if its first bytes are of no known kind."""
    if not content:
        return 'is empty: copy it again'
    if not content[:4096].strip(b'\0'):
        return 'begins with zeros only: copy it again'
    start = next((text for start, text in _STARTS.items() if content.startswith(start)), '')
    if content[128:132] == b'DICM':
        start = f'is a DICOM file: {_AS_JPEG}'
    head = content[:1024].lower()
    is_text = head.lstrip(b'\xef\xbb\xbf \t\r\n').startswith(b'<')
    return (
        start or _BRANDS.get(_brand(content), '') or next((text for tag, text in _TEXTS.items() if is_text and tag in head), '')
    )


def _brand(content):
    return content[8:12] if content[4:8] == b'ftyp' else b''
