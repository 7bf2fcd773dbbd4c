"""What only a process that has imported nothing can show: importing tf_estimator, twice, leaves all else as it is.

Then it trains y = 2x on two logical CPU devices, a MirroredStrategy's. Each sees one of the two examples, so that only both
together learn what one device learns from both. tests/tf_estimator/test_restore.py runs it.
"""

import gc
import json
import os
import sys

import tf_estimator
assert gc.isenabled()
import numpy as np
import tensorflow as tf

devices = set()


def import_again():
    gc.disable()
    before = tf.estimator, tf.compat.v1.estimator.tpu.TPUEstimator.__init__
    del sys.modules['tf_estimator']
    import tf_estimator  # noqa: F811
    assert not gc.isenabled()
    gc.enable()
    assert (tf.estimator, tf.compat.v1.estimator.tpu.TPUEstimator.__init__) == before


def check_keras():
    """Asserts that tf.keras, which is used now for the first time, is Keras 2, whatever has become of the environment."""
    os.environ.pop('TF_USE_LEGACY_KERAS', None)
    for api in (tf, tf.compat.v1, tf.compat.v2):
        for found in (api.keras.layers.Dense, api.initializers.Ones if api is not tf.compat.v1 else api.layers.Dense):
            assert found.__module__.startswith(('tf_keras.', 'keras.src.')), found.__module__
    assert 'keras' not in sys.modules or tf.__version__.startswith('2.15.')


def model_fn(features, labels, mode):
    slope = tf.compat.v1.get_variable('slope', [], initializer=tf.compat.v1.zeros_initializer())
    y = slope * features['x']
    devices.add(y.device)
    loss = tf.reduce_mean(tf.square(y - labels))
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    return tf.data.Dataset.from_tensor_slices(({'x': np.float32([1, 2])}, np.float32([2, 4]))).repeat().batch(1)


def main(model_dir):
    import_again()
    check_keras()
    # This raises if importing tf_estimator has already made use of the devices.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices('CPU')[0], [tf.config.LogicalDeviceConfiguration()] * 2)
    # The default, collective reduction, hangs between CPU devices in a session, on TensorFlow 2.15 as on 2.21.
    strategy = tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'], tf.distribute.ReductionToOneDevice())
    config = tf.estimator.RunConfig(
        model_dir, train_distribute=strategy, session_config=tf.compat.v1.ConfigProto(device_count={'CPU': 2}))
    estimator = tf.estimator.Estimator(model_fn, config=config)
    estimator.train(input_fn, max_steps=3)
    trained_on = sorted(device[-5:] for device in devices)
    metrics = estimator.evaluate(input_fn, steps=2)
    print(json.dumps({
        'devices': trained_on,
        'slope': float(estimator.get_variable_value('slope')),
        'loss': float(metrics['loss']),
        'global_step': int(metrics['global_step']),
    }))


if __name__ == '__main__':
    main(sys.argv[1])
