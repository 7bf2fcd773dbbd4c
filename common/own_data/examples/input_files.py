"""The files of --input for models of users' own tf.train.Examples: TFRecord files, and pictures for image-only models."""

import collections
from collections.abc import Iterator, Mapping, Sequence
import math
from typing import Any

from google.protobuf.message import DecodeError
import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, listed
from estimator_trainer.common.formats import images
from estimator_trainer.common.formats.class_folders import label_of
from estimator_trainer.common.own_data.alarm import warn_of_absent, warn_of_unknown
from estimator_trainer.common.own_data.description import Feature, of_kind
from estimator_trainer.common.own_data.examples.image_facts import PictureSearch, may_be_picture
from estimator_trainer.common.own_data.examples.parser import DTYPES, MISSING, only_image
from estimator_trainer.common.own_data.examples.record_files import PATTERNS
from estimator_trainer.common.own_data.examples.records import make_finder
from estimator_trainer.common.own_data.schema import CATEGORICAL, FEATURES, IMAGE, LABEL, NUMERIC, TEXT, WEIGHT
from estimator_trainer.common.own_data.texts import tokens
from estimator_trainer.common.records import compressed, manifest, records, tfrecord
from estimator_trainer.hparams.build import HParams

INPUT_PATTERNS = (*PATTERNS, *(f'*{suffix}' for suffix in images.SUFFIXES))
_CHECKED = 1000  # Texts whose words are compared with the vocabulary.
_LISTED = 10  # Features in a message.
_MAX_DECODED = 20  # Images that may be transparent.


def read_input(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields the examples of a file.

    They are ({'record': number}, record) for a TFRecord file, which may be compressed, and ({}, record) for a picture, for
    models of an image alone. An example that lacks a feature, or has one of another type, is an error.

    Raises:
      RunError: the file cannot be read.
    """
    return _read(path, params, has_labels=False)


def read_labeled(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields what `read_input` does, with labels: a TFRecord file has them, or a picture's folder is named after its class.

    Raises:
      RunError: the file cannot be read, or the folder is not named after a class.
    """
    return _read(path, params, has_labels=True)


def _read(path, params, has_labels):
    if path.lower().endswith(images.SUFFIXES):
        yield {}, _read_picture(path, params.metadata['features'], _label_of(path, params.metadata) if has_labels else {})
    else:
        yield from _read_records(path, params, (IMAGE, TEXT, LABEL, WEIGHT) if has_labels else (IMAGE, TEXT))


def _label_of(path, facts):
    """Returns {name: the label of a picture as it is stored}."""
    label = of_kind(facts['features'], LABEL)[0]
    if 'class_names' not in facts or of_kind(facts['features'], WEIGHT):
        raise RunError(f'{path}: a picture alone has no label {label["name"]}, or no weight: give TFRecord files')
    number = label_of(path, facts['class_names'])
    if label.get('is_one_hot'):
        return {label['name']: np.eye(label['values'], dtype=DTYPES[label['stored']].as_numpy_dtype)[number]}
    if label.get('is_index'):
        return {label['name']: number}
    name = facts['class_names'][number]
    return {label['name']: {'int64': int, 'float': float}.get(label['stored'], str)(name)}


def _read_records(path, params, kinds):
    """Yields the records of a TFRecord file, each of which must have the features of some kinds."""
    features = params.metadata['features']
    required = [feature['name'] for feature in features if feature['kind'] in kinds]
    unchecked = {LABEL, WEIGHT}.difference(kinds)
    find_fault = make_finder([feature for feature in features if feature['kind'] not in unchecked], is_trained=False)
    seen = _Seen(features)
    with compressed.plain(path) as copy:
        for number, record in enumerate(tfrecord.read(copy, manifest.check_alone(copy))):
            try:
                example = records.decode(record)
                missing = [name for name in required if name not in example]
                wrong = f'has no feature {", ".join(missing)}' if missing else find_fault(example)
                if not wrong:
                    seen.add(example)
            except DecodeError:
                wrong = 'is not a tf.train.Example'
            yield {'record': number}, RunError(f'{path}: record {number}: {wrong}') if wrong else record
    seen.warn(path, params)


class _Seen:
    """The values of the categorical features of some examples, their first texts, and the features that all of them lack.

    And the numbers of examples with an infinite value of a feature, and whether images are other than those of the training.
    """

    def __init__(self, features: Sequence[Feature]):
        self._categories = {feature['name']: feature['vocabulary'] for feature in of_kind(features, CATEGORICAL)}
        self._counts: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in self._categories}
        self._names = [feature['name'] for feature in of_kind(features, TEXT)]
        self._texts: list[bytes] = []
        self._floats = [feature['name'] for feature in of_kind(features, NUMERIC) if feature['stored'] == 'float']
        self._infinite: collections.Counter[str] = collections.Counter()
        image = only_image(features)
        self._image = image['name'] if image and may_be_picture(image) else None  # Those of other models are not pictures.
        self._search = PictureSearch(_MAX_DECODED)
        self._absent = {feature['name'] for feature in features if _is_trained(feature)}
        self._is_empty = True

    def add(self, example: Mapping[str, tuple[str, Sequence[Any]]]) -> None:
        self._is_empty = False
        self._absent -= {name for name in self._absent & example.keys() if any(map(_is_present, example[name][1]))}
        for content in example[self._image][1] if self._image else ():
            self._search.add(content)
        self._infinite.update(name for name in self._floats if _has_infinite(example.get(name, ('', ()))[1]))
        for name, counts in self._counts.items():
            _, values = example.get(name, ('', ()))
            counts.update(value.decode(errors='replace') if isinstance(value, bytes) else str(value) for value in values)
        if len(self._texts) < _CHECKED:
            self._texts += [value for name in self._names for value in example[name][1] if isinstance(value, bytes)]

    def warn(self, path: str, params: HParams) -> None:
        """Warns of those that the model mostly does not know, and of absent features and infinite numbers."""
        warn_of_absent([] if self._is_empty else sorted(self._absent), path)
        if self._infinite:
            counts = listed([f'{name} ({count:,})' for name, count in sorted(self._infinite.items())], _LISTED)
            tf.logging.warning('%s: infinite numbers are taken for the mean of their feature: in examples %s.', path, counts)
        if self._search.found:
            text = (
                '%s: some of the images %s are transparent, or turned by EXIF data, which the model does not expect: they are '
            )
            end = 'taken as they are stored, not upright and on white, as files of pictures are.'
            tf.logging.warning(text + end, path, self._image)
        for name, vocabulary in self._categories.items():
            warn_of_unknown(f'values of the feature {name}', vocabulary, self._counts[name], path)
        if self._texts:
            words = tokens.WordCounts(params)
            words.update(self._texts)
            words.warn_of_unknown(params.metadata['vocabulary'], path)


def _is_trained(feature):
    """Whether a feature is a number or category of which the training data has values, which are not always 0."""
    if feature['kind'] == NUMERIC:
        return np.any(feature['mean']) or np.any(np.not_equal(feature['std'], 1))
    return feature['kind'] == CATEGORICAL and feature['vocabulary']


def _has_infinite(values):
    return not math.isfinite(sum(values)) and any(map(math.isinf, values))  # Of NaN, the sum is NaN.


def _is_present(value):
    return bool(value) if isinstance(value, bytes) else math.isfinite(value) and value != MISSING[tf.int64]


def _read_picture(path, features, labels):
    """Returns an image file as an example, with labels."""
    feature = only_image(features)
    if not feature:
        names = ', '.join(feature['name'] for feature in features if feature['kind'] not in FEATURES.roles)
        raise RunError(f'{path}: the model needs the features {names}: give TFRecord files')
    try:
        content = images.read(path)
        picture = images.decode(content)
        if feature['is_raw']:
            content = images.to_pixels(picture, feature['size'], feature['channels']).tobytes()
        elif feature['channels'] == 4 and picture.has_transparency_data:
            content = images.to_png(picture.convert('RGBA'))
        elif images.orientation(picture) != 1 or not images.is_plain(content, picture):
            content = images.to_png(images.normalize(picture))
    except images.ImageError as error:
        raise RunError(f'{path} {error}') from None
    return records.encode({feature['name']: content, **labels})
