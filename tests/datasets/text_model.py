"""A bag of embedded words."""

import tensorflow.compat.v1 as tf


def get_params():
    return {'num_classes': 2, 'learning_rate': 0.1, 'batch_size': 32}


def model(features, labels, mode, params):
    embeddings = tf.get_variable('embeddings', [params.metadata['vocabulary_size'], 8])
    net = tf.reduce_mean(tf.nn.embedding_lookup(embeddings, features['text']), axis=1)
    logits = tf.layers.dense(net, params.num_classes)
    predictions = {'class': tf.argmax(logits, 1)}
    if labels is None:
        return predictions, None
    return predictions, tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels['label'], logits=logits)


def eval_metrics(features, labels, predictions, params):
    return {'accuracy': tf.metrics.accuracy(labels['label'], predictions['class'])}
