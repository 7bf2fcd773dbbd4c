"""A directory in TensorFlow Datasets' format: its splits, features and classes, read by tensorflow-datasets."""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, first_line, listed
from estimator_trainer.common.files import names_in, read_json
from estimator_trainer.common.own_data.schema import CATEGORICAL, IMAGE, NUMERIC, TEXT

_INFO, _FEATURES = 'dataset_info.json', 'features.json'
_DEPTH = 3  # NAME/CONFIG/VERSION
_MAX_SHOWN = 10
_COLOR = 3


@dataclasses.dataclass(frozen=True)
class TfdsDirectory:
    """The contents of a directory.

    Attributes:
      path: of the directory of one version.
      files: {split: paths} of the TFRecord files.
      lengths: {split: number of records in each file}.
      facts_files: paths of the other files, which describe the records.
      features: {name: its schema entry}: 'kind', and of an image 'channels' and 'size', 0 if it varies; no kind if the values
          decide.
      ignored: {name: type} of the unusable features.
      class_names: {feature: names of its classes}.
      supervised: (names of the inputs, name of the label, name of the weight or ''); None if unknown.
    """

    path: str
    files: Mapping[str, Sequence[str]]
    lengths: Mapping[str, Sequence[int]]
    facts_files: Sequence[str]
    features: Mapping[str, Mapping[str, Any]]
    ignored: Mapping[str, str]
    class_names: Mapping[str, Sequence[str]]
    supervised: tuple[Sequence[str], str, str] | None


def open_directory(path: str) -> TfdsDirectory:
    """Reads a directory, or the only dataset's directory beneath it. Downloads nothing.

    Raises:
      UsageError: there is none, or several; its format is not supported; or tensorflow-datasets is not installed.
      RunError: its files are unreadable, or one is missing.
    """
    path = _find(path)
    builder = _load(path)
    info = builder.info
    if info.file_format and info.file_format.value != 'tfrecord':
        raise UsageError(
            f'{path}: the files are of the format {info.file_format.value}, which is not supported: prepare the dataset with '
            'file_format="tfrecord"'
        )
    splits = {name: split for name, split in info.splits.items() if split.num_examples}
    files = {name: [os.fspath(file) for file in split.filepaths] for name, split in splits.items()}
    for file in (file for paths in files.values() for file in paths):
        if not tf.io.gfile.exists(file):
            raise RunError(f'{file}: is missing, but {_INFO} names it: restore it')
    if not files:
        raise RunError(f'{path}: {_INFO} names no split with examples')
    leaves = dict(_leaves(info.features))
    described = {name: _describe(feature) for name, feature in leaves.items()}
    return TfdsDirectory(
        path,
        files,
        {name: list(split.shard_lengths) for name, split in splits.items()},
        [os.path.join(path, name) for name in names_in(path) if name.endswith(('.json', '.labels.txt'))],
        {name: found for name, found in described.items() if found is not None},
        {name: type(leaves[name]).__name__ for name, found in described.items() if found is None},
        {name: list(leaf.names) for name, leaf in leaves.items() if type(leaf).__name__ == 'ClassLabel' and leaf.num_classes},
        _supervised(info.supervised_keys),
    )


def _find(path):
    given = f'--hparams=tfds_dir={path}'
    if not tf.io.gfile.isdir(path):
        raise UsageError(f'{given}: there is no such directory')
    found = list(_walk(path, _DEPTH))
    if not found:
        raise UsageError(f'{given}: has no {_INFO}, nor has a directory NAME/VERSION or NAME/CONFIG/VERSION beneath it')
    if len(found) > 1:
        raise UsageError(f'{given}: has several datasets, name one: {listed(found, _MAX_SHOWN)}')
    return found[0]


def _walk(path: str, depth: int) -> Iterator[str]:
    """Yields the directories of datasets."""
    if tf.io.gfile.exists(os.path.join(path, _INFO)):
        yield path
    elif depth:
        for name in names_in(path):
            child = os.path.join(path, name)
            # An interrupted preparation leaves a directory incomplete.XXXXXX_VERSION.
            if not name.startswith(('.', 'incomplete.')) and tf.io.gfile.isdir(child):
                yield from _walk(child, depth - 1)


def _load(path):
    try:
        # The package only logs failed imports.
        from tensorflow_datasets.core.read_only_builder import builder_from_directory
    except ImportError as error:
        is_missing = (error.name or '').partition('.')[0] == 'tensorflow_datasets'
        problem = 'tensorflow-datasets is not installed' if is_missing else f'tensorflow-datasets: {first_line(error)}'
        raise UsageError(f"--dataset=tfds: {problem}: pip install 'estimator-trainer[tfds]'") from None
    features = os.path.join(path, _FEATURES)
    if not tf.io.gfile.exists(features):
        raise RunError(f'{path}: has no {_FEATURES}: it was prepared by a version of TensorFlow Datasets that is too old')
    try:
        # The package would import the modules named in the file.
        for name in _class_names(read_json(features)):
            if not name.startswith('tensorflow_datasets.'):
                raise UsageError(f'{features}: the feature type {name} is not one of TensorFlow Datasets, and is not imported')
        return builder_from_directory(path)
    except UsageError:
        raise
    except Exception as error:  # The package raises errors of many types.
        raise RunError(f'{path}: TensorFlow Datasets cannot read {_INFO} or {_FEATURES}: {first_line(error)}') from None


def _class_names(value):
    """Yields the Python classes named in features.json."""
    if isinstance(value, dict):
        yield from (item for key, item in value.items() if key in ('pythonClassName', 'type') and isinstance(item, str))
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _class_names(item)


def _leaves(features, prefix=''):
    """Yields (name in a tf.train.Example, feature)."""
    for name, feature in features.items():
        if type(feature).__name__ == 'FeaturesDict':
            yield from _leaves(feature, f'{prefix}{name}/')
        else:
            yield f'{prefix}{name}', feature


def _describe(feature) -> dict[str, Any] | None:
    """Returns the schema entry of a feature; None for an unusable one."""
    stored, type_name = feature.get_serialized_info(), type(feature).__name__
    if isinstance(stored, dict):
        return None
    if type_name == 'ClassLabel':
        return {'kind': CATEGORICAL}
    if type_name in ('Image', 'LabeledImage'):
        height, width, channels = feature.shape
        is_integer = feature.tf_dtype.is_integer  # Others are stored as float bytes.
        size = height if height == width else 0
        return {'kind': IMAGE, 'size': size or 0, 'channels': 1 if channels == 1 else _COLOR} if is_integer else None
    if type_name == 'Text':
        return {'kind': TEXT}
    if None in stored.shape:
        return None
    if stored.tf_dtype == tf.string:  # An encoded Tensor is stored as a string, too.
        return {} if feature.tf_dtype == tf.string and not stored.shape else None
    return {'kind': NUMERIC, 'shape': list(stored.shape)}


def _supervised(keys):
    """Returns the attribute `supervised`; None if there are several labels, too."""
    if keys is None or not all(isinstance(key, str) for key in keys[1:]):
        return None
    return tf.nest.flatten(keys[0]), keys[1], keys[2] if len(keys) > 2 else ''
