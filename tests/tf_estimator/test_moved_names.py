"""What libraries import by TensorFlow's private names of old is there."""

import importlib
import pkgutil

import tf_estimator  # noqa: F401 - before TensorFlow
from tf_estimator import moved_names

import tensorflow.compat.v1 as tf


def test_functions_and_classes_are_found_in_the_modules_that_they_were_in():
    for name, public in {
        'framework.ops.Tensor': tf.Tensor,
        'framework.ops.IndexedSlices': tf.IndexedSlices,
        'ops.array_ops.stack': tf.stack,
        'ops.array_ops.unstack': tf.unstack,
        'ops.control_flow_ops.Assert': tf.Assert,
        'ops.control_flow_ops.case': tf.case,
        'ops.control_flow_ops.cond': tf.cond,
        'ops.control_flow_ops.while_loop': tf.while_loop,
        'ops.variables.VariableV1': tf.Variable,
        'ops.variable_scope.resource_variables_enabled': tf.resource_variables_enabled,
    }.items():
        assert pkgutil.resolve_name(f'tensorflow.python.{name}') is public


def test_every_name_that_has_moved_is_where_it_is_said_to_be():
    for module, names in moved_names.NAMES.items():
        for name, path in names.items():
            assert getattr(importlib.import_module(module), name) is not None
            if not path.startswith('tensorflow.python.ops.resource_variables_toggle'):  # Not yet in 2.15.
                assert pkgutil.resolve_name(path) is not None


def test_modules_are_found_by_their_old_names_and_are_the_same():
    from tensorflow.python.checkpoint import graph_view as new_graph_view
    from tensorflow.python.trackable import base as new_base
    from tensorflow.python.training.tracking import base, graph_view, tracking
    import tensorflow.python.training.tracking.util as util
    import tf_keras.legacy_tf_layers.normalization as normalization

    assert base is new_base and graph_view is new_graph_view
    assert util.__name__ == 'tensorflow.python.checkpoint.checkpoint'
    assert tracking.TrackableResource.__module__ == 'tensorflow.python.trackable.resource'
    assert normalization.__name__ == 'tf_keras.src.legacy_tf_layers.normalization'
