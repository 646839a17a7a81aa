#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a data set in MNIST's format, for very short trainings: few_digits.py DIRECTORY. It has 128 images of noise to
train with, and 64 to test.
"""
import os
import random
import struct
import sys

directory = sys.argv[1]
os.makedirs(directory, exist_ok=True)
random.seed(1)
for name, count in (("train", 128), ("t10k", 64)):
    with open(f"{directory}/{name}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">4I", 0x803, count, 28, 28) + random.randbytes(count * 28 * 28))
    with open(f"{directory}/{name}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">2I", 0x801, count) + bytes(i % 10 for i in range(count)))
