"""Brings `tf.estimator` back on TensorFlow 2.16 to 2.21.

Import this module before TensorFlow; afterwards `tf.estimator` and `tf.compat.v1.estimator` are there, as they were up
to TensorFlow 2.15:

    import tf_estimator
    import tensorflow as tf
    tf.estimator.Estimator(...)

An old script runs unchanged, without that import:

    python -m tf_estimator SCRIPT ARGS...

The code behind `tf.estimator` is the package `tensorflow-estimator` 2.15.0. It imports a few modules and constants that
TensorFlow has dropped since; they are put back here. `tf.layers` and the canned estimators need Keras 2, which is the
package `tf-keras`; `tf.keras` is then Keras 2 for the whole program. On 2.15, where TensorFlow still has all of this,
only the log is kept quiet.

TensorFlow's notices of deprecation and the lines that its libraries write at their start are kept from the log. To see
the latter, set the environment variable TF_CPP_MIN_LOG_LEVEL to 0.

Not restored, and refused with an error that says so: TPUs, `train_distribute` over several machines (on one machine it
works, and so does TF_CONFIG with parameter servers), and `tf.data.experimental.CheckpointInputPipelineHook`.
"""

import contextlib
import functools
import importlib
from importlib import metadata
import importlib.machinery
import importlib.util
import inspect
import logging
import os
import sys
import types
import warnings

SUPPORTED = 'TensorFlow 2.15 to 2.21 with tensorflow-estimator 2.15.0'
_CURE = f'This needs {SUPPORTED}: pip install "tensorflow>=2.15,<2.22" "tf-keras>=2.15,<2.22" tensorflow-estimator==2.15.0'

# What tensorflow-estimator looks up in tensorflow.python when it runs, and tf_export's names used below. All of it is
# private, so any release may move it. What it looks up when it is imported needs no list.
_REQUIRED = {
    'checkpoint.checkpoint': 'Checkpoint frozen_saver',
    'checkpoint.checkpoint_management': 'latest_checkpoint',
    'checkpoint.graph_view': 'ObjectGraphView',
    'checkpoint.saveable_compat': 'legacy_saveable_name',
    'distribute': '',
    'eager.context': 'graph_mode',
    'eager.monitoring': 'BoolGauge StringGauge',
    'feature_column.feature_column': 'InputLayer _DenseColumn _LazyBuilder _LinearModel _NumericColumn',
    'feature_column.feature_column_lib': 'CategoricalColumn NumericColumn concatenate_context_input '
    'deserialize_feature_columns is_feature_column_v2 serialize_feature_columns',
    'feature_column.feature_column_v2': 'CategoricalColumn NumericColumn _create_weighted_sum '
    '_normalize_feature_columns _sanitize_column_name_for_variable_scope '
    '_verify_static_batch_size_equality',
    'feature_column.serialization': 'deserialize_feature_columns serialize_feature_columns',
    'framework.ops': 'GraphKeys add_to_collection colocate_with convert_to_tensor get_collection name_scope uid',
    'ops.clustering_ops': 'CLUSTERS_VAR_NAME COSINE_DISTANCE KMEANS_PLUS_PLUS_INIT KMeans RANDOM_INIT '
    'SQUARED_EUCLIDEAN_DISTANCE',
    'ops.control_flow_ops': 'with_dependencies',
    'ops.gen_lookup_ops': 'lookup_table_export_v2 lookup_table_find_v2 lookup_table_import_v2 lookup_table_insert_v2 '
    'lookup_table_size_v2 mutable_dense_hash_table_v2',
    'ops.gen_sdca_ops': 'sdca_optimizer_v2',
    'ops.lookup_ops': 'LookupInterface index_table_from_tensor index_to_string_table_from_tensor',
    'ops.string_ops': 'as_string',
    'ops.variable_scope': '_pure_variable_scope',
    'ops.variables': 'PartitionedVariable',
    'platform.gfile': 'ListDirectory',
    'profiler.trace': 'Trace',
    'saved_model.model_utils': 'get_export_outputs',
    'saved_model.model_utils.export_utils': 'build_all_signature_defs get_temp_export_dir get_timestamped_export_dir',
    'saved_model.path_helpers': 'get_variables_dir get_variables_path',
    'summary.summary': 'scalar',
    'tpu.tensor_tracer': 'TensorTracer',
    'training.basic_session_run_hooks': 'SecondOrStepTimer _MultiStepStopAtStepHook',
    'training.device_setter': 'STANDARD_PS_OPS',
    'training.evaluation': '_MultiStepStopAfterNEvalsHook _StopAfterNEvalsHook _evaluate_once _get_or_create_eval_step',
    'training.server_lib': 'Server',
    'training.training': 'MonitoredTrainingSession get_or_create_steps_per_run_variable',
    'training.training_util': 'GLOBAL_STEP_READ_KEY _get_or_create_global_step_read',
    'util.deprecation': 'deprecated hide_attribute_from_api',
    'util.function_utils': 'fn_args',
    'util.module_wrapper': 'TFModuleWrapper',
    'util.tf_contextlib': 'contextmanager',
    'util.tf_export': 'API_ATTRS API_ATTRS_V1 _Attributes api_export',
}

_TPU_ADVICE = 'TPUs need TensorFlow 2.15 or older; here, use tf.estimator.Estimator, or TPUEstimator(use_tpu=False).'
_TPU_MODULES = ('tpu_embedding', 'tpu_embedding_gradient', 'session_support')
_TPU_SYMBOLS = ('AdagradParameters', 'AdamParameters', 'FtrlParameters', 'StochasticGradientDescentParameters')
_INPUT_HOOK_ADVICE = (
    'this needs TensorFlow 2.15 or older; here, add '
    'tf.data.experimental.make_saveable_from_iterator(iterator) to tf.GraphKeys.SAVEABLE_OBJECTS.'
)

# The only files of TensorFlow that log notices of deprecation, and what Keras 2 and protobuf say in warnings.
_DEPRECATION_FILES = (
    os.path.join('tensorflow', 'python', 'util', 'deprecation.py'),
    os.path.join('tensorflow', 'python', 'util', 'module_wrapper.py'),
)
_DEPRECATION_WARNINGS = (
    r'`tf\.(layers|nn\.rnn_cell)\.\w+` is deprecated',
    r'`[Ll]ayer\.(add_variable|apply|graph)` is deprecated',
    r'`(layer\.updates|Model\.state_updates)` will be removed',
    r'float_format is deprecated for text_format',
    r'To make it possible to preserve tf\.data options',
)


def _quiet_python():
    """Drops TensorFlow's own notices of deprecation, and nothing else, from the log and from warnings."""
    logging.getLogger('tensorflow').addFilter(lambda record: not record.pathname.endswith(_DEPRECATION_FILES))
    for message in _DEPRECATION_WARNINGS:
        warnings.filterwarnings('ignore', message=message)


@contextlib.contextmanager
def _native_stderr_closed():
    """Keeps TensorFlow's libraries from writing to stderr while they load: no log level reaches those lines."""
    try:
        stderr = os.dup(2)
    except OSError:  # There is no stderr.
        yield
        return
    if sys.stderr:
        sys.stderr.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)


def _stream(handler):
    return getattr(getattr(handler, 'python_handler', handler), 'stream', None)  # Absl's handler wraps another.


def _leave_to_root(handler):
    """Keeps TensorFlow's handler from repeating what the root logger's handlers write to the same stream.

    TensorFlow sees to that when it is imported; tf.app.run and logging.basicConfig add their handlers afterwards.
    """
    logger = logging.getLogger('tensorflow')

    def is_only_here(record):
        others = logging.getLogger().handlers if logger.propagate else ()
        return not any(_stream(other) is handler.stream and record.levelno >= other.level for other in others)

    handler.addFilter(is_only_here)


def _import_tensorflow():
    """Returns TensorFlow, imported without a word unless TF_CPP_MIN_LOG_LEVEL asks for its words."""
    _quiet_python()
    if os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3') != '3':
        import tensorflow as tf

        return tf
    with _native_stderr_closed():
        import tensorflow as tf

        return tf


def _version(tf):
    return tuple(int(part) for part in tf.__version__.split('.')[:2])


def _has_own_estimator():
    """Tells whether the TensorFlow here still has its part of tf.estimator, without importing it."""
    spec = importlib.util.find_spec('tensorflow')
    if spec is None or spec.origin is None:
        raise ImportError(f'TensorFlow is not installed. {_CURE}')
    return os.path.exists(os.path.join(os.path.dirname(spec.origin), 'python', 'distribute', 'estimator_training.py'))


def _check_packages():
    """Raises ImportError, naming the cure, unless the packages needed beside TensorFlow are there."""
    for package, distribution in (('tensorflow_estimator', 'tensorflow-estimator'), ('tf_keras', 'tf-keras')):
        if importlib.util.find_spec(package) is None:
            raise ImportError(f'The package {distribution} is missing. {_CURE}')
    version = metadata.version('tensorflow-estimator')
    if version != '2.15.0':
        raise ImportError(f'tensorflow-estimator is {version}. {_CURE}')


def _check_tensorflow(tf):
    """Raises ImportError if this TensorFlow is not one on which tensorflow-estimator can stand."""
    if _version(tf) == (2, 20) and int(metadata.version('protobuf').split('.')[0]) >= 7:
        raise ImportError('TensorFlow 2.20 does not work with protobuf 7: pip install "protobuf<7"')
    if f'{os.sep}tf_keras{os.sep}' not in importlib.util.find_spec('tensorflow.keras').origin:
        raise ImportError('TensorFlow was imported before tf_estimator, and with it Keras 3: import tf_estimator first.')
    for name, attributes in _REQUIRED.items():
        name = f'tensorflow.python.{name}'
        try:
            module = importlib.import_module(name)
        except ImportError:
            raise ImportError(f'TensorFlow {tf.__version__} has no module {name}. {_CURE}') from None
        for attribute in attributes.split():
            if not hasattr(module, attribute):
                raise ImportError(f'TensorFlow {tf.__version__} has no {name}.{attribute}. {_CURE}')


def _add_module(name, **attributes):
    """Puts a module of this name and content where `import` finds it, if TensorFlow has none."""
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        module = types.ModuleType(name)
        vars(module).update(attributes)
        sys.modules[name] = module
        package, _, base = name.rpartition('.')
        setattr(importlib.import_module(package), base, module)


def _init_run_config(config, tf_config):
    """Completes a RunConfig that names a distribution strategy; tf_config is TF_CONFIG's content."""
    cluster = tf_config.get('cluster', {})
    if config.train_distribute and cluster and 'master' not in cluster:
        raise ValueError(
            'train_distribute over the machines of TF_CONFIG needs TensorFlow 2.15 or older: use it on '
            'one machine without TF_CONFIG, or drop train_distribute and let TF_CONFIG name parameter '
            'servers.'
        )
    if config._experimental_distribute is not None:
        raise ValueError('experimental_distribute needs TensorFlow 2.15 or older: use train_distribute and eval_distribute.')
    config._distribute_coordinator_mode = None
    config._init_distributed_setting_from_environment_var(tf_config)
    config._maybe_overwrite_session_config_for_distributed_training()


def _unavailable(name, advice):
    """Returns a class that stands for one that TensorFlow has dropped, and says so when it is used."""

    class Unavailable:
        def __init__(self, *unused_args, **unused_kwargs):
            raise NotImplementedError(f'{name}: {advice}')

    Unavailable.__name__ = Unavailable.__qualname__ = name
    return Unavailable


def _unavailable_on_tpu(name):
    """Stands for every symbol of the dropped TPU modules: they are only reached on a TPU."""
    if name.startswith('__'):
        raise AttributeError(name)
    return _unavailable(name, _TPU_ADVICE)


def _refuse_tpu(estimator_class):
    """Makes TPUEstimator say at once that there is no TPU to be had, unless it was asked for none."""
    init = estimator_class.__init__

    @functools.wraps(init)
    def checked_init(self, *args, **kwargs):
        bound = inspect.signature(init).bind(self, *args, **kwargs)
        bound.apply_defaults()
        if bound.arguments['use_tpu']:
            raise NotImplementedError(_TPU_ADVICE)
        init(self, *args, **kwargs)

    estimator_class.__init__ = checked_init


def _import_estimator(tf):
    """Returns the packages behind tf.compat.v1.estimator and tf.estimator."""
    try:
        return [
            importlib.import_module(f'tensorflow_estimator.python.estimator.api._{version}.estimator')
            for version in ('v1', 'v2')
        ]
    except (ImportError, AttributeError) as error:
        raise ImportError(f'tensorflow-estimator does not load on TensorFlow {tf.__version__}: {error}. {_CURE}') from error


def _alias(package, name):
    """Makes `import NAME`, and that of its submodules, find a package that is loaded under another name."""
    for module_name, module in list(sys.modules.items()):
        if module_name == package.__name__ or module_name.startswith(f'{package.__name__}.'):
            sys.modules[name + module_name[len(package.__name__) :]] = module


def _restore(tf):
    """Puts `tf.estimator` back."""
    _check_tensorflow(tf)

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
        _add_module(f'tensorflow.python.tpu.{name}', __getattr__=_unavailable_on_tpu)
    for name in _TPU_SYMBOLS:
        setattr(tf.compat.v1.tpu.experimental, name, _unavailable_on_tpu(name))
    input_hook = _unavailable('CheckpointInputPipelineHook', _INPUT_HOOK_ADVICE)
    for api in (tf, tf.compat.v1):
        api.data.experimental.CheckpointInputPipelineHook = input_hook

    v1, v2 = _import_estimator(tf)
    _refuse_tpu(v1.tpu.TPUEstimator)
    tf.estimator = v2
    for api in (tf, tf.compat.v1, tf.compat.v2):
        api.compat.v1.estimator = v1
        api.compat.v2.estimator = v2
    for name, package in (('', v2), ('compat.v1.', v1), ('compat.v2.', v2)):
        _alias(package, f'tensorflow.{name}estimator')


def _install():
    """Imports TensorFlow so that it has `tf.estimator`; raises ImportError, naming the cure, where it cannot."""
    own_estimator = _has_own_estimator()
    if not own_estimator:
        _check_packages()
        os.environ['TF_USE_LEGACY_KERAS'] = '1'  # Read when TensorFlow is imported.
    tf = _import_tensorflow()
    if _version(tf) < (2, 15):
        raise ImportError(f'TensorFlow {tf.__version__} is too old. {_CURE}')
    for handler in tf.get_logger().handlers:
        _leave_to_root(handler)
    if not own_estimator and not hasattr(tf, 'estimator'):
        _restore(tf)


def _fail(message, code):
    print(f'python -m tf_estimator: {message}', file=sys.stderr)
    sys.exit(code)


class _ScriptLoader(importlib.machinery.SourceFileLoader):
    """Loads a script; like `python SCRIPT`, it leaves no bytecode beside it."""

    def set_data(self, *unused_args, **unused_kwargs):
        pass


def _run_script(arguments):
    """Does what `python SCRIPT ARGS...` does, with tf.estimator there."""
    if not arguments:
        _fail('SCRIPT is missing: python -m tf_estimator SCRIPT ARGS...', 2)
    if not os.path.isfile(arguments[0]):
        _fail(f'{arguments[0]}: no such file', 2)
    try:
        _install()
    except ImportError as error:
        _fail(error, 1)
    sys.argv = arguments
    if not (sys.flags.isolated or getattr(sys.flags, 'safe_path', False)):
        sys.path[0] = os.path.dirname(os.path.realpath(arguments[0]))
    sys.modules.pop('common', None)  # The script may have a package of that name.
    main = sys.modules['__main__'] = types.ModuleType('__main__')
    main.__file__ = os.path.abspath(arguments[0])
    _ScriptLoader('__main__', main.__file__).exec_module(main)


if __name__ == '__main__':
    _run_script(sys.argv[1:])
else:
    _install()
