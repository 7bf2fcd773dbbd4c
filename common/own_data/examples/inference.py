"""Inference of the features of users' own tf.train.Examples from a sample and a schema."""

from collections.abc import Mapping, Sequence
import math
import re
from typing import Any
import unicodedata

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, show
from estimator_trainer.common.own_data.description import Feature, check_learnable, of_kind
from estimator_trainer.common.own_data.examples.image_facts import describe_images
from estimator_trainer.common.own_data.examples.image_formats import format_of
from estimator_trainer.common.own_data.schema import (
    CATEGORICAL,
    FEATURES,
    ID,
    IGNORE,
    IMAGE,
    LABEL,
    NUMERIC,
    REGRESSION,
    TEXT,
    WEIGHT,
    Schema,
    by_name,
)

_STORED = {NUMERIC: ('float', 'int64'), CATEGORICAL: ('bytes', 'int64'), IMAGE: ('bytes',), TEXT: ('bytes',)}
SAMPLE_SIZE = 1000  # Training examples from which features are inferred.
_WORDS_OF_A_TEXT = 3
_DISTINCT = 'it is different in each example'  # Such as the name of a file.
_BINARY = 'it is neither an image file nor text in UTF-8: pixels need their "size" and "channels"'

Decoded = Mapping[str, tuple[str, Sequence[Any]]]  # As `records.decode` returns an example.
Sample = Sequence[Decoded]


def infer_features(sample: Sample, schema: Schema, roles: Mapping[str, str], source: str) -> list[Feature]:
    """Returns the features to learn from.

    Args:
      sample: the first examples, as `records.decode` returns them.
      schema: facts given about the features.
      roles: from `find_roles`.
      source: of the data, for messages.

    Returns:
      Dicts of 'name', 'kind', 'stored' (bytes, float or int64), 'values', their number, and of an image the facts of
      `describe_images`.

    Raises:
      UsageError: the schema is wrong, or there are no features.
      RunError: the examples contradict the schema.
    """
    features = []
    named = by_name(roles)
    for name in sorted({name for example in sample for name in example} - named.keys()):
        feature = _infer(name, _found(sample, name), schema.given.get(name, {}), source)
        if feature['kind'] != IGNORE:
            features.append(feature)
        elif name not in schema.given:
            log = tf.logging.info if feature['reason'] == _DISTINCT else tf.logging.warning
            log('%s: the feature %s is ignored: %s. --hparams=schema=FILE can override this.', source, name, feature['reason'])
    for kind in (IMAGE, TEXT):
        several = [feature['name'] for feature in of_kind(features, kind)]
        if len(several) > 1:
            raise UsageError(f'{source}: {", ".join(several)} are of kind {kind}: --hparams=schema must ignore all but one')
    check_learnable(source, FEATURES, features, named)
    return features


def describe_role(sample: Sample, role: str, name: str, source: str, task: str | None = None) -> Feature:
    """Returns the feature that has a role; raises RunError if its values cannot have it.

    A label of several numbers, one-hot in most examples, is the class of the 1: its 'is_index' and 'is_one_hot' are true.
    """
    found = _found(sample, name)
    stored, lengths = {kind for kind, _ in found}, {len(values) for _, values in found}
    if len(stored) > 1 or role == WEIGHT and stored == {'bytes'} or role == ID and stored == {'float'}:
        raise RunError(f'{source}: the {role} {name} is {" or ".join(sorted(stored))}')
    if role == LABEL and task != REGRESSION and len(lengths) == 1 and 2 * sum(is_one_hot(*each) for each in found) > len(found):
        (count,) = lengths
        tf.logging.warning('%s: the label %s is one-hot: taken as the classes 0 to %d.', source, name, count - 1)
        return {'name': name, 'kind': role, 'stored': stored.pop(), 'values': count, 'is_index': True, 'is_one_hot': True}
    if lengths != {1} and role != ID:
        cure = 'a class or a number' if role == LABEL else 'a number'
        raise RunError(f'{source}: the {role} {name} has {_range(lengths)} values, but needs one: {cure}')
    if role == LABEL and stored == {'bytes'}:
        _check_text(f'{source}: the {role} {name}', [values[0] for _, values in found])
    return {'name': name, 'kind': role, 'stored': stored.pop(), 'values': 1}


def is_one_hot(stored: str, values: Sequence[Any]) -> bool:
    """Whether of some values, stored as bytes, float or int64, one is 1, and the others are 0."""
    return stored != 'bytes' and sorted(values)[-2:] == [0, 1] and sum(values) == 1


def _check_text(what, values):
    for value in values:
        try:
            if not any(unicodedata.category(letter) == 'Cc' for letter in value.decode()):
                continue
            wrong = 'bytes that are no text'
        except UnicodeDecodeError:
            wrong = 'no text in UTF-8'
        raise RunError(f'{what} is {wrong}, such as {show(value)}: write a class as an int64 or as UTF-8, a number as a float')


def _range(numbers):
    return ' to '.join(str(number) for number in sorted({min(numbers), max(numbers)}))


def _found(sample, name):
    return [example[name] for example in sample if name in example]


def _infer(name, found, given, source):
    """Returns the dict of a feature for `infer_features`; {'kind', 'reason'} if it is ignored."""
    stored = {kind for kind, _ in found}
    lengths = {len(values) for _, values in found}
    if len(stored) > 1:
        if given.get('kind', IGNORE) != IGNORE:
            raise RunError(f'{source}: the feature {name} is {" or ".join(sorted(stored))}: write all as one type')
        return {'kind': IGNORE, 'reason': f'it is {" or ".join(sorted(stored))}'}
    feature = {'name': name, 'stored': stored.pop(), 'values': 1}
    kind = given.get('kind') or (_kind_of_bytes(found) if feature['stored'] == 'bytes' else NUMERIC)
    if kind in (IGNORE, _DISTINCT, _BINARY):
        return {'kind': IGNORE, 'reason': kind}
    if not given and (len(lengths) > 1 or lengths == {0}):
        is_list = lengths == {0, max(lengths)} and max(lengths)
        cure = ': it is an empty list in some examples: leave it out of these' if is_list else ''
        return {'kind': IGNORE, 'reason': f'its values differ in number{cure}'}
    if kind == NUMERIC:
        feature['values'] = math.prod(given['shape']) if 'shape' in given else max(lengths)
    if lengths != {feature['values']} or feature['stored'] not in _STORED[kind]:
        wanted = f'{feature["values"]} of {" or ".join(_STORED[kind])}'
        found_now = f'{_range(lengths)} values of {feature["stored"]}'
        cure = '' if given else f': write these, or give its kind, such as {IGNORE}, in --hparams=schema=FILE'
        raise RunError(f'{source}: the feature {name} has {found_now}, but {kind} needs {wanted}{cure}')
    if not given and kind == CATEGORICAL:
        _warn_of_numbers(f'{source}: the feature {name}', [values[0] for _, values in found])
    facts = describe_images(name, [values[0] for _, values in found], given, source) if kind == IMAGE else {}
    return {**feature, 'kind': kind, **facts}


def _warn_of_numbers(what, values):
    """Warns if texts are numbers with fractions; whole ones, such as postal codes, are categories."""
    numbers = [value for value in values if re.fullmatch(rb'\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*', value)]
    fraction = next((number for number in numbers if b'.' in number), None)
    if fraction is not None and len(numbers) == sum(map(bool, values)):
        text = 'written as text, so they are taken for categories: write them as floats'
        tf.logging.warning('%s has numbers, such as %s, %s', what, fraction.decode().strip(), text)


def _kind_of_bytes(found):
    """Returns the kind of a feature, or the reason to ignore it."""
    values = [values[0] for _, values in found if values]
    if 2 * sum(bool(format_of(value)) for value in values) > sum(map(bool, values)):
        return IMAGE  # Others among them are damaged.
    try:
        texts = [value.decode() for value in values]
    except UnicodeDecodeError:
        return _BINARY
    if sum(len(text.split()) for text in texts) >= _WORDS_OF_A_TEXT * len(texts):
        return TEXT
    return CATEGORICAL if len(set(texts)) < len(texts) else _DISTINCT
