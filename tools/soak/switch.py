"""A network switch in user space that drops what it is told to; `Network` starts it: switch.py INTERFACE ...

Each line on stdin replaces the rules: a JSON list of [from, to, kind], of interfaces or '*' for all. The kind is 'all', for all
frames, 'new' for the first packet of TCP connections, as a firewall drops them, or 'old' for connections that began before the
rules.
"""

import json
import selectors
import socket
import sys

_ALL_PROTOCOLS, _HEADER_OPTION, _HEADER_SIZE = 3, 15, 10  # ETH_P_ALL; PACKET_VNET_HDR, which passes checksums and large frames.
_SOL_PACKET, _OUTGOING = 263, 4
_MAX_FRAME = 70_000


def begins_connection(frame: bytes) -> bool:
    """Whether an Ethernet frame is the first packet of a TCP connection over IPv4."""
    if frame[12:14] != b'\x08\x00' or frame[23] != socket.IPPROTO_TCP:
        return False
    flags = frame[14 + 4 * (frame[14] & 15) + 13]
    return flags & 0x12 == 0x02  # SYN without ACK.


def connection_of(frame: bytes) -> frozenset[bytes] | None:
    """Returns the two ends of the TCP connection of a frame, or None."""
    if frame[12:14] != b'\x08\x00' or frame[23] != socket.IPPROTO_TCP:
        return None
    ports = 14 + 4 * (frame[14] & 15)
    return frozenset([frame[26:30] + frame[ports : ports + 2], frame[30:34] + frame[ports + 2 : ports + 4]])


def is_dropped(rules, sender, receiver, frame, begun):
    connection = connection_of(frame)
    for start, end, kind in rules:
        if start in ('*', sender) and end in ('*', receiver):
            if kind == 'all' or kind == 'new' and begins_connection(frame):
                return True
            if kind == 'old' and connection and connection not in begun:
                return True
    return False


def open_interface(name):
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    opened.setsockopt(_SOL_PACKET, _HEADER_OPTION, 1)
    opened.bind((name, 0))
    return opened


def main(names):
    sockets = {name: open_interface(name) for name in names}
    places, rules, begun = {}, [], set()  # The interface of each hardware address; connections since the rules.
    with selectors.DefaultSelector() as selector:
        for name, each in sockets.items():
            selector.register(each, selectors.EVENT_READ, name)
        selector.register(sys.stdin, selectors.EVENT_READ)
        print('ready', flush=True)
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    line = sys.stdin.readline()
                    if not line:
                        return
                    rules, begun = json.loads(line), set()
                    print('done', flush=True)
                    continue
                data, (_, _, kind, *_) = sockets[key.data].recvfrom(_MAX_FRAME)
                frame = data[_HEADER_SIZE:]
                if kind == _OUTGOING:
                    continue
                places[frame[6:12]] = key.data
                if begins_connection(frame):
                    begun.add(connection_of(frame))
                to = places.get(frame[:6])
                for receiver in [to] if to else set(names) - {key.data}:
                    if receiver != key.data and not is_dropped(rules, key.data, receiver, frame, begun):
                        sockets[receiver].send(data)


if __name__ == '__main__':
    main(sys.argv[1:])
