"""Weights saved by Keras: read without executing code from the file, and matched with a model's variables."""

import collections
from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import importlib
import os
from typing import Any
import zipfile
import zlib

from google.protobuf.message import DecodeError
import h5py
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.storage.restore import open_checkpoint, without_suffix

_HDF5 = ('.h5', '.hdf5')
_ZIP = '.keras'
_OBJECT_GRAPH = '_CHECKPOINTABLE_OBJECT_GRAPH'
_OF_TRAINING = {'optimizer', 'metrics'}  # Groups in the files of models that were compiled.
_CORRUPT = (
    OSError,
    KeyError,
    EOFError,
    RuntimeError,
    TypeError,
    ValueError,
    DecodeError,
    tf.errors.OpError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclasses.dataclass(frozen=True)
class SavedWeights:
    """The weights in a file.

    Attributes:
      arrays: {key: array}.
      names: {name of a variable: key}; empty if the file has no names. Ambiguous names are omitted.
      layers: for .h5, the keys of each layer with weights, in Keras's order; else empty.
      has_paths: whether the keys are paths of layers, as in .keras and .weights.h5.
    """

    arrays: Mapping[str, np.ndarray]
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    layers: Sequence[Sequence[str]] = ()
    has_paths: bool = False


def is_of_keras(path: str) -> bool:
    """Whether a path names a Keras file, or an object checkpoint, as in a SavedModel of Keras."""
    return path.lower().endswith((*_HDF5, _ZIP)) or _find_objects(path) is not None


def read(path: str) -> SavedWeights:
    """Returns the weights in a file.

    Args:
      path: output of `save_weights` or `save` of a tf.keras model: a local file, .h5, .hdf5 or .keras, or a checkpoint or
          SavedModel.

    Raises:
      UsageError: there is no such file, or it has another format.
      RunError: it is corrupt.
    """
    objects = _find_objects(path)
    if not objects and not os.path.isfile(path):
        what = 'it is a directory' if os.path.isdir(path) else 'there is no such file'
        raise UsageError(f'--warm_start_from={path}: {what}')
    try:
        if objects:
            return _read_objects(open_checkpoint(objects))
        if path.lower().endswith(_ZIP):
            with zipfile.ZipFile(path) as archive, archive.open('model.weights.h5') as file, h5py.File(file) as group:
                return _read_paths(group)
        with h5py.File(path) as file:
            return _read_hdf5(file)
    except _CORRUPT as error:
        raise RunError(f'--warm_start_from={path}: is corrupt: {str(error) or type(error).__name__}') from None


def match(weights: SavedWeights, networks: Sequence[Any]) -> dict[str, str]:
    """Returns {name of a variable: key} for models with the same layers as the saved one.

    Like Keras, matches layers by order in .h5 files and by path in .keras and .weights.h5 files, so their names may differ. If
    a called model does not match, tries the models within it.

    Args:
      weights: of a file.
      networks: tf.keras models, called.
    """
    matched: dict[str, str] = {}
    for network in networks:
        found = _match_network(weights, network)
        if found:
            matched |= found
        else:
            within = [layer for layer in network._flatten_layers(include_self=False) if isinstance(layer, tf.keras.Model)]
            for inner in within:
                matched = {**_match_network(weights, inner), **matched}
    return matched


def to_checkpoint(weights: SavedWeights, directory: str) -> str:
    """Writes a checkpoint of the arrays, by key, into an empty local directory; returns its path without suffix."""
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.device('/cpu:0'):
            placeholders = {key: tf.placeholder(array.dtype, array.shape) for key, array in weights.arrays.items()}
            variables = {key: tf.Variable(placeholder, use_resource=True) for key, placeholder in placeholders.items()}
        feeds = {placeholders[key]: array for key, array in weights.arrays.items()}
        session.run([variable.initializer for variable in variables.values()], feeds)
        return tf.train.Saver(variables).save(session, os.path.join(directory, 'keras'), write_meta_graph=False)


def _match_network(weights, network):
    if weights.has_paths:
        places = dict(_places(network, '', set()))
    else:
        layers = [layer for layer in network.layers if layer.weights]
        if len(layers) != len(weights.layers):
            return {}
        places = {}
        for layer, keys in zip(layers, weights.layers, strict=True):
            own = [*layer.trainable_weights, *layer.non_trainable_weights]
            # Frozen weights come last, so the order may differ from that in the file; then names decide.
            if [_last(variable.op.name) for variable in own] != [_last(key) for key in keys]:
                return {}
            places.update(zip(keys, own, strict=True))
    shapes = {key: array.shape for key, array in weights.arrays.items()}
    if {key: tuple(variable.shape.as_list()) for key, variable in places.items()} != shapes:
        return {}
    return {variable.op.name: key for key, variable in places.items()}


def _last(name):
    return name.rpartition('/')[2].partition(':')[0]


def _places(layer, path, seen) -> Iterator[tuple[str, tf.Variable]]:
    """Yields (path in a .keras file, variable), for the variables of a layer and of the layers in its attributes.

    In a list or dict, layers are counted by class: dense, dense_1. A layer in several places counts at the first.
    """
    seen.add(id(layer))
    for i, variable in enumerate([*getattr(layer, '_trainable_weights', ()), *getattr(layer, '_non_trainable_weights', ())]):
        yield f'{path}vars/{i}', variable
    saving = importlib.import_module(f'{tf.keras.layers.Layer.__module__.partition(".")[0]}.src.saving.saving_lib')
    for name, value in saving._walk_trackable(layer):
        if saving._is_keras_trackable(value) and id(value) not in seen:
            yield from _places(value, f'{path}{name}/', seen)
        elif isinstance(value, (list, dict, tuple, set)):
            counts: collections.Counter[str] = collections.Counter()
            for item in value.values() if isinstance(value, dict) else value:
                if saving._is_keras_trackable(item) and id(item) not in seen:
                    kind = saving.generic_utils.to_snake_case(type(item).__name__)
                    number = f'_{counts[kind]}' if counts[kind] else ''
                    counts[kind] += 1
                    yield from _places(item, f'{path}{name}/{kind}{number}/', seen)


def _datasets(group, path=''):
    """Yields (path, array) of the arrays in a group of an HDF5 file."""
    for name, item in group.items():
        if isinstance(item, h5py.Group):
            yield from _datasets(item, f'{path}{name}/')
        else:
            yield f'{path}{name}', np.array(item)


def _read_paths(file):
    """Returns the weights in a file whose groups are the paths of layers."""
    arrays = {key: array for key, array in _datasets(file) if key.partition('/')[0] not in _OF_TRAINING}
    return SavedWeights(arrays, has_paths=True)


def _read_hdf5(file):
    """Returns the weights in a file of a model's weights or of a whole model."""
    group = file['model_weights'] if 'model_weights' in file else file
    layers = {layer: _list(group[layer], 'weight_names') for layer in _list(group, 'layer_names')}
    if not layers:  # save_weights writes these to names that end with .weights.h5.
        return _read_paths(file)
    arrays: dict[str, np.ndarray] = {}
    keys, by_layer = [], []
    for layer, names in layers.items():
        own = {f'{layer}/{name}'.removesuffix(':0'): name for name in names}
        arrays |= {key: np.array(group[layer][name]) for key, name in own.items()}
        keys += [(name.removesuffix(':0'), key) for key, name in own.items()]
        by_layer += [list(own)] if own else []
    return SavedWeights(arrays, _unique(keys), by_layer)


def _list(group, name):
    """Returns a list of names from a group's attributes, where Keras splits long lists."""
    parts = [group.attrs[name]] if name in group.attrs else []
    while f'{name}{len(parts)}' in group.attrs:
        parts.append(group.attrs[f'{name}{len(parts)}'])
    return [item.decode() if isinstance(item, bytes) else str(item) for part in parts for item in part]


def _find_objects(path):
    """Returns the path of an object checkpoint, without suffix, or None if there is none at the path."""
    for found in (without_suffix(path), os.path.join(path, 'variables', 'variables')):
        if tf.io.gfile.exists(f'{found}.index'):
            return found if open_checkpoint(found).has_tensor(_OBJECT_GRAPH) else None
    return None


def _read_objects(reader):
    """Returns the weights in an object checkpoint, which stores each variable's name besides its object path.

    Keras 3's `model.export` stores each variable twice; one of equal arrays of a name is read.
    """
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(reader.get_tensor(_OBJECT_GRAPH))
    saved = [attribute for node in graph.nodes for attribute in node.attributes if attribute.name == 'VARIABLE_VALUE']
    arrays: dict[str, np.ndarray] = {}
    keys: collections.defaultdict[str, list[str]] = collections.defaultdict(list)
    for name, key in sorted((attribute.full_name, attribute.checkpoint_key) for attribute in saved):
        array = reader.get_tensor(key)
        if not any(_is_same(array, arrays[known]) for known in keys[name]):
            arrays[key] = array
            keys[name].append(key)
    return SavedWeights(arrays, {name: same[0] for name, same in keys.items() if len(same) == 1})


def _is_same(array, other):
    return (array.dtype, array.shape) == (other.dtype, other.shape) and array.tobytes() == other.tobytes()


def _unique(pairs):
    """Returns {name: key} for unambiguous names."""
    keys: dict[str, set[str]] = {}
    for name, key in pairs:
        keys.setdefault(name, set()).add(key)
    return {name: key for name, (key, *others) in keys.items() if not others}
