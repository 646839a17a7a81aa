#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs concurrent calls of several threads under the thread sanitizer, by two_shot, one_shot, cast and hierarchical:
# `make test-tsan`, not part of `make test`.
#
# Open MPI is not built with the sanitizer, so the ordering by its atomics is invisible.
# ignore_noninstrumented_modules leaves out Open MPI's own reads and writes, tsan.supp the ordering by its locks. The
# shim never relies on MPI alone to pass data between threads.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/nodes.sh"
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:exitcode=66:suppressions=$top/tests/mpi/tsan.supp
export COMPSHIM_POLICY=$scratch/policy.ini
# Older compilers' sanitizers fail if addresses are fully randomized.
fixed=()
setarch -R true 2>/dev/null && fixed=(setarch -R)

# calls_at_once CODEC ALGORITHM COMMAND...: runs the threads; COMMAND launches the ranks
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
