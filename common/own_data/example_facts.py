"""Inference of the features of users' own tf.train.Examples from a sample and a schema."""

from collections.abc import Mapping, Sequence
import math
from typing import Any

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.own_data.description import Feature, check_learnable, log_ignored, of_kind
from estimator_trainer.common.own_data.image_facts import describe_images, is_file
from estimator_trainer.common.own_data.schema import CATEGORICAL, FEATURES, ID, IGNORE, IMAGE, NUMERIC, TEXT, WEIGHT, Schema

_STORED = {NUMERIC: ('float', 'int64'), CATEGORICAL: ('bytes', 'int64'), IMAGE: ('bytes',), TEXT: ('bytes',)}
_WORDS_OF_A_TEXT = 3

Sample = Sequence[Mapping[str, tuple[str, Sequence[Any]]]]


def infer_features(sample: Sample, schema: Schema, roles: Mapping[str, str], source: str) -> list[Feature]:
    """Returns the features to learn from.

    Args:
      sample: the first examples, as `records.decode` returns them.
      schema: facts given about the features.
      roles: from `find_roles`.
      source: of the data, for messages.

    Returns:
      Dicts of 'name', 'kind', 'stored' (bytes, float or int64), 'values', their number, and of an image 'size', 'channels' and
      'is_raw'.

    Raises:
      UsageError: the schema is wrong, or there are no features.
      RunError: the examples contradict the schema.
    """
    features = []
    for name in sorted({name for example in sample for name in example} - set(roles.values())):
        feature = _infer(name, _found(sample, name), schema.given.get(name, {}), source)
        if feature['kind'] != IGNORE:
            features.append(feature)
        elif name not in schema.given:
            log_ignored(source, FEATURES, name, feature['reason'])
    for kind in (IMAGE, TEXT):
        several = [feature['name'] for feature in of_kind(features, kind)]
        if len(several) > 1:
            raise UsageError(f'{source}: {", ".join(several)} are of kind {kind}: --hparams=schema must ignore all but one')
    check_learnable(source, FEATURES, features, roles)
    return features


def describe_role(sample: Sample, role: str, name: str, source: str) -> Feature:
    """Returns the feature that has a role; raises RunError if its values cannot have it."""
    stored = {kind for kind, _ in _found(sample, name)}
    if len(stored) > 1 or role == WEIGHT and stored == {'bytes'} or role == ID and stored == {'float'}:
        raise RunError(f'{source}: the {role} {name} is {" or ".join(sorted(stored))}')
    return {'name': name, 'kind': role, 'stored': stored.pop(), 'values': 1}


def _found(sample, name):
    return [example[name] for example in sample if name in example]


def _infer(name, found, given, source):
    """Returns the dict of a feature for `infer_features`; {'kind', 'reason'} if it is ignored."""
    stored = {kind for kind, _ in found}
    lengths = {len(values) for _, values in found}
    if len(stored) > 1:
        return {'kind': IGNORE, 'reason': f'it is {" or ".join(sorted(stored))}'}
    feature = {'name': name, 'stored': stored.pop(), 'values': 1}
    kind = given.get('kind') or (_kind_of_bytes(found) if feature['stored'] == 'bytes' else NUMERIC)
    if kind == IGNORE:
        return {'kind': IGNORE, 'reason': 'it is neither text nor an image, or different in each example'}
    if not given and (len(lengths) > 1 or lengths == {0}):
        return {'kind': IGNORE, 'reason': 'its values differ in number'}
    if kind == NUMERIC:
        feature['values'] = math.prod(given['shape']) if 'shape' in given else max(lengths)
    if lengths != {feature['values']} or feature['stored'] not in _STORED[kind]:
        counts = ' to '.join(str(length) for length in sorted({min(lengths), max(lengths)}))
        wanted = f'{feature["values"]} of {" or ".join(_STORED[kind])}'
        raise RunError(f'{source}: the feature {name} has {counts} values of {feature["stored"]}, but {kind} needs {wanted}')
    facts = describe_images(name, [values[0] for _, values in found], given, source) if kind == IMAGE else {}
    return {**feature, 'kind': kind, **facts}


def _kind_of_bytes(found):
    values = [values[0] for _, values in found if values]
    if any(values) and all(map(is_file, filter(None, values))):
        return IMAGE
    try:
        texts = [value.decode() for value in values]
    except UnicodeDecodeError:
        return IGNORE
    if sum(len(text.split()) for text in texts) >= _WORDS_OF_A_TEXT * len(texts):
        return TEXT
    return CATEGORICAL if len(set(texts)) < len(texts) else IGNORE
