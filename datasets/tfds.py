"""A dataset on disk in TensorFlow Datasets' format; only its TFRecord files are read, without conversion.

    python trainer.py --model=alexnet --dataset=tfds --hparams=tfds_dir=~/tensorflow_datasets/mnist/3.0.1

Requires the package tensorflow-datasets: pip install -e '.[tfds]'. Exported models and --input do not.
"""

import dataclasses
import functools
import itertools
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, check_range
from estimator_trainer.common.own_data.examples import input_files, named_columns, parser, survey
from estimator_trainer.common.own_data.examples.records import Examples
from estimator_trainer.common.own_data.examples.tfds_directory import open_directory
from estimator_trainer.common.own_data.folds import refuse_folds
from estimator_trainer.common.own_data.schema import FEATURES, IMAGE, LABEL, TEXT, USUAL_LABELS, WEIGHT, by_name, read_schema
from estimator_trainer.common.own_data.splits import fingerprint
from estimator_trainer.common.own_data.tables import preparation
from estimator_trainer.common.own_data.texts import tokens
from estimator_trainer.common.records import manifest, records
from estimator_trainer.hparams.build import HParams

_USUAL_SIZE = 64  # As in image_folder.
_EVAL_SPLITS = ('eval', 'test', 'validation')  # The first of these is the evaluation split.

INPUT_PATTERNS = input_files.INPUT_PATTERNS
parse = parser.parse
image_features = parser.image_features
raw_specs = parser.raw_specs
from_raw = parser.from_raw
input_parts = preparation.input_parts
by_column, feature_columns = named_columns.by_column, named_columns.feature_columns
read_input = input_files.read_input
read_labeled = input_files.read_labeled


def get_params() -> dict[str, Any]:
    return {
        'tfds_dir': '',  # The directory of one version of a dataset, such as mnist/3.0.1.
        'schema': '',  # A JSON file, see docs/own_data.md.
        'image_size': 0,  # That of the images; if it varies, 64.
        **tokens.get_params(),  # min_count and max_vocabulary also apply to the values of a categorical feature.
        'task': '',  # Set by the metadata.
        'num_classes': 0,  # Set by the metadata.
        'num_channels': 0,  # Set by the metadata.
    }


def prepare(data_dir: str, params: HParams) -> None:
    """Verifies the files and collects facts about the features, once for each state of the files and hyper-parameters."""
    tokens.check_params(params)
    refuse_folds(params)
    check_range(params, 'image_size', 0, 10000)
    _opened.cache_clear()
    found = _open(params)
    trained = _find_split(found, params.train_split, params)
    directory = _directory(data_dir, params)
    records.index(directory, found.files)
    _check_lengths(directory, found)
    examples = Examples(found.path, list(found.files), trained, lambda split: records.read(directory, split))
    survey.describe_once(directory, params, lambda: _describe(examples, found, params))


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns `survey.describe` of the training examples."""
    return survey.read_metadata(_directory(data_dir, params), params)


def summary(data_dir: str, params: HParams) -> str:
    """Returns the features, their kinds and what is known about them."""
    found = _open(params)
    return survey.summarize(found.path, found.files, _directory(data_dir, params), params)


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns the unchanged examples of the files, after verifying these; for eval those of test or validation."""
    return records.read(_directory(data_dir, params), _find_split(_open(params), split, params))


def _open(params):
    if not params.tfds_dir:
        raise UsageError('--dataset=tfds needs a directory of TensorFlow Datasets: give it with --hparams=tfds_dir=PATH')
    return _opened(params.tfds_dir)


@functools.cache
def _opened(path):
    """Returns the TfdsDirectory, cached within a run."""
    return open_directory(path)


def _directory(data_dir, params):
    """Returns the directory of the facts about the files."""
    found = _open(params)
    paths = [*found.facts_files, *itertools.chain(*found.files.values())]
    return os.path.join(data_dir, f'tfds-{fingerprint(found.path, paths, None)}')


def _find_split(found, split, params):
    is_other = split == 'eval' != params.train_split  # The training split is not for evaluation.
    usual = [name for name in _EVAL_SPLITS if name != params.train_split] if is_other else (split,)
    for name in usual:
        if name in found.files:
            return name
    cure = '; --eval_splits and --predict_split name those to use' if split == 'eval' else ''
    raise UsageError(f'{found.path}: there is no split {" or ".join(usual)}: the splits are: {", ".join(found.files)}{cure}')


def _check_lengths(directory, found):
    """Detects files truncated between two records, which look intact."""
    for split, lengths in found.lengths.items():
        for item, length in zip(manifest.load(directory, split)['files'], lengths):
            if item['count'] != length:
                raise RunError(f'{item["name"]}: has {item["count"]} records, but dataset_info.json says {length}: restore it')


def _describe(examples, found, params):
    """Returns the metadata of the features: the supervised ones, if declared, and those named in the schema."""
    schema = read_schema(params.schema, FEATURES)
    roles = {**_known_roles(found), **schema.roles}
    for label, role in by_name(roles).items():
        if role == LABEL:
            _check_label(found, label)
    inputs = {*(found.supervised[0] if found.supervised else found.features)} & {*found.features}
    names = {*inputs, *by_name(roles), *schema.given}
    _log_ignored(found, names)
    derived = {name: _given(found, name, params) for name in inputs - by_name(roles).keys()}
    features = {**{name: given for name, given in derived.items() if given}, **schema.given}
    merged = dataclasses.replace(schema, content={**schema.content, **roles, 'features': features})
    return survey.describe(examples, merged, params, names, found.class_names)


def _known_roles(found):
    """Returns {role: feature} as declared by the dataset."""
    if found.supervised:
        _, label, weight = found.supervised
        return {LABEL: label, WEIGHT: weight} if weight else {LABEL: label}
    is_named = any(name in found.features for name in USUAL_LABELS)
    return {LABEL: next(iter(found.class_names))} if len(found.class_names) == 1 and not is_named else {}


def _check_label(found, label):
    given = found.features.get(label, {})
    if label in found.ignored or given.get('shape') or given.get('kind') == IMAGE:
        raise UsageError(
            f'{found.path}: the label {label} is neither a class nor a number nor a text: a schema, given with '
            '--hparams=schema=FILE, can name another'
        )


def _log_ignored(found, names):
    types = {**dict.fromkeys(found.features, 'not an input'), **found.ignored}
    ignored = ', '.join(f'{name} ({types[name]})' for name in sorted(types) if name not in names)
    if ignored:
        tf.logging.info('%s: ignored: %s. --hparams=schema=FILE can override this.', found.path, ignored)


def _given(found, name, params):
    """Returns the schema entry of a feature; {} if the values decide."""
    given = found.features[name]
    if given.get('kind') == IMAGE:
        return {**given, 'size': params.image_size or given['size'] or _USUAL_SIZE}
    is_text = given.get('kind') == TEXT and not found.supervised  # It may also be a name or an id.
    return {} if is_text else given
