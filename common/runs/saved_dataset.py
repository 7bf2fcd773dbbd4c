"""dataset.json in an output_dir: what evaluation, prediction and export need to know of the training data."""

import contextlib
import dataclasses
from typing import Any

import tensorflow.compat.v1 as tf

from common.data import shards
from common.data.input_pipeline import specs_of
from common.data.source import DataSource
from common.data.specs import Specs, from_json, to_json
from common.errors import RunError
from common.files import read_json, write_json
from common.storage.run_dir import dataset_path
from hparams.build import add_metadata


@dataclasses.dataclass(frozen=True)
class SavedDataset:
    """The metadata of the training data, the Specs of its records and features, and the checksum of its files.

    The latter two are None if they could not be determined.
    """

    metadata: dict[str, Any]
    specs: Specs | None
    sha256: str | None


def load(output_dir: str) -> SavedDataset | None:
    """Returns what `save` wrote; None if there is nothing.

    Raises:
      RunError: the file is corrupt.
    """
    path = dataset_path(output_dir)
    if not tf.io.gfile.exists(path):
        return None
    try:
        value = read_json(path)
        specs = Specs(from_json(value['records']), from_json(value['features'])) if 'features' in value else None
        if not isinstance(value['metadata'], dict):
            raise TypeError
        return SavedDataset(value['metadata'], specs, value.get('sha256'))
    except ValueError as error:
        raise RunError(f'{error}; --schedule=train writes it anew if it is deleted') from None
    except (KeyError, TypeError, AttributeError):
        raise RunError(f'{path}: does not describe a dataset; --schedule=train writes it anew if it is deleted') from None


def save(output_dir: str, source: DataSource, is_resumed: bool) -> None:
    """Writes the metadata and the specs of a training's dataset; warns if a resumed training's data is another."""
    saved = load(output_dir) if is_resumed else None
    with tf.Graph().as_default():
        records = source.read(source.params.train_split)
        files = shards.find(records)
        value: dict[str, Any] = {'metadata': dict(source.params.metadata), 'sha256': files and files.sha256}
        with contextlib.suppress(Exception):  # A parser that fails without labels, or specs that JSON cannot represent.
            specs = specs_of(source, records)
            value |= {'records': to_json(specs.records), 'features': to_json(specs.features)}
    if saved and saved.sha256 and files and files.sha256 != saved.sha256:
        tf.logging.warning('The training data is not the data that this model was trained on so far.')
    write_json(dataset_path(output_dir), value)


def prepare(source: DataSource, saved: SavedDataset | None, trains: bool) -> DataSource:
    """Prepares the data, and returns the dataset with its metadata: what was saved with the model, or else the data's.

    Raises:
      RunError: the data differs from what the model was trained on.
      Errors of the module's functions.
    """
    source.module.prepare(source.data_dir, source.params)
    metadata = source.metadata()
    if saved:
        for key in saved.metadata if trains else ('class_names',):
            if saved.metadata.get(key) != metadata.get(key):
                raise RunError(
                    f'--dataset={source.params.dataset}: {key} differs from that of the data that the model was trained on: '
                    'choose another --output_dir, or restore the data'
                )
        metadata = saved.metadata
    return dataclasses.replace(source, params=add_metadata(source.params, metadata))


def without_data(source: DataSource, saved: SavedDataset) -> DataSource:
    """Returns the dataset with what was saved with the model; the data itself need not be there."""
    return dataclasses.replace(source, params=add_metadata(source.params, saved.metadata), specs=saved.specs)
