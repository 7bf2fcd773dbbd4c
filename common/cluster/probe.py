"""The states of other tasks, by what their ports answer."""

from collections.abc import Iterable
import concurrent.futures
import socket

ANSWERS, SILENT, LOST, FOREIGN, UNREACHABLE, UNKNOWN = 'answers', 'silent', 'lost', 'foreign', 'unreachable', 'unknown'

_SECONDS = 2
_SIZE, _TYPE, _STREAM = 9, slice(3, 4), slice(5, 9)  # Of the first bytes of a frame of HTTP/2.
# The beginning of a connection of HTTP/2, with no settings: a server of HTTP/1 says nothing before it is asked.
_GREETING = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + b'\0\0\0\4\0\0\0\0\0'


def host_and_port(address: str) -> tuple[str, str]:
    """Returns the parts of 'host:port' or '[host]:port'."""
    host, _, port = address.rpartition(':')
    return host.strip('[]'), port


def probe(address: str) -> str:
    """Returns the state of the task at an address, 'host:port'.

    ANSWERS: it runs; SILENT: it hangs; LOST: nothing listens there; FOREIGN: something else than a gRPC server answers;
    UNREACHABLE: its host does not answer; UNKNOWN: nobody knows the address of its host.
    """
    host, port = host_and_port(address)
    try:
        connection = socket.create_connection((host, int(port)), _SECONDS)
    except ConnectionRefusedError:
        return LOST
    except (socket.gaierror, UnicodeError):  # The latter: a part of the name is too long.
        return UNKNOWN
    except OSError:
        return UNREACHABLE
    try:
        with connection:
            if connection.getsockname() == connection.getpeername():  # Linux may choose the very port that nobody listens on.
                return LOST
            connection.sendall(_GREETING)
            return _state_by(_read(connection))
    except TimeoutError:
        return SILENT
    except OSError:  # It just ended.
        return LOST


def _read(connection):
    """Returns the first bytes that a server sends."""
    found = connection.recv(_SIZE)
    while found and len(found) < _SIZE and (more := connection.recv(_SIZE - len(found))):
        found += more
    return found


def _state_by(found):
    """Returns the state of a server by its first bytes; one of gRPC begins with its settings."""
    if not found:
        return LOST
    return ANSWERS if (found[_TYPE], found[_STREAM]) == (b'\4', b'\0\0\0\0') else FOREIGN


def probe_all(addresses: Iterable[str]) -> dict[str, str]:
    """Returns the state at each address, see `probe`."""
    found = list(addresses)
    with concurrent.futures.ThreadPoolExecutor(max(len(found), 1)) as pool:
        return dict(zip(found, pool.map(probe, found)))
