"""Connections that uvicorn would keep forever: with a head of a request that has no end, or with no request; and its errors."""

import asyncio
from collections.abc import Collection, Mapping
import errno
import logging
import math
import resource
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from estimator_trainer.common.serving.app import MAX_SECONDS, error_response

MAX_CONNECTIONS = 1000
_MAX_HEAD = 2**20  # Bytes of a request before its body: the time to parse a header grows with the square of its length.
_TICKS = 10 * MAX_SECONDS  # Of uvicorn, per check.
_NOT_ACCEPTED = 'socket.accept() out of system resource'  # Of asyncio, thousands of times a second.


class Protocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Uvicorn's protocol, which refuses a head that is too large. That of h11 does so itself: it has not these callbacks.

    Its own errors, for what is no request of HTTP and for too many connections, are JSON, as those of the app.
    """

    _head: int | None = None

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        served: Any = self.app  # type: ignore[has-type]
        connections, tasks = self.connections, self.tasks  # A reference to self would be a cycle.

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            is_full = len(connections) >= MAX_CONNECTIONS or len(tasks) > MAX_CONNECTIONS  # This is one of them.
            await (_full() if is_full else served)(scope, receive, send)

        self.app = answer

    def send_400_response(self, msg: str) -> None:
        """Answers, and closes the connection."""
        answer = error_response(400, msg, {'connection': 'close'})
        head = b''.join(b'%s: %s\r\n' % header for header in answer.raw_headers)
        self.transport.write(b'HTTP/1.1 400 Bad Request\r\n%s\r\n%s' % (head, answer.body))
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Counts the bytes of a head that is not complete."""
        super().data_received(data)
        if self._head is not None and not self.transport.is_closing():
            self._head += len(data)
            if self._head > _MAX_HEAD:
                self.send_400_response(f'The head of a request may have at most {_MAX_HEAD} bytes.')

    def on_message_begin(self) -> None:
        """Begins to count."""
        super().on_message_begin()
        self._head = 0

    def on_headers_complete(self) -> None:
        """Ends to count."""
        self._head = None
        super().on_headers_complete()


def _full():
    reason = f'there are {MAX_CONNECTIONS} connections, the most that are served: try again later'
    logging.getLogger('uvicorn.error').warning('Refused a request: %s', reason)
    return error_response(503, reason, {'connection': 'close'})


class Server(uvicorn.Server):
    """Closes connections that have no complete request at two checks in a row, and had none between them.

    While no connection can be accepted, as too many files are open, a line a minute says so; clients wait.
    """

    _silent: Mapping[Any, Any] = {}
    _reported = -math.inf

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Called in the event loop, before it serves."""
        asyncio.get_running_loop().set_exception_handler(self._report)
        await super().startup(sockets)

    def _report(self, loop, context):
        if context['message'] != _NOT_ACCEPTED:
            loop.default_exception_handler(context)
        elif loop.time() - self._reported > MAX_SECONDS:
            self._reported, error = loop.time(), context['exception']
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            cure = f': raise the limit of open files, {limit} (ulimit -n)' if error.errno == errno.EMFILE else ''
            logging.getLogger('uvicorn.error').warning('No connection can be accepted: %s%s', error.strerror, cure)

    async def on_tick(self, counter: int) -> bool:
        """Called every 0.1 seconds."""
        if counter % _TICKS == 0:
            found: Collection[Any] = self.server_state.connections
            silent = {one: one.cycle for one in found if one.cycle is None or one.cycle.response_complete}
            for connection, _ in silent.items() & self._silent.items():
                connection.transport.close()
            self._silent = silent
        return await super().on_tick(counter)
