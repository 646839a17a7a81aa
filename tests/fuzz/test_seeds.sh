#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every seed of every fuzz target once, without libFuzzer: what was found before stays mended.
. "$(dirname "$0")/../lib.sh"
for seeds in "$top"/tests/fuzz/seeds/*/; do
    target=$(basename "$seeds")
    check "seeds of $target" "$build/tests/fuzz_$target" "$seeds"*
done
finish
