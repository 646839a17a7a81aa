#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the SHA-256 of the source of the kernels' binary, without comments and differences of white space.
cd "$(dirname "$0")/.." || exit 3
cat codecs/codec.h codecs/floats.h codecs/formats.def codecs/scalar.h kernels/*.cu kernels/*.cuh kernels/kernels.h | python3 -c '
import hashlib, re, sys
code = re.sub(r"/\*.*?\*/|//[^\n]*", " ", sys.stdin.read(), flags=re.S)
print(hashlib.sha256(" ".join(code.split()).encode()).hexdigest())'
