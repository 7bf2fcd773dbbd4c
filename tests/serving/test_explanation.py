"""Explanations of an answer by its inputs."""

import base64
import io
import json

import numpy as np
from PIL import Image
import pytest

from estimator_trainer.common.serving.explanation import variants, write
from estimator_trainer.common.serving.rest import Request

TABLE = {
    'fields': [
        {'name': 'age', 'type': 'number', 'typical': 30.0},
        {'name': 'city', 'type': 'choice', 'typical': 'Rome'},
        {'name': 'note', 'type': 'text'},
        {'name': 'vector', 'type': 'json'},
    ]
}
ROW = {'age': [50], 'city': ['Oslo'], 'note': ['x'], 'vector': [[1, 2]]}
TEXT, PICTURE = ({'fields': [{'name': 'x', 'type': kind}]} for kind in ('text', 'picture'))
EPS = b'%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n0 setgray\n'


def request(columns):
    return Request('serving_default', columns, True)


def test_a_column_has_its_typical_value_in_one_variant():
    found = variants(request(ROW), TABLE)
    assert found.parts == ['age', 'city', 'note']
    assert found.columns == {
        'age': [50, 30.0, 50, 50],
        'city': ['Oslo', 'Oslo', 'Rome', 'Oslo'],
        'note': ['x', 'x', 'x', ''],
        'vector': [[1, 2]] * 4,
    }
    answer = write(found, {'value': np.array([[3], [1.5], [3.25], [3]], np.float32)}, TABLE)
    scores = [('age', 1.5), ('city', 3.25), ('note', 3.0)]
    assert json.loads(answer) == {'explanation': {'score': 3.0, 'parts': [{'part': a, 'score': b} for a, b in scores]}}


def test_a_text_lacks_one_word_and_its_length_bounds_the_work():
    found = variants(request({'x': ['a good film']}), TEXT)
    assert (found.parts, found.columns) == (['a', 'good', 'film'], {'x': ['a good film', 'good film', 'a film', 'a good']})
    shares = np.array([[0.1, 0.9], [0.1, 0.9], [0.7, 0.3], [0.2, 0.8]], np.float32)
    answer = json.loads(write(found, {'class': np.array([1, 1, 0, 1]), 'probabilities': shares}, TEXT))['explanation']
    assert (answer['class'], answer['score'], [part['score'] for part in answer['parts']]) == (1, 0.9, [0.9, 0.3, 0.8])
    assert len(variants(request({'x': ['w ' * 1000]}), TEXT).columns['x']) == 1 + 64


def test_the_number_of_words_or_columns_beyond_the_first_64_is_told():
    row = {f'c{i}': [i] for i in range(100)}
    table = {'fields': [{'name': name, 'type': 'number', 'typical': 0.5} for name in row]}
    for columns, form, count in ((row, table, 36), ({'x': ['w ' * 200]}, TEXT, 136), ({'x': ['w ' * 64]}, TEXT, None)):
        found = variants(request(columns), form)
        answer = json.loads(write(found, {'value': np.arange(65.0)[:, None]}, form))['explanation']
        assert (len(answer['parts']), answer['parts'][-1]['score'], answer.get('untried')) == (64, 64, count)
    found = variants(request(row), table)
    assert found.columns['c63'] == [63] * 64 + [0.5] and found.columns['c64'] == [64] * 65


def test_a_picture_is_tinted_where_a_patch_matters():
    file = io.BytesIO()
    Image.fromarray(np.full([600, 300], 200, np.uint8)).save(file, 'PNG')
    found = variants(request({'x': [file.getvalue()]}), PICTURE)
    given, *images = found.columns['x']
    assert given == file.getvalue() and {image.shape for image in images} == {(256, 128, 1)} and len(images) == 65
    shares = np.tile([[0.2, 0.8]], [66, 1])
    shares[0] = [0.3, 0.7]  # As for a prediction.
    shares[2] = [0.6, 0.4]  # Without the patch in the upper left.
    answer = json.loads(write(found, {'class': np.ones(66, int), 'probabilities': shares}, PICTURE))['explanation']
    assert answer['score'] == 0.7 and answer['where'] == 'upper left' and 'parts' not in answer
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(answer['picture']['b64']))))
    assert picture.shape == (256, 128, 3)
    assert picture[5, 5].tolist() != [200] * 3 and picture[-5, -5].tolist() == [200] * 3


@pytest.mark.parametrize(
    'columns, form, message',
    [
        ({'x': ['a', 'b']}, TEXT, 'can be told of one example'),
        ({'x': ['a']}, {'fields': []}, 'and of a model with a form'),
        ({'x': [' ']}, TEXT, 'the text has no words'),
        ({'x': [b'abc']}, PICTURE, 'the input x: picture 0 is not an image'),
        ({'x': [EPS]}, PICTURE, 'the input x: picture 0 is a PostScript file'),
        ({'x': [None]}, TEXT, 'the text has no words'),
        ({'x': [[1, 2]]}, {'task': 'forecast', 'fields': []}, 'and this model forecasts series'),
    ],
)
def test_what_cannot_be_explained_is_refused(columns, form, message):
    with pytest.raises(ValueError, match=message):
        variants(request(columns), form)
    with pytest.raises(ValueError, match='neither the probabilities of a class nor a single number'):
        write(request({'x': ['a']}), {'y': np.zeros([1, 3])}, TEXT)
