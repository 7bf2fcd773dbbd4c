"""Starting a training from the weights of another one."""

import os

import tensorflow.compat.v1 as tf

from common.errors import UsageError


def warm_start(path, variables):
    """Initializes variables from those of the same name and shape, and logs which.

    Only a training that starts at its first step is affected: one that goes on restores its own checkpoint.

    Args:
      path: str, a checkpoint without suffix, a directory of checkpoints, of which the last is taken, or a SavedModel.
      variables: list of tf.Variable.

    Raises:
      UsageError: there is nothing to load at the path, or nothing of it fits.
    """
    found = _find(path)
    shapes = tf.train.NewCheckpointReader(found).get_variable_to_shape_map()
    fitting = {}
    tf.logging.info('Starting from the weights in %s:', found)
    for variable in variables:
        name, here = variable.op.name, variable.shape.as_list()
        there = shapes.get(name)
        if there == here:
            fitting[name] = variable
        tf.logging.info('  %-40s %s', name, 'loaded' if there == here else 'skipped: not there' if there is None else
                        f'skipped: has the shape {there} there, {here} here')
    if not fitting:
        raise UsageError(f'--warm_start_from={path}: no variable there has the name and the shape of one here')
    tf.train.init_from_checkpoint(found, fitting)


def _find(path):
    """Returns the path of a checkpoint, without suffix."""
    candidates = [path, os.path.join(path, 'variables', 'variables')]
    if tf.io.gfile.isdir(path):
        candidates.append(tf.train.latest_checkpoint(path))
    for candidate in filter(None, candidates):
        if tf.io.gfile.exists(f'{candidate}.index'):
            return candidate
    raise UsageError(f'--warm_start_from={path}: neither a checkpoint, nor a directory of checkpoints, nor a SavedModel')
