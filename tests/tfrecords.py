"""TFRecord files built byte by byte, for the tests of damaged ones."""

import struct


def masked_crc(data):
    """Returns the CRC-32C (Castagnoli) of bytes, masked as in the format; 4 bytes."""
    crc = 0xFFFFFFFF
    for bit in (byte >> i & 1 for byte in data for i in range(8)):
        crc = crc >> 1 ^ (0x82F63B78 if (crc ^ bit) & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack('<I', ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def header(length):
    """Returns the 12 bytes with which a record of this length begins."""
    packed = struct.pack('<Q', length)
    return packed + masked_crc(packed)


def record(data):
    """Returns a whole record."""
    return header(len(data)) + data + masked_crc(data)
