"""Warm start: initialization of the weights from another run."""

from collections.abc import Sequence
import re
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, and_more
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.options.values import parse_names
from estimator_trainer.common.training.start_weights import AVERAGE, StartWeights, renamed
from estimator_trainer.common.training.whole_layers import incomplete, layer_of


def warm_start(options: Options, networks: Sequence[Any] = ()) -> None:
    """Initializes the variables of the default graph as the flags say; see `start_from`."""
    if options.warm_start_from:
        variables = [v for v in tf.global_variables() if v is not tf.train.get_global_step()]
        start_from(options.warm_start_from, variables, options.warm_start_names, options.warm_start_exclude, networks)


def start_from(
    path: str, variables: Sequence[tf.Variable], names: Sequence[str] = (), exclude: str = '', networks: Sequence[Any] = ()
) -> None:
    """Initializes variables from those of the same name and shape in a checkpoint, and logs the loaded ones.

    Of a layer, either all variables are loaded, but for those to exclude, or none, with a warning; see `whole_layers`.
    Loads moving averages of the weights if the checkpoint has them, as evaluation used them.

    Args:
      path: a checkpoint, a directory of checkpoints (the last one is used), output_dir/best, a SavedModel, or weights saved by
          Keras (see common/keras/weights.py).
      names: pairs of different names in checkpoint and model, see `parse_names`; the first that fits a variable counts.
      exclude: regular expression; variables whose names match it keep their own initializers.
      networks: the tf.keras models called, for weights saved by Keras. Variables of a model with the same layers are matched by
          Keras's rules, others by their names, possibly within the graph's scopes.

    Raises:
      UsageError: there is no checkpoint at the path, none of its variables matches, or a name or `exclude` matches none.
      RunError: the checkpoint is corrupt.
    """
    pairs, excluded = parse_names(names), {v.op.name for v in variables if exclude and re.search(exclude, v.op.name)}
    _check_names(variables, pairs, exclude, excluded)
    weights = StartWeights(path, networks)
    tf.logging.info('Starting from the weights in %s:', path if weights.keras else weights.checkpoint)
    sources = {v.op.name: _find_source(weights, v, pairs, v.op.name in excluded) for v in variables}
    for pair in sorted({*pairs} - {source.pair for source in sources.values() if source.key in weights.shapes}):
        raise UsageError(
            f'--warm_start_names: {":".join(pair)}: {weights.checkpoint} has no {pair[0]} for a variable of the model'
        )
    layers = incomplete({name: source.problem for name, source in sources.items() if name not in excluded})
    matching: dict[str, list[tf.Variable]] = {}
    for variable in variables:
        source, layer = sources[variable.op.name], layer_of(variable.op.name, sources)
        if not source.problem and layer in layers:
            source = source._replace(problem=f'{layers[layer][0]} cannot be loaded')
        if not source.problem:
            matching.setdefault(source.key, []).append(variable)
        tf.logging.info('  %-40s %s', variable.op.name, _outcome(variable.op.name, source, weights))
    lines = [f'--warm_start_from={path}: {_of_layer(layer, names, sources)}' for layer, names in layers.items()]
    if not matching and lines:
        raise UsageError(*lines)
    _check_matching(path, weights, matching, [name for name, source in sources.items() if source.is_missing])
    for line in lines:
        tf.logging.warning('%s', line)
    for i in range(max(map(len, matching.values()))):  # Several variables may have the same source.
        targets = {key: variables[i] for key, variables in matching.items() if i < len(variables)}
        tf.train.init_from_checkpoint(weights.checkpoint, targets)


def _check_names(variables, pairs, exclude, excluded):
    """Raises UsageError if a flag names no variable of the model."""
    if exclude and not excluded:
        raise UsageError(f'--warm_start_exclude={exclude}: matches none of the variables: {_list_names(variables)}')
    for old, new in pairs:
        if not any(renamed(variable.op.name, old, new) for variable in variables):
            raise UsageError(f'--warm_start_names: {old}:{new}: the model has no {new}; it has: {_list_names(variables)}')


class _Source(NamedTuple):
    """Where a variable starts from.

    Attributes:
      key: in the checkpoint.
      pair: of --warm_start_names, or None.
      problem: why it is not loaded; '' if it is.
      is_missing: whether the checkpoint lacks it.
    """

    key: str
    pair: tuple[str, str] | None
    problem: str
    is_missing: bool = False


def _find_source(weights, variable, pairs, is_excluded):
    name, shape = variable.op.name, variable.shape.as_list()
    pair = next((pair for pair in pairs if renamed(name, *pair)), None)
    key = weights.key(name, pair)
    saved_shape = weights.shapes.get(key)
    if is_excluded:
        return _Source(key, pair, 'excluded')
    if saved_shape is None:
        return _Source(key, pair, 'missing' if key == name else f'{key} is missing', True)
    return _Source(key, pair, '' if saved_shape == shape else f'its shape is {saved_shape}, not {shape}')


def _outcome(name, source, weights):
    if source.problem:
        return f'skipped: {source.problem}'
    saved_name = weights.shown(source.key)
    return 'loaded' if saved_name in (name, f'{name}{AVERAGE}') else f'loaded from {saved_name}'


def _of_layer(layer, names, sources):
    """Returns a line for a layer of which these variables cannot be loaded."""
    reasons = ', '.join(f'{name} ({sources[name].problem})' for name in names)
    other = f'map it with --warm_start_names=OLD:{names[0]}, or ' if sources[names[0]].is_missing else ''
    only = '|'.join(f'^{name}$' for name in names)
    return (
        f'the layer {layer} starts from scratch, as a part of it cannot be loaded: {reasons}: {other}load the others with '
        f"--warm_start_exclude='{only}'"
    )


def _check_matching(path, weights, matching, missing):
    """Raises UsageError if no variable was found; warns of unused weights if variables are missing."""
    keras = weights.keras
    if not matching and keras and keras.has_paths:
        raise UsageError(
            f'--warm_start_from={path}: has the weights of a model with other layers than --model, and no '
            'names for them: save them by save_weights to a name that ends with .h5, but not with .weights.h5'
        )
    if not matching and keras and not keras.names:
        raise UsageError(f'--warm_start_from={path}: has weights without names of layers: save the model as .keras or .h5')
    if not matching:
        raise UsageError(
            f'--warm_start_from={path}: no variable matches one of the model in name and shape; it has '
            f'{_shortened(keras.names if keras else weights.shapes)}'
        )
    left = [weights.shown(key) for key in keras.arrays if key not in matching] if keras else []
    if missing and left:
        tf.logging.warning(
            f'--warm_start_from={path}: has no weights for {_shortened(missing)}; it has {_shortened(left)}, which are not used'
            ': if these are the same, map them with --warm_start_names'
        )


def _shortened(names):
    return and_more(sorted(names), 10)


def _list_names(variables):
    return ', '.join(variable.op.name for variable in variables)
