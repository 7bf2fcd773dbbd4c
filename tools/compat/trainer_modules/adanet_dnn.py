from adanet.examples import simple_dnn as program
import numpy as np
import tensorflow.compat.v1 as tf


def estimator(config, params):
    generator = program.Generator([tf.feature_column.numeric_column('x', [4])], tf.train.RMSPropOptimizer(0.01), dropout=0.1)
    return program.adanet.Estimator(tf.estimator.RegressionHead(), generator, max_iteration_steps=25, config=config)


def input_fn(split, params):
    x = np.random.RandomState(split == 'eval').randn(200, 4).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices(({'x': x}, np.sin(x).sum(1, keepdims=True)))
    return data.shuffle(99).repeat().batch(16) if split == 'train' else data.batch(16)
