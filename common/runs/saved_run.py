"""Flags recorded in an output_dir."""

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.files import read_json
from common.runs import saved_dataset
from common.storage import run_dir


def settings(output_dir: str) -> dict[str, str]:
    """Returns the values of the flags model, dataset, data_dir and hparams_set that a training has saved.

    Empty if there is no training; data_dir is missing in runs of older versions.

    Raises:
      UsageError: hparams.json is corrupt.
      RunError: dataset.json is.
    """
    path = run_dir.hparams_path(output_dir)
    try:
        if not tf.io.gfile.exists(path):
            return {}
        params = read_json(path)
    except tf.errors.UnimplementedError:  # The model's module may register the file system.
        return {}
    except ValueError as error:
        raise UsageError(f'{error}; choose another --output_dir') from None
    found = {name: params[name] for name in ('model', 'dataset') if isinstance(params.get(name), str)}
    saved = saved_dataset.load(output_dir)
    if saved and saved.data_dir:
        found['data_dir'] = saved.data_dir
    return {**found, 'hparams_set': path}
