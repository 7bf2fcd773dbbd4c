"""Your own TFRecord files of tf.train.Examples: images, numbers, categories and texts, for classification or regression.

--hparams=tfrecord_dir=PATH names a directory of files named by their splits: train.tfrecord, eval-00000-of-00002.tfrecord ...
The kind of a feature is inferred from the first 1,000 training examples unless a schema file gives it; see docs/own_data.md.
"""

import collections
import itertools
import os
import re
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import names_in, read_json, write_json
from estimator_trainer.common.own_data import example_input, example_metadata, example_parser, tokens
from estimator_trainer.common.own_data.schema import FEATURES, read_schema
from estimator_trainer.common.own_data.splits import fingerprint
from estimator_trainer.common.records import records
from estimator_trainer.hparams.build import HParams

INPUT_PATTERNS = example_input.INPUT_PATTERNS
PARSED_ONCE = True
parse = example_parser.parse
image_features = example_parser.image_features
raw_specs = example_parser.raw_specs
from_raw = example_parser.from_raw
read_input = example_input.read_input
read_labeled = example_input.read_labeled


def get_params() -> dict[str, Any]:
    return {
        'tfrecord_dir': '',  # A directory of TFRecord files.
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
    directory = _directory(data_dir, params)
    if not _is_manifested(params):
        records.index(directory, _files(params))
    path = example_metadata.facts_path(directory, params)
    if not tf.io.gfile.exists(path):
        examples = example_metadata.Examples(
            params.tfrecord_dir, list(_files(params)), params.train_split, lambda split: read(split, data_dir, params)
        )
        facts = example_metadata.describe(examples, read_schema(params.schema, FEATURES), params)
        tf.io.gfile.makedirs(directory)
        write_json(path, facts)


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns `example_metadata.describe` of the training examples."""
    return read_json(example_metadata.facts_path(_directory(data_dir, params), params))


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
    directory = params.tfrecord_dir
    if not directory:
        raise UsageError('--hparams=tfrecord_dir=PATH is required: a directory of train.tfrecord and eval.tfrecord')
    if not tf.io.gfile.isdir(directory):
        raise UsageError(f'--hparams=tfrecord_dir={directory}: there is no such directory')
    files: dict[str, list[str]] = {}
    for name in names_in(directory):
        match = re.fullmatch(r'([^.].*?)(-\d+(-of-\d+)?)?\.tfrecords?(-\d+-of-\d+)?(\.gz)?', name)
        if match and match[5]:
            raise UsageError(f'{os.path.join(directory, name)}: is compressed: decompress it, with gunzip')
        if match:  # The split of mnist-train is train.
            files.setdefault(re.split('[-.]', match[1])[-1], []).append(os.path.join(directory, name))
    if not files:
        raise UsageError(f'--hparams=tfrecord_dir={directory}: there is no file named train.tfrecord, or train-*.tfrecord')
    _check_complete(itertools.chain(*files.values()))
    return files


def _check_complete(paths):
    """Raises RunError if there are train-00000-of-00003 and train-00001-of-00003, but no train-00002-of-00003."""
    numbers = collections.defaultdict(set)
    for path in paths:
        if match := re.fullmatch(r'(.*-)(\d+)(-of-(\d+)[^/]*)', path):
            numbers[match[1], len(match[2]), match[3], int(match[4])].add(int(match[2]))
    for (start, digits, end, total), found in numbers.items():
        if len(found) < total:
            first = int(total in found)  # Some count from 1.
            missing = next(number for number in range(first, first + total) if number not in found)
            raise RunError(
                f'{start}{missing:0{digits}}{end}: is missing, but others of the {total} exist: restore it, or rename them'
            )
