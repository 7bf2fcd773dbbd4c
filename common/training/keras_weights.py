"""Weights that Keras 2 has saved, as a TensorFlow checkpoint."""

import concurrent.futures
import os

import h5py
import numpy as np
import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError
from common.storage.restore import open_checkpoint

_SUFFIXES = ('.h5', '.hdf5', '.keras')


def is_of_keras(path: str) -> bool:
    """Whether a path is that of a file of Keras, by its name, or of a SavedModel of objects, as Keras saves them."""
    if path.endswith(_SUFFIXES):
        return True
    variables = os.path.join(path, 'variables', 'variables')
    if not tf.io.gfile.exists(f'{variables}.index'):
        return False
    return any('/.ATTRIBUTES/' in name for name in open_checkpoint(variables).get_variable_to_shape_map())


def to_checkpoint(path: str, directory: str) -> str:
    """Writes a checkpoint of the weights in a file, with the names of their variables, and returns its path without suffix.

    Args:
      path: what `save_weights` or `save` of a tf.keras model wrote: a local file, .h5, .hdf5 or .keras, or a SavedModel.
      directory: an empty local directory.

    Raises:
      UsageError: there is no such file, or it has another format.
      RunError: it is corrupt.
    """
    if not path.endswith(_SUFFIXES):
        weights = _read(path, lambda: tf.saved_model.load_v2(path).variables)
    elif not os.path.isfile(path):
        raise UsageError(f'--warm_start_from={path}: there is no such file')
    elif path.endswith('.keras'):  # In safe mode, code that the file contains is not run.
        weights = _read(path, lambda: tf.keras.models.load_model(path, compile=False, safe_mode=True).weights)
    else:
        weights = _read_hdf5(path)
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.device('/cpu:0'):
            placeholders = {name: tf.placeholder(value.dtype, value.shape) for name, value in weights.items()}
            variables = {name: tf.Variable(placeholder, use_resource=True) for name, placeholder in placeholders.items()}
        feeds = {placeholders[name]: value for name, value in weights.items()}
        session.run([variable.initializer for variable in variables.values()], feeds)
        return tf.train.Saver(variables).save(session, os.path.join(directory, 'keras'), write_meta_graph=False)


def _read_hdf5(path):
    """Returns {name: array} of a file that has the weights of a model, or the whole model."""
    try:
        with h5py.File(path) as file:
            layers = file['model_weights'] if 'model_weights' in file else file
            if not _list(layers, 'layer_names'):
                raise UsageError(
                    f'--warm_start_from={path}: has no layers with names: save the weights with tf.keras to a name that ends '
                    'with .h5, but not with .weights.h5, or the model to one that ends with .keras'
                )
            return {
                name.removesuffix(':0'): np.array(layers[layer][name])
                for layer in _list(layers, 'layer_names')
                for name in _list(layers[layer], 'weight_names')
            }
    except (OSError, KeyError) as error:
        raise RunError(f'--warm_start_from={path}: is corrupt: {error}') from None


def _list(group, name):
    """Returns a list of names in the attributes of a group, in which Keras splits long ones."""
    parts = [group.attrs[name]] if name in group.attrs else []
    while f'{name}{len(parts)}' in group.attrs:
        parts.append(group.attrs[f'{name}{len(parts)}'])
    return [item.decode() if isinstance(item, bytes) else str(item) for part in parts for item in part]


def _read(path, load):
    """Returns {name: array} of the variables that a function loads."""

    def read():
        return {variable.name.removesuffix(':0'): variable.numpy() for variable in load()}

    try:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:  # In a thread of its own there is no graph.
            return pool.submit(read).result()
    except Exception as error:  # Of many types.
        raise RunError(f'--warm_start_from={path}: cannot be loaded: {str(error).splitlines()[0]}') from None
