"""Moved private names of TensorFlow and Keras, restored at the old locations from which libraries import them.

In 2.9, `tensorflow.python.training.tracking` became `trackable` and `checkpoint`. Later, functions of `tensorflow.python.ops`
and `framework` moved to new modules, and Keras 2 the package `tf_keras`, where names still refer to the old one.
"""

import importlib
import sys
import types

from tf_estimator.aliases import Aliases, add_names

_OPS = 'tensorflow.python.ops'
_FRAMEWORK = 'tensorflow.python.framework'
_REGISTRY = f'{_FRAMEWORK}.tensor_conversion_registry'
_CONSTANTS = f'{_FRAMEWORK}.convert_to_constants.convert_variables_to_constants'
# {module: {name: new location}}
NAMES = {
    'tensorflow.python.util.nest': {'is_sequence': 'tensorflow.python.util.nest.is_nested'},
    f'{_FRAMEWORK}.ops': {
        'IndexedSlices': f'{_FRAMEWORK}.indexed_slices.IndexedSlices',
        'Tensor': f'{_FRAMEWORK}.tensor.Tensor',
        'convert_to_tensor_v2': f'{_FRAMEWORK}.tensor_conversion.convert_to_tensor_v2',
        'register_tensor_conversion_function': f'{_REGISTRY}.register_tensor_conversion_function',
    },
    f'{_FRAMEWORK}.graph_util': {'convert_variables_to_constants': _CONSTANTS},
    f'{_FRAMEWORK}.graph_util_impl': {'convert_variables_to_constants': _CONSTANTS},
    'tensorflow.python.pywrap_tensorflow': {
        'NewCheckpointReader': 'tensorflow.python.training.py_checkpoint_reader.NewCheckpointReader'
    },
    'tensorflow.python.saved_model.utils_impl': {
        name: f'tensorflow.python.saved_model.path_helpers.{name}' for name in ('get_variables_dir', 'get_variables_path')
    },
    f'{_OPS}.array_ops': {name: f'{_OPS}.array_ops_stack.{name}' for name in ('stack', 'unstack')},
    f'{_OPS}.control_flow_ops': {
        'Assert': f'{_OPS}.control_flow_assert.Assert',
        'case': f'{_OPS}.control_flow_case.case',
        'cond': f'{_OPS}.cond.cond',
        'switch_case': f'{_OPS}.control_flow_switch_case.switch_case',
        'while_loop': f'{_OPS}.while_loop.while_loop',
    },
    f'{_OPS}.variable_scope': {
        **{
            name: f'{_OPS}.resource_variables_toggle.{name}'
            for name in ('disable_resource_variables', 'enable_resource_variables', 'resource_variables_enabled')
        },
        'variable': f'{_OPS}.variable_v1.VariableV1',
    },
    f'{_OPS}.variables': {
        name: f'{_OPS}.variable_v1.{name}' for name in ('VariableV1', 'default_variable_creator', 'is_variable_initialized')
    },
}
_TRACKING = 'tensorflow.python.training.tracking'
_MODULES = {
    f'{_TRACKING}.graph_view': 'tensorflow.python.checkpoint.graph_view',
    f'{_TRACKING}.tracking': 'tf_estimator.old_tracking',
    f'{_TRACKING}.util': 'tensorflow.python.checkpoint.checkpoint',
    _TRACKING: 'tensorflow.python.trackable',  # The other modules, which kept their names.
    'tf_keras.legacy_tf_layers': 'tf_keras.src.legacy_tf_layers',
}
# {former name of a module: the present one}
MISSING_MODULES = {
    'keras.src.engine': 'tf_keras.src.engine',
    'tensorflow.python.distribute.distribution_strategy_context': 'tensorflow.python.distribute.distribute_lib',
    'tensorflow.python.eager.profiler': 'tensorflow.python.profiler.profiler_v2',
    'tensorflow.python.training.distribution_strategy_context': 'tensorflow.python.distribute.distribute_lib',
    'tensorflow.python.training.gen_training_ops': f'{_OPS}.gen_training_ops',
    'tensorflow.python.training.training_ops': f'{_OPS}.gen_training_ops',
    **{
        f'tensorflow.python.tpu.{name}': f'tensorflow_estimator.python.estimator.tpu.{name}'
        for name in ('error_handling', 'tpu_config', 'tpu_context', 'tpu_estimator')
    },
}


def restore() -> None:
    """Restores missing names; keeps existing ones. TensorFlow must be imported."""
    if _TRACKING in sys.modules:  # Already restored.
        return
    for module, names in NAMES.items():
        add_names(importlib.import_module(module), names)
    package = types.ModuleType(_TRACKING)
    package.__path__ = []
    sys.modules[_TRACKING] = package
    vars(importlib.import_module('tensorflow.python.training'))['tracking'] = package
    sys.meta_path.insert(0, Aliases(_MODULES))  # Before finders that would load a file of these packages again.
    sys.meta_path.append(Aliases(MISSING_MODULES))  # After those that find what is still there.
