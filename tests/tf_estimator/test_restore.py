"""tf.estimator is found wherever it used to be, and is put back only once; what cannot be given names what to use instead."""

import importlib
import pkgutil

import tf_estimator  # noqa: F401 - before TensorFlow
from tf_estimator import moved_names

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tests.tf_estimator.programs import RESTORED, not_on_2_15, run_fresh
from tests.tf_estimator.slope import model_fn, slope_after


def test_every_way_to_import_it_gives_the_same():
    from tensorflow import estimator
    from tensorflow.compat.v1 import estimator as estimator1
    import tensorflow.compat.v1.estimator as module1
    from tensorflow.compat.v1.estimator.inputs import numpy_input_fn
    import tensorflow.estimator as module
    from tensorflow.estimator import Estimator
    from tensorflow.estimator.export import ServingInputReceiver

    for same in (estimator, module, tf.compat.v2.estimator, tf1.compat.v2.estimator, tf.compat.v2.compat.v2.estimator):
        assert same.Estimator is Estimator is tf.estimator.Estimator
    for same in (estimator1, module1, tf.compat.v1.estimator, tf1.compat.v1.estimator, tf.compat.v2.compat.v1.estimator):
        assert same.Estimator is tf1.estimator.Estimator is not Estimator
    assert numpy_input_fn is tf1.estimator.inputs.numpy_input_fn
    assert ServingInputReceiver is tf.estimator.export.ServingInputReceiver
    assert 'estimator' in dir(tf) and 'estimator' in dir(tf1)


def test_the_modules_that_old_libraries_import_are_those_of_tensorflow_estimator():
    from tensorflow.python.estimator import estimator_lib, keras
    from tensorflow.python.estimator.canned import head
    from tensorflow.python.estimator.estimator import EstimatorV2
    from tensorflow.python.estimator.export.export import ServingInputReceiver
    import tensorflow.python.estimator.inputs.queues.feeding_functions as feeding
    from tensorflow.python.estimator.run_config import TaskType
    from tensorflow_estimator.python.estimator import keras_lib, run_config
    from tensorflow_estimator.python.estimator.canned import head as real_head
    from tensorflow_estimator.python.estimator.inputs.queues import feeding_functions

    assert EstimatorV2 is tf.estimator.Estimator
    assert estimator_lib.Estimator is tf1.estimator.Estimator
    assert keras.model_to_estimator is keras_lib.model_to_estimator
    assert head._Head is real_head._Head
    assert ServingInputReceiver is tf.estimator.export.ServingInputReceiver
    assert feeding._ArrayFeedFn is feeding_functions._ArrayFeedFn
    assert TaskType is run_config.TaskType
    with pytest.raises(ModuleNotFoundError, match='tensorflow.python.estimator.none'):
        importlib.import_module('tensorflow.python.estimator.none')


def test_functions_and_classes_are_found_in_the_modules_that_they_were_in():
    for name, public in {
        'framework.ops.Tensor': tf1.Tensor,
        'framework.ops.IndexedSlices': tf1.IndexedSlices,
        'ops.array_ops.stack': tf1.stack,
        'ops.array_ops.unstack': tf1.unstack,
        'ops.control_flow_ops.Assert': tf1.Assert,
        'ops.control_flow_ops.case': tf1.case,
        'ops.control_flow_ops.cond': tf1.cond,
        'ops.control_flow_ops.while_loop': tf1.while_loop,
        'ops.variables.VariableV1': tf1.Variable,
        'ops.variable_scope.resource_variables_enabled': tf1.resource_variables_enabled,
    }.items():
        assert pkgutil.resolve_name(f'tensorflow.python.{name}') is public


def test_every_name_that_has_moved_is_where_it_is_said_to_be():
    for module, names in moved_names.NAMES.items():
        for name, path in names.items():
            assert getattr(importlib.import_module(module), name) is not None
            if not path.startswith('tensorflow.python.ops.resource_variables_toggle'):  # Not yet in 2.15.
                assert pkgutil.resolve_name(path) is not None


def test_modules_that_have_moved_are_found_by_their_old_names():
    from tensorflow.python.checkpoint import graph_view as new_graph_view
    from tensorflow.python.trackable import base as new_base
    from tensorflow.python.training.tracking import base, graph_view, tracking
    import tensorflow.python.training.tracking.util as util
    import tf_keras.legacy_tf_layers.normalization as normalization

    assert base is new_base and graph_view is new_graph_view
    assert util.__name__ == 'tensorflow.python.checkpoint.checkpoint'
    assert tracking.TrackableResource.__module__ == 'tensorflow.python.trackable.resource'
    assert normalization.__name__ == 'tf_keras.src.legacy_tf_layers.normalization'


def test_tf_keras_is_keras_2_everywhere():
    from tensorflow.keras.layers import Dense

    assert Dense is tf.keras.layers.Dense is tf1.keras.layers.Dense
    assert Dense.__module__.startswith('tf_keras.' if RESTORED else 'keras.')


PROGRAM = """
import gc, os, sys
import tf_estimator
assert gc.isenabled()
gc.disable()
import tensorflow as tf
restored = tf.estimator, tf.compat.v1.estimator.tpu.TPUEstimator.__init__
del sys.modules['tf_estimator']
import tf_estimator
assert not gc.isenabled()
assert (tf.estimator, tf.compat.v1.estimator.tpu.TPUEstimator.__init__) == restored

os.environ.pop('TF_USE_LEGACY_KERAS', None)
for api in (tf, tf.compat.v1, tf.compat.v2):
    for found in (api.keras.layers.Dense, api.initializers.Ones if api is not tf.compat.v1 else api.layers.Dense):
        assert found.__module__.startswith(('tf_keras.', 'keras.src.')), found.__module__
assert 'keras' not in sys.modules or tf.__version__.startswith('2.15.')

# This raises if the import has already made use of the devices.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices('CPU')[0], [tf.config.LogicalDeviceConfiguration()] * 2)
# The default, collective reduction, hangs between CPU devices in a session, on TensorFlow 2.15 as on 2.21.
strategy = tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'], tf.distribute.ReductionToOneDevice())
devices = tf.compat.v1.ConfigProto(device_count={'CPU': 2})
from tests.tf_estimator import slope
estimator = slope.make_estimator(sys.argv[1], train_distribute=strategy, session_config=devices)
# Each device sees one of the two examples.
estimator.train(lambda: tf.data.Dataset.from_tensor_slices(({'x': slope.X}, slope.Y)).repeat().batch(1), max_steps=3)
print(float(estimator.get_variable_value('slope')))
"""


def test_a_new_process_imports_it_twice_keeps_keras_2_and_trains_on_all_devices_and_its_native_log_can_be_had(tmp_path):
    code, out, err = run_fresh('-c', PROGRAM, str(tmp_path), TF_CPP_MIN_LOG_LEVEL='0')
    assert code == 0, err
    assert float(out) == slope_after(3)
    assert 'oneDNN' in err or 'cuda' in err


@not_on_2_15
def test_a_tpu_is_refused_with_the_versions_that_have_it():
    from tensorflow.python.tpu import tpu_embedding

    for make in (
        lambda: tf1.estimator.tpu.TPUEstimator(model_fn, config=tf1.estimator.tpu.RunConfig(), train_batch_size=2),
        lambda: tf1.tpu.experimental.AdamParameters(0.1),
        lambda: tpu_embedding.TPUEmbedding(),
    ):
        with pytest.raises(NotImplementedError, match='TPUs need TensorFlow 2.15 or older.*use_tpu=False'):
            make()


@not_on_2_15
def test_the_input_pipeline_hook_is_refused_with_what_to_use():
    for api in (tf, tf1):
        with pytest.raises(NotImplementedError, match='CheckpointInputPipelineHook: .*make_saveable_from_iterator'):
            api.data.experimental.CheckpointInputPipelineHook(None)
