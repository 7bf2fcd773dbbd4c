"""Exports behind the HTTP interface: of runs, of classic Estimators, and of other programs."""

import base64
from concurrent.futures import ThreadPoolExecutor
import contextlib
import io
import json
import os
import shutil
import threading

from fastapi.testclient import TestClient
import numpy as np
from PIL import Image
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import api
from estimator_trainer.common.serving.app import make_app
from estimator_trainer.common.serving.exported import ExportedModel
from estimator_trainer.common.serving.form import form_of
from estimator_trainer.common.serving.metrics import Metrics
from estimator_trainer.common.serving.rest import Inputs, read_request
from estimator_trainer.common.serving.served import Replaced
from tests.shared import failed


@contextlib.contextmanager
def served(path):
    """Yields an export and a client of it."""
    model = ExportedModel(str(path), lambda size: None)
    yield model, TestClient(make_app(model, Metrics()))
    model.close()


def ask(client, name, content, code=200, verb='predict'):
    answer = client.post(f'/v1/models/{name}:{verb}', content=json.dumps(content))
    assert answer.status_code == code, answer.text
    return answer.json() if code == 200 else answer.json()['error']


class Doubled(tf2.Module):
    """y = factor * x; and signatures that cannot be served: with an input without a batch dimension, without outputs."""

    def __init__(self, factor):
        super().__init__()
        self.factor = tf2.Variable(float(factor))

    @tf2.function(input_signature=[tf2.TensorSpec([None, 2], tf2.float32, 'x')])
    def double(self, x):
        return {'x': x, 'y': self.factor * x, 'same': x}

    @tf2.function(input_signature=[tf2.TensorSpec([], tf2.float32, 'x')])
    def scalar(self, x):
        return {'y': self.factor * x}

    @tf2.function(input_signature=[tf2.TensorSpec([None], tf2.float32, 'x')])
    def silent(self, x):
        return {}


def save(path, factor):
    """Exports from a process of its own kind: TensorFlow 2, without an Estimator."""
    with tf2.init_scope():
        module = Doubled(factor)
        signatures = {'serving_default': module.double, 'scalar': module.scalar, 'silent': module.silent}
        tf2.saved_model.save(module, str(path), signatures)


def save_function(path, function, signature='serving_default', dtype=tf2.float32, **shapes):
    """Exports a function of inputs of one type."""
    with tf2.init_scope():
        module = tf2.Module()
        specs = [tf2.TensorSpec(shape, dtype, name) for name, shape in shapes.items()]
        module.function = tf2.function(lambda *inputs: {'y': function(*inputs)}, input_signature=specs)
        tf2.saved_model.save(module, str(path), {signature: module.function})


class Held:
    """Holds the first batch of a model until it is released; sizes are those of all batches."""

    def __init__(self):
        self.sizes, self.begun, self._released = [], threading.Event(), threading.Event()
        self.release = self._released.set

    def __call__(self, size):
        self.sizes.append(size)
        self.begun.set()
        self._released.wait()


def test_an_export_of_any_program_is_served_without_a_form(tmp_path, caplog):
    save(tmp_path / 'digits' / '7', 2)
    with served(tmp_path / 'digits' / '7') as (model, client):
        assert (model.name, model.step, [*model.signatures]) == ('digits', 7, ['serving_default'])
        assert 'the signature scalar is left out: x is no dense tensor [batch, ...].' in caplog.text
        assert 'the signature silent is left out: it has no outputs.' in caplog.text
        assert ask(client, 'digits', {'instances': [[1, 2]]}) == {
            'predictions': [{'same': [1.0, 2.0], 'x': [1.0, 2.0], 'y': [2.0, 4.0]}]
        }
        assert 'the input x must be float32 (None, 2)' in ask(client, 'digits', {'instances': [[1, 2, 3]]}, 400)
        assert 'of a model with a form' in ask(client, 'digits', {'instances': [[1, 2]]}, 400, 'explain')
        form = client.get('/form').json()
        assert (form['fields'], form['unit']) == ([], 'version')
        assert client.get('/v1/models/digits/versions/7').status_code == 200


@pytest.mark.parametrize(
    'shape, texts', [([None, 1], [['a'], ['é']]), ([None, 2], [['a', ''], ['b', 'é']]), (None, ['a', 'é'])]
)
def test_texts_of_any_rank_are_taken(tmp_path, shape, texts):
    save_function(tmp_path / 'm', lambda x: tf2.strings.join([x, '!']), dtype=tf2.string, x=shape)
    expected = np.char.add(texts, '!').tolist()
    with served(tmp_path / 'm') as (_, client):
        assert ask(client, 'm', {'instances': texts}) == {'predictions': expected}
        assert ask(client, 'm', {'inputs': {'x': texts}}) == {'outputs': expected}
        encoded = {'b64': base64.b64encode(b'b').decode()}
        assert ask(client, 'm', {'instances': np.full_like(texts, encoded, object).tolist()}) == {
            'predictions': np.full_like(texts, 'b!', object).tolist()
        }
        wrong = np.full_like(texts, None, object).tolist()
        assert ask(client, 'm', {'instances': wrong}, 400) == 'the input x must be text or bytes, not None'


@pytest.mark.parametrize('shape', [[None], [None, 2]])
def test_an_integer_beside_floats_is_not_rounded(tmp_path, shape):
    save_function(tmp_path / 'm', tf2.identity, dtype=tf2.int64, x=shape)
    with served(tmp_path / 'm') as (_, client):

        def request(*values):
            return {'instances': np.array(values, object).reshape([-1, *shape[1:]]).tolist()}

        for values in ((2**53 + 1, 1), (2.0, 1)):
            assert ask(client, 'm', request(*values))['predictions'] == request(*values)['instances']
        reason = f'the input x is int64: {2**53 + 1} beside floats would become {2**53}.0'
        assert ask(client, 'm', request(1.0, 2**53 + 1), 400) == reason


def test_numbers_of_unknown_rank_are_taken(tmp_path):
    save_function(tmp_path / 'm', lambda x: 2 * x, x=None)
    with served(tmp_path / 'm') as (_, client):
        assert ask(client, 'm', {'instances': [1, 2]}) == {'predictions': [2.0, 4.0]}
        assert ask(client, 'm', {'inputs': {'x': [[1, 2]]}}) == {'outputs': [[2.0, 4.0]]}


def test_the_highest_version_is_followed_and_stays_if_a_later_one_is_broken_or_all_are_deleted(tmp_path):
    save(tmp_path / '2', 2)
    with served(tmp_path) as (model, client):

        def factor():
            return ask(client, tmp_path.name, {'inputs': [[1, 0]]})['outputs']['y'][0][0]

        assert (model.step, factor()) == (2, 2.0)
        save(tmp_path / '10', 10)
        model.reload()
        assert (model.step, factor()) == (10, 10.0)
        (tmp_path / '11').mkdir()
        (tmp_path / '11' / 'saved_model.pb').write_bytes(b'no model')
        model.reload()
        assert (model.step, factor()) == (10, 10.0)
        shutil.rmtree(tmp_path)
        model.reload()
        assert (model.step, factor()) == (10, 10.0)
    assert failed(ExportedModel, str(tmp_path), print).endswith(' has no SavedModel')


def test_a_broken_version_is_loaded_again_only_when_its_files_have_changed_and_leaves_no_session(tmp_path, monkeypatch, caplog):
    save(tmp_path / '2', 2)
    loads, load, closed, close = [], tf.saved_model.loader.load, [], tf.Session.close
    monkeypatch.setattr(tf.saved_model.loader, 'load', lambda *given: [loads.append(given[0]), load(*given)][1])
    # Sessions that other tests left are closed whenever Python collects them.
    monkeypatch.setattr(tf.Session, 'close', lambda session: [session in loads and closed.append(session), close(session)][1])
    with served(tmp_path) as (model, _):
        assert len(loads) == 1
        save(tmp_path / '3', 3)
        (variables,) = (tmp_path / '3' / 'variables').glob('variables.data-*')
        content = variables.read_bytes()
        variables.write_bytes(b'')  # As if it were being copied.
        for _ in range(3):
            model.reload()
        assert (len(loads), model.step) == (2, 2) and closed == loads[1:]
        assert caplog.text.count('Version 2 stays: ') == 1
        variables.write_bytes(content[:10])
        model.reload()
        assert (len(loads), model.step) == (3, 2) and closed == loads[1:]
        variables.write_bytes(content)
        model.reload()
        assert (len(loads), model.step) == (4, 3) and loads[3] not in closed


def test_a_version_whose_files_change_after_it_was_loaded_is_loaded_again_once(tmp_path, monkeypatch):
    save_function(tmp_path / '2', lambda x: 2 * x, x=[None])
    loads, load = [], tf.saved_model.loader.load
    monkeypatch.setattr(tf.saved_model.loader, 'load', lambda *given: [loads.append(given), load(*given)][1])
    with served(tmp_path) as (model, client):
        save_function(tmp_path / '3', lambda x: 3 * x, x=[None])
        for _ in range(2):
            model.reload()
        assert (len(loads), model.step, client.get('/form').json()['fields']) == (2, 3, [])
        form = form_of('m', Inputs({'x': tf.TensorSpec([None], tf.float32)}), {})
        os.makedirs(tmp_path / '3' / 'assets.extra')  # The last that `cp -r` copies.
        (tmp_path / '3' / 'assets.extra' / 'form.json').write_text(json.dumps(form))
        for name in ('server.log', 'notes/a.txt'):  # None of a SavedModel's.
            (tmp_path / '3' / name).parent.mkdir(exist_ok=True)
            (tmp_path / '3' / name).write_text('')
        (tmp_path / '3' / 'assets.extra' / 'link').symlink_to('nowhere')
        for _ in range(2):
            model.reload()
        (tmp_path / '3' / 'server.log').write_text('more')
        model.reload()
        assert (len(loads), [field['name'] for field in client.get('/form').json()['fields']]) == (3, ['x'])
        assert ask(client, tmp_path.name, {'instances': [1.0]}) == {'predictions': [3.0]}


@pytest.mark.parametrize(
    'version',
    [
        dict(function=lambda z: z, z=[None, 2]),
        dict(function=lambda x, z: x, x=[None, 2], z=[None, 2]),
        dict(function=lambda x: x, x=[None, 3]),
        dict(function=lambda x: x, x=[None, 2], dtype=tf2.int64),
        dict(function=lambda x: x, x=[None, 2], dtype=tf2.float64),
        dict(function=lambda x: x, x=[None, 2], signature='other'),
    ],
)
def test_a_request_is_refused_if_a_version_that_takes_other_inputs_is_loaded_before_it_is_computed(tmp_path, version):
    save_function(tmp_path / '2', lambda x: x, x=[None, 2])
    with served(tmp_path) as (model, _):
        request = read_request(b'{"inputs": [[1, 2]]}', model.signatures)
        batch = model.to_batch(request)
        save_function(tmp_path / '3', **version)
        model.reload()
        with pytest.raises(Replaced, match='version 3, which was loaded just now, takes other inputs: ask again'):
            model.submit(request.signature, batch).result()
        if version.get('x') != [None, 3] and 'dtype' not in version:
            with pytest.raises(Replaced):
                model.to_batch(request)


def test_requests_that_wait_are_answered_by_the_version_that_they_were_read_for(tmp_path):
    save_function(tmp_path / '2', lambda x: 2 * x, x=[None])
    model, x = ExportedModel(str(tmp_path), held := Held()), {'x': np.ones(1, np.float32)}
    waiting = [model.submit('serving_default', x)]
    held.begun.wait()
    waiting += [model.submit('serving_default', x) for _ in range(2)]
    save_function(tmp_path / '3', lambda x: 3 * x[:1], x=[None])
    with ThreadPoolExecutor() as pool:
        reload = pool.submit(model.reload)
        while model.step == 2:
            assert not reload.done()
        found = model.submit('serving_default', x)
        held.release()
    assert [future.result()['y'].tolist() for future in [*waiting, found]] == [[2], [2], [2], [3]]
    model.close()


def test_requests_are_merged_if_the_version_that_is_loaded_allows_it(tmp_path):
    save_function(tmp_path / '2', lambda x: x, x=[None])
    model, x = ExportedModel(str(tmp_path), held := Held()), {'x': np.ones(1, np.float32)}
    save_function(tmp_path / '3', tf2.reduce_mean, x=[None])
    model.reload()
    futures = [model.submit('serving_default', x)]
    held.begun.wait()
    futures += [model.submit('serving_default', x) for _ in range(2)]
    held.release()
    assert [future.result()['y'].tolist() for future in futures] == [1, 1, 1] and held.sizes == [1, 1, 1]
    model.close()


@pytest.mark.parametrize('form, reason', [('{', 'is not JSON'), ('{}', 'is not that of an export of this version')])
def test_a_form_of_another_kind_is_named(tmp_path, form, reason):
    save(tmp_path / '1', 2)
    (tmp_path / '1' / 'assets.extra').mkdir()
    (tmp_path / '1' / 'assets.extra' / 'form.json').write_text(form)
    assert f'form.json{":" if form == "{" else ""} {reason}' in failed(ExportedModel, str(tmp_path), print)


def test_a_text_is_refused_where_files_have_decimal_commas(tmp_path):
    save_function(tmp_path, lambda x: 2 * x, x=[None])
    columns = [{'name': 'x', 'kind': 'numeric', 'style': {'decimal': 'comma', 'affixes': ['']}}]
    os.makedirs(tmp_path / 'assets.extra')
    form = form_of('m', Inputs({'x': tf.TensorSpec([None], tf.float32)}), {'columns': columns})
    (tmp_path / 'assets.extra' / 'form.json').write_text(json.dumps(form))
    with served(tmp_path) as (_, client):
        assert ask(client, 'm', {'instances': [{'x': 1.25}, {'x': 3}]})['predictions'] == [2.5, 6]
        assert np.isnan(ask(client, 'm', {'instances': [{'x': ' '}]})['predictions'][0])
        reason = ask(client, 'm', {'instances': [{'x': 1.25}, {'x': '1.250'}]}, 400)  # In files, that is 1250.
        assert reason == "the input x: '1.250' is a text, and files have decimal commas there: send a number"


def test_pixels_are_taken_by_a_signature_without_files(tmp_path):
    save_function(tmp_path, lambda image: tf2.cast(image, tf2.float32), dtype=tf2.uint8, image=[None, 1, 2, 1])
    form = form_of('m', Inputs({'image': tf.TensorSpec([None, 1, 2, 1], tf.uint8)}, ['image']), {})
    os.makedirs(tmp_path / 'assets.extra')
    (tmp_path / 'assets.extra' / 'form.json').write_text(json.dumps(form))
    with served(tmp_path) as (_, client):
        assert ask(client, 'm', {'instances': [[[[3], [255]]]]}) == {'predictions': [[[[3.0], [255.0]]]]}
        assert ask(client, 'm', {'instances': [[[[3], [256]]]]}, 400).startswith('the input image is uint8: 256 ')
        assert ask(client, 'm', {'instances': [{'b64': ''}]}, 400).startswith('the input image must be uint8 (None, 1, 2, 1)')


def test_a_directory_without_an_export_is_named(run, tmp_path):
    code, _, err = run('--schedule=serve', f'--checkpoint={tmp_path}', '--port=0')
    assert code == 1 and err.splitlines()[-1].endswith(f'{tmp_path} has no SavedModel')
    code, _, err = run('--schedule=serve', f'--checkpoint={tmp_path}/1', '--port=0')
    assert code == 2 and err == f'trainer.py: --checkpoint={tmp_path}/1: there is neither a checkpoint nor an export\n'


def test_a_classic_estimator_takes_examples(tmp_path):
    columns = [tf.feature_column.numeric_column('x')]
    estimator = tf.estimator.LinearClassifier(columns, str(tmp_path / 'model'))
    estimator.train(lambda: tf.data.Dataset.from_tensors(({'x': [[1.0], [2.0]]}, [[0], [1]])).repeat(), steps=3)
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn({'x': tf.io.FixedLenFeature([1], tf.float32)})
    estimator.export_saved_model(str(tmp_path / 'linear'), receiver)
    rows = [{'x': [1.0]}, {'x': [2.0]}]
    expected = [
        float(row['probabilities'][1]) for row in estimator.predict(lambda: tf.data.Dataset.from_tensors({'x': [[1.0], [2.0]]}))
    ]
    example = tf.train.Example()
    example.features.feature['x'].float_list.value.append(2.0)
    encoded = {'b64': base64.b64encode(example.SerializeToString()).decode()}
    with served(tmp_path / 'linear') as (_, client):
        found = ask(client, 'linear', {'examples': rows}, verb='classify')['results']
        assert [[label for label, _ in row] for row in found] == [['0', '1']] * 2
        assert [row[1][1] for row in found] == pytest.approx(expected)
        regressed = ask(client, 'linear', {'signature_name': 'regression', 'examples': rows}, verb='regress')
        assert regressed['results'] == pytest.approx(expected)
        assert 'is for tensorflow/serving/classify, and not for' in ask(client, 'linear', {'examples': rows}, 400, 'regress')
        (row,) = ask(client, 'linear', {'instances': [encoded]})['predictions']
        assert row['classes'] == ['0', '1'] and row['scores'][1] == pytest.approx(expected[1])
        (row,) = ask(client, 'linear', {'signature_name': 'predict', 'instances': [{'examples': encoded}]})['predictions']
        assert row['logistic'] == pytest.approx(expected[1:])
        wrong = {'instances': [{'b64': base64.b64encode(b'no example').decode()}]}
        assert 'Could not parse example input' in ask(client, 'linear', wrong, 400)


def test_an_export_of_a_run_has_its_form_and_answers_as_the_run_does(run, trained_run, data_dir):
    output_dir = trained_run('alexnet')
    export = run('--schedule=export')[1]['export']
    file = io.BytesIO()
    Image.fromarray(np.random.RandomState(0).randint(0, 256, (40, 50, 3), np.uint8)).save(file, 'PNG')
    expected = api.load(str(output_dir), data_dir=data_dir).predict(file.getvalue())
    with served(os.path.dirname(export)) as (model, client):
        form = client.get('/form').json()
        assert [(field['type'], field['draws']) for field in form['fields']] == [('picture', 28)]
        content = {
            'signature_name': form['signature'],
            'instances': [{'image': {'b64': base64.b64encode(file.getvalue()).decode()}}],
        }
        (found,) = ask(client, 'alexnet', content)['predictions']
        assert found['class'] == expected['class']
        np.testing.assert_allclose(found['probabilities'], expected['probabilities'], atol=0.01)  # Resized by TensorFlow.
        assert {*ask(client, 'alexnet', content, verb='explain')['explanation']} == {'class', 'score', 'picture', 'where'}
        black = np.zeros([28, 28, 1], int).tolist()
        assert ask(client, 'alexnet', {'instances': [black, black]})['predictions'][1]['class'] in range(10)
        assert 'is not an image' in ask(client, 'alexnet', {**content, 'instances': [{'b64': 'AQID'}]}, 400)
