"""Parser of users' own tf.train.Examples to features and labels, in TensorFlow ops, by the metadata of `description`."""

from collections.abc import Iterable, Mapping, Sequence
import functools
import itertools
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.formats import encoded, images
from estimator_trainer.common.formats.encoded import PICTURE
from estimator_trainer.common.graphs import plain
from estimator_trainer.common.own_data.description import Feature, facts_of_target, of_kind
from estimator_trainer.common.own_data.examples.image_facts import AS_PICTURES
from estimator_trainer.common.own_data.moments import standardize
from estimator_trainer.common.own_data.schema import (
    CATEGORICAL,
    CLASSIFICATION,
    FEATURES,
    ID,
    IMAGE,
    LABEL,
    NUMERIC,
    TEXT,
    WEIGHT,
)
from estimator_trainer.common.own_data.texts import composed, tokens
from estimator_trainer.common.own_data.vocabulary import class_ids, column_ids
from estimator_trainer.common.targets import is_multilabel
from estimator_trainer.hparams.build import HParams

PREDICT = tf.estimator.ModeKeys.PREDICT
DTYPES = {'bytes': tf.string, 'float': tf.float32, 'int64': tf.int64}  # By storage type.
MISSING: dict[tf.DType, Any] = {tf.string: '', tf.float32: float('nan'), tf.int64: tf.int64.min}  # What parsing yields.


@plain
def parse(
    mode: str,
    params: HParams,
    serialized: tf.Tensor,
    stored: Sequence[Feature] | None = None,
    are_rows: bool = False,
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns features and labels; no labels in PREDICT.

    Args:
      mode: a tf.estimator.ModeKeys.
      params: hyper-parameters, among them the metadata.
      serialized: string scalar; or [batch], if there is no image, and no id that is a number.
      stored: the features in the examples; by default those of the metadata.
      are_rows: whether training read the examples from rows of a file. In PREDICT, what these cannot have then raises
        InvalidArgumentError when the graph runs: an infinite number, or a text in another form than NFC if tokens are bytes.

    Returns:
      features: 'image', float32 [size, size, channels] in [0, 1]; 'numeric', float32 [..., n], all numbers in the order of the
        features, standardized by the training data, 0 if missing, and then 1 or 0, whether missing, of those with an
        indicator; 'categorical', int32 [..., m], ids in the vocabularies, 0 if unknown or missing; 'text', int32 [..., length],
        ids of the tokens, padded with 0 to the longest; 'example_id', string [...]; each only if such features exist.
      labels: 'label', int32 [...] for classification, float32 [...] for regression, int32 [..., labels] for several that are 0
        or 1; of other targets, such a label_KEY each; 'weight', float32 [...], if the schema names it.
    """
    stored = stored or params.metadata['features']
    parse_example = tf.io.parse_example if serialized.shape.rank else tf.io.parse_single_example
    spec = parsing_spec(stored, mode)
    example = parse_example(serialized, spec) if spec else {}
    if are_rows and mode == PREDICT:
        with tf.control_dependencies(_checks(example, params, stored)):
            example = {name: tf.identity(value) for name, value in example.items()}
    features = _features(example, params, stored)
    return (features, None) if mode == PREDICT else (features, _labels(example, params.metadata, stored))


@plain
def raw_specs(params: HParams, stored: Sequence[Feature] | None = None) -> dict[str, tf.TensorSpec]:
    """Returns {name: tf.TensorSpec [batch, ...]} of the inputs of `from_raw`, in the order of the features.

    Numbers are float32, categories and texts strings, the latter of shape [batch], as are the contents of image files, whose
    spec has the name 'picture'; pixels are uint8 [batch, size, size, channels].
    """
    return {feature['name']: _raw_spec(feature) for feature in _learned(stored or params.metadata['features'])}


@plain
def from_raw(params: HParams, raw: Mapping[str, tf.Tensor], stored: Sequence[Feature] | None = None) -> dict[str, tf.Tensor]:
    """Returns the features, as `parse` does, [batch, ...], of the inputs in `raw_specs`; NaN and '' are missing.

    Texts are padded with 0 to the longest. If there is only an image, its files are pictures, as of --input: upright, on white.
    An infinite number raises InvalidArgumentError when the graph runs.
    """
    learned = _learned(stored or params.metadata['features'])
    example = {feature['name']: _as_stored(raw[feature['name']], feature) for feature in learned}
    found = _raw_features(example, params, learned)
    if numbers := of_kind(learned, NUMERIC):
        with tf.control_dependencies([_check_finite(example, numbers)]):
            found['numeric'] = tf.identity(found['numeric'])
    return found


def _checks(example, params, stored):
    """Returns the ops that fail if a parsed example, or a batch of them, is none of the rows of a file; see `parse`."""
    numbers, texts = of_kind(stored, NUMERIC), of_kind(stored, TEXT) if params.tokens == tokens.BYTES else []
    checks = [composed.check(tf.reshape(example[feature['name']], [-1])) for feature in texts]
    return [*checks, _check_finite(example, numbers)] if numbers else checks


def _check_finite(example, features):
    """Returns the op that fails if one of these features, [..., values], is infinite: in files that is no number, either."""
    names = [feature['name'] for feature in features for _ in range(feature.get('values', 1))]
    values = tf.concat([example[feature['name']] for feature in features], -1)
    are_infinite = tf.reduce_any(tf.math.is_inf(tf.reshape(values, [-1, len(names)])), 0)
    text = 'infinite, where NaN is missing, are the inputs'
    return tf.debugging.Assert(~tf.reduce_any(are_infinite), [text, tf.boolean_mask(names, are_infinite)], summarize=10)


def _raw_features(example, params, learned):
    if not of_kind(learned, IMAGE):
        return _features(example, params, learned)
    one = functools.partial(_features, params=params, stored=learned)
    image = only_image(learned)
    if image and not image['is_raw'] and image['channels'] in (1, 3):
        one = functools.partial(_features, params=params, stored=[{**image, 'is_picture': AS_PICTURES}])
    with tf.Graph().as_default():  # Pictures differ in size, so they are prepared one by one.
        zeros = {name: tf.zeros(value.shape[1:], value.dtype) for name, value in example.items()}
        signature = {name: _signature(value) for name, value in one(zeros).items()}
    found = tf.map_fn(one, example, fn_output_signature=signature)
    return {name: value.to_tensor() if isinstance(value, tf.RaggedTensor) else value for name, value in found.items()}


def _learned(features):
    return [feature for feature in features if feature['kind'] not in FEATURES.roles]


def _raw_spec(feature):
    kind, values = feature['kind'], feature.get('values', 1)
    if kind == NUMERIC:
        return tf.TensorSpec([None] if values == 1 else [None, values], tf.float32)
    if kind == IMAGE and feature['is_raw']:
        return tf.TensorSpec([None, feature['size'], feature['size'], feature['channels']], tf.uint8)
    return tf.TensorSpec([None], tf.string, PICTURE if kind == IMAGE else None)


def _as_stored(value, feature):
    """Returns a batch of a raw input with the shape that `parsing_spec` gives it; of integers, true and false are 1 and 0."""
    if feature['kind'] == CATEGORICAL and feature['stored'] == 'int64':
        for text, number in (('true', '1'), ('false', '0')):
            value = tf.strings.regex_replace(value, f'(?i)^{text}$', number)
    return value[:, None] if feature['kind'] == NUMERIC and feature.get('values', 1) == 1 else value


def _signature(value):
    is_fixed = value.shape.is_fully_defined()
    return tf.TensorSpec(value.shape, value.dtype) if is_fixed else tf.RaggedTensorSpec(value.shape, value.dtype, 0)


def _features(example, params, stored):
    """Returns the features of a parsed example, or of a batch of them; see `parse`."""
    found = {kind: of_kind(stored, kind) for kind in (*FEATURES.kinds, ID)}
    features: dict[str, tf.Tensor] = {}
    if found[NUMERIC]:
        features['numeric'] = _numbers(example, found[NUMERIC])
    if found[CATEGORICAL]:
        values = tf.stack([_text_of(example[feature['name']]) for feature in found[CATEGORICAL]], axis=-1)
        features['categorical'] = column_ids(values, {feature['name']: feature['vocabulary'] for feature in found[CATEGORICAL]})
    for feature in found[IMAGE]:
        features['image'] = _image(example[feature['name']], feature)
    if found[TEXT]:  # A table may have several.
        text = tf.strings.join([example[feature['name']] for feature in found[TEXT]], ' ')
        features['text'] = tokens.token_ids(text, params, params.metadata['vocabulary'])
    for feature in found[ID]:
        features['example_id'] = tf.strings.reduce_join(_text_of(example[feature['name']]), axis=-1)
    return features


def _labels(example, facts, stored):
    """Returns the labels of a parsed example, or of a batch of them; see `parse`."""
    found = {
        label['name']: _label(example[label['name']], label, facts_of_target(facts, label['name']))
        for label in of_kind(stored, LABEL)
    }
    targets = facts.get('targets', ())
    if is_multilabel(facts):
        labels = {'label': tf.stack([found[target['name']] for target in targets], axis=-1)}
    elif targets:
        labels = {f'label_{target["key"]}': found[target['name']] for target in targets}
    else:
        labels = {'label': next(iter(found.values()))}
    for feature in of_kind(stored, WEIGHT):
        labels['weight'] = _checked_weight(example[feature['name']], feature['name'])
    return labels


def image_features(params: HParams, raw: tf.Tensor) -> dict[str, tf.Tensor] | None:
    """Returns the features of raw images, uint8 [batch, image_size, image_size, num_channels]; None if they do not suffice."""
    return {'image': tf.cast(raw, tf.float32) / 255} if only_image(params.metadata['features']) else None


def only_image(features: Iterable[Feature]) -> Feature | None:
    """Returns the image if it is the only feature to learn from, else None."""
    learned = _learned(features)
    return learned[0] if [feature['kind'] for feature in learned] == [IMAGE] else None


def parsing_spec(features: Iterable[Feature], mode: str | None = None) -> dict[str, Any]:
    """Returns the spec of these features for `tf.io.parse_example`; without labels in PREDICT."""
    spec = {}
    for feature in features:
        kind, dtype = feature['kind'], DTYPES[feature['stored']]
        default: Any = None
        if kind == NUMERIC:
            default = [MISSING[dtype]] * feature['values']
        elif kind == CATEGORICAL:
            default = MISSING[dtype]
        if mode != PREDICT or kind not in (LABEL, WEIGHT):
            shape = [feature['values']] if kind == NUMERIC or feature.get('is_one_hot') else []
            spec[feature['name']] = tf.io.FixedLenFeature(shape, dtype, default)
        if kind == ID:  # It may be missing.
            spec[feature['name']] = tf.io.FixedLenSequenceFeature([], dtype, allow_missing=True)
    return spec


def _numbers(example, features):
    values = tf.concat([_to_float(example[feature['name']]) for feature in features], axis=-1)
    mean, std = ([*itertools.chain(*(np.ravel(feature[name]) for feature in features))] for name in ('mean', 'std'))
    indicated = [example[feature['name']] for feature in features if feature.get('indicator')]
    standardized = standardize(values, mean, std)
    if not indicated:
        return standardized
    return tf.concat([standardized, tf.cast(~tf.math.is_finite(tf.concat(indicated, axis=-1)), tf.float32)], axis=-1)


def _to_float(value):
    number = tf.cast(value, tf.float32)
    return number if value.dtype != tf.int64 else tf.where(value > tf.int64.min, number, tf.fill(tf.shape(number), np.nan))


def _label(value, feature, facts):
    if facts['task'] != CLASSIFICATION:
        return tf.cast(value, tf.float32)
    if feature.get('is_one_hot'):  # As the conversion has verified.
        return tf.argmax(value, axis=-1, output_type=tf.int32)
    names = facts['class_names']
    stored = [str(i) for i in range(len(names))] if feature.get('is_index') else names
    return class_ids(_text_of(value), stored, feature['name'])


def _checked_weight(value, name):
    weight = tf.cast(value, tf.float32)
    is_valid = tf.math.is_finite(weight) & (weight >= 0)
    text = f'Key: {name}. A weight must not be negative, NaN or infinite'
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(is_valid), [text])]):
        return tf.identity(weight)


def _text_of(value):
    if value.dtype == tf.float32:  # As a class, 1.0 is 1.
        return tf.where(tf.equal(value, tf.floor(value)), tf.as_string(tf.cast(value, tf.int64)), tf.as_string(value))
    return value if value.dtype == tf.string else tf.as_string(value)


def _image(content, feature):
    shape = [feature['size'], feature['size'], feature['channels']]
    if feature['is_raw']:
        pixels = content if content.dtype == tf.uint8 else tf.reshape(tf.io.decode_raw(content, tf.uint8), shape)
        return tf.cast(pixels, tf.float32) / 255
    if feature.get('is_picture'):
        picture = encoded.decode(content, feature['channels'], is_gif_on_white=feature['is_picture'] >= AS_PICTURES)
        square = images.squash(picture, feature['size'])
        return encoded.turn(square, encoded.orientation(content)) / 255
    decoded = tf.io.decode_image(content, feature['channels'], expand_animations=False)
    return images.squash(tf.ensure_shape(decoded, [None, None, feature['channels']]), feature['size']) / 255
