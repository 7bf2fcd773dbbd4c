"""The files of --input, as a stream of examples."""

import types

import numpy as np
from PIL import Image
import pytest
import tensorflow.compat.v1 as tf

from common.data import records
from common.data.source import DataSource
from common.errors import UsageError
from common.inference.input_files import open_files
from common.plugins import loader
from hparams.build import HParams


def open_images(pattern, size=4):
    dataset = types.SimpleNamespace(image_features=lambda params, images: {'image': images})
    return open_files(DataSource(dataset, '', HParams({'image_size': size, 'num_channels': 1})), str(pattern))


def read_image(path, size):
    ((_, image),) = open_images(path, size).entries
    return image[:, :, 0]


@pytest.mark.parametrize(
    'mode, pixel, grey',
    [
        ('L', 100, 100),
        ('RGB', (10, 10, 10), 10),
        ('I;16', 100 * 256, 100),
        ('RGBA', (0, 0, 0, 255), 0),
        ('RGBA', (0, 0, 0, 0), 255),
        ('LA', (50, 255), 50),
        ('1', 1, 255),
    ],
)
def test_image_files_of_every_kind_become_grey_bytes_of_the_size_declared(tmp_path, mode, pixel, grey):
    Image.new(mode, (9, 7), pixel).save(tmp_path / 'image.png')
    image = read_image(tmp_path / 'image.png', 4)
    np.testing.assert_array_equal(image, np.full([4, 4], grey, np.uint8))


@pytest.mark.parametrize(
    'orientation, turned',
    [
        (1, lambda pixels: pixels),
        (2, np.fliplr),
        (3, lambda pixels: np.rot90(pixels, 2)),
        (4, np.flipud),
        (5, np.transpose),
        (6, lambda pixels: np.rot90(pixels, -1)),
        (7, lambda pixels: np.rot90(pixels.T, 2)),
        (8, np.rot90),
    ],
)
@pytest.mark.parametrize('dtype', [np.uint8, np.uint16])
def test_image_files_are_turned_as_their_exif_orientation_asks(tmp_path, orientation, turned, dtype):
    pixels = np.random.RandomState(0).randint(0, 256, [6, 6]).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels.astype(dtype) << (8 * dtype().itemsize - 8)).save(tmp_path / 'image.png', exif=exif)
    np.testing.assert_array_equal(read_image(tmp_path / 'image.png', 6), turned(pixels))


@pytest.mark.parametrize(
    'exif',
    [b'Exif\0\0MM\0*', b'Exi', b'Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x05\0\0\0\x01\0\0\0\x1a\0\0\0\0'],
    ids=['cut off', 'no TIFF', 'of a wrong type'],
)
def test_image_files_with_damaged_exif_are_taken_as_they_are(tmp_path, exif):
    pixels = np.random.RandomState(0).randint(0, 256, [6, 6]).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / 'image.png', exif=exif)
    np.testing.assert_array_equal(read_image(tmp_path / 'image.png', 6), pixels)


def test_a_folder_stands_for_the_files_in_it(tmp_path):
    for name in ('b/2.png', 'b/c/1.png', 'a/3.png', 'a/.hidden'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new('L', (3, 3)).save(tmp_path / name, 'png')
    names = [fields['input'].removeprefix(f'{tmp_path}/') for fields, _ in open_images(f'{tmp_path}/*').entries]
    assert names == ['a/3.png', 'b/2.png', 'b/c/1.png']


@pytest.mark.parametrize('name', ['photo [1].png', '[old] photos/1.png', 'what?*.png'])
def test_a_file_or_folder_that_is_there_is_taken_by_its_name(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    for each in (name, 'photo 1.png', 'what is.png'):
        Image.new('L', (3, 3)).save(tmp_path / each)
    assert [fields['input'] for fields, _ in open_images(tmp_path / name).entries] == [f'{tmp_path}/{name}']
    if '/' in name:
        assert [fields['input'] for fields, _ in open_images((tmp_path / name).parent).entries] == [f'{tmp_path}/{name}']


def test_a_file_that_is_no_image_is_an_entry_with_its_error(tmp_path):
    Image.new('L', (3, 3)).save(tmp_path / '1.png')
    (tmp_path / '2.png').write_text('text')
    Image.new('L', (3, 3)).save(tmp_path / '3.png')
    first, second, third = (entry for _, entry in open_images(tmp_path / '*.png').entries)
    assert first.shape == third.shape == (4, 4, 1)
    assert isinstance(second, UsageError) and str(second) == f'{tmp_path}/2.png is not an image of a kind that Pillow reads'


def open_rows(pattern, **functions):
    def read(split, data_dir, params):
        return tf.data.Dataset.from_tensor_slices([records.encode({'x': 1.0})])

    def parse(mode, params, record):
        return tf.io.parse_single_example(record, {'x': tf.io.FixedLenFeature([], tf.float32)}), {}

    params = HParams({'dataset': 'd', 'train_split': 'train', 'seed': 1, 'eval_batch_size': 2})
    return open_files(DataSource(types.SimpleNamespace(read=read, parse=parse, **functions), '', params), str(pattern))


def test_tfrecord_files_are_read_where_records_are_serialized_examples(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / 'x.tfrecord')) as writer:
        for x in (1.5, 2.5):
            writer.write(records.encode({'x': x}))
    files = open_rows(tmp_path / '*.tfrecord')
    fields, examples = zip(*files.entries)
    assert fields == tuple({'input': f'{tmp_path}/x.tfrecord', 'record': i} for i in range(2))
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(files.to_features(tf.constant(examples)))['x'].tolist() == [1.5, 2.5]


def test_a_corrupt_tfrecord_file_is_an_entry_with_its_error_and_the_next_is_read(tmp_path):
    for name in ('1.tfrecord', '2.tfrecord'):
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            writer.write(records.encode({'x': 1.0}))
    content = bytearray((tmp_path / '1.tfrecord').read_bytes())
    content[-1] ^= 1
    (tmp_path / '1.tfrecord').write_bytes(content)
    (fields, error), (_, example) = open_rows(tmp_path / '*.tfrecord').entries
    assert fields == {'input': f'{tmp_path}/1.tfrecord'}
    assert str(error) == f'{tmp_path}/1.tfrecord: the record at byte 0 is corrupt: its checksum is wrong: restore it'
    assert example == records.encode({'x': 1.0})


def test_a_module_reads_files_of_its_own_kind(tmp_path):
    def read_input(path, params):
        for number, line in enumerate(open(path), 1):
            yield {'line': number}, records.encode({'x': float(line)}) if line.strip() else UsageError('is empty')
        raise UsageError(f'{path}: has no end')

    (tmp_path / 'x.txt').write_text('1\n\n3\n')
    entries = list(open_rows(tmp_path / '*.txt', read_input=read_input).entries)
    assert [fields.get('line') for fields, _ in entries] == [1, 2, 3, None]
    assert [str(entry) for _, entry in entries[1::2]] == ['is empty', f'{tmp_path}/x.txt: has no end']


def read_name(path, params):
    yield {}, path


@pytest.mark.parametrize('patterns, names', [(('*.txt',), ['a.TXT', 'b/c/2.txt']), (None, ['a.TXT', 'b/1.csv', 'b/c/2.txt'])])
def test_a_folder_stands_for_the_files_of_the_dataset_beneath_it(tmp_path, patterns, names):
    for name in ('b/1.csv', 'b/c/2.txt', 'a.TXT', '.a.txt', '.b/3.txt'):
        (tmp_path / 'in' / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / 'in' / name).write_text('')
    (tmp_path / 'in' / 'b' / 'loop').symlink_to(tmp_path / 'in')
    functions = {'read_input': read_name, **({'INPUT_PATTERNS': patterns} if patterns else {})}
    found = [(fields['input'], entry) for fields, entry in open_rows(tmp_path / 'in', **functions).entries]
    assert found == [(f'{tmp_path}/in/{name}',) * 2 for name in names]


@pytest.mark.parametrize(
    'name, names',
    [
        ('csv', ['a.csv', 'b.tsv']),
        ('text', ['b.tsv', 'c.txt']),
        ('image_folder', ['e.PNG']),
        ('tfrecord', ['d.tfrecord-00000-of-00001', 'e.PNG']),
        ('tfds', ['d.tfrecord-00000-of-00001', 'e.PNG']),
    ],
)
def test_of_a_folder_a_dataset_of_own_files_reads_those_of_its_kind(tmp_path, name, names):
    for file in ('README.md', 'a.csv', 'b.tsv', 'c.txt', 'd.tfrecord-00000-of-00001', 'e.PNG'):
        (tmp_path / file).write_text('')
    patterns = loader.load('dataset', name).INPUT_PATTERNS
    found = [entry for _, entry in open_rows(tmp_path, read_input=read_name, INPUT_PATTERNS=patterns).entries]
    assert found == [f'{tmp_path}/{file}' for file in names]


def test_an_empty_folder_is_an_entry_with_its_error(tmp_path):
    (tmp_path / 'in').mkdir()
    (tmp_path / 'in' / 'x.csv').write_text('')
    for functions, named in (
        ({'read_input': read_name, 'INPUT_PATTERNS': ('*.txt', '*.tsv')}, '*.txt, *.tsv'),
        ({}, '*.tfrecord*'),
    ):
        ((fields, error),) = open_rows(tmp_path / 'in', **functions).entries
        assert fields == {'input': f'{tmp_path}/in'}
        assert isinstance(error, UsageError) and str(error) == f'{tmp_path}/in: has no files named {named}'


def test_a_folder_of_tfrecord_files_is_read_where_records_are_serialized_examples(tmp_path):
    for name in ('2/x.tfrecord', '1/x.tfrecord-00000-of-00001', 'README.md'):
        (tmp_path / 'in' / name).parent.mkdir(parents=True, exist_ok=True)
        with tf.io.TFRecordWriter(str(tmp_path / 'in' / name)) as writer:
            writer.write(name.encode())
    assert [entry for _, entry in open_rows(tmp_path / 'in').entries] == [b'1/x.tfrecord-00000-of-00001', b'2/x.tfrecord']


def test_a_dataset_that_takes_no_files_is_reported(tmp_path):
    (tmp_path / 'x.txt').write_text('1')
    with pytest.raises(UsageError, match=r'--dataset=d takes no files other than \*.tfrecord: it has no read_input'):
        open_rows(tmp_path / 'x.txt')
