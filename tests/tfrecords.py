"""TFRecord files made by hand, byte for byte, for the tests of damaged ones."""

import struct

import numpy as np


def _table():
    entries = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        entries = np.where(entries & 1, entries >> 1 ^ np.uint32(0x82F63B78), entries >> 1).astype(np.uint32)
    return entries.tolist()


_TABLE = _table()


def masked_crc(data):
    """Returns the CRC-32C (Castagnoli) of bytes, rotated and shifted as the format has it; 4 bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack('<I', ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def header(length):
    """Returns the 12 bytes with which a record of this length begins."""
    packed = struct.pack('<Q', length)
    return packed + masked_crc(packed)


def record(data):
    """Returns a whole record."""
    return header(len(data)) + data + masked_crc(data)
