"""Rows and pictures of a Python program, of any form, become one batch of raw inputs."""

import collections
import decimal
import re
import types
import unicodedata

import numpy as np
from PIL import Image
import pyarrow as pa
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.formats import images
from estimator_trainer.common.inference import pictures, rows
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records import records
from estimator_trainer.datasets import image_folder
from estimator_trainer.hparams import build

NUMBER, TEXT = tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.string)
SPECS = {'x': NUMBER, 'city': TEXT, 'zip': TEXT}
COLUMNS = {'zip': [10115, None, 7], 'x': [1.5, None, -2], 'city': ['Rome', 'Oslo', None], 'y': [1, 2, 3]}
EXPECTED = {'x': [1.5, np.nan, -2], 'city': [b'Rome', b'Oslo', b''], 'zip': [b'10115', b'', b'7']}


class Table:
    """A table with named columns, as those of pandas and polars are."""

    def __init__(self, columns):
        self.columns = [*columns]
        self._values = columns

    def __getitem__(self, name):
        return self._values[name]


def optional(name):
    """Imports a package, or skips the test if it is missing, or was built for another NumPy."""
    return pytest.importorskip(name, exc_type=ImportError)


FORMS = {
    'a dict of columns': dict,
    'a dict of arrays': lambda columns: {name: np.array(values, object) for name, values in columns.items()},
    'rows': lambda columns: [dict(zip(columns, row)) for row in zip(*columns.values())],
    'a table': Table,
    'pandas': lambda columns: optional('pandas').DataFrame(columns),
    'pandas with NA': lambda columns: optional('pandas').DataFrame(columns).convert_dtypes(),
    'polars': lambda columns: optional('polars').DataFrame(columns),
    'pyarrow': lambda columns: optional('pyarrow').table(columns),
    'an array': lambda columns: np.array([columns[name] for name in SPECS], object).T,
    'lists': lambda columns: [list(row) for row in zip(*(columns[name] for name in SPECS))],
}


@pytest.mark.parametrize('form', FORMS)
def test_rows_of_every_form_become_the_same_batch(form):
    batch, is_single = rows.make_batch(FORMS[form](COLUMNS), SPECS)
    assert not is_single and batch['x'].dtype == np.float32
    np.testing.assert_array_equal(batch['x'], EXPECTED['x'])
    assert {name: batch[name].tolist() for name in ('city', 'zip')} == {name: EXPECTED[name] for name in ('city', 'zip')}


def test_names_may_be_in_either_form_of_unicode():
    specs, apart = {'café': NUMBER, 'Größe': TEXT}, unicodedata.normalize('NFD', 'café')
    rows_ = [{apart: 1, 'Größe': 'a'}, {'café': 2, 'Größe': 'b', apart: 3}]
    columns = {apart: [1, 2], 'Größe': ['a', 'b']}
    pandas = types.SimpleNamespace(to_dict=lambda: rows_[0], keys=rows_[0].keys)  # As DataFrame.iloc[0] is.
    for inputs in (rows_, columns, Table(columns), rows_[0], pandas):
        batch, is_single = rows.make_batch(inputs, specs)
        size = 1 if is_single else 2
        assert batch['café'].tolist() == [1, 2][:size] and batch['Größe'].tolist() == [b'a', b'b'][:size]
    assert rows.batch_maker(specs)(rows_[0])[0]['café'].tolist() == [1]
    assert rows.make_batch({'a': 1, 'café': 2}, {apart: NUMBER})[0][apart].tolist() == [2]


def test_a_single_row_and_the_values_of_an_only_input_need_no_batch():
    row = {name: values[0] for name, values in COLUMNS.items()}
    pandas = types.SimpleNamespace(to_dict=lambda: row, keys=row.keys)  # As DataFrame.iloc[0] is.
    for single in (
        row,
        pandas,
        [1.5, 'Rome', 10115],
        np.array([1.5, 'Rome', '10115'], object),
        np.array(['1.5', 'Rome', '10115']),
    ):
        batch, is_single = rows.make_batch(single, SPECS)
        assert is_single and {name: value.tolist() for name, value in batch.items()} == {
            name: values[:1] for name, values in EXPECTED.items()
        }
    batch, _ = rows.make_batch([[39.5, True, 2**53 + 1], [40, False, 7]], SPECS)  # An array of these has floats alone.
    assert {name: value.tolist() for name, value in batch.items()} == {
        'x': [39.5, 40],
        'city': [b'True', b'False'],
        'zip': [b'9007199254740993', b'7'],
    }
    numbers = {'x': tf.TensorSpec([None], tf.float32), 'id': tf.TensorSpec([None], tf.int64)}
    pairs, changed = {'id': tf.TensorSpec([None, 2], tf.int64)}, f'{2**53 + 1} beside floats would become {2**53}.0'
    for inputs, specs in (
        ({'x': [1, 2], 'id': [1.0, 2**53 + 1]}, numbers),
        ({'id': [[1.0, 2**53 + 1]]}, pairs),
        ([[1.0, 2**53 + 1]], pairs),
    ):
        with pytest.raises(ValueError, match=f'^the input id is int64: {changed}$'):
            rows.make_batch(inputs, specs)
    batch, _ = rows.make_batch([[1.5, 2**53 + 1], [2, 7]], numbers)
    assert (batch['x'].tolist(), batch['id'].tolist()) == ([1.5, 2], [2**53 + 1, 7])
    for inputs, spec, expected in (
        ('a film', TEXT, ([b'a film'], True)),
        (['a', 'b'], TEXT, ([b'a', b'b'], False)),
        ([['a'], ['b']], TEXT, ([b'a', b'b'], False)),
        (b'\xff', TEXT, ([b'\xff'], True)),
        ([], TEXT, ([], False)),
        (2, NUMBER, ([2], True)),
        (np.int64([2, 3]), NUMBER, ([2, 3], False)),
        (np.zeros([2, 1]), NUMBER, ([0, 0], False)),
        ([1, 2], tf.TensorSpec([None, 2], tf.float32), ([[1, 2]], True)),
        ({'a': [[1, 2]]}, tf.TensorSpec([None, 2], tf.float32), ([[1, 2]], False)),
    ):
        batch, is_single = rows.make_batch(inputs, {'a': spec})
        assert (batch['a'].tolist(), is_single) == expected


def test_numbers_are_written_as_a_table_has_them_and_texts_read_as_numbers():
    values = [True, np.bool_(False), 10115.0, np.float32(0.1), 0.5, np.int64(7), decimal.Decimal('1.50'), float('nan'), b'a']
    values += [np.datetime64('2024-01-01T10:00:00.000'), np.datetime64('2024-01-01')]
    batch, _ = rows.make_batch({'a': values}, {'a': TEXT})
    assert batch['a'].tolist() == [
        b'True',
        b'False',
        b'10115',
        b'0.1',
        b'0.5',
        b'7',
        b'1.50',
        b'',
        b'a',
        b'2024-01-01 10:00:00.000',
        b'2024-01-01',
    ]
    integers = pa.array([2**53 + 1, None, 7])  # NumPy makes floats of these.
    for inputs in (pa.table({'a': integers}), pa.record_batch({'a': integers}), {'a': integers}):
        assert rows.make_batch(inputs, {'a': TEXT})[0]['a'].tolist() == [b'9007199254740993', b'', b'7']
    assert rows.make_batch({'a': [10**400]}, {'a': TEXT})[0]['a'].tolist() == [b'1' + b'0' * 400]
    batch, _ = rows.make_batch({'a': [b'A', b'\xff']}, {'a': TEXT}, {'a': str.lower})
    assert batch['a'].tolist() == [b'a', '\ufffd'.encode()]
    batch, _ = rows.make_batch({'a': ['1.5', ' 2 ', '', 'nan', b'1e3', True, None, decimal.Decimal(4)]}, {'a': NUMBER})
    np.testing.assert_array_equal(batch['a'], [1.5, 2, np.nan, np.nan, 1000, 1, np.nan, 4])


def test_what_does_not_fit_is_named():
    names = 'the inputs are x, city, zip'
    two = {'x': [1, 2], 'city': ['a', 'b'], 'zip': [1, 2]}
    for inputs, message in (
        ({'x': 1, 'other': 2}, f'{names}, but the dict has no city, zip; given: x, other'),
        (Table({'x': [1]}), f'{names}, but the table has no city, zip; given: x'),
        ([two, {'x': 1}], f'{names}, but row 1 has no city, zip; given: x'),
        (np.zeros([3, 2]), 'an array must have a column for each of the inputs, x, city, zip, but has 2 columns'),
        ([1.0, 2.0], 'an array must have a column for each of the inputs, x, city, zip, but has 2 columns'),
        ([[1, 2, 3], [4, 5]], f'{names}: the rows of a list of 2 differ in length'),
        (5, f'{names}: give a dict of them, not an int'),
        ({**two, 'x': 1}, 'the inputs x, city, zip must be all columns or all of one row'),
        ({**two, 'x': [1]}, 'the inputs x, city, zip have batches of different sizes: [1, 2]'),
        ({**two, 'x': ['3,14', 1]}, 'the input x: \'3,14\' is not a number; None, NaN and "" are missing'),
        ({**two, 'x': [10**400, 1]}, 'the input x: 1000'),
        ({**two, 'x': ['1_0', 1]}, "the input x: '1_0' is not a number"),
        ({**two, 'x': [{}, 1]}, 'the input x: {} is not a number'),
        ({**two, 'x': np.array(['2024-01-01', 'NaT'], 'datetime64[ns]')}, 'the input x: '),
        ({**two, 'x': np.array([5, 6], 'timedelta64[ns]')}, 'the input x: '),
        ({**two, 'x': np.array([1 + 2j, 3])}, 'the input x: '),
        ({**two, 'city': np.array([5, 6], 'timedelta64[D]')}, 'the input city must be text, not '),
        ({**two, 'city': np.array([5, 6], 'timedelta64[ns]')}, 'the input city must be text, not '),
        ({**two, 'x': [1, float('inf')]}, 'the input x has an infinite number'),
        ({**two, 'x': [1, 1e39]}, 'the input x is float32: 1e+39 (float64) would become inf'),
        ({**two, 'x': np.ma.masked_array([1, 2], [True, False])}, 'the input x has masked values'),
        ({**two, 'city': [{}, 'a']}, 'the input city must be text, not {}'),
        ({**two, 'city': ['a', '\ud800']}, 'the input city must be text or bytes, not '),
    ):
        with pytest.raises(ValueError, match=f'^{re.escape(message)}'):
            rows.make_batch(inputs, SPECS)


def test_a_column_of_lists_is_an_array():
    spec = {'a': tf.TensorSpec([None, 2], tf.float32)}
    batch, _ = rows.make_batch(Table({'a': rows._objects([[1, 2], np.array([3.5, 4])])}), spec)
    assert batch['a'].tolist() == [[1, 2], [3.5, 4]]
    batch, _ = rows.make_batch({'a': [[1, None], [3.5, 4]]}, spec)
    np.testing.assert_array_equal(batch['a'], [[1, np.nan], [3.5, 4]])
    for wrong in ([[1, 2], [3]], [[1, 2], [3, 'x']]):
        with pytest.raises(ValueError, match='the input a must have lists of numbers, all of one length'):
            rows.make_batch(Table({'a': rows._objects(wrong)}), spec)


def test_a_column_of_unequal_lists_or_with_missing_integers_is_named():
    for dtype in (tf.float32, tf.int64):
        for wrong in ([[1, 2], [3]], [None, [1, 2]], [[1e39, 2], [3]], [[[1, 2], [3]]]):
            for size, what in (([2], 'lists of numbers, all of one length'), ([], 'one number in each row')):
                for inputs in ({'a': wrong}, [{'a': value} for value in wrong]):
                    with pytest.raises(ValueError, match=f'^the input a must have {what}$'):
                        rows.make_batch(inputs, {'a': tf.TensorSpec([None, *size], dtype)})
    for values, size in (([1, None], []), ([[1, None], [2, 3]], [2])):
        with pytest.raises(ValueError, match='^the input a is int64: None is not a number$'):
            rows.make_batch({'a': values}, {'a': tf.TensorSpec([None, *size], tf.int64)})


def test_messages_about_wide_tables_are_short():
    specs = {f'column {i}': NUMBER for i in range(2000)}
    for inputs in ({'x': 1}, dict.fromkeys([*specs][1:], 1), [[1], [1, 2]], np.zeros([2, 3])):
        with pytest.raises(ValueError, match='^(the inputs|an array)') as error:
            rows.make_batch(inputs, specs)
        assert len(str(error.value)) < 800


def test_the_short_way_of_one_row_gives_what_make_batch_gives(monkeypatch):
    readers = {'city': str.strip, 'x': float}
    make, ways = rows.batch_maker(SPECS, readers), []
    long_way = rows.make_batch
    monkeypatch.setattr(rows, 'make_batch', lambda *args: ways.append('long') or long_way(*args))
    plain = {'x': 1.5, 'city': ' Köln ', 'zip': '', 'y': 3}
    for changes, is_short in (
        ({}, True),
        ({'x': -7}, True),
        ({'x': 2**70}, True),
        ({'x': float('nan')}, True),
        ({'x': '2.5'}, False),
        ({'x': None}, False),
        ({'x': True}, False),
        ({'x': np.float64(0.1)}, False),
        ({'zip': 7}, False),
        ({'city': b'Oslo'}, False),
        ({'x': [1.0, 2.0], 'city': ['a', 'b'], 'zip': ['c', 'd']}, False),
    ):
        ways.clear()
        row = {**plain, **changes}
        (batch, is_single), (expected, is_one) = make(row), long_way(row, SPECS, readers)
        assert (not ways, is_single) == (is_short, is_one), row
        for name, values in expected.items():
            assert batch[name].dtype == values.dtype
            np.testing.assert_array_equal(batch[name], values)
    for changes, message in (
        ({'x': 1e39}, 'would become inf'),
        ({'x': float('inf')}, 'infinite'),
        ({'zip': '\ud800'}, 'the input zip must be text'),
    ):
        with pytest.raises(ValueError, match=message):
            make({**plain, **changes})
    with pytest.raises(ValueError, match='the dict has no zip'):
        make({'x': 1.0, 'city': 'Rome'})
    batch, _ = rows.batch_maker({'x': tf.TensorSpec([None], tf.int64)})({'x': 2})
    assert batch['x'].dtype == np.int64


def of_size(**functions):
    params = build.make_hparams('m', {}, 'd', {'image_size': 4, 'num_channels': 1})
    return pictures.batch_maker(DataSource(types.SimpleNamespace(**functions), '', params))


def test_pictures_of_every_form_become_pixels_like_files(tmp_path):
    gray = np.arange(63, dtype=np.uint8).reshape(7, 9)
    path = tmp_path / 'a.png'
    Image.fromarray(gray).save(path)
    expected, make_batch = images.to_pixels(Image.fromarray(gray), 4, 1), of_size()
    forms = [path, str(path), path.read_bytes(), Image.fromarray(gray), gray, gray[..., None], np.stack([gray] * 3, -1)]
    for form in forms:
        for inputs in (form, {'image': form}):
            batch, is_single = make_batch(inputs)
            assert is_single and batch['image'].shape == (1, 4, 4, 1)
            np.testing.assert_array_equal(batch['image'][0], expected)
    for nested in (gray.tolist(), gray[..., None].tolist()):
        batch, is_single = make_batch(nested)
        assert is_single and np.array_equal(batch['image'][0], expected)
    for several in (forms, [gray] * 7, [{'image': form} for form in forms], {'image': forms}, np.stack([gray[..., None]] * 7)):
        batch, is_single = make_batch(several)
        assert not is_single
        np.testing.assert_array_equal(batch['image'], [expected] * 7)
    for own, shape in ((np.ones([4, 4, 1], np.uint8), True), (np.ones([2, 4, 4, 1], np.int64).tolist(), False)):
        batch, is_single = make_batch(own)
        assert is_single == shape and np.all(batch['image'] == 1) and batch['image'].dtype == np.uint8
    column = types.SimpleNamespace(to_list=lambda: [str(path)] * 2)  # Of pandas or polars.
    for several in (np.array([str(path)] * 2), np.array([path] * 2), pa.array([str(path)] * 2), column, {'image': column}):
        batch, is_single = make_batch(several)
        assert not is_single and np.array_equal(batch['image'], [expected] * 2)
    (tmp_path / 'b.png').write_text('text')
    kinds = 'must be a path, bytes, a PIL image or pixels [height, width, 1 or 3], not'
    for wrong, message in (
        (tmp_path / 'b.png', f'picture 0, {tmp_path}/b.png, is not an image of a kind that Pillow reads'),
        ([gray, 'nowhere.png'], 'picture 1, nowhere.png, cannot be read: No such file or directory'),
        (np.zeros([5, 28, 28], np.uint8), f'picture 0 {kinds} a NumPy array of uint8 (5, 28, 28)'),
        ([gray, 5], f'picture 1 {kinds} an int'),
        (gray / 255, 'picture 0 must have pixels from 0 to 255: the input image is uint8: 0.0'),
        (np.full([4, 4, 1], 256), 'the input image is uint8: 256 (int64) would become 0'),
    ):
        with pytest.raises(ValueError, match=f'^{re.escape(message)}'):
            make_batch(wrong)


def test_a_dataset_that_reads_pictures_itself_gets_files(tmp_path):
    params = build.make_hparams('m', {}, 'image_folder', image_folder.get_params(), text='image_size=4')
    make_batch, path = pictures.batch_maker(DataSource(image_folder, '', params)), tmp_path / 'a.jpg'
    picture, exif = Image.new('RGB', (9, 7), (9, 99, 199)), Image.Exif()
    exif[0x0112] = 6
    picture.save(path, exif=exif)
    ((_, record),) = image_folder.read_input(str(path), params)
    expected = collections.OrderedDict(records.decode(record), id=None)
    for form in (path, path.read_bytes()):
        batch, is_single = make_batch(form)
        assert is_single and batch['image'].shape == (0, 4, 4, 3)
        assert {**records.decode(batch['examples'][0]), 'id': None} == expected
    batch, is_single = make_batch([picture, np.asarray(picture)])
    assert not is_single and len(batch['examples']) == 2
    for record in batch['examples']:
        content = records.decode(record)['image'][1][0]
        np.testing.assert_array_equal(images.decode(content), picture)
    batch, _ = make_batch(np.zeros([2, 4, 4, 3], np.uint8))
    assert batch['image'].shape == (2, 4, 4, 3) and not len(batch['examples'])
