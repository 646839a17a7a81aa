# SPDX-License-Identifier: Apache-2.0
"""Prints a line for each image in a fat binary: "elf 90 version 7 lz4", "ptx 90 version 8.0 plain". An elf's version
is that of its ABI. The layout is undocumented: it is that of nvcc 11 to 13. Unexpected values are errors."""
import struct
import sys

data = open(sys.argv[1], "rb").read()
magic, version, header, size = struct.unpack_from("<IHHQ", data)
assert (magic, version, header + size) == (0xBA55ED50, 1, len(data)), "no fat binary"
position = header
while position < len(data):
    kind, _, length, payload = struct.unpack_from("<HHIQ", data, position)
    minor, major, architecture = struct.unpack_from("<HHI", data, position + 24)
    (flags,) = struct.unpack_from("<Q", data, position + 40)
    compression = {0: "plain", 0x2000: "lz4", 0x8000: "zstd"}[flags & 0xA000]
    word = data[position + length : position + length + 4]
    assert (compression == "zstd") == (word == bytes.fromhex("28b52ffd")), "unexpected flags"
    name = {1: f"ptx {architecture} version {major}.{minor}", 2: f"elf {architecture} version {minor}"}[kind]
    print(name, compression)
    position += length + payload
