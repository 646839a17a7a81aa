#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Threads that call at once, contexts that come and go, under the thread sanitizer: `make test-tsan`, not
# a part of `make test`. gloo is not built with the sanitizer, which therefore cannot see what its
# locks order: what gloo itself reads and writes is left out.
. "$(dirname "$0")/lib.sh"
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:exitcode=66
# The sanitizer of older compilers cannot work where addresses are very random.
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
