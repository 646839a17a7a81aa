# SPDX-License-Identifier: Apache-2.0
"""Reads the files of the MNIST database, for the MNIST trainers of this folder."""
import gzip
import os

import numpy


def read_idx(folder, name):
    """Returns the array in the IDX file of this name, gzipped or not."""
    path = os.path.join(folder, name)
    if os.path.exists(path):
        opened = open(path, "rb")
    elif os.path.exists(path + ".gz"):
        opened = gzip.open(path + ".gz", "rb")
    else:
        raise SystemExit(f"{path}: no such file, nor {name}.gz; --data must name the folder of the MNIST files")
    with opened as file:
        data = file.read()
    # Two zeros, the element type (8: unsigned bytes), the number of dimensions, then their lengths.
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise SystemExit(f"{path}: not an IDX file of unsigned bytes")
    begin = 4 + 4 * data[3]
    shape = numpy.frombuffer(data, ">u4", data[3], 4).astype(int) if len(data) >= begin else [0]
    if len(data) - begin != numpy.prod(shape):
        raise SystemExit(f"{path}: has {len(data)} bytes, which does not match its header")
    return numpy.frombuffer(data, numpy.uint8, offset=begin).reshape(shape)


def read_digits(folder, part):
    """Returns images, as rows of numbers from 0 to 1, and their labels; part is train or t10k."""
    images = read_idx(folder, f"{part}-images-idx3-ubyte")
    labels = read_idx(folder, f"{part}-labels-idx1-ubyte")
    if len(images) != len(labels):
        raise SystemExit(f"{folder}: {len(images)} images but {len(labels)} labels in the files {part}-*")
    return images.reshape(len(images), -1).astype(numpy.float32) / 255, labels
