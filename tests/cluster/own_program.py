"""A program's own model_fn, with a clipped gradient and an embedding, and its own shuffled batches, for tests of clusters."""

import numpy as np
import tensorflow.compat.v1 as tf

_random = np.random.RandomState(0)
IDS, X = _random.randint(0, 5, 50), _random.uniform(-1, 1, [50, 2]).astype(np.float32)
Y = (X @ np.float32([1, 2]) + IDS).astype(np.float32)


def input_fn(split, params):
    data = tf.data.Dataset.from_tensor_slices(({'id': IDS, 'x': X}, Y))
    return data.shuffle(50).repeat().batch(7) if split == 'train' else data.batch(25)


def tensors(split, params):
    features, labels = tf.data.make_one_shot_iterator(input_fn(split, params)).get_next()
    return features, tf.identity(labels)


def model_fn(features, labels, mode):
    embedded = tf.gather(tf.get_variable('table', [5], initializer=tf.zeros_initializer()), features['id'])
    y = tf.layers.dense(features['x'], 1, kernel_initializer=tf.zeros_initializer())[:, 0] + embedded
    loss = tf.losses.mean_squared_error(labels, y)
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
    train_op = optimizer.apply_gradients(zip(gradients, variables), tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, {'y': y}, loss, train_op)
