"""Loading a checkpoint's weights into a session."""

from collections.abc import Sequence
import functools
import os
import re

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.files import names_in

_OF_OPTIMIZER = re.compile(r'(^|/)(beta[12]_power|current_loss_scale|good_steps)(_\d+)?$')  # Scalars that may come and go.


READ_ERRORS = (tf.errors.OpError, ValueError, IndexError, RuntimeError)  # Of a reader of a corrupt checkpoint.


class CheckpointGone(RunError):
    """A file of a checkpoint is missing."""

    def __init__(self, checkpoint_path: str):
        super().__init__(f'{checkpoint_path}: a file of it is missing: choose another checkpoint')


def corrupt(checkpoint_path: str) -> RunError:
    """Returns the error of a corrupt checkpoint."""
    return RunError(f'{checkpoint_path}: is corrupt: choose another checkpoint')


class ModelChanged(RunError):
    """The variables of a model are no longer those of the checkpoint from which its training resumes.

    Attributes:
      checkpoint_path: without suffix.
      changes: such as 'new: extra/kernel'.
    """

    def __init__(self, checkpoint_path: str, changes: str, text: str = ''):
        super().__init__(text or f'{checkpoint_path}: the code of the model has changed since ({changes})')
        self.checkpoint_path, self.changes = checkpoint_path, changes


def without_suffix(path: str) -> str:
    """Returns the path without the suffix of a checkpoint's file, as TensorFlow expects."""
    return re.sub(r'\.(index|meta|data-\d+-of-\d+)$', '', path)


def paths_of(checkpoint_path: str) -> list[str]:
    """Returns the paths of a checkpoint's files, given its path without suffix, but for those of an interrupted save."""
    directory, name = os.path.split(checkpoint_path)
    names = (found for found in names_in(directory or '.') if found.startswith(f'{name}.') and '.tempstate' not in found)
    return [os.path.join(directory, found) for found in names]


def make_session(config, graph: tf.Graph | None = None, for_one: bool = False) -> tf.Session:
    """Creates a session of a graph, by default the default graph, on this machine.

    Args:
      config: tf.estimator.RunConfig.
      for_one: whether it is for the small ops of a single example: one thread runs each, and they are not fused, which takes
        longer to set up than it saves.
    """
    session_config = tf.ConfigProto(allow_soft_placement=True)  # As in the Estimator's own sessions.
    if config.session_config:
        session_config.CopyFrom(config.session_config)
        for name in ('device_filters', 'experimental'):  # For training in a cluster; this session is local.
            session_config.ClearField(name)
    if for_one:
        session_config.intra_op_parallelism_threads = 1
        rewriting = session_config.graph_options.rewrite_options
        rewriting.remapping = rewriting.OFF
    return tf.Session(graph=graph, config=session_config)


def make_saver(spec) -> tf.train.Saver:
    """Returns the saver that restores the model of a tf.estimator.EstimatorSpec in the default graph."""
    return spec.scaffold.saver or tf.train.Saver()


def open_checkpoint(checkpoint_path: str):
    """Returns a tf.train.NewCheckpointReader for a checkpoint's path without suffix.

    Raises:
      CheckpointGone: the checkpoint does not exist.
      RunError: it is corrupt.
    """
    try:
        return tf.train.NewCheckpointReader(checkpoint_path)
    except tf.errors.NotFoundError:
        raise CheckpointGone(checkpoint_path) from None
    except READ_ERRORS:
        raise corrupt(checkpoint_path) from None


def is_intact(checkpoint_path: str) -> bool:
    """Whether a checkpoint, given by its path without suffix, exists and all its tensors match their checksums."""
    try:
        reader = open_checkpoint(checkpoint_path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except (RunError, *READ_ERRORS):
        return False
    return True


def restore(saver: tf.train.Saver, session: tf.Session, checkpoint_path: str) -> None:
    """Restores the variables of a saver of the session's graph from a checkpoint's path without suffix.

    Raises:
      CheckpointGone: the checkpoint does not exist.
      RunError: it is corrupt, or belongs to another model.
    """
    with session.graph.as_default():
        check_variables(checkpoint_path)
        if names := unknown_variables(checkpoint_path):
            _warn_of_unknown(', '.join(names))
        try:
            saver.restore(session, checkpoint_path)
        except tf.errors.NotFoundError as error:
            missing = re.search(r'Key (\S+) not found', error.message)
            if not missing:
                raise CheckpointGone(checkpoint_path) from None
            raise RunError(f'{checkpoint_path}: does not match the model: it has no variable {missing.group(1)}') from None
        except (tf.errors.DataLossError, tf.errors.OutOfRangeError, tf.errors.UnknownError):
            raise corrupt(checkpoint_path) from None
        except ValueError:  # A Saver's error for missing files.
            raise CheckpointGone(checkpoint_path) from None


@functools.cache
def _warn_of_unknown(names):
    tf.logging.warning('The checkpoint has variables that the model does not use outside of training: %s.', names)


def unknown_variables(checkpoint_path: str, trains: bool = False, with_slots: bool = False) -> list[str]:
    """Returns the names of variables in a checkpoint that the default graph lacks, but for those about its variables.

    Of the latter kind are the slots of optimizers and moving averages: their names contain that of a variable.

    Args:
      trains: whether the graph has all variables that training has; else scalars, of which optimizers have some, do not count,
        and a name may contain that of a variable anywhere.
      with_slots: whether those about its variables count, too.
    """
    names = [_saved_name(variable) for variable in tf.global_variables()]
    known = {*names, *(re.sub(r'/part_\d+(?=/|$)', '', name) for name in names)}
    known |= {spec.name for saved in tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS) for spec in saved.specs}  # Of tables.

    def is_known(parts):
        starts = [0] if trains else range(len(parts))
        ends = [len(parts)] if with_slots else range(1, len(parts) + 1)
        return any('/'.join(parts[i:j]) in known for i in starts for j in ends)

    shapes = open_checkpoint(checkpoint_path).get_variable_to_shape_map()
    wanted = [name for name, shape in shapes.items() if shape or trains and not _OF_OPTIMIZER.search(name)]
    return sorted(name for name in wanted if not is_known(name.split('/')))


def new_variables(checkpoint_path: str) -> list[str]:
    """Returns the names of the variables of the default graph that a checkpoint lacks, without slots of these."""
    saved = open_checkpoint(checkpoint_path).get_variable_to_shape_map()
    return without_slots([name for name in map(_saved_name, tf.global_variables()) if name not in saved])


def without_slots(names: Sequence[str]) -> list[str]:
    """Returns the names of variables but for those of optimizers' slots, and moving averages, of others among them."""
    return [name for name in names if not any(name.startswith(f'{other}/') for other in names)]


def _saved_name(variable):
    """Returns the name of a variable in checkpoints; the slots of a partitioned one have another than their op."""
    part = getattr(variable, '_save_slice_info', None)
    return part.full_name if part else variable.op.name


def check_variables(checkpoint_path: str) -> None:
    """Raises RunError if variables of the default graph differ in shape or type from those that the checkpoint has.

    A tf.train.Saver would give a variable the checkpoint's shape.
    """
    if differences := different_variables(checkpoint_path):
        raise RunError(f'{checkpoint_path}: does not match the model: {"; ".join(differences)}')


def different_variables(checkpoint_path: str) -> list[str]:
    """Returns a text for each variable of the default graph, but slots, whose shape or type is another in a checkpoint."""
    reader = open_checkpoint(checkpoint_path)
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    differences: dict[str, str] = {}
    for variable in tf.global_variables():
        name, dtype = variable.op.name, variable.dtype.base_dtype
        if name in shapes and not variable.shape.is_compatible_with(shapes[name]):
            differences[name] = (
                f'{name} has shape {shapes[name]} in the checkpoint, but {variable.shape.as_list()} in the model'
            )
        elif name in dtypes and dtypes[name] != dtype:
            differences[name] = f'{name} has type {dtypes[name].name} in the checkpoint, but {dtype.name} in the model'
    return [differences[name] for name in without_slots([*differences])]
