"""Checks of the versions, packages and private names that tf.estimator requires; errors name the cure."""

import importlib
from importlib import metadata
import importlib.util
import os
import sys
import types

SUPPORTED = 'TensorFlow 2.15 to 2.21 with tensorflow-estimator 2.15.0'
CURE = f'This needs {SUPPORTED}: pip install "tensorflow>=2.15,<2.22" "tf-keras>=2.15,<2.22" tensorflow-estimator==2.15.0'

# Names in tensorflow.python that tensorflow-estimator looks up at run time, and those used by this package. They are private,
# so any release may move them. Names looked up on import need no list: the import fails.
PRIVATE_NAMES = {
    'checkpoint.checkpoint': 'Checkpoint frozen_saver',
    'checkpoint.checkpoint_management': 'latest_checkpoint',
    'checkpoint.graph_view': 'ObjectGraphView',
    'checkpoint.saveable_compat': 'legacy_saveable_name',
    'distribute': '',
    'distribute.distribute_coordinator': 'CoordinatorMode run_distribute_coordinator',
    'distribute.distribute_coordinator_context': 'get_current_worker_context',
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


def has_own_estimator() -> bool:
    """Whether the installed TensorFlow still has its part of tf.estimator, without importing it."""
    if sys.flags.optimize > 1:
        raise ImportError('Python runs with -OO, without the docstrings that tf.estimator reads: use -O, or neither')
    spec = importlib.util.find_spec('tensorflow')
    if spec is None or spec.origin is None:
        raise ImportError(f'TensorFlow is not installed. {CURE}')
    return os.path.exists(os.path.join(os.path.dirname(spec.origin), 'python', 'distribute', 'estimator_training.py'))


def check_packages() -> None:
    """Raises ImportError unless the required packages besides TensorFlow are installed."""
    for package, distribution in (('tensorflow_estimator', 'tensorflow-estimator'), ('tf_keras', 'tf-keras')):
        if importlib.util.find_spec(package) is None:
            raise ImportError(f'The package {distribution} is missing. {CURE}')
    try:
        version = metadata.version('tensorflow-estimator')
    except metadata.PackageNotFoundError:
        raise ImportError(f'The package tensorflow-estimator was not installed by pip. {CURE}') from None
    if version != '2.15.0':
        raise ImportError(f'tensorflow-estimator is {version}. {CURE}')


def check_version(tf: types.ModuleType) -> None:
    """Raises ImportError if TensorFlow is too old, or another module."""
    if not hasattr(tf, '__version__'):
        raise ImportError(f'{tf.__file__} is imported in place of TensorFlow: rename it')
    if _version(tf) < (2, 15):
        raise ImportError(f'TensorFlow {tf.__version__} is too old. {CURE}')


def check_foundation(tf: types.ModuleType) -> None:
    """Raises ImportError unless tensorflow-estimator can run on this TensorFlow, which lacks tf.estimator."""
    if _version(tf) == (2, 20) and int(metadata.version('protobuf').split('.')[0]) >= 7:
        raise ImportError('TensorFlow 2.20 does not work with protobuf 7: pip install "protobuf<7"')
    keras = importlib.util.find_spec('tensorflow.keras')
    if keras is None or f'{os.sep}tf_keras{os.sep}' not in (keras.origin or ''):
        raise ImportError('TensorFlow was imported before tf_estimator, and with it Keras 3: import tf_estimator first.')
    for name, attributes in PRIVATE_NAMES.items():
        name = f'tensorflow.python.{name}'
        try:
            module = importlib.import_module(name)
        except ImportError:
            raise ImportError(f'TensorFlow {tf.__version__} has no module {name}. {CURE}') from None
        for attribute in attributes.split():
            if not hasattr(module, attribute):
                raise ImportError(f'TensorFlow {tf.__version__} has no {name}.{attribute}. {CURE}')


def _version(tf: types.ModuleType) -> tuple[int, ...]:
    return tuple(int(part) for part in tf.__version__.split('.')[:2])
