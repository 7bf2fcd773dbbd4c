"""What is put back into TensorFlow so that tensorflow-estimator loads and its API is found where it used to be."""

import importlib
import importlib.util
import sys
import types
from typing import Any

from tf_estimator import refusals
from tf_estimator.requirements import CURE

_TPU_MODULES = ('tpu_embedding', 'tpu_embedding_gradient', 'session_support')
_TPU_SYMBOLS = ('AdagradParameters', 'AdamParameters', 'FtrlParameters', 'StochasticGradientDescentParameters')


def restore(tf: types.ModuleType) -> None:
    """Puts `tf.estimator` back."""
    _restore_what_estimator_imports(tf)
    v1, v2 = _import_estimator(tf)
    refusals.refuse_tpu(v1.tpu.TPUEstimator)
    tf.estimator = v2  # type: ignore[attr-defined]
    for api in (tf, tf.compat.v1, tf.compat.v2):
        api.compat.v1.estimator = v1
        api.compat.v2.estimator = v2
    for name, package in (('', v2), ('compat.v1.', v1), ('compat.v2.', v2)):
        _alias(package, f'tensorflow.{name}estimator')


def _restore_what_estimator_imports(tf: types.ModuleType) -> None:
    """Puts back the modules and names that tensorflow-estimator imports and TensorFlow has dropped."""
    from tensorflow.python.util import tf_export

    tf_export.ESTIMATOR_API_NAME = 'estimator'
    for attributes, suffix in ((tf_export.API_ATTRS, ''), (tf_export.API_ATTRS_V1, '_v1')):
        attributes['estimator'] = tf_export._Attributes(f'_estimator_api_names{suffix}', f'_estimator_api_constants{suffix}')

    _add_module(
        'tensorflow.python.distribute.estimator_training',
        init_run_config=_init_run_config,
        should_run_distribute_coordinator=lambda config: False,
    )
    for name in _TPU_MODULES:
        _add_module(f'tensorflow.python.tpu.{name}', __getattr__=refusals.unavailable_on_tpu)
    for name in _TPU_SYMBOLS:
        setattr(tf.compat.v1.tpu.experimental, name, refusals.unavailable_on_tpu(name))
    input_hook = refusals.unavailable('CheckpointInputPipelineHook', refusals.INPUT_HOOK_ADVICE)
    for api in (tf, tf.compat.v1):
        api.data.experimental.CheckpointInputPipelineHook = input_hook


def _add_module(name: str, **attributes: Any) -> None:
    """Puts a module with these attributes where `import` finds it, if TensorFlow has none of that name."""
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        module = types.ModuleType(name)
        vars(module).update(attributes)
        sys.modules[name] = module
        package, _, base = name.rpartition('.')
        setattr(importlib.import_module(package), base, module)


def _init_run_config(config: Any, tf_config: dict[str, Any]) -> None:
    """Completes a RunConfig that names a distribution strategy; tf_config is the content of TF_CONFIG."""
    refusals.refuse_strategy_over_machines(config, tf_config)
    config._distribute_coordinator_mode = None
    config._init_distributed_setting_from_environment_var(tf_config)
    config._maybe_overwrite_session_config_for_distributed_training()


def _import_estimator(tf: types.ModuleType) -> list[types.ModuleType]:
    """Returns the packages behind tf.compat.v1.estimator and tf.estimator."""
    try:
        return [
            importlib.import_module(f'tensorflow_estimator.python.estimator.api._{version}.estimator')
            for version in ('v1', 'v2')
        ]
    except (ImportError, AttributeError) as error:
        raise ImportError(f'tensorflow-estimator does not load on TensorFlow {tf.__version__}: {error}. {CURE}') from error


def _alias(package: types.ModuleType, name: str) -> None:
    """Makes a loaded package, and its submodules, importable under another name."""
    for module_name, module in list(sys.modules.items()):
        if module_name == package.__name__ or module_name.startswith(f'{package.__name__}.'):
            sys.modules[name + module_name[len(package.__name__) :]] = module
