"""Every dataset under datasets/, found by itself, and the contents of those that ship."""

import collections
import glob
import gzip
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from benchmarks import generated_images
from common.data.input_pipeline import make_input_fn
from common.data.size import count_examples
from common.data.source import DataSource
from common.errors import RunError, UsageError
from common.plugins import loader
from datasets import addition, mnist
from hparams import build
from tests.raw_datasets import write_cifar10, write_fashion_mnist

ModeKeys = tf.estimator.ModeKeys
WRITE_RAW = {'cifar10': write_cifar10, 'fashion_mnist': write_fashion_mnist}


def first_batch(name, mode, split, data_dir, text=''):
    dataset = loader.load('dataset', name)
    params = build.make_hparams('m', {}, name, dataset.get_params(), text=f'batch_size=8,eval_batch_size=8,{text}')
    with tf.Graph().as_default(), tf.Session() as session:
        count = count_examples(DataSource(dataset, data_dir, params), split)
        iterator = tf.data.make_initializable_iterator(
            make_input_fn(DataSource(dataset, data_dir, params), mode, split, count)()
        )
        element = iterator.get_next()
        session.run(tf.global_variables_initializer())
        session.run(iterator.initializer)
        return count, session.run(element)


# They need files of the user's; each has a test file of its own.
OWN_DATA = {'csv', 'text', 'tfds', 'tfrecord'}


@pytest.mark.parametrize('name', sorted({*loader.available('dataset')} - OWN_DATA))
def test_every_dataset_gives_batches_in_all_modes(name, data_dir, tmp_path, monkeypatch):
    directory = data_dir if name == 'mnist' else str(tmp_path)
    if name in WRITE_RAW:
        WRITE_RAW[name](tmp_path / 'raw' / name, monkeypatch)
    text = ''
    if name == 'image_folder':
        generated_images.generate(f'{tmp_path}/pictures', 100)
        text = f'image_dir={tmp_path}/pictures'
    dataset = loader.load('dataset', name)
    dataset.prepare(directory, build.make_hparams('m', {}, name, dataset.get_params(), text=text))
    for mode, split in ((ModeKeys.TRAIN, 'train'), (ModeKeys.EVAL, 'eval')):
        count, (features, labels) = first_batch(name, mode, split, directory, text)
        assert count >= 8
        assert all(len(value) == 8 for value in [*features.values(), *labels.values()])
    _, predicted = first_batch(name, ModeKeys.PREDICT, 'eval', directory, text)
    for key, value in features.items():
        np.testing.assert_array_equal(predicted[key], value)


def test_mnist_is_the_whole_of_it_as_published(whole_mnist):
    images = gzip.decompress(open(os.path.join(mnist.RAW_DIR, 't10k-images-idx3-ubyte.gz'), 'rb').read())[16:]
    labels = gzip.decompress(open(os.path.join(mnist.RAW_DIR, 't10k-labels-idx1-ubyte.gz'), 'rb').read())[8:]
    count, (features, found) = first_batch('mnist', ModeKeys.EVAL, 'eval', whole_mnist)
    assert count == 10000
    assert list(found['label']) == list(labels[:8]) == [7, 2, 1, 0, 4, 1, 4, 9]
    expected = np.frombuffer(images[: 8 * 784], np.uint8).reshape(8, 28, 28, 1) / np.float32(255)
    np.testing.assert_array_equal(features['image'], expected)
    assert first_batch('mnist', ModeKeys.TRAIN, 'train', whole_mnist)[0] == 60000


def test_mnist_is_converted_once(data_dir):
    def times():
        paths = glob.glob(os.path.join(data_dir, 'mnist', '*.tfrecord'))
        return {path: os.stat(path).st_mtime_ns for path in paths}

    before = times()
    mnist.prepare(data_dir, mnist.get_params())
    assert times() == before and len(before) == 8


def test_the_source_and_licence_of_mnist_lie_beside_it():
    text = open(os.path.join(mnist.RAW_DIR, 'README.md')).read()
    assert 'Creative Commons Attribution-Share Alike 3.0' in text and 'yann.lecun.com' in text


@pytest.mark.parametrize(
    'damage, message',
    [
        (lambda content: None, 'cannot be read'),
        (lambda content: content[:1000], 'cannot be read'),
        (lambda content: b'<html>', 'cannot be read'),
        (lambda content: gzip.compress(gzip.decompress(content)[:-1] + b'\x07'), 'SHA-256 differs'),
    ],
)
def test_a_raw_file_that_is_not_the_one_that_ships_is_named(tmp_path, monkeypatch, damage, message):
    raw = tmp_path / 'raw'
    raw.mkdir()
    for name in os.listdir(mnist.RAW_DIR):
        (raw / name).symlink_to(os.path.join(mnist.RAW_DIR, name))
    bad = raw / 'train-labels-idx1-ubyte.gz'
    content = damage(bad.read_bytes())
    bad.unlink()
    if content is not None:
        bad.write_bytes(content)
    monkeypatch.setattr(mnist, 'RAW_DIR', str(raw))
    with pytest.raises(RunError, match=f'{bad}: .*{message}'):
        mnist.prepare(str(tmp_path / 'data'), mnist.get_params())
    assert not (tmp_path / 'data').exists()


def test_polynomial_is_the_polynomial_and_splits_differ(tmp_path):
    _, (train, labels) = first_batch('polynomial', ModeKeys.TRAIN, 'train', str(tmp_path))
    np.testing.assert_allclose(labels['y'], 5 * train['x'] ** 2 + 3, rtol=1e-6)
    assert np.abs(train['x']).max() <= 10
    dataset = loader.load('dataset', 'polynomial')
    params = build.make_hparams('m', {}, 'polynomial', dataset.get_params(), text='num_samples=1000')
    with tf.Graph().as_default(), tf.Session() as session:
        samples = [
            session.run(tf.data.make_one_shot_iterator(dataset.read(split, '', params).batch(1000)).get_next())['x']
            for split in ('train', 'eval')
        ]
    assert [len(x) for x in samples] == [1000, 100]
    assert not set(samples[0]) & set(samples[1])
    assert abs(samples[0].mean()) < 0.6 and abs(samples[0].std() - 20 / 12**0.5) < 0.4  # Uniform on [-10, 10].


def sums(split, **options):
    params = build.make_hparams('m', {}, 'addition', {**addition.get_params(), **options})
    return [
        (element['source'].decode(), element['target'].decode())
        for element in addition.read(split, '', params).as_numpy_iterator()
    ]


def test_addition_adds():
    examples = sums('train', num_examples=2000)
    assert len(examples) == 2000
    assert all(sum(map(int, source.split('+'))) == int(target) for source, target in examples)
    lengths = collections.Counter(len(number) for source, _ in examples for number in source.split('+'))
    assert set(lengths) == {1, 2, 3} and min(lengths.values()) > 1000


def test_addition_holds_its_evaluation_out():
    options = {'max_digits': 2, 'num_examples': 20000}  # So many that training sees nearly all that it may.
    train, evaluation = sums('train', **options), sums('eval', **options)
    assert (len(train), len(evaluation)) == (20000, 1000)
    trained = {source for source, _ in train}
    for source, _ in evaluation:
        a, b = source.split('+')
        assert f'{a}+{b}' not in trained and f'{b}+{a}' not in trained
    assert len(set(evaluation)) > 300


def test_addition_is_a_function_of_the_seed():
    assert sums('train', num_examples=100) == sums('train', num_examples=100)
    assert sums('train', num_examples=100) != sums('train', num_examples=100, seed=2)


@pytest.mark.parametrize('options', [{'max_digits': 0}, {'max_digits': 1001}, {'num_examples': 19}])
def test_addition_refuses_what_gives_no_sums(options):
    with pytest.raises(UsageError, match='must be from'):
        sums('train', **options)
