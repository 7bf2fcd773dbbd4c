"""Duplicates: examples that are in the training data and in the evaluation's, or twice in the former with different labels."""

from collections.abc import Iterator, Sequence
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import os
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, first_line
from estimator_trainer.common.files import to_csv
from estimator_trainer.common.inference import labeled_batches
from estimator_trainer.common.inference.prediction import read_places
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import get_specs, label_batches, parsed_batches
from estimator_trainer.common.plugins.dataset_contract import EXAMPLE_ID
from estimator_trainer.common.records.elements import iterate, opened
from estimator_trainer.common.targets import is_forecast

EQUAL, SIMILAR, CONTRADICTORY = 'equal', 'similar picture', 'other label'
_SIDE = 16  # Pixels of a thumbnail.
_SIMILAR = 0.998  # The correlation of two thumbnails from which on their pictures are similar.
_BATCH = 1000


class Duplicate(NamedTuple):
    """An example that is a training example, too; in the order of COLUMNS.

    split is the evaluation's, or that of the training for CONTRADICTORY; where and train_where are file and line, an id, or the
    number in the split; labels are integers or None.
    """

    kind: str
    split: str
    where: str
    label: Any
    train_where: str
    train_label: Any


COLUMNS = ('what', 'split', 'where', 'label', 'train_where', 'train_label')


class Found(NamedTuple):
    """The duplicates, the number of examples of the evaluation that were compared, and whether there are more examples."""

    duplicates: Sequence[Duplicate]
    num_eval: int
    is_part: bool

    def rows(self, class_names: Sequence[str] | None) -> list[list[str]]:
        """Returns the duplicates as texts, with the names of the classes."""
        return [[_text(one, name, class_names) for name in one._fields] for one in self.duplicates]

    def to_csv(self, class_names: Sequence[str] | None) -> str:
        """Returns the content of duplicates.csv."""
        return to_csv([COLUMNS, *self.rows(class_names)])

    def warnings(self) -> list[str]:
        """Returns what is wrong with the data, in lines."""
        lines, bound = [], f' (of the first {self.num_eval:,})' if self.is_part else ''
        if leaks := [one for one in self.duplicates if one.kind != CONTRADICTORY]:
            similar = sum(one.kind == SIMILAR for one in leaks)
            lines.append(
                f'{len(leaks):,} of {self.num_eval:,} examples of {leaks[0].split}{bound} are in the training data, too'
                f'{f", {similar:,} of them as similar pictures" if similar else ""}, such as {leaks[0].where}, which is '
                f'{leaks[0].train_where} there: leave them out of one, or the evaluation says little about new data'
            )
        if others := [one for one in self.duplicates if one.kind == CONTRADICTORY]:
            lines.append(
                f'{len(others):,} training examples are equal to others with another label, such as {others[0].where} and '
                f'{others[0].train_where}'
            )
        return lines


def _text(one, name, class_names):
    value = getattr(one, name)
    is_class = name.endswith('label') and class_names and type(value) is int and 0 <= value < len(class_names)
    return class_names[value] if is_class else '' if value is None else str(value)


@dataclasses.dataclass(frozen=True)
class _Prints:
    """What is compared of the examples of a split: digests of their inputs, labels, and thumbnails, float32 [n, pixels].

    thumbnails are of mean 0 and norm 1, or 0 for a picture of one color; None if there are no pictures. where tells where they
    are; is_part is whether there are more.
    """

    digests: list[bytes]
    labels: list[Any]
    where: list[str]
    thumbnails: np.ndarray | None
    is_part: bool


def find(source: DataSource, limit: int | None = None, split: str = 'eval') -> Found | None:
    """Returns the duplicates; None if examples cannot be compared, or are windows of series, which repeat where these do.

    Examples are equal if their inputs are: the columns of a table, a text, or else the features. Pictures are similar if their
    thumbnails of 16x16 gray pixels have a correlation of 0.998, as after scaling or compression.

    Args:
      source: with its metadata, and its data prepared.
      limit: of the examples of each split that are compared; None for all.
      split: the evaluation's.
    """
    if source.has_input_fn():
        return None
    if is_forecast(source.params.metadata):
        tf.logging.info('Duplicates are not looked for: windows of a series overlap, and are split by time.')
        return None
    try:
        columns = _columns(source, source.params.train_split)
        train, held_out = (_prints(source, name, columns, limit) for name in (source.params.train_split, split))
    except (UsageError, RunError, TypeError, ValueError, DecodeError, tf.errors.OpError) as error:
        tf.logging.info('Duplicates are not looked for: %s', first_line(error))
        return None
    pairs, contradictory = _equal(train, held_out)
    if train.thumbnails is not None and held_out.thumbnails is not None:
        similar = _similar(held_out.thumbnails, train.thumbnails)
        pairs |= {number: (SIMILAR, other) for number, other in similar.items() if number not in pairs}
    found = [
        Duplicate(kind, split, held_out.where[i], held_out.labels[i], train.where[j], train.labels[j])
        for i, (kind, j) in sorted(pairs.items())
    ]
    found += [
        Duplicate(CONTRADICTORY, source.params.train_split, train.where[i], train.labels[i], train.where[j], train.labels[j])
        for i, j in contradictory
    ]
    return Found(found, len(held_out.digests), train.is_part or held_out.is_part)


def _equal(train, held_out):
    """Returns {number: (EQUAL, training number)} of the evaluation, and the pairs of training numbers with other labels."""
    first: dict[bytes, int] = {}
    contradictory = []
    for number, digest in enumerate(train.digests):
        other = first.setdefault(digest, number)
        labels = train.labels[other], train.labels[number]
        if None not in labels and labels[0] != labels[1]:
            contradictory.append((number, other))
    return {i: (EQUAL, first[digest]) for i, digest in enumerate(held_out.digests) if digest in first}, contradictory


def _similar(some: np.ndarray, others: np.ndarray) -> dict[int, int]:
    """Returns {number: that of the most similar of the others} of the thumbnails that have a similar one."""
    found: dict[int, tuple[float, int]] = {}
    for start, first in itertools.product(range(0, len(some), _BATCH), range(0, len(others), 10 * _BATCH)):
        products = some[start : start + _BATCH] @ others[first : first + 10 * _BATCH].T
        nearest = products.argmax(1)
        for i in np.flatnonzero(products.max(1) >= _SIMILAR).tolist():
            item = float(products[i, nearest[i]]), first + int(nearest[i])
            found[start + i] = max(found.get(start + i, item), item)
    return {number: other for number, (_, other) in found.items()}


def _prints(source, split, columns, limit):
    read = functools.partial(_of_records, source, split, columns) if columns else functools.partial(_of_features, source, split)
    digests, ids, thumbnails = [], [], []
    for some, names, pictures in read(limit):
        digests += some
        ids += names
        thumbnails += [] if pictures is None else [pictures]
    is_part, digests = limit is not None and len(digests) > limit, digests[:limit]
    labels = [*itertools.islice(_labels(source, split), len(digests))]
    where = _all_where(source, split, ids, len(digests))
    pictures = np.concatenate(thumbnails)[:limit] if thumbnails else None
    return _Prints(digests, labels + [None] * (len(digests) - len(labels)), where, pictures, is_part)


def _columns(source, split):
    """Returns the names of the raw inputs by which to compare examples, if none is a picture and records have them; or []."""
    specs = source.raw_specs()
    is_serialized = getattr(get_specs(source).records, 'dtype', None) == tf.string
    if not is_serialized or any(spec.name or spec.shape.rank > 2 for spec in specs.values()):
        return []
    found: set[str] = set()
    with contextlib.suppress(DecodeError), contextlib.closing(_taken(lambda: source.read(split).batch(_BATCH), 0)) as batches:
        found = {name for batch in batches for record in batch.tolist() for name in _features_of(record)}
    return [*specs] if found & specs.keys() else []


def _features_of(record):
    return tf.train.Example.FromString(record).features.feature


def _all_where(source, split, ids, count):
    """Returns where the first examples of a split are, as texts."""
    found = []
    names = itertools.chain(ids, itertools.repeat(''))
    for number, (fields, name) in enumerate(itertools.islice(zip(read_places(source, split), names), count)):
        file, others = fields.get('file', ''), [f'{key} {value}' for key, value in fields.items() if key != 'file']
        found.append(', '.join([*filter(None, [os.path.basename(file)]), *others]) if others else name or f'example {number}')
    return found


def _labels(source, split) -> Iterator[Any]:
    with opened(lambda: label_batches(source, source.read(split))) as (session, batches):
        specs = batches.element_spec[1]
        name = labeled_batches.label_of(
            [name for name, spec in specs.items() if isinstance(spec, tf.TensorSpec) and spec.shape.rank == 1]
        )
        for _, labels in iterate(session, batches) if name else ():
            yield from labels[name].tolist()


def _taken(make, limit):
    """Yields the elements of batches until they have more than `limit` examples."""
    with opened(make) as (session, batches):
        count = 0
        for batch in iterate(session, batches):
            yield batch
            count += _BATCH
            if limit is not None and count > limit:
                return


def _of_records(source, split, columns, limit):
    """Yields the digests of serialized examples, of these features, in lists, and no ids and thumbnails."""
    for batch in _taken(lambda: source.read(split).batch(_BATCH), limit):
        yield [_digest_of_record(record, columns) for record in batch.tolist()], [], None


def _digest_of_record(record, columns):
    features = _features_of(record)
    parts = [features[name].SerializeToString(deterministic=True) if name in features else b'' for name in columns]
    return _digest(parts)


def _of_features(source, split, limit):
    """Yields the digests of parsed examples, in lists, their ids, or [], and their thumbnails, or None."""
    make = lambda: parsed_batches(source, tf.estimator.ModeKeys.EVAL, source.read(split), _BATCH)  # noqa: E731
    for features, _ in _taken(make, limit):
        values = {name: value for name, value in sorted(features.items()) if name != EXAMPLE_ID}
        if not all(isinstance(value, np.ndarray) for value in values.values()):
            raise UsageError(f'--dataset={source.params.dataset} has features that are no dense tensors')
        digests = [_digest(map(_stripped, example)) for example in zip(*values.values())]
        yield digests, _texts(features.get(EXAMPLE_ID)), _thumbnails(values.get('image'))


def _texts(ids):
    return [] if ids is None else [one.decode(errors='replace') if isinstance(one, bytes) else str(one) for one in ids.tolist()]


def _stripped(value):
    """Returns the bytes of a value without the padding of its batch."""
    if np.asarray(value).dtype == object:
        return b'\x1f'.join(np.ravel(value).tolist()).rstrip(b'\x1f')
    return np.asarray(value).tobytes().rstrip(b'\0')


def _digest(parts):
    return hashlib.blake2b(b''.join(len(part).to_bytes(8, 'little') + part for part in parts), digest_size=16).digest()


def _thumbnails(images: np.ndarray | None) -> np.ndarray | None:
    """Returns thumbnails, float32 [n, pixels], as `_Prints` has them, of images [n, height, width, channels]."""
    if images is None or images.ndim != 4 or min(images.shape[1:3]) < _SIDE:
        return None
    gray = images.mean(3, dtype=np.float32)
    rows, columns = (_averages(length) for length in images.shape[1:3])
    flat = np.einsum('ah,nhw,bw->nab', rows, gray, columns, optimize=True).reshape([len(images), -1])
    flat -= flat.mean(1, keepdims=True)
    norms = np.linalg.norm(flat, axis=1, keepdims=True)
    return np.where(norms > 1e-3, flat / np.maximum(norms, 1e-3), 0).astype(np.float32)


def _averages(length: int) -> np.ndarray:
    """Returns the weights, float32 [_SIDE, length], of pixels in the averages over as many equal parts of a line."""
    edges = np.linspace(0, length, _SIDE + 1)
    places = np.arange(length)
    overlap = np.minimum(edges[1:, None], places + 1) - np.maximum(edges[:-1, None], places)
    return (np.maximum(overlap, 0) * _SIDE / length).astype(np.float32)
