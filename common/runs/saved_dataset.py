"""dataset.json in an output_dir: facts about the training data for evaluation, prediction and export."""

from collections.abc import Callable, Iterable, Mapping
import dataclasses
import functools
import hashlib
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import paths, word_vectors
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import dumps, read_json, write_json
from estimator_trainer.common.pipeline import checksums, excluded, exclusion
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import find_specs
from estimator_trainer.common.pipeline.specs import Specs, from_json, to_json
from estimator_trainer.common.plugins.class_weights import CLASS_COUNTS
from estimator_trainer.common.plugins.traceback_filter import in_a_line, original
from estimator_trainer.common.records import shards
from estimator_trainer.common.storage.run_dir import dataset_path
from estimator_trainer.hparams.build import HParams, add_metadata
from estimator_trainer.hparams.comparison import changed

# Metadata whose names users never see.
_IN_WORDS = {
    'columns': 'what is known of its columns (kinds, means and values)',
    'moved_rows': 'which rows of the file are held out',
    excluded.DIGEST: 'the file of exclude',
}


@dataclasses.dataclass(frozen=True)
class SavedDataset:
    """The metadata of the training data, the Specs of its records and features, the checksum of its files and their directory.

    The latter three are None if unknown. evaluated has the checksums of the splits that the training has evaluated.
    """

    metadata: dict[str, Any]
    specs: Specs | None
    sha256: str | None
    data_dir: str | None
    evaluated: Mapping[str, str] = dataclasses.field(default_factory=dict)


def load(output_dir: str) -> SavedDataset | None:
    """Reads the file written by `saving`; returns None if there is none.

    Raises:
      RunError: the file is corrupt or was changed.
    """
    path, cure = dataset_path(output_dir), '--schedule=train rewrites it if deleted'
    if not tf.io.gfile.exists(path):
        return None
    try:
        value = read_json(path)
    except ValueError as error:
        raise RunError(f'{error}; {cure}') from None
    if 'checksum' in value and value.pop('checksum') != _checksum(value):  # Files of older versions have none.
        raise RunError(f'{path}: was changed after it was written: restore the file; {cure}')
    try:
        return _from_json(value)
    except Exception:  # TensorFlow raises errors of many types for a wrong shape or dtype.
        raise RunError(f'{path}: does not describe a dataset; {cure}') from None


def _from_json(value):
    """Returns the SavedDataset in the content of a file; raises any error for invalid content."""
    metadata, sha256, data_dir = value['metadata'], value.get('sha256'), value.get('data_dir')
    evaluated = dict(value.get('evaluated', {}))  # Files of older versions have none.
    names = metadata.get('class_names', [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError
    if not isinstance(sha256, str | None) or not isinstance(data_dir, str | None):
        raise TypeError
    if not all(isinstance(checksum, str) for checksum in evaluated.values()):
        raise TypeError
    if 'features' not in value:
        return SavedDataset(metadata, None, sha256, data_dir, evaluated)
    features = from_json(value['features'])
    _check_flat(features)
    return SavedDataset(metadata, Specs(from_json(value['records']), features), sha256, data_dir, evaluated)


def saving(output_dir: str, source: DataSource, is_resumed: bool, evaluated: Iterable[str] = ()) -> Callable[[], None]:
    """Looks at the data, and returns the function that writes the metadata and the specs of the training data.

    Warns if the data of a run that resumes differs.

    Args:
      evaluated: the splits that the run evaluates.
    """
    saved = load(output_dir) if is_resumed else None
    files, of_splits = _files(source), checksums.of_splits(source, evaluated)
    value: dict[str, Any] = {'metadata': dict(source.params.metadata), 'sha256': files and files.sha256}
    value['data_dir'] = paths.absolute(source.data_dir)
    value['evaluated'] = {**(saved.evaluated if saved else {}), **of_splits}
    with tf.Graph().as_default():
        value |= _described(source)
    if saved and saved.sha256 and files and files.sha256 != saved.sha256:
        tf.logging.warning('The training data differs from the data that this model was trained on so far.')
    if saved:
        warn_of_evaluated(saved, of_splits)
    return functools.partial(write_json, dataset_path(output_dir), {**value, 'checksum': _checksum(value)})


def warn_of_evaluated(saved: SavedDataset, found: Mapping[str, str]) -> None:
    """Warns of splits, {split: checksum}, that differ from those that a run has evaluated."""
    for split in changed(saved.evaluated, found):
        tf.logging.warning(
            'The split %s differs from that which this run has evaluated so far: its metrics before and after are of different '
            'examples, also where they decide which checkpoint is the best, and when training stops early.',
            split,
        )


def warn_of_changes(source: DataSource, saved: SavedDataset, splits: Iterable[str]) -> None:
    """Warns of splits that are to be evaluated or predicted, if they differ from those that the run has evaluated."""
    for split in changed(saved.evaluated, checksums.of_splits(source, splits)):
        tf.logging.warning(
            'The split %s differs from that which the run has evaluated: if the data was divided anew, the model may have '
            'learned from its examples.',
            split,
        )


def check_same(source: DataSource, output_dir: str, evaluated: Iterable[str] = ()) -> None:
    """Raises RunError if the training records of a dataset, which is prepared, differ from those of the run.

    Args:
      evaluated: splits that the run has evaluated, for which the same holds.
    """
    saved, files = load(output_dir), _files(source)
    if saved and (splits := changed(saved.evaluated, checksums.of_splits(source, evaluated))):
        raise RunError(
            f'--dataset={source.params.dataset}: the split {splits[0]} differs from that of {output_dir}, which may have '
            'learned from its examples: restore the data'
        )
    if saved and saved.sha256 and files and files.sha256 != saved.sha256:
        raise RunError(
            f"--dataset={source.params.dataset}: the training data, in {files.directory}, differs from the run's: restore it"
        )


def _files(source):
    """Returns the Shards of the training records; None if they are not in files of the framework."""
    with tf.Graph().as_default():
        return None if source.has_input_fn() else shards.find(source.read(source.params.train_split))


def _described(source):
    """Returns the items of the specs; none, after a warning, if unknown."""
    flag = f'--dataset={source.params.dataset}'
    try:
        specs = find_specs(source)
    except Exception as error:  # Any error of the module without labels: training does not need the specs.
        found = original(error)
        reason = found if isinstance(found, UsageError) else f'{flag}: {in_a_line(error)}'
        tf.logging.warning('--schedule=predict and export will fail: %s', reason)
        return {}
    try:
        _check_flat(specs.features)
        return {'records': to_json(specs.records), 'features': to_json(specs.features)}
    except TypeError as error:
        tf.logging.warning(
            '%s: --input and export will need the data: its records or features contain %s, not only tensors', flag, error
        )
        return {}


def _check_flat(features):
    """Raises TypeError unless features are a dict or a tuple of tf.TensorSpec, or one of them."""
    items = features.values() if isinstance(features, Mapping) else features if isinstance(features, tuple) else [features]
    for spec in items:
        if not isinstance(spec, tf.TensorSpec):
            raise TypeError(spec)


def _checksum(value):
    return hashlib.sha256(dumps(value).encode()).hexdigest()


def facts(source: DataSource) -> dict[str, str]:
    """Returns the facts that tasks of a cluster compare: {name: checksum} of the training files and of the metadata."""
    files = _files(source)
    metadata = _checksum(dict(source.params.metadata))
    return {'the checksum of the training data': files.sha256 if files else '', 'the metadata of the dataset': metadata}


def prepare(source: DataSource, saved: SavedDataset | None, trains: bool) -> DataSource:
    """Prepares the data, and returns the dataset with its metadata: that saved with the model, or else the data's.

    The module's functions get the saved metadata, if any, by which they may read the data as the model learned to.

    Raises:
      RunError: the data differs from the model's training data. Errors of the module's functions.
    """
    if saved:
        source = dataclasses.replace(source, params=HParams(source.params, saved.metadata, source.params.batch_start))
    source.prepare()
    metadata = source.metadata()
    if source.params.exclude:
        kept = saved.metadata.get(excluded.DIGEST) if saved and not trains else None  # The file may be gone then.
        metadata = {**metadata, excluded.DIGEST: kept or excluded.digest(source.params)}
    if saved:
        added = {key: saved.metadata[key] for key in (CLASS_COUNTS, word_vectors.FACTS) if key in saved.metadata}
        metadata = {**added, **metadata}  # Most modules do not count; see `with_class_counts` and `with_word_vectors`.
        for key in saved.metadata if trains else ('class_names',):
            if saved.metadata.get(key) != metadata.get(key):
                what = _IN_WORDS.get(key, key)
                raise RunError(
                    f'--dataset={source.params.dataset}: {what} differs from that of the data that the model was trained on: '
                    'choose another --output_dir, or restore the data'
                )
        metadata = saved.metadata
    source = dataclasses.replace(source, params=add_metadata(source.params, metadata))
    if trains:
        exclusion.write(source)
    return source


def without_data(source: DataSource, saved: SavedDataset) -> DataSource:
    """Returns the dataset with the facts saved with the model; the data itself may be missing."""
    return dataclasses.replace(source, params=add_metadata(source.params, saved.metadata), specs=saved.specs)
