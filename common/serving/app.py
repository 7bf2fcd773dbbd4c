"""The HTTP interface: TensorFlow Serving's REST API, /metrics, /healthz and the page."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
import functools
import http
import pathlib
import time
from typing import Any, NamedTuple

from fastapi import FastAPI, HTTPException, Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import first_line, in_one_line, show
from estimator_trainer.common.serving import examples, explanation, rest
from estimator_trainer.common.serving.batching import Arrays
from estimator_trainer.common.serving.metrics import Metrics
from estimator_trainer.common.serving.served import Replaced, ServedModel, TooManyPixels, check_rows

MAX_BYTES = 64 * 2**20  # Of a request.
MAX_SECONDS = 60  # To receive a request, and to answer it.
MAX_IN_PROGRESS = 256  # Requests that are complete, but not answered.
_PAGE = pathlib.Path(__file__).with_name('page.html')
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src blob: data:"
# Threads that read requests and write answers. Large ones, such as photos, have their own, so that small ones need not wait.
_THREADS, _THREADS_OF_LARGE = 4, 2
_LARGE = 2**20  # Bytes.
_TEXT = 'text/plain; version=0.0.4; charset=utf-8'  # Of Prometheus.


class _Verb(NamedTuple):
    """What a request asks for: read(model, body) returns the examples, write(model, request, batch, predictions) the answer."""

    read: Callable[[Any, bytes], rest.Request]
    write: Callable[[Any, rest.Request, Arrays, Arrays], bytes]


def _write_predictions(model, request, batch, found):
    if request.by_row:
        check_rows(found, batch)
    return rest.write_response(found, request.by_row)


def _of_examples(method):
    return _Verb(
        lambda model, body: examples.read_examples(body, model.signatures, method),
        lambda model, request, batch, found: examples.write_results(found, method),
    )


_VERBS: Mapping[str, _Verb] = {
    'predict': _Verb(lambda model, body: rest.read_request(body, model.signatures), _write_predictions),
    'classify': _of_examples(rest.constants.CLASSIFY_METHOD_NAME),
    'regress': _of_examples(rest.constants.REGRESS_METHOD_NAME),
    'explain': _Verb(
        lambda model, body: explanation.variants(rest.read_request(body, model.signatures), model.form),
        lambda model, request, batch, found: explanation.write(request, found, model.form),
    ),
}


class _Refused(Exception):
    def __init__(self, code: int, reason: str):
        super().__init__(reason)
        self.code = code


def make_app(
    model: ServedModel, metrics: Metrics, max_seconds: float = MAX_SECONDS, max_in_progress: int = MAX_IN_PROGRESS
) -> FastAPI:
    """Returns the ASGI app that serves a model.

    Args:
      metrics: counts the requests for predictions.
      max_seconds: to receive a request, and again to answer it.
      max_in_progress: requests that are complete, but not answered.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.add_middleware(_HeadAsGet)
    predictions = _Predictions(model, max_seconds, max_in_progress)

    _add_errors(app)
    _add_pages(app, model, lambda: metrics.text(model.step, predictions.in_progress))
    for verb in _VERBS:
        _add_verb(app, verb, model, metrics, predictions)
    _add_descriptions(app, model)
    return app


class _HeadAsGet:
    """Answers HEAD as GET: the server sends the head of the answer alone (RFC 9110, 9.3.2)."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_head = scope.get('method') == 'HEAD'
        await self._app({**scope, 'method': 'GET'} if is_head else scope, receive, send)


def _add_verb(app, verb, model, metrics, predictions):
    paths = f'/v1/models/{{name}}:{verb}', f'/v1/models/{{name}}/versions/{{step}}:{verb}'

    @app.post(paths[0])
    @app.post(paths[1])
    async def answer(request: Request, name: str, step: str | None = None) -> Response:
        start = time.monotonic()
        try:
            _check_model(model, name, step)
            response = _json(await predictions.answer(_VERBS[verb], request, None if step is None else int(step)))
        except _Refused as error:
            response = error_response(error.code, str(error))
        except ClientDisconnect:
            response = error_response(499, 'the client has gone')
        metrics.answered(response.status_code, time.monotonic() - start)
        return response

    @app.get(paths[0])  # Else the verb would be a part of the model's name.
    @app.get(paths[1])
    async def refuse() -> None:
        raise HTTPException(405, headers={'Allow': 'POST'})


def _add_errors(app):
    @app.exception_handler(404)
    @app.exception_handler(405)
    async def refuse(request: Request, error: Any) -> Response:
        reason, allowed = http.HTTPStatus(error.status_code).phrase, (error.headers or {}).get('Allow')
        reason += f': use {allowed}' if allowed else ''
        return error_response(error.status_code, f'{request.method} {request.url.path}: {reason}', error.headers)

    @app.exception_handler(_Refused)
    async def explain(request: Request, error: Any) -> Response:
        return error_response(error.code, str(error))


def _add_pages(app, model, metrics_text):
    @app.get('/')
    async def show_page() -> Response:
        return Response(_PAGE.read_bytes(), headers={'content-security-policy': _POLICY}, media_type='text/html')

    @app.get('/form')
    async def show_form() -> Response:
        return _json(rest.to_body({**model.form, 'unit': model.unit}))

    @app.get('/healthz')
    async def health() -> Response:
        return Response('ok\n', media_type='text/plain')

    @app.get('/metrics')
    async def show_metrics() -> Response:
        return Response(metrics_text(), headers={'content-type': _TEXT})


def _add_descriptions(app, model):
    @app.get('/v1/models/{name}')
    @app.get('/v1/models/{name}/versions/{step}')
    async def show_status(name: str, step: str | None = None) -> Response:
        _check_model(model, name, step)
        return _json(rest.to_body(rest.status(model.step)))

    @app.post('/v1/models/{name}')
    @app.post('/v1/models/{name}/versions/{step}')
    async def refuse(request: Request) -> None:
        raise _Refused(
            404, f'POST {request.url.path}: Not Found: it must end with one of {", ".join(f":{verb}" for verb in _VERBS)}'
        )

    @app.get('/v1/models/{name}/metadata')
    @app.get('/v1/models/{name}/versions/{step}/metadata')
    async def show_metadata(name: str, step: str | None = None) -> Response:
        _check_model(model, name, step)
        return _json(rest.to_body(rest.metadata(model.name, model.step, model.signatures)))


def _json(body: bytes) -> Response:
    return Response(body, media_type='application/json')


def error_response(code: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """Returns the answer to a request that is refused."""
    return Response(rest.to_body({'error': in_one_line(reason)}), code, headers, 'application/json')


def _check_model(model, name, step):
    if name != model.name:
        raise _Refused(404, f'there is no model {show(name)}; this server has {model.name}')
    if step is not None and step != str(model.step):
        raise _Refused(404, f'{model.name} has no version {show(step)}; version {model.step} is loaded')


class _Predictions:
    """Answers requests for predictions; in_progress is the number of those that are complete, but not answered."""

    def __init__(self, model, max_seconds, max_in_progress):
        self._model, self._max_seconds, self._max_in_progress = model, max_seconds, max_in_progress
        self._threads = ThreadPoolExecutor(_THREADS, 'requests')
        self._threads_of_large = ThreadPoolExecutor(_THREADS_OF_LARGE, 'large requests')
        self.in_progress = 0

    async def answer(self, verb: _Verb, request: Request, step: int | None) -> bytes:
        """Returns the body of the answer; raises _Refused."""
        try:
            body = await asyncio.wait_for(_read_body(request), self._max_seconds)
        except asyncio.TimeoutError:
            raise _Refused(408, f'the request was not complete after {self._max_seconds:g} s') from None
        if self.in_progress >= self._max_in_progress:
            raise _Refused(503, f'{self.in_progress} requests are waiting: try again later')
        self.in_progress += 1
        try:
            return await asyncio.wait_for(self._predict(verb, body, step), self._max_seconds)
        except asyncio.TimeoutError:
            raise _Refused(504, f'there was no answer after {self._max_seconds:g} s') from None
        except TooManyPixels as error:
            raise _Refused(413, str(error)) from None
        except Replaced as error:
            raise _Refused(503, str(error)) from None
        except ValueError as error:
            raise _Refused(400, str(error)) from None
        except tf.errors.InvalidArgumentError as error:
            raise _Refused(400, first_line(error)) from None
        except _Refused:
            raise
        except Exception as error:
            tf.logging.error('A prediction failed: %s: %s', type(error).__name__, error)
            raise _Refused(500, f'the prediction failed: {first_line(error)}') from None
        finally:
            self.in_progress -= 1

    async def _predict(self, verb, body, step):
        model, threads = self._model, self._threads_of_large if len(body) > _LARGE else self._threads
        run = functools.partial(asyncio.get_running_loop().run_in_executor, threads)
        request, batch = await run(_read, verb, model, body)
        found = await asyncio.wrap_future(model.submit(request.signature, batch))
        if step is not None and not model.has_step(step):
            raise _Refused(404, f'version {step} has just been replaced by another')
        return await run(verb.write, model, request, batch, found)


async def _read_body(request):
    """Returns the body of a request."""
    parts, size = [], 0
    if encoding := request.headers.get('content-encoding'):
        raise _Refused(415, f'Content-Encoding: {show(encoding)} is not supported: send the JSON as it is')
    if int(request.headers.get('content-length', 0)) > MAX_BYTES:
        raise _Refused(413, f'a request may have at most {MAX_BYTES:,} bytes')
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise _Refused(413, f'a request may have at most {MAX_BYTES:,} bytes')
    return b''.join(parts)


def _read(verb, model, body):
    request = verb.read(model, body)
    return request, model.to_batch(request)
