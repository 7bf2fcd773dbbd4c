"""Clients of a server that each wait for an answer before the next request: python http_client.py PORT CLIENTS SECONDS

They send an image of random pixels to /v1/models/alexnet:predict, over a connection of their own. Prints a JSON object:
requests_per_second, and the latencies p50 and p99, in ms. The first second does not count.
"""

import asyncio
import json
import random
import sys
import time

WARM_UP = 1


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    """Sends a request and reads its answer."""
    writer.write(request)
    head = await reader.readuntil(b'\r\n\r\n')
    assert head.startswith(b'HTTP/1.1 200 '), head
    length = next(int(line[15:]) for line in head.lower().split(b'\r\n') if line.startswith(b'content-length:'))
    await reader.readexactly(length)


async def client(port: int, request: bytes, end: float, found: list[tuple[float, float]]) -> None:
    """Adds (the time of each answer, the seconds that it took)."""
    reader, writer = await asyncio.open_connection('127.0.0.1', port)
    while (start := time.perf_counter()) < end:
        await ask(reader, writer, request)
        now = time.perf_counter()
        found.append((now, now - start))
    writer.close()


async def main(port: int, clients: int, seconds: float) -> None:
    random.seed(0)
    image = [[[random.randrange(256)] for _ in range(28)] for _ in range(28)]
    body = json.dumps({'instances': [image]}).encode()
    lines = [
        'POST /v1/models/alexnet:predict HTTP/1.1',
        'Host: x',
        'Content-Type: application/json',
        f'Content-Length: {len(body)}',
    ]
    request = '\r\n'.join([*lines, '\r\n']).encode() + body
    found: list[tuple[float, float]] = []
    start = time.perf_counter() + WARM_UP
    await asyncio.gather(*(client(port, request, start + seconds, found) for _ in range(clients)))
    took = sorted(duration for at, duration in found if start <= at <= start + seconds)
    p50, p99 = (took[int(len(took) * share)] * 1000 for share in (0.5, 0.99))
    print(json.dumps({'requests_per_second': len(took) / seconds, 'p50': p50, 'p99': p99}))


if __name__ == '__main__':
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
