"""The origin of the records of a split: a line of a table or a text, the file of a picture, a record of a TFRecord file."""

from collections.abc import Iterator, Mapping, Sequence
import os
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records import shards
from estimator_trainer.common.records.elements import cardinality, opened

_UNITS = 'line', 'row', 'record'


def sources(source: DataSource, split: str) -> Iterator[dict[str, Any]]:
    """Yields what each record of a split was made of, in its order; nothing if that is unknown.

    Returns:
      {'file', 'line'} of a table or a text, or 'row'; with 'picture', if the table names it; {'file'} of a picture; {'file',
      'record'} in the user's own TFRecord files. Lines and rows are counted from 1 on, records from 0 on.
    """
    if hasattr(source.module, 'places'):
        yield from source.module.places(split, source.data_dir, source.params)
        return
    files = _files(source, split)
    for path, item in zip(files.paths, files.items) if files and files.are_elsewhere else ():
        yield from ({'file': path, 'record': number} for number in range(item['count']))


def places(source: DataSource, split: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Returns where records of a split come from.

    Args:
      source: its data is prepared.
      numbers: of the records, int [n] in any order, from `record_numbers`.

    Returns:
      For each {'split', 'example': its number there}, with folds those of all of them together, and what `sources` yields. If
      that is unknown {'split', 'example', 'tfrecord', 'record'}, with its place in the converted files, if there are any.
    """
    split, whole = source.in_whole(split, np.asarray(numbers, np.int64))
    if source.has_input_fn():
        return [{'split': split, 'example': number} for number in whole.tolist()]
    files = _files(source, split)
    known = _known(source, split, files, {*whole.tolist()})
    if not known and files:
        known = dict(zip(whole.tolist(), _in_files(files, whole)))
    return [{'split': split, 'example': number, **known.get(number, {})} for number in whole.tolist()]


def to_text(place: Mapping[str, Any]) -> str:
    """Returns a place as people name it, and as --record takes it: rows.csv:17, cats/1.jpg, or train:17 of the split train."""
    if 'picture' in place:
        return str(place['picture'])
    number = next((place[unit] for unit in _UNITS if unit in place and 'file' in place), None)
    if 'file' not in place:
        return f'{place["split"]}:{place["example"]}'
    return str(place['file']) if number is None else f'{place["file"]}:{number}'


def find(source: DataSource, split: str, text: str) -> list[int]:
    """Returns the numbers of the records of a split that a text, such as those of `to_text`, names; [] if there are none.

    Paths may lack their first folders. A text may also name a place in the converted files: train-00000-of-00004.tfrecord:17.

    Raises:
      UsageError: the split, or the TFRecord file, has fewer records.
    """
    text = text.removeprefix('./')
    name, colon, digits = text.rpartition(':')
    number = int(digits) if colon and digits.isascii() and digits.isdigit() else None
    whole, _ = source.in_whole(split, np.zeros(0, np.int64))
    files = _files(source, split)
    if name == whole and number is not None:
        found = [_checked(text, f'the split {whole}', number, files.count if files else _cardinality(source, split))]
    else:
        found = [i for i, place in enumerate(sources(source, whole)) if _is_named(place, text, name, number)]
        if not found and files and number is not None:
            found = list(_named_in_files(files, text, name, number))
    return source.in_part(split, np.array(found, np.int64)).tolist()


def _is_named(place, text, name, number):
    of_file = next((place[unit] for unit in _UNITS if unit in place), None)
    if 'picture' in place and _is_path(text, place['picture']):
        return True
    return of_file in (None, number) and _is_path(text if of_file is None else name, place.get('file', ''))


def _is_path(text, path):
    """Whether a text names a path, or its end."""
    return f'/{path}'.endswith(f'/{text}') or os.path.isabs(text) and text == os.path.abspath(path)


def _named_in_files(files, text, name, number):
    """Yields the number of a record in the order of the split, given its TFRecord file and its number there."""
    first = 0
    for path, item in zip(files.paths, files.items):
        if _is_path(name, path):
            yield int(np.argsort(files.numbers)[first + _checked(text, path, number, item['count'])])
        first += item['count']


def _checked(text, what, number, count):
    if 0 <= count <= number:
        raise UsageError(f'--record={text}: {what} has {count} records: their numbers are 0 to {count - 1}')
    return number


def _cardinality(source, split):
    with opened(lambda: source.read_whole(split)) as (session, records):
        return cardinality(session, records)


def _known(source, split, files, numbers):
    """Returns {number: what the record was made of} for some records; {}, after a warning, if that is not of these files."""
    known, count = {}, 0
    for place in sources(source, split):
        if count in numbers:
            known[count] = place
        count += 1
    if files and count not in (0, files.count):
        tf.logging.warning(
            '--dataset=%s: %s has %d records, but there are now %d sources, so records are named by their TFRecord files.',
            *(source.params.dataset, files.directory, files.count, count),
        )
        return {}
    return known


def _files(source, split):
    """Returns the Shards of a split; None if its records are not in files of the framework."""
    with tf.Graph().as_default():
        return shards.find(source.read_whole(split))


def _in_files(files, numbers):
    """Yields the {'tfrecord', 'record'} of records with these numbers."""
    ends = np.cumsum([item['count'] for item in files.items])
    in_files = files.numbers[numbers]
    for number, file in zip(in_files.tolist(), np.searchsorted(ends, in_files, side='right').tolist()):
        first = int(ends[file]) - files.items[file]['count']
        yield {'tfrecord': os.fspath(files.paths[file]), 'record': number - first}
