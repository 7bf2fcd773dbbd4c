"""Metadata of a user's own tf.train.Examples: kinds of features, statistics, vocabularies and classes."""

from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses
import os
from typing import Any

from google.protobuf.message import DecodeError
import numpy as np
import tensorflow.compat.v1 as tf

from common.data import manifest, records
from common.data.elements import elements
from common.errors import RunError, UsageError, first_line
from common.formats import tokens
from common.formats.columns import CATEGORICAL, NUMERIC, Moments
from common.formats.example_facts import ID, IMAGE, LABEL, ROLES, TEXT, WEIGHT, find_roles, infer_features
from common.formats.example_parser import DTYPES, of_kind, parsing_spec
from common.formats.schema import CLASSIFICATION, REGRESSION, read_schema
from common.formats.splits import fingerprint
from common.formats.vocabulary import ValueCounts, sorted_classes
from hparams.build import HParams

_SAMPLE = 1000
_BATCH = 256
_MAX_DISTINCT = 10**6
_MAX_INTEGER_CLASSES = 1000  # An int64 label is rarely an amount.


@dataclasses.dataclass(frozen=True)
class Examples:
    """The serialized examples of all splits.

    source names them in messages; read returns those of a split; trained is the split that is trained on.
    """

    source: str
    splits: Sequence[str]
    trained: str
    read: Callable[[str], tf.data.Dataset]


def facts_path(directory: str, params: HParams) -> str:
    """Returns the path in a directory of a file for the metadata, which depends on these hyper-parameters."""
    names = ('image_size', 'tokens', 'min_count', 'max_vocabulary')
    facts = [read_schema(params.schema, 'features', ROLES), params.train_split, *(params[name] for name in names)]
    return os.path.join(directory, f'metadata-{fingerprint("", (), facts)}.json')


def describe(
    examples: Examples,
    schema: Mapping[str, Any],
    params: HParams,
    names: Collection[str] | None = None,
    class_names: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Returns the metadata of a dataset whose records `example_parser.parse` parses.

    Args:
      examples: the examples.
      schema: from `read_schema`.
      params: hyper-parameters: the schema's path, for messages, and those of the tokens.
      names: of the features to look at; all by default.
      class_names: {feature: names of its classes}, for features that store the number of a class.

    Returns:
      features: a list of {'name', 'kind', 'stored', 'values'}; those of kind numeric have 'mean' and 'std', those of kind
        categorical 'vocabulary'. The features with a role are of kind label, weight or id.
      vocabulary_sizes: {'categorical': sizes}, with 1 for id 0; {} without such features.
      task: classification, with class_names and num_classes; or regression, with target_mean and target_std.
      vocabulary, vocabulary_size: of the text, if there is one.
      image_size, num_channels: of the image, if there is one.

    Raises:
      UsageError: the schema is wrong, or needed.
      RunError: the examples are not what they should be.
    """
    sample = _decode_sample(examples, names)
    roles = find_roles(schema, params.schema, sorted({name for example in sample for name in example}), examples.source)
    features = infer_features(sample, roles, schema, params.schema, examples.source)
    for role, name in roles.items():
        stored = {example[name][0] for example in sample if name in example}
        if len(stored) > 1 or role == WEIGHT and stored == {'bytes'} or role == ID and stored == {'float'}:
            raise RunError(f'{examples.source}: the {role} {name} is {" or ".join(sorted(stored))}')
        features.append({'name': name, 'kind': role, 'stored': stored.pop(), 'values': 1})
    facts = _count_values(examples, features, params)
    (label,) = of_kind(features, LABEL)
    known = (class_names or {}).get(label['name'])
    if known and schema.get('task') != REGRESSION:
        label['is_index'] = True
        facts |= {'task': CLASSIFICATION, 'class_names': list(known), 'num_classes': len(known)}
    else:
        facts |= _describe_label(examples, label, schema.get('task'), params.schema)
    for kind in (IMAGE, NUMERIC, CATEGORICAL, TEXT, LABEL, WEIGHT, ID):
        found = ', '.join(feature['name'] for feature in of_kind(features, kind))
        if found:
            tf.logging.info('%s: %s: %s%s', examples.source, kind, found, f', {facts["task"]}' if kind == LABEL else '')
    sizes = [len(feature['vocabulary']) + 1 for feature in of_kind(features, CATEGORICAL)]
    facts |= {'features': features, 'vocabulary_sizes': {'categorical': sizes} if sizes else {}}
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
    """Yields batches {name: array} of the features of a split that tf.io.parse_example reads by a spec."""
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
    """Describes the first record from number `first` on that cannot be parsed; None if all can."""
    with tf.Graph().as_default(), tf.Session() as session:
        serialized = tf.placeholder(tf.string, [])
        parsed = tf.io.parse_single_example(serialized, spec)
        for record in elements(lambda: examples.read(split).skip(first)):
            try:
                session.run(parsed, {serialized: record})
            except tf.errors.OpError as error:
                return f'{manifest.locate_record(record)}: {first_line(error)}'
    return None


def _count_values(examples, features, params):
    """Reads the split trained on once: adds means and vocabularies to the features, and returns the facts about the text."""
    counted = [feature for feature in features if feature['kind'] in (NUMERIC, CATEGORICAL, TEXT)]
    moments = {feature['name']: Moments() for feature in of_kind(features, NUMERIC)}
    counts = {feature['name']: ValueCounts(_MAX_DISTINCT) for feature in of_kind(features, CATEGORICAL)}
    text = of_kind(features, TEXT)

    def texts():
        for batch in _batches(examples, examples.trained, parsing_spec(counted)) if counted else ():
            for name, found in moments.items():
                found.update(batch[name])
            for name, values in counts.items():
                values.update([_decoded(value) for value in batch[name].tolist()])
            if text:
                yield batch[text[0]['name']].tolist()

    facts: dict[str, Any] = {}
    if text and params.tokens == tokens.WORDS:
        vocabulary = tokens.make_vocabulary(texts(), params)
    else:
        vocabulary = []
        for _ in texts():
            pass
    if text:
        facts = {'vocabulary': vocabulary, 'vocabulary_size': tokens.vocabulary_size(params, vocabulary)}
    for feature in of_kind(features, NUMERIC):
        feature.update(mean=moments[feature['name']].mean, std=moments[feature['name']].std)
    for feature in of_kind(features, CATEGORICAL):
        values = counts[feature['name']].most_common(params.min_count, params.max_vocabulary)
        feature['vocabulary'] = [value for value in values if value]
    return facts


def _decoded(value):
    return value.decode(errors='replace') if isinstance(value, bytes) else str(value)


def _describe_label(examples, label, task, schema_path):
    """Returns the task and the classes, of all splits, or the mean and standard deviation of the split trained on."""
    name = label['name']
    counts, moments, has_no_number = ValueCounts(_MAX_DISTINCT), Moments(), False
    for batch in _batches(examples, examples.trained, parsing_spec([label])):
        counts.update([_decoded(value) for value in batch[name].tolist()])
        if label['stored'] != 'bytes':
            moments.update(batch[name])
            has_no_number |= not np.isfinite(batch[name]).all()
    is_few = label['stored'] == 'int64' and len(counts) <= _MAX_INTEGER_CLASSES
    task = task or (CLASSIFICATION if is_few or label['stored'] == 'bytes' else REGRESSION)
    if task == REGRESSION:
        if label['stored'] == 'bytes':
            raise UsageError(f'{schema_path}: task is regression, but the label {name} is bytes')
        if has_no_number:
            raise RunError(
                f'{examples.source}: the label {name} is NaN or infinite in the split {examples.trained}: correct it'
            )
        return {'task': task, 'target_mean': moments.mean, 'target_std': moments.std}
    if label['stored'] == 'float':
        raise UsageError(f'{schema_path}: task is classification, but the label {name} is float')
    for split in examples.splits:
        if split != examples.trained:  # One to predict may have no labels.
            for batch in _batches(examples, split, {name: tf.io.VarLenFeature(DTYPES[label['stored']])}):
                counts.update([_decoded(value) for value in batch[name].values.tolist()])
    if len(counts) < 2 or not counts.is_exact:
        few = f'is always {next(iter(counts.values()))}' if len(counts) < 2 else 'has too many different values'
        raise RunError(f'{examples.source}: the label {name} {few}: name another in the schema')
    classes = sorted_classes(counts.values())
    return {'task': task, 'class_names': classes, 'num_classes': len(classes)}
