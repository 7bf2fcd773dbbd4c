"""The fields of the page."""

import re

from fastapi.testclient import TestClient
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.serving.app import make_app
from estimator_trainer.common.serving.form import field_of, form_of
from estimator_trainer.common.serving.metrics import Metrics
from estimator_trainer.common.serving.rest import Inputs
from tests.serving.test_app import model


def spec(dtype, *shape):
    return tf.TensorSpec([None, *shape], dtype)


@pytest.mark.parametrize(
    'spec, is_picture, column, facts',
    [
        (spec(tf.float32), False, {}, {'type': 'number', 'hint': ''}),
        (spec(tf.float32), False, {'mean': 50.0, 'std': 10.0}, {'type': 'number', 'hint': 'mostly 30 to 70', 'typical': 50.0}),
        (spec(tf.float32), False, {'mean': [5.0], 'std': [1.0]}, {'type': 'number', 'hint': 'mostly 3 to 7', 'typical': 5.0}),
        (
            spec(tf.float32),
            False,
            {'mean': 2275.0, 'std': 1144.0},
            {'type': 'number', 'hint': 'mostly -13 to 4560', 'typical': 2275.0},
        ),
        (
            spec(tf.float32),
            False,
            {'mean': 1.25, 'std': 0.5, 'style': {'decimal': 'comma', 'affixes': ['']}},
            {'type': 'number', 'hint': 'mostly 0,25 to 2,25', 'typical': 1.25, 'decimal': 'comma'},
        ),
        (spec(tf.float32), False, {'style': {'decimal': 'point', 'affixes': ['$']}}, {'type': 'number', 'hint': ''}),
        (spec(tf.string), False, {}, {'type': 'text', 'hint': ''}),
        (spec(tf.string), False, {'kind': 'date', 'mean': 1.0, 'std': 1.0}, {'type': 'text', 'hint': 'a date, as in the data'}),
        (
            spec(tf.string),
            False,
            {'vocabulary': ['a', 2]},
            {'type': 'choice', 'choices': ['a', '2'], 'hint': '', 'typical': 'a'},
        ),
        (spec(tf.float32, 3, None), False, {}, {'type': 'json', 'hint': 'float32 [3, any]'}),
        (spec(tf.uint8, 28, 28, 1), True, {}, {'type': 'picture', 'draws': 28, 'hint': ''}),
        (spec(tf.uint8, 28, 28, 3), True, {}, {'type': 'picture', 'draws': 0, 'hint': ''}),
        (spec(tf.uint8, 224, 224, 1), True, {}, {'type': 'picture', 'draws': 0, 'hint': ''}),
        (spec(tf.string), True, {}, {'type': 'picture', 'draws': 0, 'hint': ''}),
    ],
)
def test_a_field_has_what_its_input_takes(spec, is_picture, column, facts):
    assert field_of('x', spec, is_picture, column) == {'name': 'x', **facts}


def test_a_form_has_a_field_per_input_but_none_for_the_label_and_ids():
    columns = [{'name': 'age', 'kind': 'numeric', 'mean': 0, 'std': 1}, {'name': 'id', 'kind': 'id'}]
    form = form_of('m', Inputs({'age': spec(tf.float32)}), {'columns': columns, 'class_names': ['no', 'yes']})
    assert (form['model'], form['class_names'], [field['name'] for field in form['fields']]) == ('m', ['no', 'yes'], ['age'])


def test_the_page_asks_no_other_server_for_anything():
    form = {'model': 'm', 'class_names': [], 'fields': []}
    client = TestClient(make_app(model(form=form), Metrics()))
    page = client.get('/')
    assert (
        page.headers['content-type'].startswith('text/html') and "connect-src 'self'" in page.headers['content-security-policy']
    )
    assert not re.search(r'https?://|<link (?!rel="icon" href="data:)|src=', page.text)
    assert client.get('/form').json() == {**form, 'unit': 'step'}
