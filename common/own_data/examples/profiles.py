"""The values of the splits of users' own tf.train.Examples: moments of numbers, counts of categories, words and labels."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, listed, show
from estimator_trainer.common.own_data.alarm import warn_of_absent, warn_of_unknown
from estimator_trainer.common.own_data.description import Feature, of_kind
from estimator_trainer.common.own_data.examples.image_facts import PictureSearch, may_be_picture
from estimator_trainer.common.own_data.examples.parser import MISSING
from estimator_trainer.common.own_data.examples.records import Examples, batches
from estimator_trainer.common.own_data.extremes import Numbers, warn_of_extreme
from estimator_trainer.common.own_data.moments import Moments
from estimator_trainer.common.own_data.schema import CATEGORICAL, IMAGE, LABEL, NUMERIC, TEXT
from estimator_trainer.common.own_data.texts import tokens
from estimator_trainer.common.own_data.vocabulary import ValueCounts
from estimator_trainer.hparams.build import HParams

MAX_DISTINCT = 10**6  # Values of a feature that are counted.
_LISTED = 10  # Features in a message.
_MAX_DECODED = 3000  # Images that may be transparent.
_GATHERED = 16  # Batches whose numbers are added at once: a batch costs more than its numbers.


class LabelProfile:
    """The values of a label.

    Attributes:
      values: the ValueCounts; whole numbers are written as integers.
      numbers: the Numbers, if it is of numbers.
      has_no_number: whether it is NaN or infinite somewhere.
      has_fraction: whether it is a number that is not whole somewhere.
    """

    def __init__(self) -> None:
        self.values, self.numbers = ValueCounts(MAX_DISTINCT), Numbers()
        self.has_no_number = self.has_fraction = False

    def update(self, values: np.ndarray) -> None:
        """Adds values, [n]."""
        self.values.update(_to_texts(values))
        if values.dtype != object:
            _add(self.numbers, values)
            is_number = np.isfinite(values)
            self.has_no_number |= not is_number.all()
            self.has_fraction |= bool((values[is_number] % 1).any())


class Profile:
    """The values of a split.

    Attributes:
      features: {name: Moments, ValueCounts or WordCounts} of the numeric and categorical features and the text.
      labels: {name: LabelProfile}.
      numbers: {name: Numbers} of the numeric features; of a vector, only the sentinels, of all values together.
      pictures: {name: PictureSearch} of the images that may turn out to be pictures.
      not_utf8: {name: the first of its values that is not UTF-8}.
      is_empty: whether it has no examples.
    """

    def __init__(self, features: Sequence[Feature], params: HParams):
        self.features: dict[str, Any] = {feature['name']: Moments() for feature in of_kind(features, NUMERIC)}
        self.features |= {feature['name']: ValueCounts(MAX_DISTINCT) for feature in of_kind(features, CATEGORICAL)}
        self.features |= {feature['name']: tokens.WordCounts(params) for feature in of_kind(features, TEXT)}
        self.labels = {feature['name']: LabelProfile() for feature in of_kind(features, LABEL)}
        self.numbers = {feature['name']: Numbers() for feature in of_kind(features, NUMERIC)}
        self.pictures = {
            feature['name']: PictureSearch(_MAX_DECODED) for feature in of_kind(features, IMAGE) if may_be_picture(feature)
        }
        self.not_utf8: dict[str, bytes] = {}
        self.is_empty = True
        self._gathered: dict[str, list[np.ndarray]] = {name: [] for name in self.numbers}

    def add_image(self, name: str, image: bytes) -> None:
        """Looks at the content of an image file."""
        if name in self.pictures:
            self.pictures[name].add(image)

    @property
    def absent(self) -> list[str]:
        """The names of the numeric and categorical features without any value."""
        return [
            name
            for name, found in self.features.items()
            if isinstance(found, Moments) and not found.count or isinstance(found, ValueCounts) and not any(found.counts())
        ]

    def update(self, feature: Feature, values: np.ndarray) -> None:
        """Adds values of a feature or the label, [n] or [n, values], of its type."""
        if values.dtype == object and not _is_utf8(b'\n'.join(values)):
            self.not_utf8.setdefault(feature['name'], next(value for value in values if not _is_utf8(value)))
        if feature['kind'] == LABEL:
            one_hot = feature.get('is_one_hot')
            found = values.reshape([-1, feature['values']]).argmax(axis=1) if one_hot else values
            self.labels[feature['name']].update(found)
        elif feature['kind'] == NUMERIC:
            numbers = _with_nan(values)
            self.features[feature['name']].update(numbers)
            self._add_number(feature, numbers)
        else:
            is_category = feature['kind'] == CATEGORICAL
            self.features[feature['name']].update(_to_texts(values) if is_category else values)

    def _add_number(self, feature, values):
        name = feature['name']
        if feature['values'] > 1:  # The values of a vector may differ in scale: only its sentinels matter.
            is_finite = np.isfinite(values)
            self.numbers[name].add_sentinels(values.ravel() if is_finite.all() else values[is_finite])
            return
        self._gathered[name].append(values.ravel())
        if len(self._gathered[name]) == _GATHERED:
            self._flush(name)

    def _flush(self, name):
        if self._gathered[name]:
            _add(self.numbers[name], np.concatenate(self._gathered[name]))
            self._gathered[name].clear()

    def finish(self) -> None:
        """Must follow the last values."""
        for name in self._gathered:
            self._flush(name)


def _add(numbers, values):
    found = values[np.isfinite(values)].astype(np.float64)
    numbers.update(found, np.zeros(len(found), int))
    numbers.finish()  # It keeps none of them.


def profile_split(
    examples: Examples, split: str, features: Sequence[Feature], params: HParams, known: Set[str] | None = None
) -> Profile:
    """Reads a split. In others than the training split, examples may lack any feature and the label.

    Args:
      examples: the examples.
      split: its name.
      features: their features.
      params: hyper-parameters: those of the tokens.
      known: the names of all features; None if others do not matter.

    Raises:
      RunError: an example is wrong.
    """
    counted = [feature for feature in features if feature['kind'] in (NUMERIC, CATEGORICAL, TEXT, LABEL)]
    is_trained = split == examples.trained
    profile = Profile([*counted, *(of_kind(features, IMAGE) if is_trained else ())], params)
    for batch in batches(examples, split, features, known, is_trained, profile.add_image):
        profile.is_empty = False
        for feature in counted:
            values = batch[feature['name']]
            profile.update(feature, values.values if isinstance(values, tf.SparseTensorValue) else values)
    profile.finish()
    for feature in counted:
        if feature['name'] in profile.not_utf8:
            _report_text(f'{examples.source}: the split {split}', feature, profile.not_utf8[feature['name']])
    return profile


def _report_text(place, feature, value):
    """Raises RunError for a label that is not UTF-8; warns of another feature."""
    if feature['kind'] == LABEL:
        raise RunError(f'{place}: the label {feature["name"]} {show(value)} is not UTF-8: write classes as UTF-8')
    text = '%s: the feature %s has texts that are not UTF-8, such as %s: the model knows no such values and words: write UTF-8.'
    tf.logging.warning(text, place, feature['name'], show(value))


def warn_of_trained(source: str, profile: Profile, features: Sequence[Feature]) -> None:
    """Warns of numeric features that are partly missing, always the same, too large for float32 to tell apart, or far apart."""
    moments = {feature['name']: profile.features[feature['name']] for feature in of_kind(features, NUMERIC)}
    constant = ', '.join(name for name, found in moments.items() if found.is_constant)
    if constant:
        tf.logging.warning('%s: nothing can be learned from %s, always the same or missing in training.', source, constant)
    if missing := [f'{name} ({found.missing:,})' for name, found in moments.items() if found.missing]:
        tf.logging.warning(
            '%s: numbers that are missing, NaN or infinite are taken for the mean of their feature: in training %s.',
            source,
            listed(missing, _LISTED),
        )
    for name, found in moments.items():
        if not found.is_exact_in_float32:
            tf.logging.warning(
                '%s: the feature %s: the numbers around %g differ too little for float32: subtract a constant',
                source,
                name,
                np.max(np.abs(found.mean)),
            )
    for feature in of_kind(features, NUMERIC):
        name = feature['name']
        warn_of_extremes(f'{source}: the feature {name}', profile.numbers[name].extremes, 'write NaN, or no value,')


def warn_of_extremes(what: str, extremes: Mapping[float, str], cure: str) -> None:
    """Warns of the `Numbers.extremes` of a feature or a label."""
    for value, reason in extremes.items():
        warn_of_extreme(what, f'{value:g}', reason, cure)


def warn_of_other(
    examples: Examples, split: str, profile: Profile, trained: Profile, features: Sequence[Feature], vocabulary: Sequence[str]
) -> None:
    """Warns of features that a split lacks, and of its categorical features and text if most of their values are unknown.

    Args:
      examples: the examples.
      split: its name.
      profile: of its values.
      trained: that of the training split.
      features: with their vocabularies.
      vocabulary: of the text; [] without one.
    """
    place = f'{examples.source}: the split {split}'
    if profile.is_empty:
        tf.logging.warning('%s has no examples.', place)
        return
    warn_of_absent([name for name in profile.absent if name not in trained.absent], place)
    for feature in of_kind(features, CATEGORICAL):
        counts = profile.features[feature['name']].counts()
        warn_of_unknown(f'values of the feature {feature["name"]}', feature['vocabulary'], counts, place)
    for feature in of_kind(features, TEXT):
        tokens.warn_of_unknown_words(vocabulary, trained.features[feature['name']], profile.features[feature['name']], place)


def _to_texts(values):
    """Returns an array of bytes, int64 or float32 as a list of str; '' for a missing value, or one that is not UTF-8."""
    if values.dtype == np.int64:
        return ['' if value == MISSING[tf.int64] else str(value) for value in values.tolist()]
    if values.dtype != object:
        return [str(int(value)) if value.is_integer() else str(value) for value in values.tolist()]
    return [value.decode() if _is_utf8(value) else '' for value in values.tolist()]


def _is_utf8(value):
    try:
        return value.decode() is not None
    except UnicodeDecodeError:
        return False


def _with_nan(values):
    return np.where(values == MISSING[tf.int64], np.nan, values) if values.dtype == np.int64 else values
