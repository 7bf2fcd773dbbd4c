"""Servers under load: --schedule=serve compared with FastAPI apps around PyTorch and ONNX Runtime.

    python -m benchmarks.serving [--rounds=1] [--seconds=2]

The AlexNet of benchmarks.training answers for one image of MNIST per request, as JSON; 1, 16 and 64 clients in a process of
their own, which shares the cores with the server. The apps compute each request by itself, in a thread or in the event loop;
--schedule=serve computes those that wait as a batch. The first run creates the virtual environment of the peers in .venv-peers.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

from benchmarks.processes import ROOT, instruction_sets, make_environments, median_of_rounds, peer_python, run_peer, run_trainer

CLIENTS = (1, 16, 64)
OURS = '--schedule=serve'
PEERS = {
    'FastAPI, PyTorch': ('torch', 'thread'),
    'FastAPI, PyTorch in the event loop': ('torch', 'loop'),
    'FastAPI, ONNX Runtime': ('onnx', 'thread'),
    'FastAPI, ONNX Runtime in the event loop': ('onnx', 'loop'),
}


@contextlib.contextmanager
def started(name: str, command: Sequence[str], find_port: Callable[[str], int | None]) -> Iterator[int]:
    """Runs a server within the block; yields its port.

    Args:
      name: for messages.
      find_port: returns the port, by what the server has written to stderr; None until it answers.

    Raises:
      SystemExit: the server has ended before it answered.
    """
    with tempfile.TemporaryFile('a+') as log:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log) as process:
            try:
                while (port := find_port(_content(log))) is None:
                    if process.poll() is not None:
                        last = _content(log).splitlines()[-1:] or ['no message']
                        raise SystemExit(f'{name}: the server has not started, with exit code {process.returncode}: {last[0]}')
                    time.sleep(0.1)
                yield port
            finally:
                process.terminate()


def _content(file):
    file.seek(0)
    return file.read()


def ours(output_dir: str) -> contextlib.AbstractContextManager[int]:
    """Serves the run in an output_dir; yields the port."""

    def find_port(log):
        found = re.search(r'Serving step \d+: http://.*?:(\d+),', log)
        return int(found[1]) if found else None

    command = [sys.executable, os.path.join(ROOT, 'trainer.py'), '--schedule=serve', '--port=0', f'--output_dir={output_dir}']
    return started(OURS, command, find_port)


def peer(kind: str, place: str) -> contextlib.AbstractContextManager[int]:
    """Serves the app of a peer; yields the port."""
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]

    def find_port(log):
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(('127.0.0.1', port)):
            return port

    script = os.path.join(ROOT, 'benchmarks', 'peers', 'http_app.py')
    return started(f'{kind}, {place}', [peer_python('serving'), script, kind, place, str(port)], find_port)


def measure(server: Callable[[], contextlib.AbstractContextManager[int]], seconds: float) -> dict[str, float]:
    """Returns {'speed CLIENTS': requests per second, 'p50 CLIENTS' and 'p99 CLIENTS': ms}."""
    result = {}
    with server() as port:
        for clients in CLIENTS:
            found = run_peer('serving', 'http_client.py', port, clients, seconds)
            result |= {
                f'speed {clients}': found['requests_per_second'],
                **{f'{key} {clients}': found[key] for key in ('p50', 'p99')},
            }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=1)
    parser.add_argument('--seconds', type=float, default=2)
    arguments = parser.parse_args()
    make_environments('serving')
    with tempfile.TemporaryDirectory() as directory:
        output_dir = os.path.join(directory, 'output')
        flags = [f'--data_dir={os.path.join(directory, "data")}', '--schedule=train', '--train_steps=1']
        run_trainer('--model=alexnet', '--dataset=mnist', *flags, f'--output_dir={output_dir}')
        runs = {OURS: lambda: measure(lambda: ours(output_dir), arguments.seconds)}
        for name, call in PEERS.items():
            runs[name] = lambda call=call: measure(lambda: peer(*call), arguments.seconds)
        found = median_of_rounds(runs, arguments.rounds)
    print(f'{instruction_sets()}; {arguments.rounds} rounds\n')
    print('| server, clients | requests/s | of ours | ms, p50 | ms, p99 |\n| --- | --- | --- | --- | --- |')
    for clients in CLIENTS:
        for name, one in found.items():
            speed, ratio = one[f'speed {clients}'], one[f'speed {clients}'] / found[OURS][f'speed {clients}']
            times = f'{one[f"p50 {clients}"]:.2f} | {one[f"p99 {clients}"]:.2f}'
            print(f'| {name}, {clients} | {speed:,.0f} | {ratio:.2f} | {times} |')


if __name__ == '__main__':
    main()
