"""A linear model of numeric and categorical features, for classification and regression."""

import tensorflow.compat.v1 as tf


def get_params():
    return {'num_classes': 2, 'learning_rate': 0.1, 'batch_size': 32}


def model(features, labels, mode, params):
    parts = [features['numeric']] if 'numeric' in features else []
    for i, size in enumerate(params.metadata.get('vocabulary_sizes', {}).get('categorical', [])):
        parts.append(tf.one_hot(features['categorical'][:, i], size))
    inputs = tf.concat(parts, axis=1)
    if params.metadata['task'] == 'regression':
        mean, std = params.metadata['target_mean'], params.metadata['target_std']
        value = tf.layers.dense(inputs, 1)[:, 0]
        return {'value': value * std + mean}, None if labels is None else tf.square(value - (labels['label'] - mean) / std)
    logits = tf.layers.dense(inputs, params.num_classes)
    predictions = {'class': tf.argmax(logits, 1), 'probabilities': tf.nn.softmax(logits)}
    if labels is None:
        return predictions, None
    return predictions, tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels['label'], logits=logits)


def eval_metrics(features, labels, predictions, params):
    if 'value' in predictions:
        return {'error': tf.metrics.mean_absolute_error(labels['label'], predictions['value'])}
    return {'accuracy': tf.metrics.accuracy(labels['label'], predictions['class'])}
