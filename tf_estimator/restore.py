"""Restores the names that tensorflow-estimator needs to load, and its API, in TensorFlow."""

import importlib
import importlib.util
import sys
import types
from typing import Any

from tf_estimator import refusals
from tf_estimator.aliases import Aliases
from tf_estimator.requirements import CURE

OLD_PATH = 'tensorflow.python.estimator'  # Location of its modules before the package tensorflow-estimator.
_API = 'tensorflow_estimator.python.estimator.api._{}.estimator'
# {name of an API: the module behind it}
APIS = {
    'tensorflow.estimator': _API.format('v2'),
    'tensorflow.compat.v1.estimator': _API.format('v1'),
    'tensorflow.compat.v2.estimator': _API.format('v2'),
}
COORDINATED = 'tensorflow.python.distribute.estimator_training'
_TPU_MODULES = ('tpu_embedding', 'tpu_embedding_gradient', 'session_support')
_TPU_SYMBOLS = ('AdagradParameters', 'AdamParameters', 'FtrlParameters', 'StochasticGradientDescentParameters')


def restore(tf: types.ModuleType) -> None:
    """Restores `tf.estimator`."""
    _restore_what_estimator_imports(tf)
    v1, v2 = _import_estimator(tf)
    refusals.refuse_tpu(v1.tpu.TPUEstimator)
    tf.estimator = v2  # type: ignore[attr-defined]
    for api in (tf, tf.compat.v1, tf.compat.v2):
        api.compat.v1.estimator = v1
        api.compat.v2.estimator = v2
    _add_module(OLD_PATH, __path__=[])
    names = {
        f'{OLD_PATH}.keras': 'tensorflow_estimator.python.estimator.keras_lib',
        OLD_PATH: 'tensorflow_estimator.python.estimator',
    }
    sys.meta_path.insert(0, Aliases(names))
    _load_keras(tf)


def name_apis() -> None:
    """Makes an import of `tensorflow.estimator` or `tensorflow.compat.v1.estimator`, by that name, give the mended API."""
    sys.meta_path.insert(0, Aliases(APIS))  # Before TensorFlow's finder, which would load a file of theirs again.


def _load_keras(tf: types.ModuleType) -> None:
    """Makes tf.keras, and its dependents, Keras 2 from now on.

    TensorFlow would decide at the first use, by an environment variable that may have changed by then, and its lazy loader is
    not thread-safe.
    """
    lazy = getattr(importlib.import_module('tensorflow.python.util.lazy_loader'), 'KerasLazyLoader', ())
    for api in (tf, tf.compat.v1, tf.compat.v2):
        for value in list(vars(api).values()):
            if isinstance(value, lazy):
                dir(value)


def _restore_what_estimator_imports(tf: types.ModuleType) -> None:
    """Restores the dropped modules and names of TensorFlow that tensorflow-estimator imports."""
    from tf_estimator import multi_worker

    from tensorflow.python.util import tf_export

    tf_export.ESTIMATOR_API_NAME = 'estimator'
    for attributes, suffix in ((tf_export.API_ATTRS, ''), (tf_export.API_ATTRS_V1, '_v1')):
        attributes['estimator'] = tf_export._Attributes(f'_estimator_api_names{suffix}', f'_estimator_api_constants{suffix}')

    _add_module(
        COORDINATED,
        init_run_config=multi_worker.init_run_config,
        should_run_distribute_coordinator=multi_worker.should_run_distribute_coordinator,
        train_and_evaluate=multi_worker.train_and_evaluate,
        estimator_train=multi_worker.refuse,
        estimator_evaluate=multi_worker.refuse,
    )
    for name in _TPU_MODULES:
        _add_module(f'tensorflow.python.tpu.{name}', __getattr__=refusals.unavailable_on_tpu)
    for name in _TPU_SYMBOLS:
        setattr(tf.compat.v1.tpu.experimental, name, refusals.unavailable_on_tpu(name))
    input_hook = refusals.unavailable('CheckpointInputPipelineHook', refusals.INPUT_HOOK_ADVICE)
    for api in (tf, tf.compat.v1):
        api.data.experimental.CheckpointInputPipelineHook = input_hook


def _add_module(name: str, **attributes: Any) -> None:
    """Adds an importable module with these attributes, if TensorFlow has none of that name."""
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        module = types.ModuleType(name)
        vars(module).update(attributes)
        sys.modules[name] = module
        package, _, base = name.rpartition('.')
        setattr(importlib.import_module(package), base, module)


def _import_estimator(tf: types.ModuleType) -> list[types.ModuleType]:
    """Returns the packages behind tf.compat.v1.estimator and tf.estimator."""
    try:
        return [importlib.import_module(_API.format(version)) for version in ('v1', 'v2')]
    except (ImportError, AttributeError) as error:
        raise ImportError(f'tensorflow-estimator does not load on TensorFlow {tf.__version__}: {error}. {CURE}') from error
