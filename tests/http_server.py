"""A local HTTP server whose answers the tests choose."""

import contextlib
import http.server
import re
import threading

CONTENT = bytes(i * i % 251 for i in range(200_000))


@contextlib.contextmanager
def serving(*answers):
    """Yields (URL, ranges). Request i gets answers[i], later ones the last; ranges is a list of the requests' Range headers.

    An answer is a function of the http.server.BaseHTTPRequestHandler and the first requested byte.
    """
    ranges = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            wanted = self.headers['Range']
            ranges.append(wanted)
            with contextlib.suppress(ConnectionError):  # The client gave up.
                answers[min(len(ranges), len(answers)) - 1](self, int(re.search(r'\d+', wanted or '0')[0]))

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f'http://127.0.0.1:{server.server_port}/file.bin', ranges
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def send(count=None, content=CONTENT, heeds_range=True, shift=0, then=None):
    """Returns an answer with the content from the requested byte on; if `count` is given, it disconnects after that many bytes.

    Without `heeds_range` it ignores the range; `shift` moves a requested range; `then` is called at the end.
    """

    def answer(handler, begin):
        is_partial = heeds_range and begin > 0
        first = begin + shift if is_partial else 0
        handler.send_response(206 if is_partial else 200)
        if is_partial:
            handler.send_header('Content-Range', f'bytes {first}-{len(content) - 1}/{len(content)}')
        handler.send_header('Content-Length', str(len(content) - first))
        handler.end_headers()
        handler.wfile.write(content[first:] if count is None else content[first : first + count])
        if then:
            handler.wfile.flush()
            then()

    return answer


def fail(code):
    """Returns an answer with an HTTP error."""
    return lambda handler, begin: handler.send_error(code)
