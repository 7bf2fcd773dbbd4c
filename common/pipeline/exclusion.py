"""Writes the training records without those of a CSV file, or with the labels that it corrects: the hyper-parameter `exclude`.

The file has a row for each of them, as suspects.csv has: where it is, its label, and perhaps `corrected`, another one;
without that, the record is left out. The data itself does not change.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import csv
import dataclasses
import functools
import io
import itertools
import os
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, listed, show
from estimator_trainer.common.files import write_json
from estimator_trainer.common.paths import absolute
from estimator_trainer.common.pipeline import excluded, identity, places
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.identity import COLUMNS, Place, place_of
from estimator_trainer.common.plugins.dataset_contract import EXAMPLE_ID
from estimator_trainer.common.records import records
from estimator_trainer.common.records.elements import iterate, opened

LABEL, CORRECTED = 'label', 'corrected'  # Columns.
EMPTIED = 'emptied'  # Classes without a record.
_BATCH = 1000
Read = Callable[[], tf2.data.Dataset]


class _Row(NamedTuple):
    line: int
    fields: Mapping[str, str]

    def text(self, name):
        return (self.fields.get(name) or '').strip()


def write(source: DataSource) -> None:
    """Writes the rest of the training records, once for each state of the data and of the file, and says how many they are.

    Raises:
      UsageError: the file is wrong, or of other data.
    """
    params = source.params
    if not params.exclude:
        return
    with tf.Graph().as_default():
        all_records = source.read_whole(params.train_split)
        directory = excluded.directory(all_records, source.data_dir, params)
    if not records.is_written(directory):
        _write(source, directory)
    found = records.read_facts(excluded.facts_path(directory))
    tf.logging.info(
        'exclude=%s: of %d training records, %d are left out, and %d have corrected labels.',
        *(params.exclude, found['records'], len(found[excluded.LEFT_OUT]), found[CORRECTED]),
    )
    if found[EMPTIED]:
        names = params.metadata.get('class_names') or range(max(found[EMPTIED]) + 1)
        gone = ', '.join(str(names[label]) for label in found[EMPTIED])
        tf.logging.warning('exclude=%s: leaves no training record of the class %s.', params.exclude, gone)


def _write(source, directory):
    rows = _read_rows(source.params.exclude)
    found, labels = _find(source, rows)
    _check_labels(source, found, labels)
    wanted = {number: _class_of(row, CORRECTED, source) for number, row in found.items() if row.text(CORRECTED)}
    left_out = sorted({*found} - {*wanted})
    if len(left_out) == len(labels):
        raise UsageError(f'exclude={source.params.exclude} names all {len(labels)} training records: leave some to train on')
    tf.io.gfile.makedirs(directory)
    rest = np.array(labels)
    rest[[*wanted]] = [*wanted.values()]
    emptied = np.setdiff1d(labels, np.delete(rest, left_out)).tolist()
    facts = {'records': len(labels), CORRECTED: len(wanted), EMPTIED: emptied, excluded.LEFT_OUT: left_out}
    write_json(excluded.facts_path(directory), facts)
    read = functools.partial(source.read_whole, source.params.train_split)
    corrected = _corrected(source, read, wanted, labels)
    kept = _Rest(read, frozenset(left_out), corrected)
    records.write(directory, {source.params.train_split: kept}, fingerprint=os.path.basename(directory))


@dataclasses.dataclass(frozen=True)
class _Rest:
    """The serialized examples that are left; iterating reads the records."""

    read: Read
    left_out: frozenset[int]
    corrected: Mapping[int, bytes]

    def __iter__(self) -> Iterator[list[bytes]]:
        for first, batch in _batches(self.read):
            numbered = enumerate(batch, first)
            yield [self.corrected.get(number, record) for number, record in numbered if number not in self.left_out]


def _batches(read):
    """Yields the number of the first record of each batch, and its records."""
    first = 0
    with opened(lambda: read().batch(_BATCH)) as (session, batches):
        for batch in iterate(session, batches):
            yield first, batch.tolist()
            first += len(batch)


def _read_rows(path: str) -> Sequence[_Row]:
    """Returns the rows of a file, with commas, semicolons or tabs, as spreadsheets write them."""
    try:
        with tf.io.gfile.GFile(path, 'rb') as file:
            text = file.read().decode('utf-8-sig')
    except UnicodeDecodeError:
        raise UsageError(f'exclude={path}: is not UTF-8: save it as such') from None
    first = text.partition('\n')[0]
    reader = csv.DictReader(io.StringIO(text, newline=''), delimiter=max(',;\t', key=first.count), strict=True)
    try:
        names = reader.fieldnames or ()
        if LABEL not in names or not {*names} & {*COLUMNS}:
            raise UsageError(
                f'exclude={path}: line 1 must name the columns as suspects.csv does: {LABEL}, and {", ".join(COLUMNS[:-1])} or '
                f'{COLUMNS[-1]}'
            )
        rows = [_Row(reader.line_num, fields) for fields in reader if any(fields.values())]  # Spreadsheets keep empty ones.
    except csv.Error as error:
        raise UsageError(f'exclude={path}: line {reader.line_num}: {error}') from None
    if not rows:
        raise UsageError(f'exclude={path}: has no rows: omit it')
    return rows


def _find(source: DataSource, rows: Sequence[_Row]) -> tuple[dict[int, _Row], np.ndarray]:
    """Returns {number of its record: row}, and the classes of all records; leaves out rows of records held out."""
    params = source.params
    numbers, labels = _numbered(source, params.train_split)
    names = [name for name, _ in next(iter(numbers), ())]
    found: dict[int, _Row] = {}
    others = []
    for row in rows:
        number = numbers.get(place := _absolute((name, row.text(name)) for name in names))
        if number in found:
            raise _error(row, source, f'{_shown(place)} occurs twice: leave one of the two')
        if number is None:
            others.append((row, place))
        else:
            found[number] = row
    if others:
        _check_held_out(source, others)
    return found, labels


def _check_held_out(source, others):
    """Raises UsageError unless rows whose records are not among those to train on are of the split eval."""
    with contextlib.suppress(UsageError, RunError):  # There may be no such split.
        held_out, _ = _numbered(source, 'eval')
        others, count = [(row, place) for row, place in others if place not in held_out], len(others)
        if not others:
            tf.logging.warning('exclude=%s: %d rows are of the split eval, which stays as it is.', source.params.exclude, count)
    for row, place in others:
        missing = next((name for name, text in place if not text), None)
        if missing is None:
            text = f'{_shown(place)} is not in the split {source.params.train_split}: was it made with other data?'
        else:
            text = f'has no {missing}, by which the records of --dataset={source.params.dataset} are known'
        raise _error(row, source, text)


def _numbered(source, split) -> tuple[dict[Place, int], np.ndarray]:
    """Returns {place: number} of the records of a split, and their classes."""
    labels, ids = identity.labels_and_ids(source, lambda: source.read_whole(split), f'exclude={source.params.exclude}')
    origins = itertools.chain(places.sources(source, split), itertools.repeat({}))
    fields = [{**origin, identity.NUMBER: number} for number, origin in zip(range(len(labels)), origins)]
    for number, name in enumerate(ids):
        fields[number][EXAMPLE_ID] = name
    numbers = {_absolute(place_of(of_one)): number for number, of_one in enumerate(fields)}
    if len(numbers) < len(labels):  # Several examples have the same id.
        numbers = {((identity.NUMBER, str(number)),): number for number in range(len(labels))}
    return numbers, labels


def _absolute(place):
    """Returns a place whose file, if it is a local one, has an absolute path, however the run of the CSV file was given it."""
    return tuple((name, absolute(text) if name == 'file' and text else text) for name, text in place)


def _shown(place):
    return ' '.join(f'{name} {text}' for name, text in place)


def _error(row, source, text):
    return UsageError(f'exclude={source.params.exclude}: line {row.line}: {text}')


def _class_of(row, column, source):
    """Returns the class that a cell names, or is the number of."""
    names, text = source.params.metadata.get('class_names') or (), row.text(column)
    alike = [number for number, name in enumerate(names) if str(name).casefold() == text.casefold()]  # Excel writes TRUE.
    if text in names or len(alike) == 1:
        return names.index(text) if text in names else alike[0]
    num_classes = source.params.get('num_classes') or len(names)
    if text.isdecimal() and not names and int(text) < (num_classes or np.inf):
        return int(text)
    known = listed(names, 10) if names else f'0 to {num_classes - 1}' if num_classes else 'numbers'
    raise _error(row, source, f'{column} {show(text)} is no class: the classes are {known}')


def _check_labels(source, found, labels):
    """Raises UsageError if a row has another label than its record."""
    for number, row in found.items():
        if _class_of(row, LABEL, source) != labels[number]:
            names = source.params.metadata.get('class_names') or range(labels.max() + 1)
            text = f'the label is {row.text(LABEL)}, but {names[labels[number]]} in the data: was it made with other data?'
            raise _error(row, source, f'{text} Or by a run with corrected labels: give those of the data')


def _corrected(source: DataSource, read: Read, wanted: Mapping[int, int], labels: np.ndarray) -> dict[int, bytes]:
    """Returns {number: serialized example with the label to train with} of the records whose labels are corrected.

    Raises:
      UsageError: the records are no tf.train.Examples in which a feature is the label.
    """
    old = {first + i: batch[i] for first, batch in _batches(read) for i in range(len(batch)) if first + i in wanted}
    numbers = [number for number in old if wanted[number] != labels[number]]
    if not numbers:
        return {}
    classes = [wanted[number] for number in numbers]
    names = source.params.metadata.get('class_names')
    values: list[Sequence[Any]] = [*([[names[label] for label in classes]] if names else []), classes]  # Ratings begin with 1.
    for name, of_labels in itertools.product(_candidates(old[numbers[0]]), values):
        with contextlib.suppress(tf.errors.OpError, ValueError):
            new = [_relabeled(old[number], name, value) for number, value in zip(numbers, of_labels)]
            make = functools.partial(tf.data.Dataset.from_tensor_slices, new)
            parsed, _ = identity.labels_and_ids(source, make, CORRECTED)
            if parsed.tolist() == classes:
                return dict(zip(numbers, new))
    raise UsageError(
        f'exclude={source.params.exclude}: the labels of --dataset={source.params.dataset} cannot be corrected, as they are no '
        f'feature of its records: leave {CORRECTED} empty, or correct the data'
    )


def _candidates(record):
    """Returns the names of the single values of a serialized example, label first."""
    try:
        features = records.decode(record)
    except DecodeError:
        return []
    names = [name for name, (_, values) in features.items() if len(values) == 1]
    return sorted(names, key=lambda name: (name != LABEL, features[name][0] == 'float'))  # Amounts are tried last.


def _relabeled(record, name, value):
    """Returns a serialized example with another value of a feature; raises ValueError if it is one of numbers, unlike that."""
    example = tf.train.Example.FromString(record)
    feature = example.features.feature[name]
    kind = feature.WhichOneof('kind')
    if not kind:
        raise ValueError(f'there is no {name}')
    if kind == 'bytes_list':
        feature.bytes_list.value[:] = [str(value).encode()]
    else:
        getattr(feature, kind).value[:] = [int(value) if kind == 'int64_list' else float(value)]
    return example.SerializeToString(deterministic=True)
