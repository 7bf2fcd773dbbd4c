"""A model that classifies words by their letters, and its dataset; data_dir.txt has a word and its class in each line."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.records import records

WORDS = 'aa vowels\nbbbb consonants\neoi vowels\ncdfg consonants\nu vowels\ntt consonants\n'


def get_params():
    return {'num_classes': 0, 'batch_size': 4, 'learning_rate': 0.1}


def prepare(data_dir, params):
    if not records.is_written(data_dir):
        words = [line.split() for line in open(data_dir + '.txt')]
        rows = [{'word': word, 'name': name, 'number': i} for i, (word, name) in enumerate(words)]
        records.write(data_dir, {'train': rows, 'fold3': rows[:2]})


def metadata(data_dir, params):
    names = sorted({line.split()[1] for line in open(data_dir + '.txt')})
    return {'class_names': names, 'num_classes': len(names)}


def read(split, data_dir, params):
    return records.read(data_dir, split)


def parse(mode, params, record):
    spec = {'word': tf.io.FixedLenFeature([], tf.string), 'number': tf.io.FixedLenFeature([], tf.int64, -1)}
    named = {} if mode == tf.estimator.ModeKeys.PREDICT else {'name': tf.io.FixedLenFeature([], tf.string)}
    example = tf.io.parse_single_example(record, {**spec, **named})
    features = {'letters': tf.cast(tf.io.decode_raw(example['word'], tf.uint8), tf.int32), 'example_id': example['number']}
    if not named:
        return features, None
    return features, {'label': tf.argmax(tf.cast(tf.equal(params.metadata['class_names'], example['name']), tf.int32), 0)}


def read_input(path, params):
    for number, line in enumerate(open(path), 1):
        yield {'line': number}, records.encode({'word': line.strip()})


def model(features, labels, mode, params):
    assert 'example_id' not in features
    counts = tf.reduce_sum(tf.one_hot(features['letters'], 256), 1) * tf.cast(tf.range(256) > 0, tf.float32)
    logits = tf.layers.dense(counts, params.num_classes)
    predictions = {'class': tf.argmax(logits, 1), 'logits': logits}
    if labels is None:
        return predictions, None
    return predictions, tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels['label'], logits=logits)


def eval_metrics(features, labels, predictions, params):
    return {'accuracy': tf.metrics.accuracy(labels['label'], predictions['class'])}
