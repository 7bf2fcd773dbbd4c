"""Checks of what a module's `model_fn`, `estimator` and `input_fn` return, as specified in docs/modules.md."""

from collections.abc import Callable, Mapping
import copy
from typing import Any

import tensorflow as tf2
import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator.tpu.tpu_estimator import TPUEstimatorSpec

from estimator_trainer.common.errors import UsageError, describe
from estimator_trainer.common.plugins.contract import DENSE
from estimator_trainer.common.plugins.dataset_contract import EXAMPLE_ID
from estimator_trainer.common.plugins.module_check import arguments_of
from estimator_trainer.hparams.build import HParams

ModelFunction = Callable[..., tf.estimator.EstimatorSpec]


def make_estimator(model: Any, config: tf.estimator.RunConfig, params: HParams) -> tf.estimator.Estimator:
    """Returns the Estimator of a model module with `model_fn` or `estimator`.

    Raises:
      UsageError: `estimator` returns something else, or one with another directory.
    """
    tf.enable_resource_variables()  # Without them, a program of TensorFlow 1 may read a variable while it changes.
    if hasattr(model, 'model_fn'):
        return tf.estimator.Estimator(_model_fn(model, params), config=config, params=params)
    source = f'--model={params.model}: estimator()'
    made = model.estimator(config, params)
    if not isinstance(made, tf.estimator.Estimator):
        raise UsageError(f'{source} must return a tf.estimator.Estimator, not {describe(made)}')
    if made.model_dir != config.model_dir:
        raise UsageError(f'{source} must pass on its config: the Estimator has the model_dir {made.model_dir}')
    _check_config(source, made.config, config)
    return made


def _check_config(source, found, config):
    """Raises UsageError if an Estimator's RunConfig is not the given one, but for settings of the program; warns of others."""
    if found.tf_random_seed is None or _task_of(found) != _task_of(config):
        raise UsageError(
            f'{source} must pass on its config: write config.replace(...) in place of a RunConfig of its own, or where other '
            'code makes that, return tf.estimator.Estimator(made.model_fn, config=config)'
        )
    if found.train_distribute or found.eval_distribute:
        raise UsageError(
            f'{source}: the trainer has no distribution strategies: leave out train_distribute and eval_distribute'
        )
    if found.save_checkpoints_steps or found.save_checkpoints_secs:
        tf.logging.warning('%s: --save_checkpoints_steps decides when to save, not its RunConfig.', source)
    if config.session_config and found.session_config != config.session_config:
        tf.logging.warning('%s: its session_config overrides --precision, --xla and the flags for threads.', source)


def _task_of(config):
    """Returns what a RunConfig knows of the task; copies of a device_fn may differ."""
    return config.is_chief, config.master, config.device_fn is None, config.task_type, config.task_id


def _model_fn(model, params):
    """Returns the module's `model_fn` with all arguments that an Estimator may give, and with its result checked."""
    source = f'--model={params.model}: model_fn()'
    names = arguments_of(model.model_fn)

    def model_fn(features, labels, mode, params, config):
        given = {'labels': labels, 'mode': mode, 'params': params, 'config': config}
        spec = model.model_fn(features=features, **{name: value for name, value in given.items() if name in names})
        if isinstance(spec, TPUEstimatorSpec):
            spec = spec.as_estimator_spec()
        if not isinstance(spec, tf.estimator.EstimatorSpec):
            raise UsageError(f'{source} must return a tf.estimator.EstimatorSpec, not {describe(spec)}')
        return spec

    return model_fn


def wrap_model_fn(estimator: tf.estimator.Estimator, wrap: Callable[[ModelFunction], ModelFunction]) -> tf.estimator.Estimator:
    """Returns a copy of an Estimator, of any class, with another model_fn.

    Args:
      wrap: function of the function (features, labels, mode, config) of the given Estimator; it returns another of these
        arguments.
    """
    wrapped = copy.copy(estimator)
    wrapped._model_fn = wrap(estimator.model_fn)
    return wrapped


def as_in_programs(
    dataset: Any, params: HParams, features: Mapping[str, Any], labels: Mapping[str, Any] | None
) -> tuple[dict[str, Any], Any]:
    """Returns a batch of a dataset module with `read` as Estimator programs expect it.

    Args:
      labels: {name: tensor [batch, ...]}, or None.

    Returns:
      features: a plain dict, with the features of the module's `by_column`, if it has that, and the label 'weight' among them,
        and without 'example_id'.
      labels: the only tensor beside the weight, or a dict if there are several; None if there are none.
    """
    features = {name: value for name, value in features.items() if name != EXAMPLE_ID}
    if hasattr(dataset, 'by_column'):
        features = {**features, **dataset.by_column(params, features)}
    targets = dict(labels or {})
    if 'weight' in targets:
        features['weight'] = targets.pop('weight')
    return features, next(iter(targets.values())) if len(targets) == 1 else targets or None


def check_batches(source: str, made: Any) -> Any:
    """Returns the result of an `input_fn`: a tf.data.Dataset of batches, or tensors (features, labels); labels may be None.

    Raises:
      UsageError: it is something else; the message begins with `source`.
    """
    if isinstance(made, (tf2.data.Dataset, tf.data.Dataset)):
        if isinstance(made.element_spec, tuple) and len(made.element_spec) != 2:
            raise UsageError(
                f'{source}: input_fn() must return batches (features, labels), not of {len(made.element_spec)} parts'
            )
        return made
    if isinstance(made, (tuple, list)) and len(made) == 2 and _is_batch(made[0]):
        return tuple(made)
    if not isinstance(made, (tuple, list)) and _is_batch(made):
        return made, None
    raise UsageError(
        f'{source}: input_fn() must return a tf.data.Dataset of batches, or tensors (features, labels), not {describe(made)}'
    )


def _is_batch(features):
    found = tf.nest.flatten(features)
    return bool(found) and all(isinstance(value, (*DENSE, tf.SparseTensor, tf.RaggedTensor)) for value in found)


def split_batch(element: Any) -> tuple[Any, Any]:
    """Returns the features and the labels, None if there are none, of a batch that `check_batches` has checked, or its spec."""
    return element if isinstance(element, tuple) else (element, None)


def named(values: Any, kind: str) -> dict[str, Any]:
    """Returns tensors by name: of a dict by its keys, a lone one by `kind`, those of a tuple by kind_0, ...; none of None.

    Names within nested structures, and keys that are tuples, as those of a MultiHead's predictions, are joined by /.
    """
    if values is None:
        return {}
    if isinstance(values, Mapping):
        return dict(_paths(values))
    if isinstance(values, (tuple, list)):
        return dict(_paths({f'{kind}_{i}': value for i, value in enumerate(values)}))
    return {kind: values}


def _paths(values, prefix=''):
    """Yields (name, tensor) of a nested structure."""
    for key, value in values.items() if isinstance(values, Mapping) else enumerate(values):
        name = f'{prefix}{"/".join(map(str, key)) if isinstance(key, tuple) else key}'
        if isinstance(value, (Mapping, tuple, list)):
            yield from _paths(value, f'{name}/')
        else:
            yield name, value
