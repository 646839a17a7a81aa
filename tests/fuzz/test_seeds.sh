#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every seed of every fuzz target, and 500 inputs derived from each, without libFuzzer, so that earlier findings
# stay fixed. Each line has a digest of the inputs, by which runs can be compared.
. "$(dirname "$0")/../lib.sh"
export LC_ALL=C # fixed order of the files
cd "$top/tests/fuzz/seeds" || exit
set -o pipefail
for target in *; do
    name="$target, $(find "$target" -type f | wc -l) seeds"
    if output=$(limited "$build/tests/fuzz_$target" -m 500 "$target"/* 2>&1 | tail -n 30); then
        pass "$name: $(tail -n 1 <<<"$output")"
    else
        fail "$name" "$output
once more, from tests/fuzz/seeds: $build/tests/fuzz_$target with the last -k and file above"
    fi
done
finish
