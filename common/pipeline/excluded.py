"""The training records without those that the hyper-parameter `exclude` names, which `exclusion.write` has written."""

import os

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import sha256_of
from estimator_trainer.common.records import records as records_module
from estimator_trainer.common.records import shards
from estimator_trainer.hparams.build import HParams

DIGEST = 'excluded'  # Metadata: the checksum of the file.
LEFT_OUT = 'left_out'  # In exclusion.json: the numbers of the records that are.


def digest(params: HParams) -> str:
    """Returns the checksum of the file that `exclude` names; raises UsageError if it cannot be read."""
    try:
        return sha256_of(params.exclude)
    except (tf.errors.OpError, OSError) as error:
        reason = 'there is no such file' if isinstance(error, tf.errors.NotFoundError) else 'it cannot be read'
        raise UsageError(f'exclude={params.exclude}: {reason}') from None


def directory(records: tf2.data.Dataset, data_dir: str, params: HParams) -> str:
    """Returns where the rest of the training records goes: below data_dir, by their checksum and that of the file.

    Raises:
      UsageError: the records are not in files of the framework.
    """
    found = shards.find(records)
    if not found:
        raise UsageError(
            f'exclude={params.exclude}: the records of --dataset={params.dataset} have no numbers: write them with '
            'estimator_trainer.records.write, or omit it'
        )
    return os.path.join(data_dir, f'excluded-{found.sha256[:16]}-{params.metadata[DIGEST][:16]}')


def facts_path(directory: str) -> str:
    """Returns the path of exclusion.json: what was left out and corrected."""
    return os.path.join(directory, 'exclusion.json')


def read(records: tf2.data.Dataset, data_dir: str, params: HParams) -> tf2.data.Dataset:
    """Returns the rest of the training records; raises RunError if it is not there."""
    path = directory(records, data_dir, params)
    if not records_module.is_written(path):
        raise RunError(f'{path}: the training data without the records of {params.exclude} is gone: train to write it again')
    return records_module.read(path, params.train_split)


def numbers(records: tf2.data.Dataset, data_dir: str, params: HParams) -> np.ndarray:
    """Returns the numbers, int64 [n], that the rest of the training records have among all of them.

    Args:
      records: all of them.
    """
    left_out = records_module.read_facts(facts_path(directory(records, data_dir, params)))[LEFT_OUT]
    found = shards.find(records)
    assert found
    return np.setdiff1d(np.arange(found.count), np.array(left_out, np.int64))
