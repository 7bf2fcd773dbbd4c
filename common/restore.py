"""Loading a checkpoint's weights into a session."""

import re

import tensorflow.compat.v1 as tf

from common.errors import RunError


def restore(saver, session, checkpoint_path):
    """Restores what a tf.train.Saver of the session's graph knows from a checkpoint, whose path has no suffix.

    Raises:
      RunError: the checkpoint is damaged, or is of another model.
    """
    try:
        with session.graph.as_default():
            _check_shapes(checkpoint_path)
            saver.restore(session, checkpoint_path)
    except tf.errors.NotFoundError as error:
        missing = re.search(r'Key (\S+) not found', error.message)
        raise RunError(f'{checkpoint_path}: does not fit the model: it has no variable {missing.group(1)}' if missing else
                       f'{checkpoint_path}: a file of it is missing') from None
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError):
        raise RunError(f'{checkpoint_path}: is damaged: choose another with --checkpoint') from None


def _check_shapes(checkpoint_path):
    """A tf.train.Saver does not: a variable would take on another shape."""
    shapes = tf.train.NewCheckpointReader(checkpoint_path).get_variable_to_shape_map()
    for variable in tf.global_variables():
        there, here = shapes.get(variable.op.name), variable.shape.as_list()
        if there not in (None, here):
            raise RunError(f'{checkpoint_path}: does not fit the model: {variable.op.name} has the shape {there} there, {here} '
                           'in the model')
