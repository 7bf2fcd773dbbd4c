"""Fashion-MNIST from the places where its files may be."""

import gzip
import hashlib
import os

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import pytest

from common.errors import RunError, UsageError
from datasets import fashion_mnist
from tests.datasets.parsed import assert_is, parsed
from tests.http_server import fail, serving
from tests.raw_datasets import write_fashion_mnist

NAMES = list(fashion_mnist._SHA256)


def prepare(data_dir, **params):
    fashion_mnist.prepare(str(data_dir), {**fashion_mnist.get_params(), **params})


@pytest.fixture(autouse=True)
def no_debian_package(monkeypatch, request):
    if 'published' not in request.node.name:
        monkeypatch.setattr(fashion_mnist, 'DEBIAN_DIR', '/nowhere')


@pytest.mark.parametrize('is_gzipped', [True, False])
def test_the_examples_are_those_of_the_files_in_raw_dir(tmp_path, monkeypatch, is_gzipped):
    arrays = write_fashion_mnist(tmp_path / 'mine', monkeypatch, is_gzipped)
    prepare(tmp_path, raw_dir=str(tmp_path / 'mine'))
    assert_is(fashion_mnist, 'fashion_mnist', str(tmp_path), arrays)


def test_the_files_below_data_dir_are_found(tmp_path, monkeypatch):
    arrays = write_fashion_mnist(tmp_path / 'raw' / 'fashion_mnist', monkeypatch)
    prepare(tmp_path)
    assert_is(fashion_mnist, 'fashion_mnist', str(tmp_path), arrays)


def test_the_files_of_debians_package_are_found(tmp_path, monkeypatch):
    arrays = write_fashion_mnist(tmp_path / 'debian', monkeypatch)
    monkeypatch.setattr(fashion_mnist, 'DEBIAN_DIR', str(tmp_path / 'debian'))
    prepare(tmp_path)
    assert_is(fashion_mnist, 'fashion_mnist', str(tmp_path), arrays)


def test_a_file_that_is_nowhere_is_downloaded(tmp_path, monkeypatch):
    arrays = write_fashion_mnist(tmp_path / 'server', monkeypatch)
    monkeypatch.setenv('no_proxy', '*')
    contents = {f'{name}.gz': (tmp_path / 'server' / f'{name}.gz').read_bytes() for name in NAMES}
    for name in NAMES:
        monkeypatch.setitem(fashion_mnist._GZIPPED_SHA256, name, hashlib.sha256(contents[f'{name}.gz']).hexdigest())

    def answer(handler, begin):
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(contents[os.path.basename(handler.path)])

    with serving(answer) as (url, ranges):
        monkeypatch.setattr(fashion_mnist, '_URL', os.path.dirname(url))
        prepare(tmp_path)
    assert len(ranges) == 4
    assert_is(fashion_mnist, 'fashion_mnist', str(tmp_path), arrays)
    assert {f'{name}.gz' for name in NAMES} <= set(os.listdir(tmp_path / 'raw' / 'fashion_mnist'))


def test_a_download_that_fails_says_where_the_file_may_be_put(tmp_path, monkeypatch):
    monkeypatch.setenv('no_proxy', '*')
    with serving(fail(404)) as (url, _):
        monkeypatch.setattr(fashion_mnist, '_URL', os.path.dirname(url))
        with pytest.raises(RunError, match=f'HTTP 404.*{tmp_path}/raw/fashion_mnist/train-images-idx3-ubyte.gz.*raw_dir='):
            prepare(tmp_path)
    assert not (tmp_path / 'fashion_mnist').exists()


def test_a_raw_dir_without_the_files_is_refused_and_nothing_downloaded(tmp_path, monkeypatch):
    write_fashion_mnist(tmp_path / 'mine', monkeypatch)
    (tmp_path / 'mine' / 't10k-labels-idx1-ubyte.gz').unlink()
    monkeypatch.setattr(fashion_mnist, 'download', pytest.fail)
    with pytest.raises(UsageError, match=f'raw_dir={tmp_path}/mine: has neither t10k-labels-idx1-ubyte.gz nor t10k-labels'):
        prepare(tmp_path, raw_dir=str(tmp_path / 'mine'))
    assert not (tmp_path / 'fashion_mnist').exists()


def test_a_file_that_is_not_the_published_one_is_named(tmp_path, monkeypatch):
    write_fashion_mnist(tmp_path / 'mine', monkeypatch)
    bad = tmp_path / 'mine' / 'train-labels-idx1-ubyte.gz'
    bad.write_bytes(gzip.compress(gzip.decompress(bad.read_bytes())[:-1] + b'\x0b'))
    with pytest.raises(
        RunError, match=f'^{bad}: is not the file that was published .SHA-256 differs.: replace it with http://'
    ):
        prepare(tmp_path, raw_dir=str(tmp_path / 'mine'))


def test_what_is_converted_needs_no_raw_files(tmp_path, monkeypatch):
    arrays = write_fashion_mnist(tmp_path / 'mine', monkeypatch)
    prepare(tmp_path, raw_dir=str(tmp_path / 'mine'))
    prepare(tmp_path, raw_dir='/nowhere')
    assert_is(fashion_mnist, 'fashion_mnist', str(tmp_path), arrays)


@pytest.mark.parametrize('changed', [{'image_size': 32}, {'num_channels': 3}, {'num_classes': 9}])
def test_what_the_images_define_cannot_be_changed(tmp_path, changed):
    with pytest.raises(UsageError, match='--dataset=fashion_mnist has image_size=28, num_channels=1 and num_classes=10'):
        prepare(tmp_path, **changed)


def test_the_classes_have_names(tmp_path):
    metadata = fashion_mnist.metadata(str(tmp_path), fashion_mnist.get_params())
    assert metadata['num_classes'] == len(metadata['class_names']) == len(set(metadata['class_names'])) == 10
    assert metadata['class_names'][9] == 'Ankle boot'


@pytest.mark.skipif(not os.path.isdir(fashion_mnist.DEBIAN_DIR), reason="needs Debian's package dataset-fashion-mnist")
def test_the_package_holds_what_was_published(tmp_path):
    prepare(tmp_path)
    features, labels = parsed(fashion_mnist, 'fashion_mnist', 'eval', str(tmp_path))
    assert labels['label'][0] == 9
    with gzip.open(os.path.join(fashion_mnist.DEBIAN_DIR, 't10k-images-idx3-ubyte.gz')) as file:
        first = np.frombuffer(file.read()[16 : 16 + 784], np.uint8)
    np.testing.assert_array_equal(np.rint(features['image'][0].ravel() * 255), first)
    with gzip.open(os.path.join(fashion_mnist.DEBIAN_DIR, 'train-labels-idx1-ubyte.gz')) as file:
        assert np.bincount(np.frombuffer(file.read()[8:], np.uint8)).tolist() == [6000] * 10
