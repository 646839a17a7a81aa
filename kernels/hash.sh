#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints a SHA-256 of the sources of the kernels' binary, without comments and with single spaces between words, so that
# only a change of the code makes results measured on a GPU stale. The compiler's version is not part of it.
cd "$(dirname "$0")/.." || exit 3
# One line with an open comment gets the next line appended until the comment ends.
cat codecs/codec.h codecs/floats.h codecs/formats.def codecs/scalar.h kernels/*.cu kernels/*.cuh kernels/kernels.h |
    sed -E ':next
        s:/\*([^*]|\*+[^*/])*\*+/: :g
        /\/\*/ { N; b next
        }' |
    sed -E 's/[[:space:]]+/ /g; s/^ //; s/ $//; /^$/d' | sha256sum | cut -c 1-64
