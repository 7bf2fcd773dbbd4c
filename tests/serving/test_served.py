"""Runs behind the HTTP interface answer as run.predict does."""

import base64
from concurrent.futures import ThreadPoolExecutor
import contextlib
import functools
import io
import os
import shutil

from fastapi.testclient import TestClient
import numpy as np
from PIL import Image
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.inference.predictor import Predictor
from estimator_trainer.common.inference.raw_predictor import example_predictor, make_predictor
from estimator_trainer.common.serving.app import make_app
from estimator_trainer.common.serving.metrics import Metrics
from estimator_trainer.common.serving.served import ServedModel
from estimator_trainer.common.storage import provenance

ROWS = [{'age': age, 'city': city} for age in (20, None, 61.5) for city in ('Rome', '', 'Oslo')]


@contextlib.contextmanager
def served(output_dir, data_dir=None):
    """Yields a run, and a client of its model, client.model."""
    run = api.load(str(output_dir), data_dir=data_dir)
    with run._opened({'schedule': 'export', 'checkpoint': None}) as experiment:
        estimator, source = experiment.estimator, experiment.source
        predictor = make_predictor(estimator, source, estimator.latest_checkpoint())
        make_examples = functools.partial(example_predictor, estimator, source)
        model = ServedModel('m', source, predictor, lambda size: None, make_examples)
        client = TestClient(make_app(model, Metrics()))
        client.model = model
        yield run, client
        model.close()


def ask(client, *instances, code=200):
    answer = client.post('/v1/models/m:predict', json={'instances': instances})
    assert answer.status_code == code, answer.text
    return answer.json()['predictions' if code == 200 else 'error']


def check(client, run, instances, inputs):
    """Compares the answers to concurrent requests, and to one of all, with the predictions for inputs."""
    with ThreadPoolExecutor(4) as threads:
        alone = [*threads.map(lambda instance: ask(client, instance)[0], instances)]
    for found in (alone, ask(client, *instances)):
        for answer, value in zip(found, inputs, strict=True):
            expected = run.predict(value)
            assert answer.keys() == expected.keys()
            assert answer['class'] == expected['class'] and answer.get('class_name') == expected.get('class_name')
            np.testing.assert_allclose(answer['probabilities'], expected['probabilities'], rtol=0, atol=1e-5)
    return alone


@pytest.fixture(scope='module')
def table_run(tmp_path_factory):
    path = tmp_path_factory.mktemp('table')
    rows = [f'p{i:03},{20 + i % 50},{("Rome", "Oslo")[i % 2]},{1 + i % 3},{("no", "yes")[i % 50 > 25]}' for i in range(100)]
    (path / 'rows.csv').write_text('\n'.join(['person,age,city,importance,target', *rows]))
    (path / 'schema.json').write_text('{"id": "person", "weight": "importance"}')
    hparams = {'table_file': str(path / 'rows.csv'), 'schema': str(path / 'schema.json'), 'hidden_units': [4]}
    api.train('mlp', 'table', str(path / 'run'), hparams=hparams, data_dir=str(path / 'data'), train_steps=5, schedule='train')
    return path / 'run'


def test_rows_of_a_table_need_neither_id_nor_weight(table_run):
    with served(table_run) as (run, client):
        found = check(client, run, ROWS, ROWS)
        assert {answer['class_name'] for answer in found} <= {'no', 'yes'}
        row = {**ROWS[0], 'person': 'x', 'importance': 2, 'target': 'no'}
        assert ask(client, row) == ask(client, ROWS[0])
        assert ask(client, {**ROWS[0], 'age': '20'}) == ask(client, ROWS[0])
        assert ask(client, {**ROWS[0], 'country': 'x'}, code=400).endswith("instance 0 has the unknown 'country'")
        assert ask(client, {**ROWS[0], 'age': 'old'}, code=400).startswith("the input age: 'old' is not a number")
        parts = client.post('/v1/models/m:explain', json={'instances': [ROWS[0]]}).json()['explanation']['parts']
        typical = ask(client, {**ROWS[0], 'age': client.get('/form').json()['fields'][0]['typical']})[0]
        score = typical['probabilities'][ask(client, ROWS[0])[0]['class']]
        assert [part['part'] for part in parts] == ['age', 'city'] and parts[0]['score'] == pytest.approx(score, abs=1e-5)
        fields = client.get('/form').json()['fields']
        assert [(field['name'], field['type']) for field in fields] == [('age', 'number'), ('city', 'choice')]
        outputs = client.get('/v1/models/m/metadata').json()['metadata']['signature_def']['signature_def']['serving_default']
        assert {*outputs['outputs']} == {'class', 'class_name', 'probabilities'}


def test_a_run_that_starts_over_with_other_values_is_not_taken_for_the_one_that_was_loaded_but_one_that_resumes_is(
    table_run, tmp_path
):
    shutil.copytree(table_run, tmp_path / 'run')
    run = api.load(str(tmp_path / 'run'))
    expected = run.predict(ROWS[0])['probabilities']
    for path in (tmp_path / 'run').glob('model.ckpt-5.*'):
        shutil.copy(path, str(path).replace('ckpt-5', 'ckpt-9'))
    tf.train.update_checkpoint_state(str(tmp_path / 'run'), 'model.ckpt-9')
    path = tmp_path / 'run' / 'provenance.jsonl'
    saved = path.read_text()
    provenance.append(str(tmp_path / 'run'), {'kind': provenance.START, 'step': 0, 'made_by': {}})
    for _ in range(2):
        with pytest.raises(RunError, match='/run: a run with other hyper-parameters or data has begun there: load it anew'):
            run.predict(ROWS[0])
    path.write_text(saved)
    made_by = provenance.started_by(str(tmp_path / 'run'))
    made_by['hparams']['train_steps'] += 1
    provenance.append(str(tmp_path / 'run'), {'kind': provenance.START, 'step': 0, 'made_by': made_by})  # It is the same.
    provenance.append(str(tmp_path / 'run'), {'kind': provenance.RESUME, 'step': 5, 'made_by': {}, 'tensors': ''})
    np.testing.assert_array_equal(run.predict(ROWS[0])['probabilities'], expected)
    assert run._predictor.checkpoint_path.endswith('-9')
    run._predictor._find_run = lambda: pytest.fail('reads a file for each prediction')
    run.predict(ROWS[0])
    content = {'signature_name': 'examples:serving_default', 'instances': [{'b64': ''}]}
    with served(tmp_path / 'run') as (_, client):
        os.utime(tmp_path / 'run' / 'model.ckpt-9.index', (1, 1))  # As of another run.
        answer = client.post('/v1/models/m:predict', json=content)
    assert (
        answer.status_code == 500
        and '/run: a run with other hyper-parameters or data has begun there' in answer.json()['error']
    )


def test_a_request_for_a_step_is_answered_while_another_is_loaded_and_refused_afterwards(table_run, tmp_path, monkeypatch):
    shutil.copytree(table_run, tmp_path / 'run')
    codes, load = [], Predictor._load

    def post(step):
        codes.append(client.post(f'/v1/models/m/versions/{step}:predict', json={'instances': ROWS}).status_code)

    with served(tmp_path / 'run') as (_, client):
        for path in (tmp_path / 'run').glob('model.ckpt-5.*'):
            shutil.copy(path, str(path).replace('ckpt-5', 'ckpt-9'))
        tf.train.update_checkpoint_state(str(tmp_path / 'run'), 'model.ckpt-9')
        monkeypatch.setattr(Predictor, '_load', lambda *given: [post(5), load(*given)][1])
        client.model.reload()
        assert codes == [200]
        post(5)
        post(9)
    assert codes == [200, 404, 200]


def test_serialized_examples_are_those_of_the_training_files(table_run):
    path, *_ = (table_run.parent / 'data').rglob('*.tfrecord*')
    record = next(tf.python_io.tf_record_iterator(str(path)))
    features = tf.train.Example.FromString(record).features.feature
    row = {'age': features['age'].float_list.value[0], 'city': features['city'].bytes_list.value[0].decode()}
    content = {'signature_name': 'examples:serving_default', 'instances': [{'b64': base64.b64encode(record).decode()}] * 2}
    with served(table_run) as (_, client):
        answer = client.post('/v1/models/m:predict', json=content).json()['predictions']
        assert [found['class_name'] for found in answer] == [ask(client, row)[0]['class_name']] * 2
        np.testing.assert_allclose(answer[1]['probabilities'], ask(client, row)[0]['probabilities'], atol=1e-5)
        content['instances'] = ['no example']
        assert client.post('/v1/models/m:predict', json=content).status_code == 400


def test_pictures_are_files_in_base64_or_pixels_but_never_paths(trained_run, data_dir, tmp_path):
    random = np.random.RandomState(0)
    pixels = [random.randint(0, 256, shape, np.uint8) for shape in ((28, 28), (30, 20), (40, 50, 3))]
    file = io.BytesIO()
    Image.fromarray(pixels[2]).save(file, 'PNG')
    (tmp_path / 'picture.png').write_bytes(file.getvalue())
    instances = [*(array.tolist() for array in pixels), {'b64': base64.b64encode(file.getvalue()).decode()}]
    with served(trained_run('alexnet'), data_dir) as (run, client):
        check(client, run, instances, [*pixels, file.getvalue()])
        assert 'picture 0 must be {"b64": "..."}' in ask(client, str(tmp_path / 'picture.png'), code=400)
        assert 'picture 1 is not an image' in ask(client, pixels[0].tolist(), {'b64': 'AQID'}, code=400)
        assert 'pixels from 0 to 255' in ask(client, [[256]], code=400)
