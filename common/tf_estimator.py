"""Brings `tf.estimator` back on TensorFlow 2.16 to 2.21.

Import this module before TensorFlow; afterwards `tf.estimator` and `tf.compat.v1.estimator` are there, as they were up
to TensorFlow 2.15:

    import common.tf_estimator
    import tensorflow as tf
    tf.estimator.Estimator(...)

An old script runs unchanged, without that import:

    python -m common.tf_estimator SCRIPT ARGS...

The code behind `tf.estimator` is the package `tensorflow-estimator` 2.15.0. It imports a few modules and constants that
TensorFlow has dropped since; they are put back here. `tf.layers` and the canned estimators need Keras 2, which is the
package `tf-keras`. On 2.15, where TensorFlow still has all of this, only the log is kept quiet.

Not restored: TPUs, and `train_distribute` over several machines (on one machine it works, and so does TF_CONFIG with
parameter servers).
"""

import contextlib
import importlib
import importlib.util
import inspect
import logging
import os
import runpy
import sys
import types
import warnings
from importlib import metadata

SUPPORTED = 'TensorFlow 2.15 to 2.21 with tensorflow-estimator 2.15.0'
_CURE = f'This needs {SUPPORTED}: pip install "tensorflow>=2.15,<2.22" "tf-keras>=2.15,<2.22" tensorflow-estimator==2.15.0'

# What tensorflow-estimator reaches for inside TensorFlow. All of it is private, so any release may move it.
_REQUIRED = {
    'tensorflow.python.util.tf_export': ('API_ATTRS', 'API_ATTRS_V1', '_Attributes', 'api_export'),
    'tensorflow.python.util.deprecation': ('deprecated',),
    'tensorflow.python.distribute': (),
    'tensorflow.python.tpu': (),
    'tensorflow.python.feature_column.feature_column_v2': (),
    'tensorflow.python.saved_model.model_utils': ('build_all_signature_defs',),
    'tensorflow.python.training.basic_session_run_hooks': ('CheckpointSaverHook',),
    'tensorflow.python.training.monitored_session': ('MonitoredTrainingSession',),
}
_TPU_MODULES = ('tpu_embedding', 'tpu_embedding_gradient', 'session_support')
_TPU_ADVICE = 'TPUs need TensorFlow 2.15 or older; here, use tf.estimator.Estimator, or TPUEstimator(use_tpu=False).'


def _tensorflow_version():
    """Returns the version as (major, minor), without importing TensorFlow: the Keras to load is chosen before that."""
    if 'tensorflow' in sys.modules:
        version = sys.modules['tensorflow'].__version__
    else:
        for name in ('tensorflow', 'tensorflow-cpu', 'tensorflow-intel', 'tensorflow-macos', 'tf-nightly'):
            try:
                version = metadata.version(name)
                break
            except metadata.PackageNotFoundError:
                continue
        else:
            raise ImportError(f'TensorFlow is not installed. {_CURE}')
    return tuple(int(part) for part in version.split('.')[:2])


def _quiet():
    """Drops what TensorFlow logs about deprecated symbols and its own build; errors still arrive as exceptions."""
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    logging.getLogger('tensorflow').addFilter(lambda record: 'deprecated' not in str(record.msg))
    warnings.filterwarnings('ignore', message=r'.*`tf\.layers\.\w+` is deprecated')
    warnings.filterwarnings('ignore', message=r'.*is deprecated and will be removed', module=r'tf_keras|keras|tensorflow')


@contextlib.contextmanager
def _native_stderr_closed():
    """Keeps TensorFlow's libraries from writing to stderr while they load: no log level reaches those lines."""
    sys.stderr.flush()
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)


def _check_packages(version):
    """Raises ImportError, naming the cure, unless the packages beside TensorFlow are there and fit."""
    for package, distribution in (('tensorflow_estimator', 'tensorflow-estimator'), ('tf_keras', 'tf-keras')):
        if importlib.util.find_spec(package) is None:
            raise ImportError(f'The package {distribution} is missing. {_CURE}')
    if metadata.version('tensorflow-estimator') != '2.15.0':
        raise ImportError(f'tensorflow-estimator is {metadata.version("tensorflow-estimator")}. {_CURE}')
    if version == (2, 20) and int(metadata.version('protobuf').split('.')[0]) >= 7:
        raise ImportError('TensorFlow 2.20 does not work with protobuf 7: pip install "protobuf<7"')


def _check_tensorflow(tf):
    """Raises ImportError if this TensorFlow lacks what tensorflow-estimator stands on."""
    for name, attributes in _REQUIRED.items():
        try:
            module = importlib.import_module(name)
        except ImportError:
            raise ImportError(f'TensorFlow {tf.__version__} has no module {name}. {_CURE}') from None
        for attribute in attributes:
            if not hasattr(module, attribute):
                raise ImportError(f'TensorFlow {tf.__version__} has no {name}.{attribute}. {_CURE}')
    if not tf.keras.Model.__module__.startswith('tf_keras.'):
        raise ImportError('Keras 3 was loaded before common.tf_estimator: import common.tf_estimator first.')


def _add_module(name, **attributes):
    """Puts a module of this name and content where `import` finds it, if TensorFlow has none."""
    try:
        importlib.import_module(name)
    except ImportError:
        module = types.ModuleType(name)
        vars(module).update(attributes)
        sys.modules[name] = module
        package, _, base = name.rpartition('.')
        setattr(sys.modules[package], base, module)


def _init_run_config(config, tf_config):
    """Sets up a RunConfig that names a distribution strategy: of one machine, or none but an evaluator's."""
    cluster = tf_config.get('cluster', {})
    if config.train_distribute and cluster and 'master' not in cluster:
        raise ValueError('train_distribute over the machines of TF_CONFIG needs TensorFlow 2.15 or older: use it on one '
                         'machine without TF_CONFIG, or drop train_distribute and let TF_CONFIG name parameter servers.')
    if config.experimental_distribute is not None:
        raise ValueError('experimental_distribute needs TensorFlow 2.15 or older: use train_distribute and '
                         'eval_distribute.')
    config._distribute_coordinator_mode = None
    config._init_distributed_setting_from_environment_var(tf_config)
    config._maybe_overwrite_session_config_for_distributed_training()


def _unavailable_on_tpu(name):
    """Stands for every symbol of the dropped TPU modules: they are only reached on a TPU."""
    if name.startswith('__'):
        raise AttributeError(name)

    class Unavailable:

        def __init__(self, *unused_args, **unused_kwargs):
            raise NotImplementedError(f'{name}: {_TPU_ADVICE}')

    Unavailable.__name__ = name
    return Unavailable


def _refuse_tpu(estimator_class):
    """Makes TPUEstimator say at once that there is no TPU to be had, unless it was asked for none."""
    init = estimator_class.__init__

    def checked_init(self, *args, **kwargs):
        bound = inspect.signature(init).bind(self, *args, **kwargs)
        bound.apply_defaults()
        if bound.arguments['use_tpu']:
            raise NotImplementedError(_TPU_ADVICE)
        init(self, *args, **kwargs)

    estimator_class.__init__ = checked_init


def _restore(tf):
    """Puts `tf.estimator` back."""
    _check_tensorflow(tf)

    from tensorflow.python.util import tf_export
    tf_export.ESTIMATOR_API_NAME = 'estimator'
    tf_export.API_ATTRS['estimator'] = tf_export._Attributes('_estimator_api_names', '_estimator_api_constants')
    tf_export.API_ATTRS_V1['estimator'] = tf_export._Attributes('_estimator_api_names_v1', '_estimator_api_constants_v1')

    _add_module('tensorflow.python.distribute.estimator_training', init_run_config=_init_run_config,
                should_run_distribute_coordinator=lambda config: False)
    for name in _TPU_MODULES:
        _add_module(f'tensorflow.python.tpu.{name}', __getattr__=_unavailable_on_tpu)

    v1 = importlib.import_module('tensorflow_estimator.python.estimator.api._v1.estimator')
    v2 = importlib.import_module('tensorflow_estimator.python.estimator.api._v2.estimator')
    _refuse_tpu(v1.tpu.TPUEstimator)
    for package, module in ((tf, v2), (tf.compat.v1, v1), (tf.compat.v2, v2), (tf.compat.v1.compat.v1, v1)):
        package.estimator = module
    sys.modules['tensorflow.estimator'] = v2
    sys.modules['tensorflow.compat.v1.estimator'] = v1
    sys.modules['tensorflow.compat.v2.estimator'] = v2


def _install():
    _quiet()
    version = _tensorflow_version()
    if version < (2, 15):
        raise ImportError(f'TensorFlow {version[0]}.{version[1]} is too old. {_CURE}')
    if version > (2, 15):
        _check_packages(version)
        os.environ['TF_USE_LEGACY_KERAS'] = '1'  # Read when TensorFlow is imported.
    with _native_stderr_closed():
        import tensorflow as tf
    if version > (2, 15):
        _restore(tf)


def _run_script(arguments):
    if not arguments:
        sys.exit('usage: python -m common.tf_estimator SCRIPT ARGS...')
    script = arguments[0]
    if not os.path.isfile(script):
        sys.exit(f'{script}: no such file')
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name='__main__')


_install()

if __name__ == '__main__':
    _run_script(sys.argv[1:])
