"""Formats of files recognized by their first bytes, whatever their names: compressed, spreadsheets, columnar, databases."""

import codecs
from collections.abc import Iterator
import contextlib
import gzip
import io
from typing import Any
import zlib

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import check_readable

GZIP, UTF_16_LE, UTF_16_BE = 'gzip', 'utf-16-le', 'utf-16-be'
PARQUET, ARROW, ARROW_STREAM = 'parquet', 'arrow', 'arrow stream'
_HEAD = 512
_MAGIC = {
    b'\x1f\x8b': GZIP,
    b'\xff\xfe': UTF_16_LE,
    b'\xfe\xff': UTF_16_BE,
    b'PAR1': PARQUET,
    b'ARROW1': ARROW,
    b'\xff\xff\xff\xff': ARROW_STREAM,
}
# What a file is, and the cure, in words that follow its path.
_REFUSED = {
    b'PK\x03\x04': 'is a zip archive: unpack it, and give the file in it',
    b'\xd0\xcf\x11\xe0': 'is an Excel file: save it as CSV UTF-8',
    b'BZh': 'is compressed with bzip2: decompress it, with bunzip2',
    b'\xfd7zXZ\0': 'is compressed with xz: decompress it, with unxz',
    b'\x28\xb5\x2f\xfd': 'is compressed with Zstandard: decompress it, with unzstd',
    b"7z\xbc\xaf'\x1c": 'is a 7-Zip archive: unpack it, and give the file in it',
    b'Rar!': 'is a RAR archive: unpack it, and give the file in it',
    b'SQLite format 3': 'is an SQLite database: export a table, with sqlite3 -header -csv FILE "select * from TABLE"',
    b'\x89HDF': 'is an HDF5 file: write CSV or Parquet, with pandas.read_hdf(FILE).to_parquet(NAME)',
    b'FEA1': 'is a Feather file of version 1: write it anew, with pandas.read_feather(FILE).to_feather(NAME)',
    b'%PDF': 'is a PDF file, not a table',
}
_IN_ZIP = {
    b'xl/': 'is an Excel workbook: save it as CSV UTF-8',
    b'[Content_Types].xml': 'is an Excel workbook: save it as CSV UTF-8',
    b'mimetypeapplication/vnd.oasis': 'is an OpenDocument spreadsheet: save it as CSV',
}


def format_of(head: bytes) -> str | None:
    """Returns GZIP, UTF_16_LE, UTF_16_BE, PARQUET, ARROW or ARROW_STREAM for the first bytes of a file; None for any other."""
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def refusal(head: bytes) -> str | None:
    """Returns what a file that cannot be read is, and the cure, by its first bytes; None if they tell nothing."""
    name = head[30:_HEAD] if head.startswith(b'PK\x03\x04') else b''
    inside = next((text for start, text in _IN_ZIP.items() if name.startswith(start)), None)
    return inside or next((text for magic, text in _REFUSED.items() if head.startswith(magic)), None)


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Within the block, errors of reading a file name it.

    Raises:
      UsageError: it cannot be read, or is of a format that is not read.
      RunError: its compression is corrupt.
    """
    try:
        check_readable(path)
        if wrong := refusal(head_of(path)):
            raise UsageError(f'{path}: {wrong}')
        yield
    except tf.errors.OpError as error:
        raise UsageError(f'{path}: cannot be read: {error.message}') from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RunError(f'{path}: its compression is corrupt: {error}: restore the file') from None


def head_of(path: str) -> bytes:
    """Returns the first bytes of a file, local or remote; raises tf.errors.OpError if it cannot be read."""
    with tf.io.gfile.GFile(path, 'rb') as file:
        return file.read(_HEAD)


def open_text(path: str) -> Any:
    """Opens a text file as bytes of UTF-8: decompressed if it is GZIP, recoded if it is UTF-16 with a byte order mark.

    Seeking backwards in one of those reads it from its start.
    """
    kind = format_of(head_of(path))
    file = tf.io.gfile.GFile(path, 'rb')
    if kind == GZIP:
        return gzip.GzipFile(fileobj=file)
    return io.BufferedReader(_Recoded(file, kind)) if kind in (UTF_16_LE, UTF_16_BE) else file


class _Recoded(io.RawIOBase):
    """UTF-8 bytes of a file in UTF-16; characters that are wrong become U+FFFD."""

    def __init__(self, file: Any, encoding: str):
        self._file, self._encoding = file, encoding
        self.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._file.seek(2)  # After the mark.
        self._decoder = codecs.getincrementaldecoder(self._encoding)('replace')
        self._rest, self._position = b'', 0
        while self._position < offset and self.read(min(offset - self._position, 1 << 20)):
            pass
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer) -> int:
        while not self._rest and (block := self._file.read(1 << 20)):
            self._rest = self._decoder.decode(block).encode()
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        self._position += count
        return count
