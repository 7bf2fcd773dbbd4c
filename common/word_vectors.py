"""Pretrained vectors of words: files in the text formats of word2vec, fastText (.vec) and GloVe, read line by line."""

from collections.abc import Iterator, Sequence
import contextlib
import gzip
from typing import IO, NamedTuple
import zlib

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common import unicode_forms
from estimator_trainer.common.errors import UsageError, printable, show
from estimator_trainer.common.files import check_readable, explain, sha256_of

FACTS = 'word_vectors'  # Of the metadata of a run: the 'size' of the vectors, and the 'sha256' of their file.
SCOPE = 'word_vectors/'  # Of their constants in a graph.
_BLOCK = 1 << 20  # Bytes.


class WordVectors(NamedTuple):
    """Vectors of words of a vocabulary.

    Attributes:
      places: int32 [n], the indices of the words in the vocabulary.
      values: float32 [n, size].
      num_folded: how many words the file has only in another case, as Berlin for berlin.
    """

    places: np.ndarray
    values: np.ndarray
    num_folded: int

    @property
    def size(self) -> int:
        """The numbers of each vector."""
        return self.values.shape[1]


def digest(path: str) -> str:
    """Returns the SHA-256 of a file, as hexadecimal digits."""
    with _opened(path):
        return sha256_of(path)


def read(path: str, vocabulary: Sequence[str]) -> WordVectors:
    """Reads the vectors of the words of a vocabulary; those of others take no memory.

    A word that the file lacks has the first vector of a word that differs only in case. Of repeated words, the first counts,
    with a warning.

    Raises:
      UsageError: the file cannot be read, is binary, cut off or empty, a line has another number of numbers, or a vector of the
        vocabulary other than finite numbers.
    """
    exact = {word: place for place, word in enumerate(vocabulary)}
    folded: dict[str, list[int]] = {}
    for word, place in exact.items():
        folded.setdefault(word.lower(), []).append(place)
    found: dict[int, np.ndarray] = {}
    lines: dict[int, int] = {}  # Of words in the same case.
    repeated: list[str] = []
    size = 0
    with _opened(path) as file:
        for number, raw, numbers in _lines(path, file):
            size = size or len(numbers.split(b' '))
            word = unicode_forms.composed(raw.decode(errors='replace'))
            place = exact.get(word, -1)
            if place in lines:
                repeated.append(f'line {number}: {show(word)} is in line {lines[place]} already')
            elif place >= 0:
                found[place], lines[place] = _vector(path, number, numbers), number
            for like in [like for like in folded.get(word.lower(), ()) if like not in found]:
                found[like] = _vector(path, number, numbers)
    if repeated:
        tf.logging.warning('%s: %s: of %d repeated words, the first counts.', path, repeated[0], len(repeated))
    places = sorted(found)
    values = np.array([found[place] for place in places], np.float32).reshape([len(places), size])
    return WordVectors(np.array(places, np.int32), values, len(found) - len(lines))


@contextlib.contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """Yields a file, decompressed if it is compressed by GZIP; an error of reading it is a UsageError."""
    try:
        check_readable(path)
        with open(path, 'rb') as file:
            is_gzip = file.read(2) == b'\x1f\x8b'
            file.seek(0)
            yield gzip.GzipFile(fileobj=file) if is_gzip else file  # type: ignore[misc]
    except (OSError, EOFError, zlib.error, tf.errors.OpError) as error:
        raise UsageError(f'embeddings={explain(error) or f"{path}: {error}"}') from None


def _lines(path: str, file: IO[bytes]) -> Iterator[tuple[int, bytes, bytes]]:
    """Yields the number of each line, the word and the numbers after it, as many everywhere."""
    _check_text(path, file)
    header = file.readline().split()
    has_header = len(header) == 2 and all(field.isdigit() for field in header)  # Of word2vec: the count and the size.
    count, size = map(int, header) if has_header else (0, len(header) - 1)
    if size < 1:
        raise UsageError(f'embeddings={path}: line 1: must be a word and its numbers, or the count and the size of the vectors')
    file.seek(0)
    number = seen = 0
    for number, line in enumerate(file, 1):
        line = line.rstrip().replace(b'\t', b' ')
        if not line or number == 1 and has_header:
            continue
        seen += 1
        more = line.count(b' ') - size
        fields = line.rsplit(b' ', size) if more > 0 else line.split(b' ', 1)  # GloVe has words with spaces.
        if more < 0 or more and _is_number(fields[0].rpartition(b' ')[2]):
            shown = len(line.split(b' ')) - 1
            raise UsageError(f'embeddings={path}: line {number}: has {shown} numbers after the word, not {size}')
        if seen == 1:
            _vector(path, number, line[len(fields[0]) + 1 :])
        yield number, fields[0], line[len(fields[0]) + 1 :]
    if seen < count or not seen:
        raise UsageError(f'embeddings={path}: ends after {seen} of {count} words, in line {number}: download or copy it again')


def _check_text(path, file):
    """Raises UsageError if a file is empty or binary."""
    start = file.read(1 << 16)
    file.seek(0)
    if not start:
        raise UsageError(f'embeddings={path}: is empty')
    if start.startswith(b'PK'):
        raise UsageError(f'embeddings={path}: is a ZIP archive: unzip it')
    if b'\0' in start:
        convert = 'KeyedVectors.load_word2vec_format(OLD, binary=True).save_word2vec_format(NEW), of the package gensim,'
        raise UsageError(
            f'embeddings={path}: is binary: {convert} writes a file of word2vec as text; of fastText, take the file .vec'
        )


def _is_number(field: bytes) -> bool:
    with contextlib.suppress(ValueError):
        float(field)
        return True
    return False


def _vector(path: str, number: int, numbers: bytes) -> np.ndarray:
    """Returns the vector in a line, float32 [size]."""
    fields = numbers.split(b' ')
    wrong = next((field for field in fields if not _is_number(field)), None)
    if wrong is None:
        with np.errstate(over='ignore'):
            values = np.array([*map(float, fields)], np.float32)
        if np.isfinite(values).all():
            return values
        wrong = fields[int(np.argmin(np.isfinite(values)))]
    text = printable(wrong.decode(errors='replace')[:30])
    raise UsageError(f'embeddings={path}: line {number}: {text} is no finite number')
