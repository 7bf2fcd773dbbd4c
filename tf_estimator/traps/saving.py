"""The checkpoint that a run restores, which it does not write again over itself: a full disk or a kill could lose it."""

from tf_estimator.graphs import reached
from tf_estimator.mending import around

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_util

_LIMIT = 2**31  # Bytes of a checkpoint that are read into memory and compared; a larger one is written again.


tf.train.CheckpointSaverHook._creates_session = False


@around(tf.train.CheckpointSaverHook, 'after_create_session')
def _after_create_session(after_create_session, self, session, coord):
    self._creates_session = True
    try:
        after_create_session(self, session, coord)
    finally:
        self._creates_session = False


@around(tf.train.CheckpointSaverHook, '_get_saver')
def _get_saver(get_saver, self):
    saver = get_saver(self)
    is_careful = self._creates_session and isinstance(saver, tf.train.Saver)
    return _CarefulSaver(saver, self._checkpoint_dir) if is_careful else saver


class _CarefulSaver:
    """A saver of a hook, which does not save what is there."""

    def __init__(self, saver, directory):
        self._saver, self._directory = saver, directory

    def __getattr__(self, name):
        return getattr(self._saver, name)

    def save(self, session, save_path, global_step=None, **options):
        path = f'{save_path}-{global_step}'
        is_latest = tf.train.latest_checkpoint(self._directory) == path and path in self._saver.last_checkpoints
        has_graph = not options.get('write_meta_graph', True) or tf.io.gfile.exists(f'{path}.meta')
        if is_latest and has_graph and _is_saved(self._saver, session, path):
            tf.logging.info('%s has just been restored: it is not written again.', path)
        else:
            self._saver.save(session, save_path, global_step=global_step, **options)


def _is_saved(saver, session, path):
    """Whether a checkpoint is whole and has all that the saver would save, bit by bit."""
    tensors = _saved_tensors(session.graph, saver)
    try:
        reader = tf.train.load_checkpoint(path)
        shapes, kinds = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        size = sum(np.prod(shape) * kinds[name].size for name, shape in shapes.items())
        if shapes.keys() != tensors.keys() or size > _LIMIT:
            return False
        return all(_are_same(value, reader.get_tensor(name)) for name, value in session.run(tensors).items())
    except (tf.errors.OpError, IndexError, RuntimeError, ValueError):  # It is damaged, and the reader may raise any of these.
        return False


def _saved_tensors(graph, saver):
    """Returns {name in the checkpoint: tensor}; {} if there are slices, states of iterators, or parameter servers."""
    tensors: dict[str, tf.Tensor] = {}
    for op in reached([graph.as_graph_element(saver.saver_def.save_tensor_name)]):
        if op.type != 'SaveV2':
            continue
        _, names, slices, *values = op.inputs
        names, slices = (tensor_util.constant_value(tensor) for tensor in (names, slices))
        is_plain = names is not None and slices is not None and not any(slices) and '/job:ps' not in op.device
        if not is_plain or any(value.dtype in (tf.variant, tf.resource) for value in values):
            return {}
        tensors.update(zip((name.decode() for name in names), values))
    return tensors


def _are_same(one, other):
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype == object:
        return np.array_equal(one, other)
    return (one.dtype, one.shape) == (other.dtype, other.shape) and one.tobytes() == other.tobytes()
