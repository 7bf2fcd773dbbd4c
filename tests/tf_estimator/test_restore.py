"""tf.estimator is found wherever it used to be, and is put back only once."""

import tf_estimator  # noqa: F401 - before TensorFlow

import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tests.tf_estimator.programs import RESTORED, finish, launch


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


def test_tf_keras_is_keras_2_everywhere():
    from tensorflow.keras.layers import Dense

    assert Dense is tf.keras.layers.Dense is tf1.keras.layers.Dense
    assert Dense.__module__.startswith('tf_keras.' if RESTORED else 'keras.')


def test_a_second_import_changes_nothing_and_the_native_log_can_be_had_back():
    code, out, err = finish(
        launch(
            '-c',
            """
import sys
import tf_estimator
import tensorflow as tf
before = tf.estimator, tf.compat.v1.estimator.tpu.TPUEstimator.__init__
del sys.modules['tf_estimator']
import tf_estimator
assert (tf.estimator, tf.compat.v1.estimator.tpu.TPUEstimator.__init__) == before
""",
            TF_CPP_MIN_LOG_LEVEL='0',
        )
    )
    assert (code, out) == (0, ''), err
    assert 'oneDNN' in err or 'cuda' in err
