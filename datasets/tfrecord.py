"""TFRecord files of your own, of tf.train.Examples: images, numbers, categories and texts, in classes or with a number.

--hparams=tfrecord_dir=PATH names a directory of files named by their splits: train.tfrecord, eval-00000-of-00002.tfrecord ...
What a feature is, is found in the first 1,000 examples trained on, unless a schema file says it; see README.md.
"""

from collections.abc import Iterator
import itertools
import os
import re
from typing import Any

from google.protobuf.message import DecodeError
import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from common.data import manifest, records, tfrecord
from common.data.elements import elements
from common.errors import RunError, UsageError, first_line
from common.files import read_json, write_json
from common.formats import tokens
from common.formats.columns import CATEGORICAL, NUMERIC, Moments
from common.formats.example_facts import ID, IMAGE, LABEL, ROLES, TEXT, WEIGHT, find_roles, infer_features
from common.formats.schema import CLASSIFICATION, REGRESSION, read_schema
from common.formats.splits import fingerprint, split_trained_on
from common.formats.vocabulary import ValueCounts, class_ids, column_ids, sorted_classes
from hparams.build import HParams

PREDICT = tf.estimator.ModeKeys.PREDICT
_SAMPLE = 1000
_BATCH = 256
_MAX_DISTINCT = 10**6
_MAX_INTEGER_CLASSES = 1000
_DTYPES = {'bytes': tf.string, 'float': tf.float32, 'int64': tf.int64}


def get_params() -> dict[str, Any]:
    return {
        'tfrecord_dir': '',
        'schema': '',  # A JSON file, see README.md.
        **tokens.get_params(),  # min_count and max_vocabulary also hold for the values of a categorical feature.
        # The metadata sets these.
        'task': '',
        'num_classes': 0,
        'image_size': 0,
        'num_channels': 0,
    }


def prepare(data_dir: str, params: HParams) -> None:
    """Verifies the files, and collects the facts about the features, once for each state of the files and hyper-parameters."""
    tokens.check_params(params)
    path = _facts_path(data_dir, params)
    if not tf.io.gfile.exists(path):
        facts = _collect(params)
        tf.io.gfile.makedirs(os.path.dirname(path))
        write_json(path, facts)


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns the facts about the examples trained on.

    Returns:
      features: a list of {'name', 'kind', 'stored', 'values'}; those of kind numeric have 'mean' and 'std', those of kind
        categorical 'vocabulary'. The features with a role are of kind label, weight or id.
      vocabulary_sizes: {'categorical': sizes}, with 1 for id 0; {} without such features.
      task: classification, with class_names and num_classes; or regression, with target_mean and target_std.
      vocabulary, vocabulary_size: of the text, if there is one.
      image_size, num_channels: of the image, if there is one.
    """
    return read_json(_facts_path(data_dir, params))


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns the examples as they are in the files, which are verified first."""
    del data_dir
    return _read(split, params)


def parse(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns features and labels; no labels in PREDICT.

    Returns:
      features: 'image', float32 [size, size, channels] in [0, 1]; 'numeric', float32 [n], all numbers in the order of the
        features' names, standardized by the training data, 0 if missing; 'categorical', int32 [m], ids in the vocabularies, 0
        if unknown or missing; 'text', int32 [length], ids of the tokens; 'example_id', string; each if there are such features.
      labels: 'label', int32 for classification, float32 for regression; 'weight', float32, if the schema names it.
    """
    facts = params.metadata
    example = tf.io.parse_single_example(serialized, _spec(facts['features'], mode))
    features: dict[str, tf.Tensor] = {}
    of_kind = {kind: _of_kind(facts['features'], kind) for kind in (NUMERIC, CATEGORICAL, IMAGE, TEXT, ID, LABEL, WEIGHT)}
    if of_kind[NUMERIC]:
        features['numeric'] = tf.concat([_standardized(example[feature['name']], feature) for feature in of_kind[NUMERIC]], 0)
    if of_kind[CATEGORICAL]:
        values = tf.stack([_text_of(example[feature['name']]) for feature in of_kind[CATEGORICAL]])
        features['categorical'] = column_ids(values[None], [feature['vocabulary'] for feature in of_kind[CATEGORICAL]])[0]
    for feature in of_kind[IMAGE]:
        features['image'] = _image(example[feature['name']], feature)
    for feature in of_kind[TEXT]:
        features['text'] = tokens.token_ids(example[feature['name']], params, facts['vocabulary'])
    for feature in of_kind[ID]:
        features['example_id'] = _text_of(example[feature['name']])
    if mode == PREDICT:
        return features, None
    name = of_kind[LABEL][0]['name']
    if facts['task'] == CLASSIFICATION:
        labels = {'label': class_ids(_text_of(example[name]), facts['class_names'], name)}
    else:
        labels = {'label': tf.cast(example[name], tf.float32)}
    for feature in of_kind[WEIGHT]:
        labels['weight'] = tf.cast(example[feature['name']], tf.float32)
    return features, labels


def read_input(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'record': number}, record) for the examples in a TFRecord file; an error for one that lacks a feature."""
    required = [feature['name'] for feature in params.metadata['features'] if feature['kind'] in (IMAGE, TEXT)]
    for number, record in enumerate(tfrecord.read(path, manifest.check_alone(path))):
        try:
            missing = [name for name in required if name not in records.decode(record)]
            wrong = f'has no feature {", ".join(missing)}' if missing else ''
        except DecodeError:
            wrong = 'is not a tf.train.Example'
        yield {'record': number}, RunError(f'{path}: record {number}: {wrong}') if wrong else record


def _of_kind(features, kind):
    return [feature for feature in features if feature['kind'] == kind]


def _spec(features, mode=None):
    """Returns what tf.io.parse_example reads; without labels in PREDICT."""
    spec = {}
    for feature in features:
        kind, dtype = feature['kind'], _DTYPES[feature['stored']]
        default: Any = None
        if kind == NUMERIC and dtype == tf.float32:
            default = [float('nan')] * feature['values']
        elif kind in (CATEGORICAL, ID) and dtype == tf.string:
            default = ''
        if mode != PREDICT or kind not in (LABEL, WEIGHT):
            spec[feature['name']] = tf.io.FixedLenFeature([feature['values']] if kind == NUMERIC else [], dtype, default)
    return spec


def _standardized(values, feature):
    values = tf.cast(values, tf.float32)
    mean, std = (tf.constant(feature[name], tf.float32) for name in ('mean', 'std'))
    return tf.where(tf.math.is_finite(values), (values - mean) / std, tf.zeros_like(values))


def _text_of(value):
    return value if value.dtype == tf.string else tf.as_string(value)


def _image(content, feature):
    shape = [feature['size'], feature['size'], feature['channels']]
    if feature['is_raw']:
        return tf.cast(tf.reshape(tf.io.decode_raw(content, tf.uint8), shape), tf.float32) / 255
    decoded = tf.io.decode_image(content, feature['channels'], expand_animations=False)
    return tf.ensure_shape(tf2.image.resize(decoded, shape[:2]) / 255, shape)


def _facts_path(data_dir, params):
    names = ('tokens', 'min_count', 'max_vocabulary')
    facts = [read_schema(params.schema, 'features', ROLES), split_trained_on(params), *(params[name] for name in names)]
    paths = itertools.chain(*_files(params).values())
    return os.path.join(data_dir, f'tfrecord-{fingerprint(paths, facts)}', 'metadata.json')


def _files(params):
    """Returns {split: paths}."""
    directory = params.tfrecord_dir
    if not directory:
        raise UsageError('--hparams=tfrecord_dir=PATH is required: a directory of train.tfrecord and eval.tfrecord')
    if not tf.io.gfile.isdir(directory):
        raise UsageError(f'--hparams=tfrecord_dir={directory}: there is no such directory')
    files: dict[str, list[str]] = {}
    for name in sorted(tf.io.gfile.listdir(directory)):
        match = re.fullmatch(r'([^.].*?)(-\d+(-of-\d+)?)?\.tfrecords?(-\d+-of-\d+)?(\.gz)?', name)
        if match and match[5]:
            raise UsageError(f'{os.path.join(directory, name)}: is compressed: decompress it, with gunzip')
        if match:  # Of mnist-train, the split is train.
            files.setdefault(re.split('[-.]', match[1])[-1], []).append(os.path.join(directory, name))
    if not files:
        raise UsageError(f'--hparams=tfrecord_dir={directory}: there is no file named train.tfrecord, or train-*.tfrecord')
    return files


def _read(split, params):
    if records.is_written(params.tfrecord_dir):
        return records.read(params.tfrecord_dir, split)
    files = _files(params)
    if split not in files:
        raise UsageError(f'{params.tfrecord_dir}: there is no split {split}: the splits are: {", ".join(files)}')
    count = sum(manifest.check_alone(path) for path in files[split])
    return tf.data.TFRecordDataset(files[split]).apply(tf.data.experimental.assert_cardinality(count))


def _collect(params):
    """Returns the metadata."""
    source, trained = params.tfrecord_dir, split_trained_on(params)
    schema = read_schema(params.schema, 'features', ROLES)
    sample = _decode_sample(params, trained)
    names = sorted({name for example in sample for name in example})
    roles = find_roles(schema, params.schema, names, source)
    features = infer_features(sample, roles, schema, params.schema, source)
    for role, name in roles.items():
        stored = {example[name][0] for example in sample if name in example}
        if len(stored) > 1 or role == WEIGHT and stored == {'bytes'} or role == ID and stored == {'float'}:
            raise RunError(f'{source}: the {role} {name} is {" or ".join(sorted(stored))}')
        features.append({'name': name, 'kind': role, 'stored': stored.pop(), 'values': 1})
    facts = _count_values(params, trained, features)
    label = next(feature for feature in features if feature['kind'] == LABEL)
    facts |= _describe_label(params, trained, label, schema.get('task'))
    for kind in (IMAGE, NUMERIC, CATEGORICAL, TEXT, LABEL, WEIGHT, ID):
        found = ', '.join(feature['name'] for feature in _of_kind(features, kind))
        if found:
            tf.logging.info('%s: %s: %s%s', source, kind, found, f', {facts["task"]}' if kind == LABEL else '')
    sizes = [len(feature['vocabulary']) + 1 for feature in _of_kind(features, CATEGORICAL)]
    facts |= {'features': features, 'vocabulary_sizes': {'categorical': sizes} if sizes else {}}
    for feature in _of_kind(features, IMAGE):
        facts |= {'image_size': feature['size'], 'num_channels': feature['channels']}
    return facts


def _decode_sample(params, split):
    sample = []
    for number, record in enumerate(elements(lambda: _read(split, params).take(_SAMPLE))):
        try:
            sample.append(records.decode(record))
        except DecodeError:
            raise RunError(f'{manifest.locate_record(record) or number}: is not a tf.train.Example') from None
    if not sample:
        raise RunError(f'{params.tfrecord_dir}: the split {split} is empty')
    return sample


def _batches(params, split, spec):
    """Yields batches {name: array} of the features of a split that tf.io.parse_example reads by a spec."""
    done = 0

    def parsed():
        return _read(split, params).batch(_BATCH).map(lambda batch: tf.io.parse_example(batch, spec))

    try:
        for batch in elements(parsed):
            yield batch
            done += 1
    except tf.errors.OpError as error:
        raise RunError(_locate(params, split, spec, done * _BATCH) or first_line(error)) from None


def _locate(params, split, spec, first):
    """Describes the first record from number `first` on that cannot be parsed; None if all can."""
    with tf.Graph().as_default(), tf.Session() as session:
        serialized = tf.placeholder(tf.string, [])
        parsed = tf.io.parse_single_example(serialized, spec)
        for record in elements(lambda: _read(split, params).skip(first)):
            try:
                session.run(parsed, {serialized: record})
            except tf.errors.OpError as error:
                return f'{manifest.locate_record(record)}: {first_line(error)}'
    return None


def _count_values(params, split, features):
    """Reads the split trained on once: adds means and vocabularies to the features, and returns the facts about the text."""
    counted = [feature for feature in features if feature['kind'] in (NUMERIC, CATEGORICAL, TEXT)]
    moments = {feature['name']: Moments() for feature in _of_kind(features, NUMERIC)}
    counts = {feature['name']: ValueCounts(_MAX_DISTINCT) for feature in _of_kind(features, CATEGORICAL)}
    text = _of_kind(features, TEXT)

    def texts():
        for batch in _batches(params, split, _spec(counted)) if counted else ():
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
    for feature in _of_kind(features, NUMERIC):
        feature.update(mean=moments[feature['name']].mean, std=moments[feature['name']].std)
    for feature in _of_kind(features, CATEGORICAL):
        values = counts[feature['name']].most_common(params.min_count, params.max_vocabulary)
        feature['vocabulary'] = [value for value in values if value]
    return facts


def _decoded(value):
    return value.decode(errors='replace') if isinstance(value, bytes) else str(value)


def _describe_label(params, trained, label, task):
    """Returns the task and the classes, of all splits, or the mean and standard deviation of the split trained on."""
    name = label['name']
    counts, moments, has_no_number = ValueCounts(_MAX_DISTINCT), Moments(), False
    for batch in _batches(params, trained, _spec([label])):
        counts.update([_decoded(value) for value in batch[name].tolist()])
        if label['stored'] != 'bytes':
            moments.update(batch[name])
            has_no_number |= not np.isfinite(batch[name]).all()
    is_few = label['stored'] == 'int64' and len(counts) <= _MAX_INTEGER_CLASSES
    task = task or (CLASSIFICATION if is_few or label['stored'] == 'bytes' else REGRESSION)
    if task == REGRESSION:
        if label['stored'] == 'bytes':
            raise UsageError(f'{params.schema}: task is regression, but the label {name} is bytes')
        if has_no_number:
            raise RunError(f'{params.tfrecord_dir}: the label {name} is NaN or infinite in the split {trained}: correct it')
        return {'task': task, 'target_mean': moments.mean, 'target_std': moments.std}
    if label['stored'] == 'float':
        raise UsageError(f'{params.schema}: task is classification, but the label {name} is float')
    for split in _splits(params):
        if split != trained:  # One to predict may have no labels.
            for batch in _batches(params, split, {name: tf.io.VarLenFeature(_DTYPES[label['stored']])}):
                counts.update([_decoded(value) for value in batch[name].values.tolist()])
    if len(counts) < 2 or not counts.is_exact:
        few = f'is always {next(iter(counts.values()))}' if len(counts) < 2 else 'has too many different values'
        raise RunError(f'{params.tfrecord_dir}: the label {name} {few}: name another in the schema')
    classes = sorted_classes(counts.values())
    return {'task': task, 'class_names': classes, 'num_classes': len(classes)}


def _splits(params):
    return list(_files(params))
