#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Threads that call at once, under the thread sanitizer, by every algorithm: `make test-tsan`, not a
# part of `make test`.
#
# Open MPI is not built with the sanitizer, which therefore cannot see what its locks and atomics
# order: ignore_noninstrumented_modules leaves out what Open MPI itself reads and writes. Nothing
# else is suppressed.
. "$(dirname "$0")/../lib.sh"
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:exitcode=66
export COMPSHIM_POLICY=$scratch/policy.ini
# The sanitizer of older compilers cannot work where addresses are very random.
fixed=()
setarch -R true 2>/dev/null && fixed=(setarch -R)

for way in "fp8_e4m3 two_shot" "int8 allgather" "fp16 allreduce" "bf16 allreduce" "fp16 hierarchical"; do
    read -r codec algorithm <<<"$way"
    policy "$scratch/policy.ini" "$codec" "$algorithm"
    LIMIT=300 expect "$codec by $algorithm, 3 ranks" 0 shimmed 3 COMPSHIM_REPORT=summary \
        "${fixed[@]}" "$build/tests/mpi_threads"
    contains "the sums are right" "work done, 0 failures"
    contains "it was compressed" "$algorithm"
done
finish
