#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the SHA-256 of all that the kernels' binary is made of but the compiler.
cd "$(dirname "$0")/.." || exit 3
cat codecs/codec.h codecs/floats.h codecs/formats.def codecs/scalar.h kernels/*.cu kernels/*.cuh kernels/kernels.h | sha256sum | cut -c 1-64
