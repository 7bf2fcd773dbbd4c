"""CIFAR-10 from an archive of its format, or from the files in it."""

import os

import tf_estimator  # noqa: F401 - before TensorFlow

import pytest

from common.errors import RunError, UsageError
from datasets import cifar10
from tests.datasets.parsed import assert_is, parsed
from tests.http_server import fail, send, serving
from tests.raw_datasets import write_archive, write_cifar10


def prepare(data_dir, **params):
    cifar10.prepare(str(data_dir), {**cifar10.get_params(), **params})


def test_the_examples_are_those_of_the_archive_in_raw_dir(tmp_path, monkeypatch):
    arrays = write_cifar10(tmp_path / 'mine', monkeypatch)
    prepare(tmp_path, raw_dir=str(tmp_path / 'mine'))
    assert_is(cifar10, 'cifar10', str(tmp_path), arrays)
    assert os.listdir(tmp_path / 'mine') == ['cifar-10-binary.tar.gz']  # Nothing is extracted.


def test_an_image_has_its_planes_as_channels(tmp_path, monkeypatch):
    red, green, blue = bytes(range(256)) * 4, bytes([7]) * 1024, bytes([9]) * 1024
    files = {f'cifar-10-batches-bin/{name}': (bytes([5]) + red + green + blue) * 2 for name in cifar10._SHA256}
    write_archive(tmp_path / 'mine', monkeypatch, files)
    monkeypatch.setattr(cifar10, '_FILE_BYTES', 2 * 3073)
    prepare(tmp_path, raw_dir=str(tmp_path / 'mine'))
    features, labels = parsed(cifar10, 'cifar10', 'eval', str(tmp_path))
    image = (features['image'][1] * 255).round()
    assert image.shape == (32, 32, 3) and labels['label'].tolist() == [5, 5]
    assert image[0, 1].tolist() == [1, 7, 9] and image[1, 0].tolist() == [32, 7, 9]


@pytest.mark.parametrize('folder', ['', 'cifar-10-batches-bin'])
def test_the_extracted_files_will_do(tmp_path, monkeypatch, folder):
    arrays = write_cifar10(tmp_path / 'raw' / 'cifar10' / folder, monkeypatch, is_archive=False)
    prepare(tmp_path)
    assert_is(cifar10, 'cifar10', str(tmp_path), arrays)


def test_the_archive_is_downloaded_if_there_is_none(tmp_path, monkeypatch):
    arrays = write_cifar10(tmp_path / 'server', monkeypatch)
    monkeypatch.setenv('no_proxy', '*')
    with serving(send(content=(tmp_path / 'server' / 'cifar-10-binary.tar.gz').read_bytes())) as (url, ranges):
        monkeypatch.setattr(cifar10, '_URL', url)
        prepare(tmp_path)
        prepare(tmp_path)
    assert len(ranges) == 1
    assert_is(cifar10, 'cifar10', str(tmp_path), arrays)


def test_a_download_that_fails_says_where_the_archive_may_be_put(tmp_path, monkeypatch):
    monkeypatch.setenv('no_proxy', '*')
    with serving(fail(404)) as (url, _):
        monkeypatch.setattr(cifar10, '_URL', url)
        with pytest.raises(RunError, match=f'^{url}: .*HTTP 404.*{tmp_path}/raw/cifar10/cifar-10-binary.tar.gz by.*raw_dir='):
            prepare(tmp_path)


@pytest.mark.parametrize('name', ['cifar-10-python.tar.gz', 'cifar-10-batches-py'])
@pytest.mark.parametrize('is_own', [True, False])
def test_the_pickled_version_is_not_read(tmp_path, name, is_own):
    directory = tmp_path / 'raw' / 'cifar10'
    directory.mkdir(parents=True)
    (directory / name).write_bytes(b'cos\nsystem\n')
    with pytest.raises(RunError, match=f'^{directory}/{name}: is not read, because it is pickled.*{cifar10._URL}$'):
        prepare(tmp_path, **({'raw_dir': str(directory)} if is_own else {}))


def test_the_binary_version_is_read_beside_the_pickled_one(tmp_path, monkeypatch):
    arrays = write_cifar10(tmp_path / 'raw' / 'cifar10', monkeypatch)
    (tmp_path / 'raw' / 'cifar10' / 'cifar-10-python.tar.gz').write_bytes(b'cos\nsystem\n')
    prepare(tmp_path)
    assert_is(cifar10, 'cifar10', str(tmp_path), arrays)


def test_a_raw_dir_without_the_files_is_refused(tmp_path):
    with pytest.raises(UsageError, match=f'raw_dir={tmp_path}: has neither cifar-10-binary.tar.gz nor the files data_batch_1'):
        prepare(tmp_path, raw_dir=str(tmp_path))


@pytest.mark.parametrize('damage', [lambda content: content[:-1], lambda content: content + b'x', lambda content: b''])
def test_an_archive_that_is_not_the_published_one_is_named(tmp_path, monkeypatch, damage):
    write_cifar10(tmp_path, monkeypatch)
    path = tmp_path / 'cifar-10-binary.tar.gz'
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RunError, match=f'^{path}: is not the file that was published .SHA-256 differs.: replace it with'):
        prepare(tmp_path, raw_dir=str(tmp_path))
    assert not (tmp_path / 'cifar10').exists()


def test_an_extracted_file_that_is_not_the_published_one_is_named(tmp_path, monkeypatch):
    write_cifar10(tmp_path, monkeypatch, is_archive=False)
    path = tmp_path / 'data_batch_3.bin'
    path.write_bytes(bytes(len(path.read_bytes())))
    with pytest.raises(RunError, match=f'^{path}: is not the file that was published'):
        prepare(tmp_path, raw_dir=str(tmp_path))


def test_an_extracted_file_that_is_missing_is_named(tmp_path, monkeypatch):
    write_cifar10(tmp_path, monkeypatch, is_archive=False)
    (tmp_path / 'data_batch_3.bin').unlink()
    with pytest.raises(RunError, match=f'^{tmp_path}/data_batch_3.bin: cannot be read: .*; replace it with'):
        prepare(tmp_path, raw_dir=str(tmp_path))


@pytest.mark.parametrize(
    'name, content',
    [
        ('cifar-10-batches-bin/test_batch.bin', bytes(3073)),  # Too short.
        ('cifar-10-batches-bin/test_batch.bin', '/etc/passwd'),  # A symbolic link.
        ('../test_batch.bin', bytes(30730)),
        ('/cifar-10-batches-bin/test_batch.bin', bytes(30730)),
        ('test_batch.bin', bytes(30730)),
    ],
)
def test_only_regular_files_with_the_expected_name_and_size_are_read(tmp_path, monkeypatch, name, content):
    files = {f'cifar-10-batches-bin/data_batch_{i}.bin': bytes(30730) for i in range(1, 6)}
    monkeypatch.setattr(cifar10, '_FILE_BYTES', 30730)
    path = write_archive(tmp_path, monkeypatch, {**files, name: content})
    with pytest.raises(RunError, match=f'^{path}: has no file cifar-10-batches-bin/test_batch.bin of 30730 bytes'):
        prepare(tmp_path, raw_dir=str(tmp_path))


def test_an_archive_that_is_none_is_named_even_if_its_sum_is_right(tmp_path, monkeypatch):
    path = write_archive(tmp_path, monkeypatch, {})
    path.write_bytes(b'no archive')
    monkeypatch.setattr(cifar10, '_ARCHIVE_SHA256', cifar10.sha256_of(str(path)))
    with pytest.raises(RunError, match=f'^{path}: cannot be read: '):
        prepare(tmp_path, raw_dir=str(tmp_path))


@pytest.mark.parametrize('changed', [{'image_size': 28}, {'num_channels': 1}, {'num_classes': 9}])
def test_what_the_images_define_cannot_be_changed(tmp_path, changed):
    with pytest.raises(UsageError, match='--dataset=cifar10 has image_size=32, num_channels=3 and num_classes=10'):
        prepare(tmp_path, **changed)


def test_the_classes_have_names(tmp_path):
    metadata = cifar10.metadata(str(tmp_path), cifar10.get_params())
    assert metadata['num_classes'] == len(metadata['class_names']) == 10
    assert metadata['class_names'] == sorted(metadata['class_names'])  # They are published in alphabetical order.


def test_alexnet_trains_on_it_and_predicts_and_exports(run, tmp_path, monkeypatch):
    write_cifar10(tmp_path / 'mine', monkeypatch)
    flags = (
        '--dataset=cifar10',
        f'--data_dir={tmp_path}',
        f'--hparams=filters=[4,8],dense_units=16,batch_size=10,raw_dir={tmp_path}/mine',
    )
    code, result, err = run(*flags, '--train_steps=5')
    assert code == 0 and result['global_step'] == 5, err
    for schedule in ('predict', 'export'):
        assert run(*flags, f'--schedule={schedule}')[0] == 0
