"""Examples as a person knows them: pictures, cells and texts; and how much a column matters."""

import base64
import io
import itertools

import numpy as np
from PIL import Image
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.report import importance, mistakes, rows


def example(**features):
    """Returns a serialized tf.train.Example of floats, integers and texts."""
    found = tf.train.Example()
    for name, value in features.items():
        kind = {float: 'float_list', int: 'int64_list', bytes: 'bytes_list'}[
            type(value[0] if isinstance(value, list) else value)
        ]
        getattr(found.features.feature[name], kind).value.extend(value if isinstance(value, list) else [value])
    return found.SerializeToString()


def test_cells_are_texts_in_the_order_of_the_columns():
    record = example(age=34.5, count=3, city='Köln\n'.encode(), many=[1.0] * 10, raw=b'\xff\xd8', other=1)
    assert rows.cells(record, ['city', 'age', 'count', 'gone', 'many', 'raw'], {}) == {
        'city': 'Köln',
        'age': '34.5',
        'count': '3',
        'gone': '',
        'many': '1, 1, 1, 1, 1, 1, 1, 1, ... (10 values)',
        'raw': '2 bytes',
    }


def test_dates_and_missing_numbers_are_as_in_the_file():
    facts = {'columns': [{'name': 'day', 'kind': 'date', 'origin': 18000.0}, {'name': 'time', 'kind': 'date', 'origin': 0.0}]}
    record = example(day=1.0, time=0.5, age=float('nan'))
    assert rows.cells(record, ['day', 'time', 'age'], facts) == {'day': '2019-04-15', 'time': '1970-01-01 12:00', 'age': ''}


@pytest.mark.parametrize('record', [None, 3, {'x': 1}, b'\xff\xff\xff', b'', example(other=1)])
def test_another_record_has_no_cells(record):
    assert rows.cells(record, ['age'], {}) == {}


def test_the_features_of_a_date_belong_to_its_column():
    stored = ['day', 'day: year, sine', 'day: year, cosine', 'day: other', 'age']
    assert rows.parts_of('day', ['day', 'age', 'day: other'], stored) == ['day', 'day: year, sine', 'day: year, cosine']


def test_a_mistake_names_classes_and_shows_the_picture():
    image = np.zeros([2, 3, 1], np.float32)
    image[0, 0] = 1
    values = {'class': np.int64(1), 'probabilities': np.array([0.25, 0.75])}
    found = mistakes.describe(Prediction({'split': 'eval', 'example': 7}, values, image=image, label=0), {}, ['cat', 'dog'])
    assert found[:4] == ('example 7', 'cat', 'dog', '75.0 % for dog, 25.0 % for cat')
    picture = Image.open(io.BytesIO(base64.b64decode(found.picture.removeprefix('data:image/png;base64,'))))
    assert picture.size == (3, 2) and picture.getpixel((0, 0)) == (255, 255, 255) and picture.getpixel((1, 0)) == (0, 0, 0)


def test_the_reason_of_a_mistake_tints_the_picture_or_weighs_words():
    prediction = Prediction({}, {'class': np.int64(1)}, image=np.zeros([16, 16, 1]), label=0)
    heat = np.zeros(64)
    assert mistakes.describe(prediction, {}, None, mistakes.Reason([], heat)).tinted == ''  # Nothing matters.
    heat[63] = 1
    found = mistakes.describe(prediction, {}, None, mistakes.Reason([], heat))
    assert found.where == 'lower right' and found.tinted not in ('', found.picture)
    assert mistakes.describe(prediction, {}, None, mistakes.Reason([('a', 0.5)], None)).words == [('a', 0.5)]


def test_a_wrong_number_says_by_how_much():
    fields = {'split': 'eval', 'example': 7, 'file': 'a.csv', 'line': 3}
    found = mistakes.describe(Prediction(fields, {'value': np.float32(2.5)}, label=np.float32(4)), {'x': '1'}, None)
    assert found[:6] == ('line 3', '4', '2.5', '-1.5', '', {'x': '1'})
    shard = {'split': 'eval', 'example': 7, 'file': 'd/a-1.tfrecord', 'record': 17}  # Of several with a record 17.
    assert mistakes.describe(Prediction(shard, {'value': np.float32(2)}, label=np.float32(4)), {}, None).place == (
        'a-1.tfrecord, record 17'
    )


def test_large_pictures_are_scaled_down():
    content = mistakes.to_data_uri(np.zeros([400, 800, 3], np.uint8)).partition(',')[2]
    assert Image.open(io.BytesIO(base64.b64decode(content))).size == (160, 80)


def test_shuffling_moves_the_features_of_a_column_together_and_leaves_the_others():
    parsed = [tf.train.Example.FromString(example(a=float(i), b=i, c=i)) for i in range(2)]
    parsed.append(tf.train.Example.FromString(example(c=2)))
    found = [
        tf.train.Example.FromString(record).features.feature for record in importance.shuffled(parsed, ['a', 'b'], [2, 0, 1])
    ]
    assert 'a' not in found[0] and 'b' not in found[0]
    assert [(one['a'].float_list.value[0], one['b'].int64_list.value[0]) for one in found[1:]] == [(0, 0), (1, 1)]
    assert [one['c'].int64_list.value[0] for one in found] == [0, 1, 2]
    assert 'a' in parsed[0].features.feature


RECORDS = [example(a=float(i), b=float(i % 2), c=1.0) for i in range(20)]


def distance(records):
    """Returns the mean distance of what a model that adds a and b / 10 says from its value for each record in order."""
    found = [tf.train.Example.FromString(record).features.feature for record in records]
    values = [one['a'].float_list.value[0] + one['b'].float_list.value[0] / 10 for one in found]
    return float(np.mean([abs(value - (i + i % 2 / 10)) for i, value in enumerate(values)]))


def test_the_column_that_a_model_needs_most_comes_first():
    found = importance.measure(RECORDS, {name: [name] for name in 'cba'}, distance, 'mean absolute error')
    assert [one.column for one in found.columns] == ['a', 'b', 'c'] and not found.unknown
    a, b, c = found.columns
    assert a.increase > 1 > 0.1 >= b.increase > 0 and c.increase == c.spread == c.share == 0 and a.share == 1
    assert found.text.endswith(f'The most important is a: it rises by {a.increase:.4g}.')
    assert importance.measure(RECORDS, {'c': ['c']}, distance, 'loss').text.endswith('That of no column does.')


def test_time_that_does_not_suffice_is_said():
    seconds = itertools.count(0, 20)  # The first call sets the end, after 45 seconds.
    found = importance.measure(RECORDS, {name: [name] for name in 'abc'}, distance, 'loss', clock=lambda: next(seconds))
    assert [one.column for one in found.columns] == ['a', 'b'] and found.unknown == ['c']


def test_columns_have_a_value_per_record_or_none():
    facts = {'columns': [{'name': 'day', 'kind': 'date', 'origin': 18000.0}]}
    records = [example(age=34.5, day=1.0, tags=[1, 2]), example(age=float('nan'), city='Köln'.encode()), example(city=b'')]
    age, city, day = rows.columns_of(records, ['age', 'tags', 'city', 'day', 'gone'], facts)[:3]
    assert (age.values, city.values, day.values) == ([34.5, None, None], [None, 'Köln'.encode(), None], [1.0, None, None])
    assert (age.format(34.5), city.format('Köln'.encode()), day.format(1.0)) == ('34.5', 'Köln', '2019-04-15')
    assert rows.columns_of([b'\xff\xff\xff'], ['age'], {}) == []
