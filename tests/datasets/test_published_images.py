"""MNIST, Fashion-MNIST and CIFAR-10, from files that ship, that the user has, or that are downloaded; the latter made small."""

import glob
import gzip
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data.elements import elements
from common.errors import RunError, UsageError
from common.formats import image_records
from datasets import cifar10, fashion_mnist, mnist
from hparams.build import HParams
from tests.http_server import fail, serving
from tests.raw_datasets import write_archive, write_cifar10, write_fashion_mnist

WRITE = {cifar10: write_cifar10, fashion_mnist: write_fashion_mnist}
PICKLED = ('cifar-10-python.tar.gz', 'cifar-10-batches-py')
BOTH = pytest.mark.parametrize('dataset', WRITE, ids=lambda dataset: dataset.__name__)


@pytest.fixture(autouse=True)
def only_own_files(monkeypatch, request):
    """Hides Debian's package and proxies."""
    monkeypatch.setenv('no_proxy', '*')
    if 'debian' not in request.node.name:
        monkeypatch.setattr(fashion_mnist, 'DEBIAN_DIR', '/nowhere')


def prepare(dataset, data_dir, **params):
    dataset.prepare(str(data_dir), {**dataset.get_params(), **params})


def read(dataset, data_dir, split, count):
    """Returns (features, labels) of the first examples of a split."""

    def batch():
        records = dataset.read(split, str(data_dir), params).batch(count).take(1)
        return records.map(lambda serialized: dataset.parse_batch(tf.estimator.ModeKeys.EVAL, params, serialized))

    params = HParams(dataset.get_params())
    (found,) = elements(batch)
    return found


def assert_converted(dataset, data_dir, arrays):
    """Asserts that the first examples of the splits are the images and labels `arrays`."""
    for split, (images, labels) in arrays.items():
        features, found = read(dataset, data_dir, split, len(labels))
        assert features.keys() == {'image'} and found.keys() == {'label'}
        assert features['image'].dtype == np.float32 and found['label'].dtype == np.int32
        expected = images.reshape(*images.shape[:3], -1) / np.float32(255)
        np.testing.assert_array_equal(features['image'], expected)
        np.testing.assert_array_equal(found['label'], labels)
        with tf.Graph().as_default(), tf.Session() as session:  # Served images are parsed alike.
            served = session.run(dataset.image_features(HParams({}), tf.constant(images[:2])))
        np.testing.assert_array_equal(served['image'].reshape(2, -1), expected[:2].reshape(2, -1))


@pytest.mark.parametrize(
    'dataset, folder, options, is_own',
    [
        (fashion_mnist, '', {}, True),
        (fashion_mnist, '', {'is_gzipped': False}, False),
        (cifar10, '', {}, True),
        (cifar10, '', {'is_archive': False}, False),
        (cifar10, 'cifar-10-batches-bin', {'is_archive': False}, False),
    ],
)
def test_files_of_the_user_are_converted_once(tmp_path, monkeypatch, dataset, folder, options, is_own):
    name = dataset.__name__.rpartition('.')[2]
    directory = tmp_path / 'mine' if is_own else tmp_path / 'raw' / name
    arrays = WRITE[dataset](directory / folder, monkeypatch, **options)
    files = os.listdir(directory)
    prepare(dataset, tmp_path, raw_dir=str(directory) if is_own else '')
    assert_converted(dataset, tmp_path, arrays)
    assert os.listdir(directory) == files  # Nothing is extracted.
    prepare(dataset, tmp_path, raw_dir='/nowhere')


def test_the_files_of_debians_package_are_found(tmp_path, monkeypatch):
    arrays = write_fashion_mnist(tmp_path / 'debian', monkeypatch)
    monkeypatch.setattr(fashion_mnist, 'DEBIAN_DIR', str(tmp_path / 'debian'))
    prepare(fashion_mnist, tmp_path)
    assert_converted(fashion_mnist, tmp_path, arrays)


@pytest.mark.skipif(not os.path.isdir(fashion_mnist.DEBIAN_DIR), reason="needs Debian's package dataset-fashion-mnist")
def test_debians_package_holds_what_was_published(tmp_path):
    prepare(fashion_mnist, tmp_path)
    with gzip.open(os.path.join(fashion_mnist.DEBIAN_DIR, 't10k-images-idx3-ubyte.gz')) as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(os.path.join(fashion_mnist.DEBIAN_DIR, 't10k-labels-idx1-ubyte.gz')) as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    assert labels[0] == 9 and np.bincount(labels).tolist() == [1000] * 10
    assert_converted(fashion_mnist, tmp_path, {'eval': (images[:1000], labels[:1000])})


@BOTH
def test_files_that_are_nowhere_are_downloaded_once(tmp_path, monkeypatch, dataset):
    arrays = WRITE[dataset](tmp_path / 'server', monkeypatch)

    def answer(handler, begin):
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write((tmp_path / 'server' / os.path.basename(handler.path)).read_bytes())

    with serving(answer) as (url, ranges):
        url = os.path.dirname(url)
        monkeypatch.setattr(dataset, 'URL', f'{url}/cifar-10-binary.tar.gz' if dataset == cifar10 else url)
        prepare(dataset, tmp_path)
        prepare(dataset, tmp_path)
    names = os.listdir(tmp_path / 'server')
    assert len(ranges) == len(names)
    assert {*names} <= {*os.listdir(tmp_path / 'raw' / dataset.__name__.rpartition('.')[2])}
    assert_converted(dataset, tmp_path, arrays)


@BOTH
def test_a_download_that_fails_says_where_the_file_may_be_put(tmp_path, monkeypatch, dataset):
    name = 'cifar10/cifar-10-binary.tar.gz' if dataset == cifar10 else 'fashion_mnist/train-images-idx3-ubyte.gz'
    with serving(fail(404)) as (url, _):
        url = os.path.dirname(url)
        monkeypatch.setattr(dataset, 'URL', f'{url}/cifar-10-binary.tar.gz' if dataset == cifar10 else url)
        with pytest.raises(RunError, match=f'^{url}/{os.path.basename(name)}: .*HTTP 404.*{tmp_path}/raw/{name} by.*raw_dir='):
            prepare(dataset, tmp_path)
    assert os.listdir(tmp_path) == ['raw']


@pytest.mark.parametrize(
    'dataset, message',
    [
        (fashion_mnist, 'has neither train-images-idx3-ubyte.gz nor train-images-idx3-ubyte$'),
        (cifar10, 'has neither cifar-10-binary.tar.gz nor the files data_batch_1.bin, data_batch_2.bin, .*, test_batch.bin$'),
    ],
)
def test_a_raw_dir_without_the_files_is_refused_and_nothing_downloaded(tmp_path, monkeypatch, dataset, message):
    monkeypatch.setattr(dataset, 'download', pytest.fail)
    with pytest.raises(UsageError, match=f'raw_dir={tmp_path}: {message}'):
        prepare(dataset, tmp_path, raw_dir=str(tmp_path))
    assert os.listdir(tmp_path) == []


def other_labels(content):
    return gzip.compress(gzip.decompress(content)[:-1] + b'\x0b')


@pytest.mark.parametrize(
    'dataset, options, name, damage, message',
    [
        (
            fashion_mnist,
            {},
            'train-labels-idx1-ubyte.gz',
            other_labels,
            'is not the file that was published .* it with http://',
        ),
        (
            cifar10,
            {},
            'cifar-10-binary.tar.gz',
            lambda content: content[:-1],
            'is not .* published .SHA-256 differs.: replace it',
        ),
        (
            cifar10,
            {'is_archive': False},
            'data_batch_3.bin',
            lambda content: bytes(30730),
            'is not the file that was published',
        ),
        (
            cifar10,
            {'is_archive': False},
            'data_batch_3.bin',
            lambda content: None,
            'cannot be read: .*; replace it with that of',
        ),
    ],
)
def test_a_file_that_is_not_the_published_one_is_named(tmp_path, monkeypatch, dataset, options, name, damage, message):
    WRITE[dataset](tmp_path, monkeypatch, **options)
    content = damage((tmp_path / name).read_bytes())
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(RunError, match=f'^{tmp_path}/{name}: {message}'):
        prepare(dataset, tmp_path, raw_dir=str(tmp_path))
    assert not list(tmp_path.glob('*/*.tfrecord'))


@pytest.mark.parametrize(
    'name, content',
    [
        ('cifar-10-batches-bin/test_batch.bin', bytes(3073)),  # Too short.
        ('cifar-10-batches-bin/test_batch.bin', '/etc/passwd'),  # A symbolic link.
        ('cifar-10-batches-bin/../test_batch.bin', bytes(30730)),
        ('test_batch.bin', bytes(30730)),
    ],
)
def test_only_regular_files_of_the_expected_name_and_size_are_read_from_the_archive(tmp_path, monkeypatch, name, content):
    files = {f'cifar-10-batches-bin/data_batch_{i}.bin': bytes(30730) for i in range(1, 6)}
    monkeypatch.setattr(cifar10, 'FILE_BYTES', 30730)
    path = write_archive(tmp_path, monkeypatch, {**files, 'cifar-10-batches-bin/readme.html': b'x', name: content})
    with pytest.raises(RunError, match=f'^{path}: has no file cifar-10-batches-bin/test_batch.bin of 30730 bytes'):
        prepare(cifar10, tmp_path, raw_dir=str(tmp_path))


def test_an_archive_that_is_none_is_named_even_if_its_sum_is_right(tmp_path, monkeypatch):
    path = write_archive(tmp_path, monkeypatch, {})
    path.write_bytes(b'no archive')
    monkeypatch.setattr(cifar10, 'ARCHIVE_SHA256', cifar10.sha256_of(str(path)))
    with pytest.raises(RunError, match=f'^{path}: cannot be read: '):
        prepare(cifar10, tmp_path, raw_dir=str(tmp_path))


@pytest.mark.parametrize('name, is_own', zip(PICKLED, [True, False]))
def test_the_pickled_version_is_not_read(tmp_path, monkeypatch, name, is_own):
    directory = tmp_path / 'raw' / 'cifar10'
    directory.mkdir(parents=True)
    (directory / name).write_bytes(b'cos\nsystem\n')
    with pytest.raises(RunError, match=f'^{directory}/{name}: is not read, because it is pickled.*{cifar10.URL}$'):
        prepare(cifar10, tmp_path, raw_dir=str(directory) if is_own else '')
    write_cifar10(directory, monkeypatch)
    prepare(cifar10, tmp_path)  # The binary version beside it is read.


@pytest.mark.parametrize(
    'dataset, defined',
    [
        (fashion_mnist, 'fashion_mnist has image_size=28, num_channels=1 and num_classes=10'),
        (cifar10, 'cifar10 has image_size=32, num_channels=3 and num_classes=10'),
        (mnist, 'mnist has image_size=28, num_channels=1 and num_classes=10'),
    ],
)
def test_what_the_images_define_cannot_be_changed(tmp_path, dataset, defined):
    for changed in ({'image_size': 30}, {'num_channels': 2}, {'num_classes': 9}):
        with pytest.raises(UsageError, match=f'--dataset={defined}: they cannot be changed'):
            prepare(dataset, tmp_path, **changed)
    given = dataset.get_params()
    image_records.check_params('mine', {**given, 'num_classes': 11}, given)  # Classes may be left empty.


@BOTH
def test_the_classes_have_names(tmp_path, dataset):
    metadata = dataset.metadata(str(tmp_path), dataset.get_params())
    assert metadata['num_classes'] == len(set(metadata['class_names'])) == 10
    if dataset == cifar10:
        assert metadata['class_names'] == sorted(metadata['class_names'])  # As they were published.
    else:
        assert metadata['class_names'][9] == 'Ankle boot'


def test_mnist_is_as_published(data_dir):
    def raw(name, header):
        with gzip.open(os.path.join(mnist.RAW_DIR, f'{name}.gz')) as file:
            return np.frombuffer(file.read(), np.uint8, offset=header)

    images, labels = raw('t10k-images-idx3-ubyte', 16).reshape(-1, 28, 28), raw('t10k-labels-idx1-ubyte', 8)
    assert labels[:8].tolist() == [7, 2, 1, 0, 4, 1, 4, 9]
    trained = raw('train-images-idx3-ubyte', 16).reshape(-1, 28, 28), raw('train-labels-idx1-ubyte', 8)
    assert [len(array) for array in (*trained, images, labels)] == [60000, 60000, 10000, 10000]
    for split, arrays in (('train', trained), ('eval', (images, labels))):
        assert_converted(mnist, data_dir, {split: [array[:1000] for array in arrays]})


def test_mnist_is_converted_once(data_dir):
    before = {path: os.stat(path).st_mtime_ns for path in glob.glob(f'{data_dir}/mnist/*.tfrecord')}
    mnist.prepare(data_dir, mnist.get_params())
    assert {path: os.stat(path).st_mtime_ns for path in before} == before and len(before) == 8


def test_the_source_and_licence_of_mnist_lie_beside_it():
    text = open(os.path.join(mnist.RAW_DIR, 'README.md')).read()
    assert 'Creative Commons Attribution-Share Alike 3.0' in text and 'yann.lecun.com' in text


def test_a_raw_file_of_mnist_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, 'RAW_DIR', str(tmp_path))
    with pytest.raises(RunError, match=f'{tmp_path}/train-images-idx3-ubyte.gz: cannot be read: .*; restore it from the repo'):
        mnist.prepare(str(tmp_path / 'data'), mnist.get_params())
    (tmp_path / 'train-images-idx3-ubyte.gz').write_bytes(gzip.compress(b'\0\0\x08\1\0\0\0\0'))
    with pytest.raises(RunError, match='is not the file that this project ships .SHA-256 differs.: restore it'):
        mnist.prepare(str(tmp_path / 'data'), mnist.get_params())
