"""Helpers shared by the tests of the input pipeline: dataset modules and their batches."""

import contextlib
import types

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.pipeline import input
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.share import WHOLE
from estimator_trainer.common.pipeline.size import count_examples
from estimator_trainer.common.records import records
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.defaults import DEFAULTS

ModeKeys = tf.estimator.ModeKeys
UNKNOWN, INFINITE = tf.data.experimental.UNKNOWN_CARDINALITY, tf.data.experimental.INFINITE_CARDINALITY


def make_params(**changes):
    few = {'batch_size': 4, 'eval_batch_size': 4, 'shuffle_buffer': 100, 'cache': True}
    return HParams({**DEFAULTS, 'dataset': 'numbers', 'seed': 1, **few, **changes})


def numbers(count, **functions):
    """A dataset module of the numbers 0 to count - 1; of 10 that are not counted if it is UNKNOWN, endless if INFINITE."""

    def read(split, data_dir, params):
        if count == UNKNOWN:
            return tf.data.Dataset.range(20).filter(lambda i: i < 10)
        return tf.data.Dataset.range(2**40).repeat() if count == INFINITE else tf.data.Dataset.range(count)

    functions = functions or {'parse': lambda mode, params, record: ({'x': record}, {'y': -record})}
    return types.SimpleNamespace(read=read, **functions)


def of_files(**functions):
    """A dataset module of the examples in data_dir, which have an `id`."""

    def parse_batch(mode, params, serialized):
        return {'x': tf.io.parse_example(serialized, {'id': tf.io.FixedLenFeature([], tf.int64)})['id']}, {}

    functions = functions or {'parse_batch': parse_batch}
    return types.SimpleNamespace(read=lambda split, data_dir, params: records.read(data_dir, split), **functions)


def passes(module, spans, mode=ModeKeys.TRAIN, data_dir='', count=None, is_kept=None, is_part=False, share=WHOLE, **changes):
    """Returns the batches of several runs, as after restores: spans are (global step, number of batches).

    The records are kept in memory as the hyper-parameter cache says, unless `is_kept` is given; `count` is counted by default.
    """
    params = make_params(**changes)
    source = DataSource(module, data_dir, params)
    count = count_examples(source, 'train') if count is None else count
    is_kept = params.cache if is_kept is None else is_kept
    found = []
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1 + spans[0][0] + share.index)  # The order must follow from params.seed alone.
        dataset = input.make_input_fn(source, mode, 'train', count, is_kept, is_part, share)()
        iterator = tf.data.make_initializable_iterator(dataset)
        element = iterator.get_next()
        set_step = tf.assign(tf.train.get_or_create_global_step(), tf.placeholder_with_default(np.int64(0), [], 'step'))
        session.run(tf.tables_initializer())
        for start, steps in spans:
            session.run(set_step, {'step:0': start})
            session.run(iterator.initializer)
            found.append([])
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while steps is None or len(found[-1]) < steps:
                    found[-1].append(session.run(element))
    return found


def batches(module, steps=None, mode=ModeKeys.TRAIN, start=0, **options):
    return passes(module, [(start, steps)], mode, **options)[0]


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)


def ids(*args, **options):
    return [features['x'].tolist() for features, _ in batches(*args, **options)]
