"""A user's own tf.train.Examples to features and labels, in TensorFlow ops, by the metadata of `example_metadata`."""

from collections.abc import Iterable
from typing import Any

import tensorflow.compat.v1 as tf

from common.data.plain import plain
from common.formats import images, tokens
from common.formats.columns import CATEGORICAL, NUMERIC, standardize
from common.formats.example_facts import ID, IMAGE, LABEL, ROLES, TEXT, WEIGHT
from common.formats.schema import CLASSIFICATION
from common.formats.vocabulary import class_ids, column_ids
from hparams.build import HParams

PREDICT = tf.estimator.ModeKeys.PREDICT
DTYPES = {'bytes': tf.string, 'float': tf.float32, 'int64': tf.int64}  # Of how values are stored.

Feature = dict[str, Any]


@plain
def parse(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns features and labels; no labels in PREDICT.

    Returns:
      features: 'image', float32 [size, size, channels] in [0, 1]; 'numeric', float32 [n], all numbers in the order of the
        features' names, standardized by the training data, 0 if missing; 'categorical', int32 [m], ids in the vocabularies, 0
        if unknown or missing; 'text', int32 [length], ids of the tokens; 'example_id', string; each if there are such features.
      labels: 'label', int32 for classification, float32 for regression; 'weight', float32, if the schema names it.
    """
    facts = params.metadata
    example = tf.io.parse_single_example(serialized, parsing_spec(facts['features'], mode))
    features: dict[str, tf.Tensor] = {}
    found = {kind: of_kind(facts['features'], kind) for kind in (NUMERIC, CATEGORICAL, IMAGE, TEXT, ID, LABEL, WEIGHT)}
    if found[NUMERIC]:
        features['numeric'] = tf.concat(
            [standardize(example[feature['name']], feature['mean'], feature['std']) for feature in found[NUMERIC]], 0
        )
    if found[CATEGORICAL]:
        values = tf.stack([_text_of(example[feature['name']]) for feature in found[CATEGORICAL]])
        features['categorical'] = column_ids(values[None], [feature['vocabulary'] for feature in found[CATEGORICAL]])[0]
    for feature in found[IMAGE]:
        features['image'] = _image(example[feature['name']], feature)
    for feature in found[TEXT]:
        features['text'] = tokens.token_ids(example[feature['name']], params, facts['vocabulary'])
    for feature in found[ID]:
        features['example_id'] = tf.strings.reduce_join(_text_of(example[feature['name']]))
    if mode == PREDICT:
        return features, None
    (label,) = found[LABEL]
    value = example[label['name']]
    if facts['task'] == CLASSIFICATION:
        names = facts['class_names']
        stored = [str(i) for i in range(len(names))] if label.get('is_index') else names
        labels = {'label': class_ids(_text_of(value), stored, label['name'])}
    else:
        labels = {'label': tf.cast(value, tf.float32)}
    for feature in found[WEIGHT]:
        labels['weight'] = _checked_weight(example[feature['name']], feature['name'])
    return features, labels


def image_features(params: HParams, raw: tf.Tensor) -> dict[str, tf.Tensor] | None:
    """Returns the features of raw images, uint8 [batch, image_size, image_size, num_channels]; None if others are needed."""
    return {'image': tf.cast(raw, tf.float32) / 255} if only_image(params.metadata['features']) else None


def only_image(features: Iterable[Feature]) -> Feature | None:
    """Returns the image if it alone is learned from; None if there are other features."""
    learned = [feature for feature in features if feature['kind'] not in ROLES]
    return learned[0] if [feature['kind'] for feature in learned] == [IMAGE] else None


def of_kind(features: Iterable[Feature], kind: str) -> list[Feature]:
    """Returns those of the features that are of a kind."""
    return [feature for feature in features if feature['kind'] == kind]


def parsing_spec(features: Iterable[Feature], mode: str | None = None) -> dict[str, Any]:
    """Returns what `tf.io.parse_example` reads of these features; without labels in PREDICT."""
    spec = {}
    for feature in features:
        kind, dtype = feature['kind'], DTYPES[feature['stored']]
        default: Any = None
        if kind == NUMERIC and dtype == tf.float32:
            default = [float('nan')] * feature['values']
        elif kind == CATEGORICAL and dtype == tf.string:
            default = ''
        if mode != PREDICT or kind not in (LABEL, WEIGHT):
            spec[feature['name']] = tf.io.FixedLenFeature([feature['values']] if kind == NUMERIC else [], dtype, default)
        if kind == ID:  # It may be missing.
            spec[feature['name']] = tf.io.FixedLenSequenceFeature([], dtype, allow_missing=True)
    return spec


def _checked_weight(value, name):
    weight = tf.cast(value, tf.float32)
    is_valid = tf.math.is_finite(weight) & (weight >= 0)
    text = f'Key: {name}. A weight must not be negative, NaN or infinite'
    with tf.control_dependencies([tf.debugging.Assert(is_valid, [text])]):
        return tf.identity(weight)


def _text_of(value):
    return value if value.dtype == tf.string else tf.as_string(value)


def _image(content, feature):
    shape = [feature['size'], feature['size'], feature['channels']]
    if feature['is_raw']:
        return tf.cast(tf.reshape(tf.io.decode_raw(content, tf.uint8), shape), tf.float32) / 255
    decoded = tf.io.decode_image(content, feature['channels'], expand_animations=False)
    return images.squash(tf.ensure_shape(decoded, [None, None, feature['channels']]), feature['size']) / 255
