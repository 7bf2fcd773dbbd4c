"""Every dataset under datasets/, found by itself, and the contents of those that are generated."""

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data.elements import elements
from common.data.input_pipeline import make_input_fn
from common.data.size import count_examples
from common.data.source import DataSource
from common.errors import UsageError
from common.plugins import loader
from datasets import addition, polynomial
from hparams import build
from hparams.build import HParams

ModeKeys = tf.estimator.ModeKeys
OF_FILES = {'cifar10', 'csv', 'fashion_mnist', 'image_folder', 'text', 'tfds', 'tfrecord'}  # They have tests of their own.


@pytest.mark.parametrize('name', sorted({*loader.available('dataset')} - OF_FILES))
def test_every_dataset_gives_batches_in_all_modes(name, data_dir):
    text = 'batch_size=8,eval_batch_size=8' + (',num_examples=1000' if name == 'addition' else '')
    dataset = loader.load('dataset', name)
    params = build.make_hparams('m', {}, name, dataset.get_params(), text=text)
    source = DataSource(dataset, data_dir, params)
    dataset.prepare(source.data_dir, params)

    def first(mode, split):
        with tf.Graph().as_default(), tf.Session() as session:
            iterator = tf.data.make_initializable_iterator(make_input_fn(source, mode, split, count_examples(source, split))())
            element = iterator.get_next()
            session.run(tf.global_variables_initializer())
            session.run(iterator.initializer)
            return session.run(element)

    for mode, split in ((ModeKeys.TRAIN, 'train'), (ModeKeys.EVAL, 'eval')):
        features, labels = first(mode, split)
        assert all(len(value) == 8 for value in [*features.values(), *labels.values()])
    predicted = first(ModeKeys.PREDICT, 'eval')
    np.testing.assert_equal({key: predicted[key] for key in features}, features)


def read(dataset, split, **options):
    """Returns {name: array} of all records."""
    params = HParams({'seed': 1, **dataset.get_params(), **options})
    (found,) = elements(lambda: dataset.read(split, '', params).batch(10**6))
    return found


def samples(split, **options):
    found = read(polynomial, split, **options)
    return found['x'], found['y']


def test_polynomial_is_the_polynomial_and_splits_differ():
    (x, y), (held_out, _) = samples('train', num_samples=1000), samples('eval', num_samples=1000)
    np.testing.assert_allclose(y, 5 * x**2 + 3, rtol=1e-6)
    assert (len(x), len(held_out)) == (1000, 100) and not {*x} & {*held_out}
    assert abs(x.mean()) < 0.6 and abs(x.std() - 20 / 12**0.5) < 0.4 and np.abs(x).max() <= 10  # Uniform on [-10, 10].
    assert x.dtype == y.dtype == np.float32
    assert not {*x} & {*samples('train', num_samples=1000, seed=2)[0]}
    assert len(samples('eval', num_samples=10)[0]) == 1
    with pytest.raises(UsageError, match='num_samples=9 must be from 10 to 10000000'):
        samples('train', num_samples=9)


def sums(split, **options):
    found = read(addition, split, **options)
    return [(source.decode(), target.decode()) for source, target in zip(found['source'], found['target'])]


def test_addition_adds_numbers_of_all_lengths():
    examples = sums('train', num_examples=2000)
    assert len(examples) == 2000
    assert all(sum(map(int, source.split('+'))) == int(target) for source, target in examples)
    lengths = collections.Counter(len(number) for source, _ in examples for number in source.split('+'))
    assert set(lengths) == {1, 2, 3} and min(lengths.values()) > 1000
    assert examples != sums('train', num_examples=2000, seed=2)
    assert examples[:100] == sums('train', num_examples=100)
    for options in ({'max_digits': 0}, {'max_digits': 1001}, {'num_examples': 19}, {'num_examples': 1000001}):
        with pytest.raises(UsageError, match='must be from'):
            sums('train', **options)


def test_addition_holds_its_evaluation_out():
    options = {'max_digits': 2, 'num_examples': 20000}  # So many that training sees nearly all that it may.
    train, evaluation = sums('train', **options), sums('eval', **options)
    assert (len(train), len(evaluation)) == (20000, 1000)
    trained = {frozenset(source.split('+')) for source, _ in train}
    assert not any(frozenset(source.split('+')) in trained for source, _ in evaluation)  # In neither order.
    assert 300 < len({*evaluation}) < 1500  # One in ten of some 10,000.
