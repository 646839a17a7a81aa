#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs concurrent calls, and contexts that come and go, under the thread sanitizer: `make test-tsan`, not part of
# `make test`. gloo is not built with the sanitizer, so the ordering by its locks is invisible; gloo's own reads and
# writes are left out.
. "$(dirname "$0")/lib.sh"
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:exitcode=66
# Older compilers' sanitizers fail if addresses are fully randomized.
fixed=()
setarch -R true 2>/dev/null && fixed=(setarch -R)
for options in "fp8_e4m3 two_shot" "raw one_shot" "fp16 cast" "bf16 auto"; do
    rule "codec = ${options% *}" "algorithm = ${options#* }"
    for seed in 1 2 3; do
        expect "seed $seed, $options" 0 preloaded 3 "${fixed[@]}" "$build/tests/gloo_mix" $seed 40
        reports "it was compressed" 'rows[0]["calls"] > 0'
    done
done
expect "processes are made while calls run" 0 preloaded 3 "${fixed[@]}" "$build/tests/gloo_cases" fork
finish
