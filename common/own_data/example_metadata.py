"""Metadata of users' own tf.train.Examples: kinds of features, statistics, vocabularies and classes."""

from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses
import os
from typing import Any

from google.protobuf.message import DecodeError
import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, first_line
from estimator_trainer.common.own_data import description, tokens
from estimator_trainer.common.own_data.description import of_kind
from estimator_trainer.common.own_data.example_facts import describe_role, infer_features
from estimator_trainer.common.own_data.example_parser import DTYPES, parsing_spec
from estimator_trainer.common.own_data.moments import Moments
from estimator_trainer.common.own_data.schema import (
    CATEGORICAL,
    FEATURES,
    IMAGE,
    LABEL,
    NUMERIC,
    REGRESSION,
    TEXT,
    Schema,
    find_roles,
    read_schema,
)
from estimator_trainer.common.own_data.splits import fingerprint
from estimator_trainer.common.own_data.vocabulary import ValueCounts, sorted_classes
from estimator_trainer.common.records import manifest, records
from estimator_trainer.common.records.elements import elements
from estimator_trainer.hparams.build import HParams

_SAMPLE = 1000
_BATCH = 256
_MAX_DISTINCT = 10**6
_MAX_INTEGER_CLASSES = 1000  # An int64 label is rarely an amount.


@dataclasses.dataclass(frozen=True)
class Examples:
    """The serialized examples of all splits.

    source names them in messages; read returns those of a split; trained is the training split.
    """

    source: str
    splits: Sequence[str]
    trained: str
    read: Callable[[str], tf.data.Dataset]


def facts_path(directory: str, params: HParams) -> str:
    """Returns the path of the metadata file in a directory, which depends on these hyper-parameters."""
    names = ('image_size', 'tokens', 'min_count', 'max_vocabulary')
    facts = [read_schema(params.schema, FEATURES).content, params.train_split, *(params[name] for name in names)]
    return os.path.join(directory, f'metadata-{fingerprint("", (), facts)}.json')


def describe(
    examples: Examples,
    schema: Schema,
    params: HParams,
    names: Collection[str] | None = None,
    class_names: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Returns the metadata of a dataset for `example_parser.parse`.

    Args:
      examples: the examples.
      schema: facts given about their features.
      params: hyper-parameters: those of the tokens.
      names: of the features to describe; by default all.
      class_names: {feature: names of its classes}, for features that store class numbers.

    Returns:
      features: a list of {'name', 'kind', 'stored', 'values'}; those of kind numeric have 'mean' and 'std', those of kind
        categorical 'vocabulary'. The features with a role are of kind label, weight or id.
      vocabulary_sizes: {'categorical': sizes}, with 1 for id 0; {} without such features.
      task: classification, with class_names and num_classes; or regression, with target_mean and target_std.
      vocabulary, vocabulary_size: of the text, if there is one.
      image_size, num_channels: of the image, if there is one.

    Raises:
      UsageError: the schema is wrong, or needed.
      RunError: the examples are invalid.
    """
    source, sample = examples.source, _decode_sample(examples, names)
    roles = find_roles(schema, sorted({name for example in sample for name in example}), source)
    features = infer_features(sample, schema, roles, source)
    features += [describe_role(sample, role, name, source) for role, name in roles.items()]
    facts = _describe_values(examples, features, params)
    (label,) = of_kind(features, LABEL)
    known = (class_names or {}).get(label['name'])
    if known and schema.task != REGRESSION:
        label['is_index'] = True
        facts |= description.describe_classes(known)
    else:
        facts |= _describe_label(examples, label, schema)
    facts |= description.describe_features(source, FEATURES, features, facts['task'])
    for feature in of_kind(features, IMAGE):
        facts |= {'image_size': feature['size'], 'num_channels': feature['channels']}
    return facts


def _decode_sample(examples, names):
    sample = []
    for number, record in enumerate(elements(lambda: examples.read(examples.trained).take(_SAMPLE))):
        try:
            example = records.decode(record)
            sample.append({name: example[name] for name in example if names is None or name in names})
        except DecodeError:
            raise RunError(f'{manifest.locate_record(record) or number}: is not a tf.train.Example') from None
    if not sample:
        raise RunError(f'{examples.source}: the split {examples.trained} is empty')
    return sample


def _batches(examples, split, spec):
    """Yields batches {name: array} of a split's features, parsed by tf.io.parse_example with a spec."""
    done = 0

    def parsed():
        return examples.read(split).batch(_BATCH).map(lambda batch: tf.io.parse_example(batch, spec))

    try:
        for batch in elements(parsed):
            yield batch
            done += 1
    except tf.errors.OpError as error:
        raise RunError(_locate(examples, split, spec, done * _BATCH) or first_line(error)) from None


def _locate(examples, split, spec, first):
    """Describes the first unparsable record from number `first` on, or returns None."""
    with tf.Graph().as_default(), tf.Session() as session:
        serialized = tf.placeholder(tf.string, [])
        parsed = tf.io.parse_single_example(serialized, spec)
        for record in elements(lambda: examples.read(split).skip(first)):
            try:
                session.run(parsed, {serialized: record})
            except tf.errors.OpError as error:
                return f'{manifest.locate_record(record)}: {first_line(error)}'
    return None


def _describe_values(examples, features, params):
    """Reads the training split once: adds means and vocabularies to the features, and returns the facts about the text."""
    counted = [feature for feature in features if feature['kind'] in (NUMERIC, CATEGORICAL, TEXT)]
    profiles: dict[str, Any] = {feature['name']: Moments() for feature in of_kind(counted, NUMERIC)}
    profiles |= {feature['name']: ValueCounts(_MAX_DISTINCT) for feature in of_kind(counted, CATEGORICAL)}
    profiles |= {feature['name']: tokens.WordCounts(params) for feature in of_kind(counted, TEXT)}
    for batch in _batches(examples, examples.trained, parsing_spec(counted)) if counted else ():
        for feature in counted:
            values = batch[feature['name']]
            profiles[feature['name']].update(_decoded(values) if feature['kind'] == CATEGORICAL else values)
    facts: dict[str, Any] = {}
    for feature in counted:
        (facts if feature['kind'] == TEXT else feature).update(profiles[feature['name']].describe(params))
    return facts


def _decoded(values):
    """Returns an array of bytes or int64 as a list of str."""
    return [value.decode(errors='replace') if isinstance(value, bytes) else str(value) for value in values.tolist()]


def _describe_label(examples, label, schema):
    """Returns the task, and the classes of all splits, or the mean and standard deviation of the training split."""
    name, stored = label['name'], label['stored']
    counts, moments, has_no_number = ValueCounts(_MAX_DISTINCT), Moments(), False
    for batch in _batches(examples, examples.trained, parsing_spec([label])):
        counts.update(_decoded(batch[name]))
        if stored != 'bytes':
            moments.update(batch[name])
            has_no_number |= not np.isfinite(batch[name]).all()
    task = schema.task or description.infer_task(stored != 'bytes', stored == 'int64', counts, _MAX_INTEGER_CLASSES)
    if stored == ('bytes' if task == REGRESSION else 'float'):
        raise UsageError(f'{schema.path}: task is {task}, but the label {name} is {stored}')
    if task == REGRESSION:
        if has_no_number:
            place = f'in the split {examples.trained}'
            raise RunError(f'{examples.source}: the label {name} is NaN or infinite {place}: correct it')
        return description.describe_target(moments)
    _count_others(counts, examples, label)
    if len(counts) < 2 or not counts.is_exact:
        few = f'is always {next(iter(counts.values()))}' if len(counts) < 2 else 'has too many different values'
        raise RunError(f'{examples.source}: the label {name} {few}: name another in the schema')
    return description.describe_classes(sorted_classes(counts.values()))


def _count_others(counts, examples, label):
    """Counts the labels of the other splits; one to predict may have none."""
    spec = {label['name']: tf.io.VarLenFeature(DTYPES[label['stored']])}
    for split in examples.splits:
        if split != examples.trained:
            for batch in _batches(examples, split, spec):
                counts.update(_decoded(batch[label['name']].values))
