"""Your own TFRecord files of tf.train.Examples: images, numbers, categories and texts, for classification or regression.

--hparams=tfrecord_dir=PATH names a directory of files named by their splits: train.tfrecord, eval-00000-of-00002 ...
The kind of a feature is inferred from the first 1,000 training examples unless a schema file gives it; see docs/own_data.md.
"""

import itertools
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.own_data.examples import input_files, named_columns, parser, survey
from estimator_trainer.common.own_data.examples.record_files import find_record_files
from estimator_trainer.common.own_data.examples.records import Examples
from estimator_trainer.common.own_data.folds import refuse_folds
from estimator_trainer.common.own_data.schema import FEATURES, read_schema
from estimator_trainer.common.own_data.splits import fingerprint, log_outdated
from estimator_trainer.common.own_data.tables import preparation
from estimator_trainer.common.own_data.texts import tokens
from estimator_trainer.common.records import records
from estimator_trainer.hparams.build import HParams

INPUT_PATTERNS = input_files.INPUT_PATTERNS
PARSED_ONCE = True
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
        'tfrecord_dir': '',  # A directory of TFRecord files.
        'target': '',  # The feature to predict, or several, as [a,b]; optional if the schema, or its name, tells.
        'schema': '',  # A JSON file, see docs/own_data.md.
        **tokens.get_params(),  # min_count and max_vocabulary also apply to the values of a categorical feature.
        'task': '',  # Set by the metadata.
        'num_classes': 0,  # Set by the metadata.
        'image_size': 0,  # Set by the metadata.
        'num_channels': 0,  # Set by the metadata.
    }


def prepare(data_dir: str, params: HParams) -> None:
    """Verifies the files and collects facts about the features, once for each state of the files and hyper-parameters.

    The facts are kept in data_dir, as the directory of the files may be read-only.
    """
    tokens.check_params(params)
    refuse_folds(params)
    directory, files = _directory(data_dir, params), _files(params)
    if not _is_manifested(params):
        is_known = records.is_written(directory)
        records.index(directory, files)
        if not is_known:
            log_outdated(directory, params.tfrecord_dir)
    examples = Examples(params.tfrecord_dir, list(files), params.train_split, lambda split: read(split, data_dir, params))

    def describe():
        return survey.describe(examples, read_schema(params.schema, FEATURES), params)

    survey.describe_once(directory, params, describe)


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns `survey.describe` of the training examples."""
    return survey.read_metadata(_directory(data_dir, params), params)


def summary(data_dir: str, params: HParams) -> str:
    """Returns the features, their kinds and what is known about them."""
    return survey.summarize(params.tfrecord_dir, _files(params), _directory(data_dir, params), params)


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns the unchanged examples of the files, after verifying these."""
    if _is_manifested(params):
        return records.read(params.tfrecord_dir, split)
    files = _files(params)
    if split not in files:
        raise UsageError(
            f'{params.tfrecord_dir}: there is no split {split}: the splits are: {", ".join(files)}: '
            'name one with --eval_splits, --predict_split or --hparams=train_split'
        )
    return records.read(_directory(data_dir, params), split)


def _is_manifested(params):
    """Whether the framework wrote the files."""
    return bool(params.tfrecord_dir) and records.is_written(params.tfrecord_dir)


def _directory(data_dir, params):
    """Returns the directory of the facts about the files."""
    paths = itertools.chain(*_files(params).values())
    return os.path.join(data_dir, f'tfrecord-{fingerprint(params.tfrecord_dir, paths, None)}')


def _files(params):
    """Returns {split: paths}."""
    if not params.tfrecord_dir:
        raise UsageError('--hparams=tfrecord_dir=PATH is required: a directory of train.tfrecord and eval.tfrecord')
    return find_record_files(params.tfrecord_dir)
