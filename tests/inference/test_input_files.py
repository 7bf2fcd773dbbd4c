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
from tests import tfrecords


def open_images(pattern):
    dataset = types.SimpleNamespace(image_features=lambda params, images: {'image': images})
    return open_files(DataSource(dataset, '', HParams({'image_size': 4, 'num_channels': 1})), str(pattern))


def open_rows(pattern, **functions):
    def read(split, data_dir, params):
        return tf.data.Dataset.from_tensor_slices([records.encode({'x': 1.0})])

    def parse(mode, params, record):
        return tf.io.parse_single_example(record, {'x': tf.io.FixedLenFeature([], tf.float32)}), {}

    params = HParams({'dataset': 'd', 'train_split': 'train', 'seed': 1, 'eval_batch_size': 2})
    module = types.SimpleNamespace(**{'read': read, 'parse': parse, **functions})
    return open_files(DataSource(module, '', params), str(pattern))


def read_name(path, params):
    yield {}, path


def write(folder, *names, content=b''):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def inputs(files, folder):
    return [fields['input'].removeprefix(f'{folder}/') for fields, _ in files.entries]


def test_image_files_become_grey_bytes_of_the_size_declared(tmp_path):
    for mode, pixel, grey in [('L', 100, 100), ('RGB', (10, 10, 10), 10), ('RGBA', (0, 0, 0, 0), 255), ('1', 1, 255)]:
        Image.new(mode, (9, 7), pixel).save(tmp_path / 'image.png')
        ((fields, image),) = open_images(tmp_path / 'image.png').entries
        assert fields == {'input': f'{tmp_path}/image.png'}
        np.testing.assert_array_equal(image, np.full([4, 4, 1], grey, np.uint8), mode)


def test_image_files_with_damaged_exif_are_taken_for_upright(tmp_path):
    pixels = np.random.RandomState(0).randint(0, 256, [4, 4]).astype(np.uint8)
    of_wrong_type = b'Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x05\0\0\0\x01\0\0\0\x1a\0\0\0\0'
    for exif in (b'Exif\0\0MM\0*', b'Exi', of_wrong_type):
        Image.fromarray(pixels).save(tmp_path / 'image.png', exif=exif)
        ((_, image),) = open_images(tmp_path / 'image.png').entries
        np.testing.assert_array_equal(image[:, :, 0], pixels)


@pytest.mark.parametrize('name', ['photo [1].png', '[old] photos/1.png', 'what?*.png'])
def test_a_file_or_folder_that_is_there_is_taken_by_its_name(tmp_path, name):
    write(tmp_path, name, 'photo 1.png', 'what is.png')
    assert inputs(open_images(tmp_path / name), tmp_path) == [name]
    if '/' in name:
        assert inputs(open_images((tmp_path / name).parent), tmp_path) == [name]


def test_images_of_folders_and_patterns_are_sorted_and_a_bad_one_is_an_entry_with_its_error(tmp_path):
    write(tmp_path, 'b/2.png', 'b/c/1.png', 'a/4.png', 'a/.hidden')
    Image.new('L', (3, 3)).save(tmp_path / 'a' / '3.png')
    assert inputs(open_images(f'{tmp_path}/*'), tmp_path) == ['a/3.png', 'a/4.png', 'b/2.png', 'b/c/1.png']
    good, bad = (entry for _, entry in open_images(tmp_path / 'a' / '*.png').entries)
    assert good.shape == (4, 4, 1)
    assert isinstance(bad, UsageError) and str(bad) == f'{tmp_path}/a/4.png is not an image of a kind that Pillow reads'


@pytest.mark.parametrize('name', ['x.tfrecord', '2/x.tfrecord-00000-of-00001'])
def test_tfrecord_files_and_folders_are_read_where_records_are_serialized_examples(tmp_path, name):
    write(tmp_path, name, content=b''.join(tfrecords.record(records.encode({'x': x})) for x in (1.5, 2.5)))
    write(tmp_path, '2/README.md')
    files = open_rows(tmp_path / name if '/' not in name else tmp_path / '2')
    fields, examples = zip(*files.entries)
    assert fields == tuple({'input': f'{tmp_path}/{name}', 'record': i} for i in range(2))
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(files.to_features(tf.constant(examples)))['x'].tolist() == [1.5, 2.5]


def test_a_corrupt_tfrecord_file_is_an_entry_with_its_error_and_the_next_is_read(tmp_path):
    write(tmp_path, '1.tfrecord', content=tfrecords.record(b'x')[:-1] + b'x')
    write(tmp_path, '2.tfrecord', content=tfrecords.record(b'whole'))
    (fields, error), (_, example) = open_rows(tmp_path / '*.tfrecord').entries
    assert fields == {'input': f'{tmp_path}/1.tfrecord'} and example == b'whole'
    assert str(error) == f'{tmp_path}/1.tfrecord: the record at byte 0 is corrupt: its checksum is wrong: restore it'


def test_a_module_reads_files_of_its_own_kind(tmp_path):
    def read_input(path, params):
        for number, line in enumerate(open(path), 1):
            yield {'line': number}, records.encode({'x': float(line)}) if line.strip() else UsageError('is empty')
        raise UsageError(f'{path}: has no end')

    write(tmp_path, 'x.txt', content=b'1\n\n3\n')
    entries = list(open_rows(tmp_path / '*.txt', read_input=read_input).entries)
    assert [fields.get('line') for fields, _ in entries] == [1, 2, 3, None]
    assert [str(entry) for _, entry in entries[1::2]] == ['is empty', f'{tmp_path}/x.txt: has no end']


@pytest.mark.parametrize('patterns, names', [(('*.txt',), ['a.TXT', 'b/c/2.txt']), (None, ['a.TXT', 'b/1.csv', 'b/c/2.txt'])])
def test_a_folder_stands_for_the_files_of_the_dataset_beneath_it(tmp_path, patterns, names):
    write(tmp_path / 'in', 'b/1.csv', 'b/c/2.txt', 'a.TXT', '.a.txt', '.b/3.txt')
    (tmp_path / 'in' / 'b' / 'loop').symlink_to(tmp_path / 'in')
    functions = {'read_input': read_name, **({'INPUT_PATTERNS': patterns} if patterns else {})}
    found = [(fields['input'], entry) for fields, entry in open_rows(tmp_path / 'in', **functions).entries]
    assert found == [(f'{tmp_path}/in/{name}',) * 2 for name in names]


def test_of_a_folder_a_dataset_of_own_files_reads_those_of_its_kind(tmp_path):
    table, other_table, text, records, image = files = 'a.csv', 'b.tsv', 'c.txt', 'd.tfrecord-00000-of-00001', 'e.PNG'
    write(tmp_path, 'README.md', *files)
    kinds = {'csv': [table, other_table], 'text': [other_table, text], 'image_folder': [image]}
    for name, names in {**kinds, 'tfrecord': [records, image], 'tfds': [records, image]}.items():
        patterns = loader.load('dataset', name).INPUT_PATTERNS
        assert inputs(open_rows(tmp_path, read_input=read_name, INPUT_PATTERNS=patterns), tmp_path) == names


def test_where_nothing_can_be_read_is_named(tmp_path):
    write(tmp_path / 'in', 'x.csv')
    for functions, named in (
        ({'read_input': read_name, 'INPUT_PATTERNS': ('*.txt', '*.tsv')}, ' named *.txt, *.tsv'),
        ({}, ' named *.tfrecord*'),
    ):
        ((fields, error),) = open_rows(tmp_path / 'in', **functions).entries
        assert fields == {'input': f'{tmp_path}/in'}
        assert isinstance(error, UsageError) and str(error) == f'{tmp_path}/in: has no files{named}'
    with pytest.raises(UsageError, match=r'--input=nothing\*.png: no such file'):
        open_rows('nothing*.png')
    with pytest.raises(UsageError, match=r'--dataset=d takes no files other than \*.tfrecord: it has no read_input'):
        open_rows(tmp_path / 'in' / 'x.csv')
    tensors = {'read': lambda *_: tf.data.Dataset.range(2), 'parse': lambda mode, params, i: ({'x': i}, {})}
    with pytest.raises(UsageError, match=r'--dataset=d takes no files: it has no read_input'):
        open_rows(tmp_path / 'in', **tensors)
