"""Users' own pictures: conversion, reading, and errors."""

import functools
import io
import os
import shutil

import numpy as np
from PIL import ExifTags, Image, ImageOps
from PIL.features import check as is_known
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.formats import images
from estimator_trainer.common.inference.input_files import open_files
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.specs import Specs
from estimator_trainer.common.records import elements, records
from estimator_trainer.datasets import image_folder
from estimator_trainer.hparams import build
from tests.datasets.own_data import PREDICT, Prepared, parse
from tests.shared import failed, raised, refused

SIZE = 16


def params(root, text='', metadata=None):
    text = f'image_dir={root},image_size={SIZE},{text}'
    return build.HParams(build.make_hparams('m', {}, 'image_folder', image_folder.get_params(), text=text), metadata)


def picture(seed=0, size=(SIZE, SIZE), channels=3):
    """A smooth picture, which JPEG keeps almost as it is."""
    pixels = np.random.RandomState(seed).randint(0, 256, [4, 4, channels], np.uint8)
    return Image.fromarray(pixels.squeeze()).resize(size, Image.Resampling.BICUBIC)


def save(path, image, **options):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    image.save(path, **options)


@pytest.fixture
def root(tmp_path):
    """A directory of ten PNG files in each of two classes."""
    for i in range(10):
        for seed, name in enumerate(('cat', 'dog')):
            save(tmp_path / 'pictures' / name / f'{i}.png', picture(10 * seed + i))
    return tmp_path / 'pictures'


def count(data_dir, params):
    """Returns the number of pictures in the splits."""
    read = functools.partial(image_folder.read, data_dir=str(data_dir), params=params)
    return [len(list(elements.elements(functools.partial(read, split)))) for split in ('train', 'eval')]


def read_files(paths, text=''):
    """Returns the images read from files, float32 from 0 to 255."""
    serialized = [record for path in paths for _, record in image_folder.read_input(str(path), params(''))]
    return [features['image'] * 255 for features in parse(image_folder, params('', text), serialized, PREDICT)]


def test_pictures_and_their_classes_are_converted_once_until_they_change_and_wrong_hyper_parameters_are_refused(
    root, tmp_path, caplog
):
    (root / 'dog' / 'notes.txt').write_text('of no interest')
    for text in ('num_channels=1', 'max_bad_share=0.5', f'image_size={SIZE}'):
        found = Prepared(image_folder, tmp_path, f'image_dir={root}', text)
    assert len(list(tmp_path.glob('image_folder-*'))) == 1
    train, held_out = found.read('train'), found.read('eval')
    assert 2 <= len(held_out) <= 10
    paths = [features['example_id'].decode() for features, _ in train + held_out]
    assert sorted(paths) == sorted(f'{name}/{i}.png' for name in ('cat', 'dog') for i in range(10))
    for path, (features, labels), image in zip(paths, train + held_out, read_files([root / path for path in paths])):
        np.testing.assert_allclose(features['image'], np.asarray(Image.open(root / path)) / np.float32(255), atol=1e-6)
        assert labels['label'] == ('dog' in path)
        assert features['image'].dtype == np.float32 and labels['label'].dtype == np.int32
        np.testing.assert_array_equal(image, features['image'] * 255)  # Input is parsed alike.
    ((_, record),) = image_folder.read_labeled(str(root / 'dog' / '3.png'), found.params)
    ((features, labels),) = parse(image_folder, found.params, [record])
    assert labels['label'] == 1 and features['example_id'] == os.fsencode(root / 'dog' / '3.png')
    wrong = f'{root}/new.png: its folder, pictures, is not named after a class: cat, dog'
    assert failed(list, image_folder.read_labeled(f'{root}/new.png', found.params)) == wrong
    save(root / 'dog' / 'new.png', picture(99))
    image_folder.prepare(str(tmp_path), params(root))
    assert len(list(tmp_path.glob('image_folder-*'))) == 2 and sum(count(tmp_path, params(root))) == 21
    for text in ('', 'num_classes=2'):
        assert image_folder.metadata('', params(root, text)) == {'num_classes': 2, 'class_names': ['cat', 'dog']}
    with pytest.raises(UsageError, match=f'num_classes=3, but image_dir={root} has 2 classes'):
        image_folder.metadata('', params(root, 'num_classes=3'))
    with pytest.raises(UsageError, match='the classes are cat, dog, but the model was trained with dog, emu'):
        image_folder.read('eval', str(tmp_path), params(root, metadata={'class_names': ['dog', 'emu']}))
    for name in ('cat', 'dog'):
        save(tmp_path / 'split' / 'train' / name / '1.png', picture())
        save(tmp_path / 'split' / 'val' / name / '1.png', picture())
    save(tmp_path / 'split' / 'test' / 'unknown' / '1.png', picture())
    split = params(tmp_path / 'split')
    image_folder.prepare(str(tmp_path), split)
    cure = f'has no folder of a class, but unknown: predict its pictures with --input={tmp_path}/split/test'
    assert 'WARNING  tensorflow:image_folder.py' in caplog.text and f'{tmp_path}/split: the split test {cure}.' in caplog.text
    assert refused(image_folder.read, 'test', str(tmp_path), split) == f'the split test {cure}'
    for changed, message in (
        ({'image_dir': ''}, '--dataset=image_folder needs a directory of pictures: give it with --hparams=image_dir=PATH'),
        ({'image_dir': '/no/such'}, 'image_dir: /no/such: no such directory'),
        ({'num_channels': 2}, 'num_channels=2 must be 1, for gray, or 3, for color'),
        ({'num_classes': -1}, 'num_classes=-1 must be at least 0'),
        ({'image_size': 0}, 'image_size=0 must be from 1 to 10000'),
        ({'eval_share': 1.0}, 'eval_share=1.0 must be greater than 0 and less than 1'),
        ({'eval_share': 0.0}, 'eval_share=0.0 must be greater than 0'),
        ({'max_bad_share': 2}, 'max_bad_share=2 must be from 0 to 1'),
        (
            {'train_split': 'x', 'folds': 2},
            f'image_dir: {root}: has no split x to train on: name one with --hparams=train_split',
        ),
    ):
        assert refused(image_folder.prepare, str(tmp_path), build.HParams({**params(root), **changed})).startswith(message)


def test_pictures_are_upright_and_reduced_to_eight_bits_without_transparency_and_later_frames(tmp_path):
    cases = [('I;16', 25607, 100), ('1', 1, 255), ('LA', (50, 255), 50), ('LA', (50, 0), 255), ('RGBA', (0, 0, 0, 51), 204)]
    for mode, pixel, value in cases:
        save(tmp_path / f'{value} {mode[0]}.png', Image.new(mode, (9, 7), pixel))
    save(tmp_path / '80 cut.png', Image.new('RGB', (9, 7), (80, 80, 80)))
    (tmp_path / '80 cut.png').write_bytes((tmp_path / '80 cut.png').read_bytes()[:-12])  # TensorFlow needs its last chunk.
    frames = [Image.new('RGB', (8, 8), color) for color in ((60, 60, 60), 'blue')]
    for suffix, options in (('gif', {}), ('webp', {'lossless': True}), ('png', {})):
        save(tmp_path / f'60 animation.{suffix}', frames[0], save_all=True, append_images=frames[1:], **options)
    exif = Image.Exif()
    for exif[ExifTags.Base.Orientation] in range(10):  # Two are invalid.
        save(tmp_path / f'{exif[ExifTags.Base.Orientation]}.png', picture(), exif=exif)
    paths = sorted(tmp_path.iterdir())
    for path, found in zip(paths, read_files(paths)):
        value, is_of_one_value, _ = path.name.partition(' ')
        expected = np.full([SIZE, SIZE, 3], float(value)) if is_of_one_value else ImageOps.exif_transpose(Image.open(path))
        np.testing.assert_allclose(found, expected, atol=1e-3, err_msg=path.name)


@pytest.mark.parametrize('channels', [1, 3])
def test_large_jpeg_files_are_reduced_as_if_they_were_decoded_in_full(tmp_path, channels):
    sizes = [(16, 16), (47, 33), (60, 100), (500, 130), (9, 5)]
    paths = [tmp_path / f'{width}-{height}.jpg' for width, height in sizes]
    for path, size in zip(paths, sizes):
        save(path, picture(size=size), quality=95)
    for path, size, found in zip(paths, sizes, read_files(paths, f'num_channels={channels}')):
        full = Image.open(path).convert('L' if channels == 1 else 'RGB')
        full = full.resize((SIZE, SIZE), Image.Resampling.BOX if min(size) >= SIZE else Image.Resampling.BILINEAR)
        # Colors change by 20 from one pixel to the next; libjpeg rounds the size of a reduced image up.
        assert np.abs(found - np.asarray(full, np.float32).reshape(SIZE, SIZE, channels)).mean() < 6, path.name


def test_images_are_squashed_by_averaging_or_enlarged_bilinearly_and_served_as_pixels(session):
    for height, width in ((8, 8), (4, 4), (12, 8), (2, 2), (2, 8)):
        pixels = np.random.RandomState(1).randint(0, 256, [height, width, 3], np.uint8)
        found = session.run(images.squash(tf.constant(pixels), 4))
        if height % 4 == 0:  # The means of blocks.
            np.testing.assert_allclose(found, pixels.reshape(4, height // 4, 4, width // 4, 3).mean((1, 3)), atol=1e-3)
        else:  # Pillow rounds after each of the two directions.
            expected = np.asarray(Image.fromarray(pixels).resize((4, 4), Image.Resampling.BILINEAR), np.float32)
            np.testing.assert_allclose(found, expected, atol=1.01)
    pixels = images.to_pixels(Image.new('RGBA', (6, 8), (0, 0, 0, 51)), 2, 3)
    assert pixels.dtype == np.uint8 and pixels.tolist() == [[[204] * 3] * 2] * 2  # Blended with white.
    assert session.run(image_folder.image_features(params(''), tf.constant([51])))['image'] == np.float32(0.2)
    assert 'is gray or in color, not of 4 channels' in raised(images.ImageError, images.to_pixels, picture(), 2, 4)


def test_jpeg_and_plain_png_files_are_kept_and_others_become_png(tmp_path):
    for name, image, options, is_kept in (
        ('a.jpg', picture(), {}, True),
        ('a.jpg', picture(size=(6, 8), channels=1), {'progressive': True}, True),
        ('a.png', picture(channels=1), {}, True),
        ('a.jpg', picture().convert('CMYK'), {}, False),
        ('a.png', picture().convert('P'), {}, False),
        ('a.png', picture().convert('RGBA'), {}, False),
        ('a.webp', picture(), {}, False),
        ('a.tif', picture(), {}, False),
        ('webp.jpg', picture(), {'format': 'WEBP'}, False),  # The content counts.
        ('jpeg.png', picture(), {'format': 'JPEG'}, True),
        *([('avif.jpg', picture(), {'format': 'AVIF'}, False)] if is_known('avif') else []),
        ('a.png', picture(), {'save_all': True, 'append_images': [picture(1)]}, False),
        ('cut.png', picture(), {}, False),
    ):
        path = tmp_path / name
        save(path, image, **options)
        if name == 'cut.png':  # Without its end, only Pillow can decode it.
            path.write_bytes(path.read_bytes()[:-12])
        ((_, record),) = image_folder.read_input(str(path), params(''))
        found = {name: value for name, (_, (value,)) in records.decode(record).items()}
        content = found.pop('image')
        assert found == {'height': image.height, 'width': image.width, 'orientation': 1, 'id': os.fsencode(path)}
        if is_kept:
            assert content == path.read_bytes()
        else:
            converted = Image.open(io.BytesIO(content))
            assert (converted.format, converted.mode) == ('PNG', 'RGB') and content[24] == 8
            np.testing.assert_array_equal(converted, Image.open(path).convert('RGB'))


def test_pictures_of_16_bits_that_become_black_are_listed_and_warned_of_with_the_cure(root, tmp_path, caplog):
    for i, value in enumerate((200, 4095, 4096)):
        save(root / 'cat' / f'deep-{i}.png', Image.fromarray(np.full([SIZE, SIZE], value, np.uint16)))
    for _ in range(2):  # The second time, nothing is converted.
        caplog.clear()
        image_folder.prepare(str(tmp_path), params(root))
        assert '2 of 23 pictures, listed in ' in caplog.text and 'multiply the values of all pictures, those to' in caplog.text
    (path,) = tmp_path.glob('image_folder-*/dark.txt')
    lines = [f'cat/deep-{i}.png: has 16 bits, but no value above {v} of 65535' for i, v in enumerate((200, 4095))]
    assert sorted(path.read_text().splitlines()) == lines
    caplog.clear()
    read_files([root / 'cat' / 'deep-0.png'] * 2)
    assert caplog.text.count('Pictures of the input have 16 bits, but so small values') == 1


def test_the_summary_counts_the_pictures_of_each_class_and_split(root, tmp_path):
    text = image_folder.summary(str(tmp_path), params(root))
    assert text.startswith(f'{root}: 2 classes, pictures in ') and text.endswith('\ncat: 6, 4\ndog: 7, 3\n')


def test_broken_links_to_pictures_count_as_unreadable(root, tmp_path, caplog):
    for number in range(5):
        os.symlink('nowhere', root / 'cat' / f'gone{number}.JPG')
    os.symlink('nowhere', root / 'cat' / 'notes.txt')
    text = f'{root}: 5 of 25 pictures are broken links, or no files: '
    message = failed(image_folder.prepare, str(tmp_path), params(root, 'max_bad_share=0.19'))
    assert message == f'{text}restore or remove them, or raise max_bad_share=0.19'
    image_folder.prepare(str(tmp_path), params(root, 'max_bad_share=0.2'))
    assert f'{text}they are skipped.' in caplog.text and sum(count(tmp_path, params(root))) == 20


def test_pictures_without_permission_are_read_again_once_the_named_directory_is_deleted(root, tmp_path, monkeypatch):
    read = images.read

    def refuse(path):
        if os.path.basename(path) == '3.png':
            raise images.ImageError('cannot be read: Permission denied')
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(images, 'read', refuse)
        failed(image_folder.prepare, str(tmp_path / 'data'), params(root))
    message = failed(image_folder.prepare, str(tmp_path / 'data'), params(root))
    assert message.startswith('2 of 20 pictures are unreadable')
    shutil.rmtree(message.partition('delete ')[2].partition(' to read them again')[0])
    image_folder.prepare(str(tmp_path / 'data'), params(root))
    assert sum(count(tmp_path / 'data', params(root))) == 20


def test_unreadable_pictures_are_skipped_and_listed_and_errors_of_input(root, tmp_path, caplog, monkeypatch):
    save(root / 'cat' / 'cut.jpg', picture(size=(60, 60)))
    os.truncate(root / 'cat' / 'cut.jpg', 400)
    (root / 'cat' / 'empty.png').write_bytes(b'')
    (root / 'dog' / 'text.jpg').write_bytes(b'text')
    save(root / 'dog' / 'tga.png', picture(), format='TGA')
    caplog.set_level('INFO', 'tensorflow')
    for _ in range(2):
        error = failed(image_folder.prepare, str(tmp_path), params(root, 'max_bad_share=0.16'))
        (path,) = tmp_path.glob('image_folder-*/unreadable.txt')
        listed = f'4 of 24 pictures are unreadable, listed in {path}: '
        again = f'after installing a package or changing permissions, delete {path.parent} to read them again'
        assert error == f'{listed}repair or remove them, or raise max_bad_share=0.16; {again}'
        monkeypatch.setattr(records, 'write', None)  # It is not needed again.
    image_folder.prepare(str(tmp_path), params(root, 'max_bad_share=0.17'))
    assert f'{listed}they are skipped; {again}.' in caplog.text and '2 classes; pictures in train: ' in caplog.text
    assert '2 classes, with their examples in train: cat ' in caplog.text
    assert sum(count(tmp_path, params(root))) == 20
    lines = sorted(path.read_text().splitlines())
    names = ('cat/cut.jpg', 'cat/empty.png', 'dog/text.jpg', 'dog/tga.png')
    assert [line.partition(':')[0] for line in lines] == [*names]
    reasons = ('is not an image that can be read', 'is empty', 'is not an image of a kind', 'is not an image of a kind')
    assert all(reason in line for reason, line in zip(reasons, lines))
    assert all(f'{root}/{line}' in caplog.text for line in lines)
    source = DataSource(image_folder, '', params(''), Specs(tf.TensorSpec([], tf.string), {}))
    found = {fields['input']: record for fields, record in open_files(source, str(root)).entries}
    assert [*found] == sorted(str(path) for path in root.glob('*/*'))
    errors = [str(record) for record in found.values() if isinstance(record, UsageError)]
    assert len(errors) == 4 and f'{root}/dog/text.jpg is not an image of a kind that Pillow reads' in errors
    for path in ('/no/such', 'ram://no/such'):
        assert refused(list, image_folder.read_input(path, params(''))).startswith(f'{path} cannot be read: ')
