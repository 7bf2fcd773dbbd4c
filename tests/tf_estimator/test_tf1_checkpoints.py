"""Checkpoints in the layout of TensorFlow 1's programs, read by the layers that --tf1 gives them, compared with NumPy."""

import math

import tf_estimator  # noqa: F401 - before TensorFlow
from tf_estimator.tf1.modules import TensorFlow1

import numpy as np
import tensorflow.compat.v1 as tf

layers = TensorFlow1(tf).contrib.layers
WORDS, SIZE, HIDDEN, HEADS = 7, 4, 6, 2
LAYER = 'bert/encoder/layer_0'
# As in the checkpoints that were released with BERT.
SHAPES = {
    'bert/embeddings/word_embeddings': [WORDS, SIZE],
    'bert/embeddings/LayerNorm/beta': [SIZE],
    'bert/embeddings/LayerNorm/gamma': [SIZE],
    **{f'{LAYER}/attention/self/{name}/kernel': [SIZE, SIZE] for name in ('query', 'key', 'value')},
    **{f'{LAYER}/attention/self/{name}/bias': [SIZE] for name in ('query', 'key', 'value')},
    f'{LAYER}/attention/output/dense/kernel': [SIZE, SIZE],
    f'{LAYER}/attention/output/dense/bias': [SIZE],
    f'{LAYER}/attention/output/LayerNorm/beta': [SIZE],
    f'{LAYER}/attention/output/LayerNorm/gamma': [SIZE],
    f'{LAYER}/intermediate/dense/kernel': [SIZE, HIDDEN],
    f'{LAYER}/intermediate/dense/bias': [HIDDEN],
    f'{LAYER}/output/dense/kernel': [HIDDEN, SIZE],
    f'{LAYER}/output/dense/bias': [SIZE],
    f'{LAYER}/output/LayerNorm/beta': [SIZE],
    f'{LAYER}/output/LayerNorm/gamma': [SIZE],
}


def normalized(x):
    return layers.layer_norm(inputs=x, begin_norm_axis=-1, begin_params_axis=-1, scope='LayerNorm')


def heads(x, count):
    return tf.transpose(tf.reshape(x, [-1, count, HEADS, SIZE // HEADS]), [0, 2, 1, 3])


def transformer(ids):
    """A layer as programs write it: scopes, tf.layers.dense and tf.contrib.layers.layer_norm."""
    count = ids.shape[1]
    with tf.variable_scope('bert'):
        with tf.variable_scope('embeddings'):
            x = normalized(tf.nn.embedding_lookup(tf.get_variable('word_embeddings', [WORDS, SIZE]), ids))
        with tf.variable_scope('encoder/layer_0'):
            with tf.variable_scope('attention'):
                with tf.variable_scope('self'):
                    query, key, value = (
                        heads(tf.layers.dense(x, SIZE, name=name), count) for name in ('query', 'key', 'value')
                    )
                    weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) / math.sqrt(SIZE // HEADS))
                    context = tf.reshape(tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3]), [-1, count, SIZE])
                with tf.variable_scope('output'):
                    x = normalized(tf.layers.dense(context, SIZE) + x)
            with tf.variable_scope('intermediate'):
                hidden = tf.layers.dense(x, HIDDEN, activation=tf.nn.relu)
            with tf.variable_scope('output'):
                return normalized(tf.layers.dense(hidden, SIZE) + x)


def test_the_released_layout_of_bert_is_read(tmp_path):
    random = np.random.RandomState(0)
    values = {name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    with tf.Graph().as_default(), tf.Session() as session:
        saved = [tf.get_variable(name, initializer=value, use_resource=False) for name, value in values.items()]
        session.run(tf.global_variables_initializer())
        checkpoint = tf.train.Saver(saved).save(session, str(tmp_path / 'bert_model.ckpt'))
    ids = np.array([[1, 5, 0], [6, 2, 2]])
    with tf.Graph().as_default(), tf.Session() as session:
        output = transformer(tf.constant(ids))
        assert {variable.op.name for variable in tf.trainable_variables()} == SHAPES.keys()
        tf.train.init_from_checkpoint(checkpoint, {name: name for name, _ in tf.train.list_variables(checkpoint)})
        session.run(tf.global_variables_initializer())
        found = session.run(output)

    def norm(x, scope):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * values[f'{scope}/LayerNorm/gamma'] + values[f'{scope}/LayerNorm/beta']

    def dense(x, scope):
        return x @ values[f'{scope}/kernel'] + values[f'{scope}/bias']

    x = norm(values['bert/embeddings/word_embeddings'][ids], 'bert/embeddings')
    query, key, value = (dense(x, f'{LAYER}/attention/self/{name}') for name in ('query', 'key', 'value'))
    context = np.zeros_like(x)
    for part in np.split(np.arange(SIZE), HEADS):
        scores = np.exp(query[..., part] @ key[..., part].transpose(0, 2, 1) / np.sqrt(len(part)))
        context[..., part] = scores / scores.sum(-1, keepdims=True) @ value[..., part]
    x = norm(dense(context, f'{LAYER}/attention/output/dense') + x, f'{LAYER}/attention/output')
    hidden = np.maximum(dense(x, f'{LAYER}/intermediate/dense'), 0)
    np.testing.assert_allclose(found, norm(dense(hidden, f'{LAYER}/output/dense') + x, f'{LAYER}/output'), rtol=1e-3, atol=1e-5)
