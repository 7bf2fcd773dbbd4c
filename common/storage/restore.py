"""Loading a checkpoint's weights into a session."""

import re

import tensorflow.compat.v1 as tf

from common.errors import RunError


class CheckpointGone(RunError):
    """A file of a checkpoint is not there."""

    def __init__(self, checkpoint_path):
        super().__init__(f'{checkpoint_path}: a file of it is missing: choose another checkpoint')


def without_suffix(path):
    """Returns the path by which TensorFlow knows a checkpoint, of that or of one of its files."""
    return re.sub(r'\.(index|meta|data-\d+-of-\d+)$', '', path)


def make_session(spec, config):
    """Returns a tf.Session of the default graph, and the tf.train.Saver that restores the model in it.

    Args:
      spec: tf.estimator.EstimatorSpec of the graph.
      config: tf.estimator.RunConfig.
    """
    # What has no kernel for a device runs elsewhere, as in the Estimator's own sessions.
    session_config = config.session_config or tf.ConfigProto(allow_soft_placement=True)
    return tf.Session(config=session_config), spec.scaffold.saver or tf.train.Saver()


def open_checkpoint(checkpoint_path):
    """Returns the tf.train.NewCheckpointReader of a checkpoint, whose path has no suffix.

    Raises:
      CheckpointGone: it is not there.
      RunError: it is damaged.
    """
    try:
        return tf.train.NewCheckpointReader(checkpoint_path)
    except tf.errors.NotFoundError:
        raise CheckpointGone(checkpoint_path) from None
    except (tf.errors.OpError, ValueError, IndexError, RuntimeError):
        raise RunError(f'{checkpoint_path}: is corrupt: choose another checkpoint') from None


def is_intact(checkpoint_path):
    """Whether a checkpoint, whose path has no suffix, is there, and every tensor has its checksum, for which it is read."""
    try:
        reader = open_checkpoint(checkpoint_path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except (RunError, tf.errors.OpError, ValueError, IndexError, RuntimeError):
        return False
    return True


def restore(saver, session, checkpoint_path):
    """Restores what a tf.train.Saver of the session's graph knows from a checkpoint, whose path has no suffix.

    Raises:
      CheckpointGone: it is not there.
      RunError: it is damaged, or is of another model.
    """
    with session.graph.as_default():
        _check_shapes(open_checkpoint(checkpoint_path).get_variable_to_shape_map(), checkpoint_path)
        try:
            saver.restore(session, checkpoint_path)
        except tf.errors.NotFoundError as error:
            missing = re.search(r'Key (\S+) not found', error.message)
            if not missing:
                raise CheckpointGone(checkpoint_path) from None
            raise RunError(f'{checkpoint_path}: does not match the model: it has no variable {missing.group(1)}') from None
        except (tf.errors.DataLossError, tf.errors.OutOfRangeError, tf.errors.UnknownError):
            raise RunError(f'{checkpoint_path}: is corrupt: choose another checkpoint') from None
        except ValueError:  # How a Saver says that there are no files.
            raise CheckpointGone(checkpoint_path) from None


def _check_shapes(shapes, checkpoint_path):
    """A tf.train.Saver does not: a variable would take on another shape."""
    for variable in tf.global_variables():
        there, here = shapes.get(variable.op.name), variable.shape.as_list()
        if there not in (None, here):
            raise RunError(
                f'{checkpoint_path}: does not match the model: {variable.op.name} '
                f'has shape {there} in the checkpoint, but {here} in the model'
            )
