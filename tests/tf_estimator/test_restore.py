"""tf.estimator is found at all its former locations, and restored once; errors name alternatives to unrestored names."""

import importlib
import pkgutil
import re

from tf_estimator import moved_names

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as tf1
from tensorflow.python.distribute.distribute_config import DistributeConfig
from tensorflow.python.tools import freeze_graph

from tests.tf_estimator.programs import not_on_2_15, run_fresh
from tests.tf_estimator.slope import model_fn, slope_after

ESTIMATOR = 'tensorflow_estimator.python.estimator'
OLD = 'tensorflow.python.estimator'
TRACKING = 'tensorflow.python.training.tracking'
SAME = {
    'tensorflow.estimator.Estimator': f'{OLD}.estimator.EstimatorV2',
    'tensorflow.estimator.export.ServingInputReceiver': f'{OLD}.export.export.ServingInputReceiver',
    'tensorflow.compat.v1.estimator.Estimator': f'{OLD}.estimator_lib.Estimator',
    'tensorflow.compat.v2.estimator.Estimator': f'{ESTIMATOR}.estimator.EstimatorV2',
    'tensorflow:compat.v1.compat.v2.estimator.Estimator': 'tensorflow:compat.v2.compat.v2.estimator.Estimator',
    'tensorflow:compat.v2.compat.v1.estimator.Estimator': 'tensorflow:compat.v1.compat.v1.estimator.Estimator',
    f'{OLD}.keras.model_to_estimator': f'{ESTIMATOR}.keras_lib.model_to_estimator',
    f'{OLD}.canned.head._Head': f'{ESTIMATOR}.canned.head._Head',
    f'{TRACKING}.base': 'tensorflow.python.trackable.base',
    f'{TRACKING}.graph_view': 'tensorflow.python.checkpoint.graph_view',
    f'{TRACKING}.tracking.TrackableResource': 'tensorflow.python.trackable.resource.TrackableResource',
    f'{TRACKING}.util': 'tensorflow.python.checkpoint.checkpoint',
    'tensorflow.python.ops.variables.VariableV1': 'tensorflow.compat.v1.Variable',
    'tensorflow.keras.layers.Dense': 'tensorflow.compat.v1.keras.layers.Dense',
    'tf_keras.legacy_tf_layers.normalization': 'tf_keras.src.legacy_tf_layers.normalization',
}


def test_imports_by_different_names_are_the_same():
    for one, other in SAME.items():
        assert pkgutil.resolve_name(one) is pkgutil.resolve_name(other), one
    assert 'estimator' in dir(tf) and 'estimator' in dir(tf1)
    assert tf.compat.v2.estimator.Estimator is tf.estimator.Estimator is not tf1.estimator.Estimator
    with pytest.raises(ModuleNotFoundError, match=f'{OLD}.none'):
        importlib.import_module(f'{OLD}.none')


def test_an_import_of_an_api_module_is_the_api_that_was_mended():
    program = """
import tf_estimator
import tensorflow as tf
from tensorflow.compat.v1.estimator import BestCheckpointExporter as v1, BoostedTreesClassifier
from tensorflow.estimator import BestCheckpointExporter as v2
from tensorflow.compat.v2.estimator import BestCheckpointExporter as v2_again
print(v1 is v2 is v2_again is tf.estimator.BestCheckpointExporter is tf.compat.v1.estimator.BestCheckpointExporter)
print(BoostedTreesClassifier is tf.compat.v1.estimator.BoostedTreesClassifier)
"""
    code, out, err = run_fresh('-c', program)
    assert (code, out) == (0, 'True\nTrue\n'), err


@not_on_2_15
def test_every_moved_name_is_at_its_old_location():
    for module, names in moved_names.NAMES.items():
        for name, path in names.items():
            assert getattr(importlib.import_module(module), name) is pkgutil.resolve_name(path)
    for old, new in moved_names.MISSING_MODULES.items():
        if not old.startswith('keras.'):  # It would import Keras 3.
            assert importlib.import_module(old) is importlib.import_module(new)


def test_a_graph_is_frozen_without_the_variables_of_an_argument_by_its_former_name(tmp_path):
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        total = tf1.get_variable('a', initializer=1.0, use_resource=False) + tf1.get_variable(
            'b', initializer=2.0, use_resource=False
        )
        saver = tf1.train.Saver()
        session.run(tf1.global_variables_initializer())
        path = saver.save(session, str(tmp_path / 'model'))
        options = dict(restore_op_name='', filename_tensor_name='', clear_devices=True, initializer_nodes='')
        names = dict(input_checkpoint=path, output_node_names=total.op.name, output_graph='', variable_names_blacklist='b')
        frozen = freeze_graph.freeze_graph_with_def_protos(graph.as_graph_def(), saver.as_saver_def(), **names, **options)
    kinds = {node.name: node.op for node in frozen.node}
    assert (kinds['a'], kinds['b']) == ('Const', 'VariableV2')


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
    assert float(out) == pytest.approx(slope_after(3))
    assert re.search(r'\.cc:\d+\] ', err)


@not_on_2_15
def test_unrestored_names_are_rejected_with_an_alternative():
    from tensorflow.python.tpu import tpu_embedding

    config = tf1.estimator.tpu.RunConfig()
    remote = DistributeConfig(tf.distribute.OneDeviceStrategy('/cpu:0'), remote_cluster={'worker': ['a:1']})
    tpu = 'TPUs need TensorFlow 2.15 or older.*use_tpu=False'
    hook = 'CheckpointInputPipelineHook: .*make_saveable_from_iterator'
    cluster = 'remote_cluster needs TensorFlow 2.15 or older: start the program once a task'
    for make, arguments, message in (
        (tf1.estimator.tpu.TPUEstimator, {'model_fn': model_fn, 'config': config, 'train_batch_size': 2}, tpu),
        (tf1.tpu.experimental.AdamParameters, {'learning_rate': 0.1}, tpu),
        (tpu_embedding.TPUEmbedding, {}, tpu),
        (tf.data.experimental.CheckpointInputPipelineHook, {'estimator': None}, hook),
        (tf1.data.experimental.CheckpointInputPipelineHook, {'estimator': None}, hook),
        (tf.estimator.RunConfig, {'experimental_distribute': remote}, cluster),
    ):
        with pytest.raises(ValueError if message == cluster else NotImplementedError, match=message):
            make(**arguments)
