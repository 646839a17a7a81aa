# SPDX-License-Identifier: Apache-2.0
"""Calls a stub in a library with hidden symbols, and prints the file of the function that the stub jumps to: stubs.py
LIBRARY FUNCTION TABLE. FUNCTION is the stub, TABLE the array of the stubs' targets; both names are in LIBRARY's symbol
table. NCCL rejects the call, because its arguments are invalid.
"""
import ctypes
import os
import re
import subprocess
import sys

library, function, table = sys.argv[1:]
listed = subprocess.run(["readelf", "-sW", library], capture_output=True, text=True, check=True).stdout
symbols = {words[7]: int(words[1], 16) for words in map(str.split, listed.splitlines()) if len(words) == 8 and words[7] in (function, table)}
loaded = ctypes.CDLL(library)


def mappings():
    for line in open("/proc/self/maps"):
        found = re.match(r"(\w+)-(\w+) \S+ (\w+) \S+ \S+ *(.*)", line)
        yield int(found[1], 16), int(found[2], 16), int(found[3], 16), found[4]


base = next(begin for begin, _, offset, name in mappings() if offset == 0 and name == os.path.realpath(library))
ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_size_t] * 7)(base + symbols[function])(0, 0, 0, 0, 0, 0, 0)
for entry in (ctypes.c_size_t * 16).from_address(base + symbols[table]):
    for begin, end, _, name in mappings():
        if entry and begin <= entry < end:
            print(f"{function} is in {os.path.basename(name)}")
