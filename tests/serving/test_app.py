"""The HTTP interface, with a model that needs no checkpoint."""

import asyncio
from concurrent.futures import Future
import io
import json
import struct
import threading
import types
import zlib

from fastapi.testclient import TestClient
import numpy as np
from PIL import Image
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.serving import app as app_module
from estimator_trainer.common.serving import served
from estimator_trainer.common.serving.app import make_app
from estimator_trainer.common.serving.metrics import Metrics
from estimator_trainer.common.serving.rest import Inputs, Request, Signature

PATH, BODY = '/v1/models/m:predict', {'instances': [{'x': 1.5}]}
CONTENT = json.dumps(BODY).encode()
SPEC = tf.TensorSpec([None], tf.float32)


def model(predict=lambda x: {'y': 2 * x}, **others):
    """Returns a model named m of step 7, which computes y of x."""

    def submit(signature, batch):
        future = Future()
        try:
            future.set_result(predict(batch['x']))
        except Exception as error:
            future.set_exception(error)
        return future

    facts = dict(
        name='m',
        step=7,
        unit='step',
        signatures={'serving_default': Signature(Inputs({'x': SPEC}), {'y': SPEC})},
        to_batch=lambda request: {'x': np.array(request.columns['x'], np.float32)},
        submit=submit,
        has_step=lambda step: True,
    )
    return types.SimpleNamespace(**{**facts, **others})


def post(model, path=PATH, content=CONTENT, headers=None, **options):
    answer = TestClient(make_app(model, Metrics(), **options)).post(path, content=content, headers=headers)
    return answer.status_code, answer.json()


def fail(x):
    raise RuntimeError('out of order\nat line 3')


def replaced(x):
    raise served.Replaced(8)


def refuse(x):
    raise tf.errors.InvalidArgumentError(None, None, 'no such value\nat line 3')


@pytest.mark.parametrize(
    'given, path, content, code, answer',
    [
        (model(), PATH, BODY, 200, {'predictions': [3.0]}),
        (model(), '/v1/models/m/versions/7:predict', {'inputs': [1, 2]}, 200, {'outputs': [2.0, 4.0]}),
        (model(), '/v1/models/m/versions/6:predict', BODY, 404, "m has no version '6'; version 7 is loaded"),
        (model(), '/v1/models/n:predict', BODY, 404, "there is no model 'n'; this server has m"),
        (model(), '/v1/models/m:rank', BODY, 404, 'm:rank: Not Found: it must end with one of :predict, :classify, :regress'),
        (model(), '/v1/models/m:classify', {'examples': [{}]}, 400, 'is for tensorflow/serving/predict, and not for'),
        (model(), '/v1', BODY, 404, 'POST /v1: Not Found'),
        (model(), f'{PATH}/', BODY, 404, f'POST {PATH}/: Not Found'),
        (model(), PATH, {'instances': []}, 400, '"instances" must be a list of examples, not an empty one'),
        (model(refuse), PATH, BODY, 400, 'no such value'),
        (model(replaced), PATH, BODY, 503, 'version 8, which was loaded just now, takes other inputs: ask again'),
        (model(fail), PATH, BODY, 500, 'the prediction failed: out of order'),
        (
            model(has_step=lambda step: False),
            '/v1/models/m/versions/7:predict',
            BODY,
            404,
            'version 7 has just been replaced by another',
        ),
        (model(lambda x: {'y': x, 'n': x[0]}), PATH, BODY, 400, 'the prediction n has the shape (), no value per example'),
        (model(lambda x: {'y': x, 'n': x[0]}), PATH, {'inputs': [1]}, 200, {'outputs': {'y': [1.0], 'n': 1.0}}),
    ],
)
def test_a_request_has_an_answer_or_an_error_with_its_code(given, path, content, code, answer):
    found = post(given, path, json.dumps(content))
    assert found[0] == code
    assert found[1] == answer if code == 200 else [*found[1]] == ['error'] and answer in found[1]['error'], found


@pytest.mark.parametrize('path', [PATH, '/v1/models/m/versions/7:predict', '/v1/models/m:explain'])
@pytest.mark.parametrize('method', ['GET', 'PUT'])
def test_another_method_than_a_path_has_is_refused_with_the_one_to_use(method, path):
    answer = TestClient(make_app(model(), Metrics())).request(method, path)
    assert (answer.status_code, answer.headers['allow']) == (405, 'POST')
    assert answer.json() == {'error': f'{method} {path}: Method Not Allowed: use POST'}


def test_a_compressed_request_is_refused_by_its_header():
    found = post(model(), headers={'content-encoding': 'gzip'})
    assert found == (415, {'error': "Content-Encoding: 'gzip' is not supported: send the JSON as it is"})


def test_requests_that_are_too_large_or_too_many_or_too_slow_are_refused(monkeypatch):
    assert post(model(submit=lambda signature, batch: Future()), max_seconds=0.01) == (
        504,
        {'error': 'there was no answer after 0.01 s'},
    )
    assert post(model(), max_in_progress=0) == (503, {'error': '0 requests are waiting: try again later'})
    monkeypatch.setattr(app_module, 'MAX_BYTES', 10)
    for content in (b'x' * 11, iter([b'x' * 6] * 2)):  # With and without the header content-length.
        assert post(model(), content=content) == (413, {'error': 'a request may have at most 10 bytes'})
    assert post(model(), content=b'x' * 10)[0] == 400


async def call(app, *messages):
    """Returns the status code of the answer to a body that comes in messages, and does not end if they do not say so."""
    rest, sent = iter(messages), []

    async def receive():
        return next(rest, None) or await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    scope = {'type': 'http', 'method': 'POST', 'path': PATH, 'headers': [], 'query_string': b'', 'root_path': ''}
    await app(scope, receive, send)
    return sent[0]['status']


PART = {'type': 'http.request', 'body': CONTENT[:5], 'more_body': True}
REST = {'type': 'http.request', 'body': CONTENT[5:], 'more_body': False}


def test_a_slow_client_does_not_keep_others_from_an_answer():
    async def call_both():
        app = make_app(model(), Metrics(), max_in_progress=1)
        slow = [asyncio.create_task(call(app, PART)) for _ in range(3)]
        codes = [await call(app, PART, REST) for _ in range(3)]
        assert not any(task.done() for task in slow)
        for task in slow:
            task.cancel()
        return codes

    assert asyncio.run(call_both()) == [200, 200, 200]


def test_large_requests_leave_threads_to_small_ones(monkeypatch):
    may_go_on, has_begun = threading.Event(), threading.Semaphore(0)

    def to_batch(request):
        if len(request.columns['x']) > 1:
            has_begun.release()
            assert may_go_on.wait(100)
        return {'x': np.array(request.columns['x'], np.float32)}

    async def call_both():
        app = make_app(model(to_batch=to_batch), Metrics())
        large = {**REST, 'body': json.dumps({'instances': [{'x': 1}, {'x': 2}]}).encode()}
        tasks = [asyncio.create_task(call(app, large)) for _ in range(8)]
        while not has_begun.acquire(blocking=False):
            await asyncio.sleep(0)
        code = await call(app, PART, REST)
        may_go_on.set()
        return code, await asyncio.gather(*tasks)

    monkeypatch.setattr(app_module, '_LARGE', len(CONTENT))
    assert asyncio.run(call_both()) == (200, [200] * 8)


def test_a_request_that_never_ends_is_refused_and_one_that_is_given_up_is_counted():
    metrics = Metrics()
    app = make_app(model(), metrics, max_seconds=0.01)
    assert asyncio.run(call(app, PART)) == 408
    asyncio.run(call(app, PART, {'type': 'http.disconnect'}))
    lines = metrics.text(0, 0).splitlines()
    assert {'serving_requests_total{code="408"} 1', 'serving_requests_total{code="499"} 1'} <= {*lines}


def test_status_metadata_health_and_metrics_are_pages_of_their_own():
    client = TestClient(make_app(model(), Metrics()))
    versions = client.get('/v1/models/m').json()['model_version_status']
    assert [(version['version'], version['state']) for version in versions] == [('7', 'AVAILABLE')]
    assert client.get('/v1/models/m/versions/7/metadata').json()['model_spec']['version'] == '7'
    for path in ('/v1/models/n', '/v1/models/n/metadata', '/v1/models/m/versions/6'):
        answer = client.get(path)
        assert answer.status_code == 404 and 'error' in answer.json()
    assert client.get('/healthz').text == 'ok\n'
    assert [client.head(path).status_code for path in ('/healthz', '/v1/models/m', PATH, '/v1')] == [200, 200, 405, 404]
    assert client.post(PATH, json=BODY).status_code == 200
    metrics = client.get('/metrics')
    assert metrics.headers['content-type'].startswith('text/plain; version=0.0.4')
    assert 'serving_requests_total{code="200"} 1\n' in metrics.text and 'serving_requests_in_progress 0\n' in metrics.text


def png(width, height):
    """Returns the head of a PNG file of this size."""
    content = io.BytesIO()
    Image.new('L', (1, 1)).save(content, 'PNG')
    head = b'IHDR' + struct.pack('>II', width, height) + content.getvalue()[24:29]
    return content.getvalue()[:12] + head + struct.pack('>I', zlib.crc32(head)) + content.getvalue()[33:]


@pytest.mark.parametrize('size', [(6000, 9000), (20000, 20000)])  # Pillow refuses to open the latter.
def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(size):
    given = object.__new__(served.ServedModel)
    inputs = Inputs({'image': tf.TensorSpec([None, 2, 2, 1], tf.uint8)}, ('image',))
    given.signatures = {'serving_default': Signature(inputs, {})}
    request = Request('serving_default', {'image': [png(*size)]}, True)
    message = f'picture 0 has {size[0] * size[1]:,} pixels, and at most 50,000,000 are allowed'
    with pytest.raises(served.TooManyPixels, match=message):
        given.to_batch(request)
    code, answer = post(
        model(signatures=given.signatures, to_batch=lambda _: given.to_batch(request)), content='{"instances": [[[0]]]}'
    )
    assert code == 413 and message in answer['error']
