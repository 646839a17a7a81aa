#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Threads that call at once, under the thread sanitizer, by every algorithm: `make test-tsan`, not a
# part of `make test`.
#
# Open MPI is not built with the sanitizer, which therefore cannot see what its atomics order:
# ignore_noninstrumented_modules leaves out what Open MPI itself reads and writes, and tsan.supp what
# its locks order. No data of the shim's passes between threads by MPI alone.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/nodes.sh"
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:exitcode=66:suppressions=$top/tests/mpi/tsan.supp
export COMPSHIM_POLICY=$scratch/policy.ini
# The sanitizer of older compilers cannot work where addresses are very random.
fixed=()
setarch -R true 2>/dev/null && fixed=(setarch -R)

# calls_at_once CODEC ALGORITHM COMMAND...
calls_at_once() {
    local codec=$1 algorithm=$2
    shift 2
    policy "$scratch/policy.ini" "$codec" "$algorithm"
    expect "$codec by $algorithm" 0 "$@" COMPSHIM_REPORT=summary \
        "${fixed[@]}" "$build/tests/mpi_threads"
    contains "the sums are right" "work done, 0 failures"
    contains "it was compressed" "$algorithm"
}
calls_at_once fp8_e4m3 two_shot shimmed 3
calls_at_once fp8_e5m2 one_shot shimmed 3
calls_at_once fp16 cast shimmed 3
calls_at_once bf16 cast shimmed 3
if can_make_nodes; then
    calls_at_once fp16 hierarchical on_nodes here:2,there:1
else
    skip "this user cannot give a process a hostname: hierarchical"
fi
finish
