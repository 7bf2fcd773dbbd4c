"""Records that make a run fail are found, whatever op failed, and named with their location."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.pipeline.bad_records import ERRORS, check_records
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import make_input_fn
from estimator_trainer.common.pipeline.size import count_examples
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.defaults import DEFAULTS

TRAIN, EVAL = tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL


def read(*unused):
    return tf.data.Dataset.from_tensor_slices({'x': np.eye(12, 3, dtype=np.float32), 'label': np.arange(12) % 2})


def parse(mode, params, record):
    return {'x': record['x']}, {'label': record['label']}


def make_source(read=read, **functions):
    few = {'batch_size': 4, 'eval_batch_size': 4, 'shuffle_buffer': 100}
    params = HParams({**DEFAULTS, 'dataset': 'd', 'seed': 1, **few})
    return DataSource(types.SimpleNamespace(read=read, **functions), '', params)


def train(source, mode=TRAIN, split='train', cache=False, num_examples=None, weights=()):
    with tf.Graph().as_default(), tf.Session() as session:
        count = num_examples or count_examples(source, split)
        batches = make_input_fn(source, mode, split, count, cache, is_part=num_examples is not None)()
        iterator = tf.data.make_initializable_iterator(batches)
        features, labels = iterator.get_next()
        logits = tf.reshape(features['x'], [-1, 3])[:, :2]
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels['label'] + 0, logits=logits)
        if weights:
            loss = tf.gather(weights, labels['label'] + 0)
        session.run(tf.global_variables_initializer())
        session.run(iterator.initializer)
        for _ in range(9):
            session.run(loss)


def found(source, mode=TRAIN, split='train', **options):
    """Returns the error found after training or evaluation has failed."""
    with pytest.raises(ERRORS) as error:
        train(source, mode, split, **options)
    with pytest.raises(RunError) as report:
        check_records(source, [(mode, split)], error.value)
    return str(report.value)


@pytest.mark.parametrize(
    'claimed, counts, split, found_count',
    [
        (20, (12, 12), 'train', 'only 12 records, but 20'),
        (8, (12, 12), 'eval', 'at least 9 records, but 8'),
        (None, (12, 7), 'train', 'only 7 records, but 12'),
        (None, (7, 12), 'train', 'at least 8 records, but 7'),
    ],
)
def test_another_number_of_records_than_counted_or_claimed_is_named(claimed, counts, split, found_count):
    calls = []

    def read_changed(split, data_dir, params):
        calls.append(split)
        examples = read().take(counts[len(calls) > 1]).filter(lambda record: True)  # Hides their number.
        return examples.apply(tf.data.experimental.assert_cardinality(claimed)) if claimed else examples

    mode, source = TRAIN if split == 'train' else EVAL, make_source(read=read_changed, parse=parse)
    assert found(source, mode, split, cache='only' in found_count) == (
        f'--dataset=d: read(): the split {split} has {found_count} were counted, or claimed with assert_cardinality: each '
        'call must give the same number'
    )
    train(make_source(parse=parse), num_examples=4)  # Records are omitted on purpose.


def test_shapes_that_vary_are_named_with_the_feature_and_the_cure_and_where_batches_are_parsed_with_the_function():
    def parse_some(mode, params, record):
        x = tf.numpy_function(lambda x, n: x[: 1 + n], [record['x'], record['label']], tf.float32)
        return {'a': record['x'], 'x': x}, {'label': record['label']}

    for mode in (TRAIN, EVAL):
        assert found(make_source(parse=parse_some), mode) == (
            '--dataset=d: parse(): the feature x is of shape [1] in record 0 of the split train, and [2] in record 1: '
            'give it a known number of dimensions, with tf.ensure_shape, so that batches are padded'
        )

    def read_lengths(split, data_dir, params):
        return tf.data.Dataset.range(12).map(lambda i: {'x': tf.ones([i, 3]), 'label': i})

    def remove_one(mode, params, record):  # Of the first batch.
        return {'x': tf.boolean_mask(record['x'], record['x'][:, 2] < 1)}, {'label': record['label']}

    assert found(make_source(read=read_lengths, parse_batch=parse)) == (
        '--dataset=d: read(): the records of the split train differ in shape, and parse_batch() takes batches: pad them to '
        'one length, or parse them one by one, with parse()'
    )
    problem = '--dataset=d: parse_batch() must return features and labels of one batch'
    assert found(make_source(parse_batch=remove_one)) == f'record 2 of the split train: {problem}'


def test_a_record_whose_shape_is_not_what_the_parser_claims_is_named():
    def claim(mode, params, record):
        x = tf.numpy_function(lambda x: x[: 3 - int(x[2])], [record['x']], tf.float32)
        x.set_shape([3])
        return {'x': x}, {'label': record['label']}

    assert found(make_source(parse=claim)).startswith('record 2 of the split train: ')


@pytest.mark.parametrize(
    'mode, split, label, weights', [(TRAIN, 'train', 10, ()), (EVAL, 'test', -1, ()), (TRAIN, 'train', -1, (1.0, 2.0))]
)
def test_a_label_that_the_model_cannot_take_is_named_with_the_record(mode, split, label, weights):
    def parse_label(mode, params, record):
        found = tf.where(record['x'][2] > 0, tf.constant(label, tf.int64), record['label'])
        return {'x': record['x'], 'other': label}, {'label': found, 'another': label}

    message = f'record 2 of the split {split}: the label label is {label}, but the model takes 0 to 1'
    assert found(make_source(parse=parse_label), mode, split, weights=weights).partition(' (')[0] == message
