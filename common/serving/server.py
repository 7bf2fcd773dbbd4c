"""The server process: its socket, its end on a signal, and the checkpoints that it follows."""

import errno
import socket
import threading
from typing import Any

import tensorflow.compat.v1 as tf
import uvicorn

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.serving import connections
from estimator_trainer.common.serving.app import MAX_SECONDS
from estimator_trainer.common.serving.served import ServedModel
from estimator_trainer.common.stop import StopOnSignal

_POLL_SECONDS = 0.1
_RELOAD_SECONDS = 1


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens, at a free port if it is 0; clients wait until they are served.

    Raises:
      UsageError: there is no such host, or the port is taken or not allowed.
    """
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        listener = socket.create_server(address[:2], family=family, backlog=connections.MAX_CONNECTIONS)
        # For its connections: without uvloop, the body of an answer would wait 40 ms for the client to confirm the head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except socket.gaierror as error:
        raise UsageError(f'--host={host}: {error.strerror}') from None
    except UnicodeError:  # Of the encoding of a name, before it is looked up.
        raise UsageError(f'--host={host}: the parts of a name between dots have 1 to 63 characters') from None
    except OSError as error:
        cures = {
            errno.EADDRINUSE: 'is taken by another process: give another, or 0 for any free one',
            errno.EACCES: 'is not allowed: give one of 1024 or more',
        }
        if error.errno in cures:
            raise UsageError(f'--port={port}: {cures[error.errno]}') from None
        raise UsageError(f'--host={host}: {error.strerror}: it must be an address of this machine') from None


def url_of(listener: socket.socket) -> str:
    """Returns the URL at which a socket listens."""
    host, port = listener.getsockname()[:2]
    return f'http://[{host}]:{port}' if ':' in host else f'http://{host}:{port}'


def make_server(app: Any) -> uvicorn.Server:
    """Returns the server of an ASGI app."""
    config = uvicorn.Config(
        app,
        http=connections.Protocol,
        log_config=None,
        access_log=False,
        lifespan='off',
        ws='none',
        timeout_graceful_shutdown=2 * MAX_SECONDS,
    )
    return connections.Server(config)


def serve(app: Any, listener: socket.socket, model: ServedModel, stop: StopOnSignal, follows: bool) -> None:
    """Serves until a signal; then answers the requests in progress.

    Args:
      app: an ASGI app.
      follows: whether newer checkpoints are loaded.

    Raises:
      RunError: the server has ended by itself.
    """
    server = make_server(app)
    # Not in the main thread, in which it would handle signals itself.
    thread = threading.Thread(target=server.run, args=([listener],), name='server', daemon=True)
    ended = threading.Event()
    follower = threading.Thread(target=_follow, args=(model, ended), name='checkpoints', daemon=True)
    with stop.defer_signals():
        thread.start()
        if follows:
            follower.start()
        while thread.is_alive() and not stop.received:
            thread.join(_POLL_SECONDS)
        if stop.received:
            tf.logging.info('Stopping after the requests in progress.')
        server.should_exit = True
        ended.set()
        thread.join()
        model.close()
        if follows:
            follower.join()
    if not stop.received:
        raise RunError('the server has ended by itself')


def _follow(model, ended):
    while not ended.wait(_RELOAD_SECONDS):
        model.reload()
