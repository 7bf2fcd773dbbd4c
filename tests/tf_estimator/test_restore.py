"""tf.estimator is found wherever it used to be, and is put back only once."""

import importlib
import json
import os

import tf_estimator  # noqa: F401 - before TensorFlow

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tests.tf_estimator.programs import RESTORED, SCRIPTS, run_fresh
from tests.tf_estimator.slope import loss_after, slope_after


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


def test_tf_keras_is_keras_2_everywhere():
    from tensorflow.keras.layers import Dense

    assert Dense is tf.keras.layers.Dense is tf1.keras.layers.Dense
    assert Dense.__module__.startswith('tf_keras.' if RESTORED else 'keras.')


def test_a_new_process_imports_it_twice_and_trains_on_all_devices_with_the_native_log_that_it_asks_for(tmp_path):
    code, out, err = run_fresh(os.path.join(SCRIPTS, 'mirrored.py'), str(tmp_path), TF_CPP_MIN_LOG_LEVEL='0')
    assert code == 0, err
    learned = {'slope': slope_after(3), 'loss': loss_after(3), 'global_step': 3}
    assert json.loads(out) == {'devices': ['CPU:0', 'CPU:1'], **learned}
    assert 'oneDNN' in err or 'cuda' in err
