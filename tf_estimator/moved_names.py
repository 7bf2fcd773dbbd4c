"""Moved private names of TensorFlow and Keras, restored at the old locations from which libraries import them.

In 2.9, `tensorflow.python.training.tracking` became `trackable` and `checkpoint`. Later, functions of `tensorflow.python.ops`
and `framework` moved to new modules, and Keras 2 the package `tf_keras`, where names still refer to the old one.
"""

import importlib
import sys
import types
from typing import Any

from tf_estimator.aliases import Aliases, add_names
from tf_estimator.mending import around

# {module of tensorflow.python: {where names of it are today: the names}}
_TABLE = {
    'checkpoint.util': {
        'checkpoint.save_util_v1': 'frozen_saveables_and_savers get_checkpoint_factories_and_keys serialize_gathered_objects '
        'serialize_object_graph_with_registered_savers'
    },
    'data.ops.dataset_ops': {'data.ops.debug_mode': 'DEBUG_MODE enable_debug_mode toggle_debug_mode'},
    'distribute.coordinator.values': {'distribute.coordinator.remote_value': 'RemoteValue RemoteValueStatus'},
    'distribute.distribute_lib': {'distribute.distribute_utils': 'get_loss_reduction'},
    'distribute.input_lib': {'types.distribute': 'DistributedDatasetInterface DistributedIteratorInterface'},
    'eager.def_function': {
        'eager.polymorphic_function.eager_function_run': 'RUN_FUNCTIONS_EAGERLY experimental_functions_run_eagerly '
        'experimental_run_functions_eagerly',
        'eager.polymorphic_function.polymorphic_function': 'JIT_COMPILE_FUNCTIONS OptionalXlaContext '
        'UnliftedInitializerVariable',
    },
    'eager.function': {
        'eager.polymorphic_function.concrete_function': 'ConcreteFunctionGarbageCollector',
        'eager.polymorphic_function.polymorphic_function': 'Function class_method_to_instance_method',
    },
    'eager.tape': {
        'eager.record': 'VariableWatcher could_possibly_record record_operation record_operation_backprop_only '
        'record_operation_forwardprop_only should_record_backprop stop_recording'
    },
    'feature_column.feature_column_v2': {'feature_column.feature_column_v2_types': 'FeatureColumn'},
    'framework.graph_util': {'framework.convert_to_constants': 'convert_variables_to_constants'},
    'framework.graph_util_impl': {'framework.convert_to_constants': 'convert_variables_to_constants'},
    'framework.ops': {
        'framework.indexed_slices': 'IndexedSlices IndexedSlicesValue convert_n_to_tensor_or_indexed_slices '
        'convert_to_tensor_or_indexed_slices internal_convert_n_to_tensor_or_indexed_slices '
        'internal_convert_to_tensor_or_indexed_slices',
        'framework.stack': 'default_session',
        'framework.tensor': 'Tensor disable_tensor_equality enable_tensor_equality',
        'framework.tensor_conversion': 'convert_to_tensor_v1 convert_to_tensor_v1_with_dispatch convert_to_tensor_v2 '
        'convert_to_tensor_v2_with_dispatch',
        'framework.tensor_conversion_registry': 'register_tensor_conversion_function',
    },
    'framework.tensor_util': {'ops.shape_util': 'maybe_set_static_shape shape_tensor'},
    'framework.type_spec': {'framework.type_spec_registry': 'get_name lookup register'},
    'ops.array_ops': {'ops.array_ops_stack': 'stack unstack'},
    'ops.bincount_ops': {'ops.sparse_ops': 'sparse_bincount validate_sparse_weights'},
    'ops.control_flow_ops': {
        'ops.cond': 'cond cond_for_tf_v2',
        'ops.control_flow_assert': 'Assert',
        'ops.control_flow_case': 'case case_v2',
        'ops.control_flow_switch_case': 'execute_fn_for_device switch_case',
        'ops.while_loop': 'while_loop while_loop_v2',
    },
    'ops.control_flow_v2_toggles': {'ops.control_flow_util_v2': 'output_all_intermediates'},
    'ops.functional_ops': {'ops.gen_functional_ops': 'partitioned_call'},
    'ops.math_ops': {'framework.override_binary_operator': 'maybe_promote_tensors'},
    'ops.nn_impl': {'ops.nn_impl_distribute': 'compute_average_loss scale_regularization_loss'},
    'ops.random_ops': {'ops.random_crop_ops': 'random_crop stateless_random_crop'},
    'ops.stateless_random_ops': {'ops.random_ops_util': 'Algorithm convert_alg_to_int'},
    'ops.variable_scope': {
        'ops.resource_variables_toggle': 'disable_resource_variables enable_resource_variables resource_variables_enabled',
        'ops.variable_v1': 'default_variable_creator',
        'ops.variables': 'default_variable_creator_v2',
    },
    'ops.variables': {
        'ops.ref_variable': 'RefVariable',
        'ops.variable_v1': 'VariableV1 default_variable_creator is_variable_initialized',
    },
    'pywrap_tensorflow': {
        'client._pywrap_events_writer': 'EventsWriter',
        'training.py_checkpoint_reader': 'NewCheckpointReader',
    },
    'saved_model.utils_impl': {
        'framework.byte_swap_tensor': 'byte_swap_tensor_content byte_swappable',
        'saved_model.path_helpers': 'get_assets_dir get_debug_dir get_or_create_assets_dir get_or_create_debug_dir '
        'get_or_create_variables_dir get_saved_model_pb_path get_saved_model_pbtxt_path get_variables_dir get_variables_path',
    },
    # Once training.tracking.tracking.
    'trackable.resource': {'trackable.asset': 'Asset', 'trackable.autotrackable': 'AutoTrackable'},
}
_PYTHON = 'tensorflow.python'
# {module: {name: new location}}
NAMES = {
    f'{_PYTHON}.{module}': {name: f'{_PYTHON}.{new}.{name}' for new, names in of.items() for name in names.split()}
    for module, of in _TABLE.items()
}
NAMES[f'{_PYTHON}.ops.variable_scope']['variable'] = f'{_PYTHON}.ops.variable_v1.VariableV1'
NAMES[f'{_PYTHON}.util.nest'] = {'is_sequence': f'{_PYTHON}.util.nest.is_nested'}
NAMES[f'{_PYTHON}.util.tf_export'] = {
    'estimator_export': 'tensorflow_estimator.python.estimator.estimator_export.estimator_export'
}
_TRACKING = 'tensorflow.python.training.tracking'
MODULES = {
    f'{_TRACKING}.graph_view': 'tensorflow.python.checkpoint.graph_view',
    f'{_TRACKING}.tracking': 'tensorflow.python.trackable.resource',
    f'{_TRACKING}.util': 'tensorflow.python.checkpoint.checkpoint',
    _TRACKING: 'tensorflow.python.trackable',  # The other modules, which kept their names.
    'tf_keras.legacy_tf_layers': 'tf_keras.src.legacy_tf_layers',
}
# {former name of a module: the present one}
MISSING_MODULES = {
    'keras.src': 'tf_keras.src',  # What Keras 3 does not have.
    'tensorflow.python.distribute.distribution_strategy_context': 'tensorflow.python.distribute.distribute_lib',
    'tensorflow.python.eager.profiler': 'tensorflow.python.profiler.profiler_v2',
    'tensorflow.python.eager.function_saved_model_utils': 'tensorflow.python.eager.polymorphic_function.saved_model_utils',
    'tensorflow.python.platform.parameterized': 'absl.testing.parameterized',
    'tensorflow.python.training.distribute': 'tensorflow.python.distribute.distribute_lib',
    'tensorflow.python.training.distribution_strategy_context': 'tensorflow.python.distribute.distribute_lib',
    'tensorflow.python.training.saving.checkpoint_options': 'tensorflow.python.checkpoint.checkpoint_options',
    'tensorflow.python.training.saving.functional_saver': 'tensorflow.python.checkpoint.functional_saver',
    'tensorflow.python.training.gen_training_ops': 'tensorflow.python.ops.gen_training_ops',
    'tensorflow.python.training.training_ops': 'tensorflow.python.ops.gen_training_ops',
    **{
        f'tensorflow.python.tpu.{name}': f'tensorflow_estimator.python.estimator.tpu.{name}'
        for name in ('error_handling', 'tpu_config', 'tpu_context', 'tpu_estimator')
    },
}

# {module: ({former name of an argument: the present one}, functions with it)}
ARGUMENTS = {
    f'{_PYTHON}.tools.freeze_graph': (
        {'variable_names_blacklist': 'variable_names_denylist'},
        ('freeze_graph', 'freeze_graph_with_def_protos'),
    )
}


def _restore_arguments(module: Any, names: dict[str, str], function: str) -> None:
    """Lets a function take arguments by their former names, too."""

    @around(module, function)
    def of_old(former, *args, **kwargs):
        return former(*args, **{names.get(name, name): value for name, value in kwargs.items()})

    del getattr(module, function).__wrapped__  # It has other arguments.


def restore() -> None:
    """Restores missing names; keeps existing ones. TensorFlow must be imported."""
    if _TRACKING in sys.modules:  # Already restored.
        return
    for module, names in NAMES.items():
        add_names(importlib.import_module(module), names)
    for module, (arguments, functions) in ARGUMENTS.items():
        for function in functions:
            _restore_arguments(importlib.import_module(module), arguments, function)
    package = types.ModuleType(_TRACKING)
    package.__path__ = []
    sys.modules[_TRACKING] = package
    vars(importlib.import_module('tensorflow.python.training'))['tracking'] = package
    sys.meta_path.insert(0, Aliases(MODULES))  # Before finders that would load a file of these packages again.
    sys.meta_path.append(Aliases(MISSING_MODULES))  # After those that find what is still there.
