"""The included datasets: generated, shipped, downloaded, or from the user's files."""

import collections
import functools
import gzip
import os
import pathlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.formats import image_records
from estimator_trainer.datasets import addition, cifar10, fashion_mnist, mnist, polynomial
from estimator_trainer.hparams.build import HParams
from tests.datasets.own_data import PREDICT, parse
from tests.http_server import fail, serving
from tests.raw_datasets import write_archive, write_cifar10, write_fashion_mnist
from tests.shared import refused

WRITE = {cifar10: write_cifar10, fashion_mnist: write_fashion_mnist}
ARCHIVE, FIRST = 'cifar-10-binary.tar.gz', 'train-images-idx3-ubyte.gz'


@pytest.fixture(autouse=True)
def only_own_files(monkeypatch, tmp_path):
    monkeypatch.setenv('no_proxy', '*')
    monkeypatch.setattr(fashion_mnist, 'DEBIAN_DIR', str(tmp_path / 'debian'))


def prepare(dataset, data_dir, **params):
    dataset.prepare(str(data_dir), {**dataset.get_params(), **params})


def assert_converted(dataset, data_dir, arrays):
    """Asserts that the examples of the splits are the images and labels `arrays`."""
    params = HParams(dataset.get_params())
    for split, (images, labels) in arrays.items():
        read = functools.partial(dataset.read, split, str(data_dir), params)
        features, found = parse(dataset, params, read)
        assert features.keys() == {'image'} and found.keys() == {'label'}
        assert features['image'].dtype == np.float32 and found['label'].dtype == np.int32
        images = images.reshape(*images.shape[:3], -1)
        np.testing.assert_array_equal(features['image'], images / np.float32(255))
        np.testing.assert_array_equal(found['label'], labels)
        np.testing.assert_equal(parse(dataset, params, read, PREDICT), features)
        with tf.Graph().as_default(), tf.Session() as session:  # Served images are parsed alike.
            served = session.run(dataset.image_features(params, tf.constant(images)))
        np.testing.assert_allclose(served['image'], features['image'], rtol=1e-6)


@pytest.mark.parametrize(
    'dataset, directory, options',
    [
        (fashion_mnist, 'mine', {}),
        (fashion_mnist, 'raw/fashion_mnist', {'is_gzipped': False}),
        (fashion_mnist, 'debian', {}),
        (cifar10, 'raw/cifar10', {'is_archive': False}),
        (cifar10, 'raw/cifar10/cifar-10-batches-bin', {'is_archive': False}),
    ],
)
def test_the_users_files_are_converted_once(tmp_path, monkeypatch, dataset, directory, options):
    arrays = WRITE[dataset](tmp_path / directory, monkeypatch, **options)
    files = os.listdir(tmp_path / directory)
    prepare(dataset, tmp_path, raw_dir=str(tmp_path / 'mine') if directory == 'mine' else '')
    assert_converted(dataset, tmp_path, arrays)
    assert os.listdir(tmp_path / directory) == files and (tmp_path / dataset.__name__.rpartition('.')[2]).is_dir()
    prepare(dataset, tmp_path, raw_dir='/nowhere')


@pytest.mark.parametrize('dataset, first', [(cifar10, ARCHIVE), (fashion_mnist, FIRST)])
def test_missing_files_are_downloaded_once(tmp_path, monkeypatch, dataset, first):
    def answer(handler, begin):
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write((tmp_path / 'server' / os.path.basename(handler.path)).read_bytes())

    arrays = WRITE[dataset](tmp_path / 'server', monkeypatch)
    directory = tmp_path / 'raw' / dataset.__name__.rpartition('.')[2]
    with serving(fail(404), answer) as (url, ranges):
        url = os.path.dirname(url)
        monkeypatch.setattr(dataset, 'URL', f'{url}/{ARCHIVE}' if dataset == cifar10 else url)
        with pytest.raises(RunError, match=f'^{url}/{first}: .*HTTP 404.* at {directory}/{first} by hand, .*raw_dir='):
            prepare(dataset, tmp_path)
        assert {*os.listdir(tmp_path)} == {'raw', 'server'}
        for _ in range(2):
            prepare(dataset, tmp_path)
    files = {*os.listdir(tmp_path / 'server')}
    assert len(ranges) == 1 + len(files) and files <= {*os.listdir(directory)}
    assert_converted(dataset, tmp_path, arrays)


@pytest.mark.parametrize(
    'dataset, options, name, damage, message',
    [
        (fashion_mnist, {}, FIRST, lambda content: gzip.compress(b''), 'is not the file that was published .* it with http://'),
        (cifar10, {}, ARCHIVE, lambda content: content[:-1], 'is not the file .* published .SHA-256 differs.: replace it with'),
        (cifar10, {'is_archive': False}, 'data_batch_3.bin', lambda content: bytes(30730), 'is not the file that was'),
        (cifar10, {'is_archive': False}, 'data_batch_3.bin', None, 'cannot be read: .*; replace it with that of https://'),
    ],
)
def test_an_unpublished_file_is_named(tmp_path, monkeypatch, dataset, options, name, damage, message):
    WRITE[dataset](tmp_path, monkeypatch, **options)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    if damage:
        (tmp_path / name).write_bytes(damage(content))
    with pytest.raises(RunError, match=f'^{tmp_path}/{name}: {message}'):
        prepare(dataset, tmp_path, raw_dir=str(tmp_path))
    assert not list(tmp_path.glob('*/*.tfrecord'))


def test_only_regular_files_of_the_expected_name_and_size_are_read_from_the_archive(tmp_path, monkeypatch):
    files = {f'cifar-10-batches-bin/data_batch_{i}.bin': bytes(30730) for i in range(1, 6)}
    monkeypatch.setattr(cifar10, 'FILE_BYTES', 30730)
    for name, content in (
        ('cifar-10-batches-bin/test_batch.bin', bytes(3073)),  # Too short.
        ('cifar-10-batches-bin/test_batch.bin', '/etc/passwd'),  # A symbolic link.
        ('../cifar-10-batches-bin/test_batch.bin', bytes(30730)),
    ):
        path = write_archive(tmp_path, monkeypatch, {**files, name: content})
        with pytest.raises(RunError, match=f'^{path}: has no file cifar-10-batches-bin/test_batch.bin of 30730 bytes'):
            prepare(cifar10, tmp_path, raw_dir=str(tmp_path))


@pytest.mark.parametrize('name, is_own', [('cifar-10-python.tar.gz', True), ('cifar-10-batches-py', False)])
def test_the_pickled_version_is_not_read(tmp_path, monkeypatch, name, is_own):
    directory = tmp_path / 'raw' / 'cifar10'
    directory.mkdir(parents=True)
    (directory / name).write_bytes(b'cos\nsystem\n')
    with pytest.raises(RunError, match=f'^{directory}/{name}: is not read, because it is pickled.*{cifar10.URL}$'):
        prepare(cifar10, tmp_path, raw_dir=str(directory) if is_own else '')
    write_cifar10(directory, monkeypatch)
    prepare(cifar10, tmp_path)  # The binary version beside it is read.


def test_wrong_hyper_parameters_are_rejected(tmp_path, monkeypatch):
    for dataset, files, defined in (
        (fashion_mnist, f'{FIRST} nor {FIRST[:-3]}$', 'image_size=28, num_channels=1'),
        (cifar10, f'{ARCHIVE} nor the files data_batch_1.bin, .*, test_batch.bin$', 'image_size=32, num_channels=3'),
    ):
        monkeypatch.setattr(dataset, 'download', pytest.fail)
        with pytest.raises(UsageError, match=f'^--hparams=raw_dir={tmp_path}: has neither {files}'):
            prepare(dataset, tmp_path, raw_dir=str(tmp_path))
        name, given = dataset.__name__.rpartition('.')[2], dataset.get_params()
        for wrong in ({'image_size': 30}, {'num_channels': 2}, {'num_classes': 9}):
            with pytest.raises(UsageError, match=f'^--dataset={name} has {defined} and num_classes=10: they cannot be changed'):
                prepare(dataset, tmp_path, **wrong)
        image_records.check_params(name, {**given, 'num_classes': 11}, given)  # Classes may be left empty.
        assert dataset.metadata('', given) == {'num_classes': 10, 'class_names': dataset.CLASS_NAMES}
    assert cifar10.CLASS_NAMES == sorted(cifar10.CLASS_NAMES) and fashion_mnist.CLASS_NAMES[9] == 'Ankle boot'  # As published.
    assert cifar10.FILE_BYTES == 30_730_000


def test_mnist_is_as_published_and_converted_once(data_dir):
    for split, prefix, count in (('train', 'train', 60000), ('eval', 't10k', 10000)):
        paths = [os.path.join(mnist.RAW_DIR, f'{prefix}-{kind}-ubyte.gz') for kind in ('images-idx3', 'labels-idx1')]
        images, labels = (np.frombuffer(gzip.open(path).read(), np.uint8) for path in paths)
        images, labels = images[16:].reshape(-1, 28, 28), labels[8:]
        assert len(images) == len(labels) == count
        assert_converted(mnist, data_dir, {split: (images[: count // 10], labels[: count // 10])})
    assert labels[:8].tolist() == [7, 2, 1, 0, 4, 1, 4, 9]
    before = [path.stat().st_mtime_ns for path in pathlib.Path(data_dir).glob('mnist/*.tfrecord')]
    mnist.prepare(data_dir, mnist.get_params())
    assert [path.stat().st_mtime_ns for path in pathlib.Path(data_dir).glob('mnist/*.tfrecord')] == before and len(before) == 8
    assert refused(prepare, mnist, data_dir, image_size=30).startswith('--dataset=mnist has image_size=28, num_channels=1')
    text = open(os.path.join(mnist.RAW_DIR, 'README.md')).read()
    assert 'Creative Commons Attribution-Share Alike 3.0' in text and 'yann.lecun.com' in text


def test_a_missing_or_changed_raw_file_of_mnist_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, 'RAW_DIR', str(tmp_path))
    other = gzip.compress(b'another')
    for content, message in (
        (None, 'cannot be read: .*;'),
        (b'another', 'cannot be read: Not a gzipped file .*;'),
        (other[:-1], 'cannot be read: Compressed file ended .*;'),
        (other[:10] + b'\xff' + other[11:], 'cannot be read: Error .* while decompressing data: .*;'),
        (other, r'is not the file that this project ships \(SHA-256 differs\):'),
    ):
        if content:
            (tmp_path / FIRST).write_bytes(content)
        with pytest.raises(RunError, match=f'^{tmp_path}/{FIRST}: {message} restore it from the repository$'):
            prepare(mnist, tmp_path / 'data')


def generated(dataset, split, **options):
    """Returns the feature and the label of all examples."""
    params = HParams({'seed': 1, **dataset.get_params(), **options})
    features, labels = parse(dataset, params, lambda: dataset.read(split, '', params))
    return *features.values(), *labels.values()


def test_polynomial_is_the_polynomial_and_splits_differ():
    samples = functools.partial(generated, polynomial)
    (x, y), (held_out, _) = samples('train', num_samples=1000), samples('eval', num_samples=1000)
    np.testing.assert_allclose(y, 5 * x**2 + 3, rtol=1e-6)
    assert (len(x), len(held_out)) == (1000, 100) and not {*x} & {*held_out}
    assert abs(x.mean()) < 0.6 and abs(x.std() - 20 / 12**0.5) < 0.4 and np.abs(x).max() <= 10  # Uniform on [-10, 10].
    assert x.dtype == y.dtype == np.float32
    assert not {*x} & {*samples('train', num_samples=1000, seed=2)[0]}
    assert len(samples('eval', num_samples=10)[0]) == 1
    assert refused(samples, 'train', num_samples=9) == 'num_samples=9 must be from 10 to 10000000'


def sums(split, **options):
    return [(source.decode(), target.decode()) for source, target in zip(*generated(addition, split, **options))]


def test_addition_adds_numbers_of_all_lengths_and_holds_its_evaluation_out():
    examples = sums('train', num_examples=2000)
    assert len(examples) == 2000
    assert all(sum(map(int, source.split('+'))) == int(target) for source, target in examples)
    lengths = collections.Counter(len(number) for source, _ in examples for number in source.split('+'))
    assert set(lengths) == {1, 2, 3} and min(lengths.values()) > 1000
    assert examples != sums('train', num_examples=2000, seed=2)
    assert examples[:100] == sums('train', num_examples=100)
    for options in ({'max_digits': 0}, {'max_digits': 1001}, {'num_examples': 19}, {'num_examples': 1000001}):
        assert 'must be from' in refused(sums, 'train', **options)
    options = {'max_digits': 2, 'num_examples': 20000}  # Enough that training sees nearly all allowed sums.
    train, evaluation = sums('train', **options), sums('eval', **options)
    assert (len(train), len(evaluation)) == (20000, 1000)
    trained = {frozenset(source.split('+')) for source, _ in train}
    assert not any(frozenset(source.split('+')) in trained for source, _ in evaluation)  # In neither order.
    assert 300 < len({*evaluation}) < 1500  # One in ten of some 10,000.
