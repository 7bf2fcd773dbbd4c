"""Users' own tf.train.Examples as records: decoded, checked against their features, and parsed in batches."""

from collections.abc import Callable, Collection, Iterator, Sequence, Set
import dataclasses
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, first_line
from estimator_trainer.common.own_data.description import Feature, of_kind
from estimator_trainer.common.own_data.examples.image_facts import explain
from estimator_trainer.common.own_data.examples.image_formats import is_decoded
from estimator_trainer.common.own_data.examples.inference import SAMPLE_SIZE, Decoded, is_one_hot
from estimator_trainer.common.own_data.examples.parser import DTYPES, parsing_spec
from estimator_trainer.common.own_data.schema import ID, IMAGE, LABEL, TEXT, WEIGHT
from estimator_trainer.common.records import manifest, records
from estimator_trainer.common.records.elements import elements

_BATCH = 256
_SCHEMA = '--hparams=schema=FILE'


@dataclasses.dataclass(frozen=True)
class Examples:
    """The serialized examples of all splits.

    source names them in messages; read returns those of a split; trained is the training split.
    """

    source: str
    splits: Sequence[str]
    trained: str
    read: Callable[[str], tf.data.Dataset]


def decode_sample(examples: Examples, names: Collection[str] | None, wanted: Collection[str]) -> list[Decoded]:
    """Returns the first training examples, and the first later ones with features that they lack.

    Args:
      examples: the examples.
      names: of the features to decode; by default all.
      wanted: those whose first example is looked for.

    Raises:
      RunError: a record is no tf.train.Example, or there are none.
    """
    sample: list[Decoded] = []
    unseen = {*wanted}
    for number, record in enumerate(elements(lambda: examples.read(examples.trained))):
        if number >= SAMPLE_SIZE and not unseen:
            break
        try:
            example = records.decode(record)
        except DecodeError:
            raise RunError(f'{_locate(record, number)}: is not a tf.train.Example: write such records') from None
        if number < SAMPLE_SIZE:
            _check_fields(record, number)
        if number < SAMPLE_SIZE or unseen & example.keys():
            sample.append({name: example[name] for name in example if names is None or name in names})
            unseen -= example.keys()
    if not sample:
        raise RunError(f'{examples.source}: the split {examples.trained} is empty')
    return sample


def batches(
    examples: Examples,
    split: str,
    features: Sequence[Feature],
    known: Set[str] | None = None,
    is_trained: bool = True,
    on_image: Callable[[str, bytes], Any] = lambda name, image: None,
) -> Iterator[dict[str, Any]]:
    """Yields batches {name: array or tf.SparseTensorValue} of a split's features, but for images, which are only checked.

    Args:
      examples: the examples.
      split: its name.
      features: those of the metadata, including those with a role.
      known: the names of all features of the training data; None if others do not matter.
      is_trained: whether a text, an image, a label and a weight are required; else they are sparse.
      on_image: called with the name of the feature and the content of each image file.

    Raises:
      RunError: an example is wrong.
    """
    find_fault = make_finder(features, known, is_trained)
    checked = [feature for feature in features if feature['kind'] == IMAGE or feature.get('is_one_hot')]
    with tf.Graph().as_default() as graph:
        serialized = tf.placeholder(tf.string, [None])
        parsed = tf.io.parse_example(serialized, _spec(features, is_trained))
    with tf.Session(graph=graph) as session:
        parse, number = session.make_callable(parsed, [serialized]), 0
        for batch in elements(lambda: examples.read(split).batch(_BATCH)):
            if known is not None or checked:
                _check([record for record in batch if _is_suspect(record, known, checked, on_image)], batch, number, find_fault)
            try:
                found = parse(batch)
            except tf.errors.OpError as error:  # It does not name the record.
                _check(batch, batch, number, find_fault)
                raise RunError(f'{examples.source}: the split {split}: {first_line(error)}') from None
            _check_fields(batch[0], number)
            if any(_differ_in_number(found[feature['name']], feature, len(batch)) for feature in _sparse(features, is_trained)):
                _check(batch, batch, number, find_fault)
            yield found
            number += len(batch)


def _spec(features, is_trained):
    spec = parsing_spec([feature for feature in features if feature['kind'] != IMAGE])
    sparse = {feature['name']: tf.io.VarLenFeature(DTYPES[feature['stored']]) for feature in _sparse(features, is_trained)}
    return {**spec, **sparse}


def _sparse(features, is_trained):
    """Returns the features that examples which are not trained on may lack."""
    return [] if is_trained else [feature for feature in features if feature['kind'] in (TEXT, LABEL, WEIGHT)]


def _differ_in_number(found, feature, size):
    """Whether an example of a batch has another number of values than in training, though some."""
    counts = np.bincount(found.indices[:, 0], minlength=size)
    return bool(((counts > 0) & (counts != feature['values'])).any())


def _is_suspect(record, known, checked, on_image):
    """Whether `find_fault` may find a fault that parsing, which is much faster, does not."""
    try:
        found = tf.train.Example.FromString(record).features.feature
    except DecodeError:
        return True
    if known is not None and not known.issuperset(found):
        return True
    for feature in of_kind(checked, LABEL):
        stored = f'{feature["stored"]}_list'
        if feature['name'] in found and not is_one_hot(feature['stored'], getattr(found[feature['name']], stored).value):
            return True
    for feature in of_kind(checked, IMAGE):
        values = found[feature['name']].bytes_list.value if feature['name'] in found else []
        if len(values) != 1 or not (feature['is_raw'] or is_decoded(values[0])):
            return True
        if not feature['is_raw']:
            on_image(feature['name'], values[0])
    return False


def _check(records_, batch, first, find_fault):
    """Raises RunError if one of the records of a batch, which begins with number `first`, is wrong."""
    for record in records_:
        try:
            fault = find_fault(records.decode(record))
        except DecodeError:
            fault = 'is not a tf.train.Example'
        if fault:
            raise RunError(f'{_locate(record, first + list(batch).index(record))}: {fault}')


def make_finder(
    features: Sequence[Feature], known: Set[str] | None = None, is_trained: bool = True
) -> Callable[[Decoded], str]:
    """Returns a function that says what is wrong with an example, in words that follow its place; '' if nothing is.

    Args:
      features: those of the metadata, including those with a role.
      known: the names of all features of the training data; None if others do not matter.
      is_trained: whether a text, an image, a label and a weight are required.
    """
    required = {feature['name'] for feature in features if is_trained and feature['kind'] in (IMAGE, TEXT, LABEL, WEIGHT)}

    def find_fault(example):
        unknown = sorted(example.keys() - known) if known is not None else ()
        if unknown:
            return (
                f'the feature {unknown[0]} is not in the first {SAMPLE_SIZE} examples: give its kind, such as numeric or '
                f'ignore, in {_SCHEMA}'
            )
        lacking = sorted(required - example.keys())
        if lacking:
            return f'has no feature {lacking[0]}: write it, or leave out the example'
        return next(filter(None, (_fault(example[item['name']], item) for item in features if item['name'] in example)), '')

    return find_fault


def _fault(found, feature):
    """Returns what is wrong with a value, (stored, values)."""
    (stored, values), kind, name = found, feature['kind'], feature['name']
    what = f'the {kind if kind in (LABEL, WEIGHT) else "feature"} {name}'
    if stored != feature['stored']:
        return f'{what} is {stored}, but {feature["stored"]} in training: write all as one type'
    if kind != ID and len(values) != feature['values']:
        return f'{what} has {len(values)} values, but {feature["values"]} in training: write as many in all'
    if feature.get('is_one_hot') and not is_one_hot(stored, values):
        return f'{what} is not one-hot: write one 1 and {feature["values"] - 1} zeros, as in training'
    if kind == IMAGE and not feature['is_raw'] and not is_decoded(values[0]):
        return explain(name, values[0])
    return ''


def _check_fields(record, number):
    """Raises RunError if a record is of another kind, which tf.train.Example takes for one with unknown fields."""
    unknown = {field.field_number for field in UnknownFieldSet(tf.train.Example.FromString(record))}
    if not unknown:
        return
    place = _locate(record, number)
    try:
        lists = ', '.join(sorted(tf.train.SequenceExample.FromString(record).feature_lists.feature_list))
    except DecodeError:
        lists = ''
    if lists:
        raise RunError(
            f'{place}: is a tf.train.SequenceExample, whose feature_lists {lists} would be ignored: write a tf.train.Example, '
            'with as many values of a feature in each'
        )
    numbers = ', '.join(map(str, sorted(unknown)))
    raise RunError(f'{place}: is not a tf.train.Example, which has no field {numbers}: write such examples')


def _locate(record, number):
    return manifest.locate_record(record) or f'record {number}'
