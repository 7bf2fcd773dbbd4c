"""Starting a training from the weights of another one."""

import contextlib
import os

import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError
from common.storage.checkpoints import latest_intact
from common.storage.restore import is_intact, open_checkpoint, without_suffix


def warm_start(path, variables):
    """Initializes variables from those of the same name and shape, and logs which.

    Where the other training kept moving averages of its weights, they are taken, as they are what was evaluated.

    Args:
      path: str, a checkpoint, a directory of checkpoints, of which the last is taken, output_dir/best, or a SavedModel.
      variables: list of tf.Variable.

    Raises:
      UsageError: there is nothing to load at the path, or nothing of it fits.
      RunError: it is damaged.
    """
    found = _find(path)
    if not is_intact(found):
        raise RunError(f'--warm_start_from={path}: {found} is corrupt: choose another checkpoint')
    shapes = open_checkpoint(found).get_variable_to_shape_map()
    fitting = {}
    tf.logging.info('Starting from the weights in %s:', found)
    for variable in variables:
        name, here = variable.op.name, variable.shape.as_list()
        average = f'{name}/ExponentialMovingAverage'
        source = average if average in shapes else name
        there = shapes.get(source)
        if there == here:
            fitting[source] = variable
        tf.logging.info(
            '  %-40s %s',
            name,
            'skipped: missing'
            if there is None
            else 'loaded'
            if there == here
            else f'skipped: its shape is {there}, not {here}',
        )
    if not fitting:
        raise UsageError(f'--warm_start_from={path}: no variable matches one of the model in name and shape')
    tf.train.init_from_checkpoint(found, fitting)


def _find(path):
    """Returns the path of a checkpoint, without suffix."""
    candidates = [without_suffix(path), os.path.join(path, 'variables', 'variables')]
    if tf.io.gfile.isdir(path):
        with contextlib.suppress(ValueError):  # The file that names it is damaged.
            candidates.append(latest_intact(path) or tf.train.latest_checkpoint(path))  # It may have a name of its own.
    for candidate in filter(None, candidates):
        if tf.io.gfile.exists(f'{candidate}.index'):
            return candidate
    raise UsageError(f'--warm_start_from={path}: is neither a checkpoint, nor a directory of checkpoints, nor a SavedModel')
