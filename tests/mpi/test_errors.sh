#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks errors of the MPI library in calls that the shim makes: the program sees each once, as natively, and goes on.
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_errors

# each NAME RANKS CALLS [VARIABLE=VALUE...]: makes each library call of the shim fail
each() {
    expect "$1: one library call after the other fails" 0 mpi "$2" MALLOC_PERTURB_=85 \
        LD_PRELOAD="$build/tests/standin_nodes.so:$preload:$build/tests/standin_refuse.so" \
        COMPSHIM_POLICY="$scratch/policy.ini" "${@:4}" "$program" each "$3"
    contains "$1: the program sees each error once" "work done, 0 failures"
    check "$1: more than 20 fail" test "$(sed -n 's/ library calls were refused//p' <<<"$output")" -gt 20
}
rules='[rule sums]\ncodec = fp8_e4m3\n[rule moves]\ncollective = allgather, alltoall, broadcast\ncodec = fp16\n'
# shellcheck disable=SC2059
printf "$rules" >"$scratch/policy.ini"
each "by the rule" 2 1
each "measured" 2 40 COMPSHIM_MACHINE=
# shellcheck disable=SC2059
printf "${rules/fp8_e4m3/fp8_e4m3\\nalgorithm = hierarchical}" >"$scratch/policy.ini"
each "hierarchical" 4 1 STANDIN_NODES=0,0,1,1

compresses_nonblocking "$program" || {
    skip "errors of nonblocking calls: the shim cannot progress them with this MPI"
    finish
}
policy "$scratch/policy.ini" fp8_e4m3
if only_open_mpi "a call of one rank that is refused (MPICH may not look)"; then
    expect "a call of one rank that is refused" 0 shimmed 3 COMPSHIM_POLICY="$scratch/policy.ini" "$program" alone
fi
if only_open_mpi "an error handler that makes calls"; then
    expect "an error handler that makes calls" 0 mpi 3 MALLOC_PERTURB_=85 LD_PRELOAD="$preload:$build/tests/standin_refuse.so" \
        COMPSHIM_POLICY="$scratch/policy.ini" "$program" waiting
    contains "is called once for an error" "work done, 0 failures"
    contains "the failed call is logged" "a nonblocking call failed on rank 0"
fi
native=$(mpi 2 "$program" cancel 2>&1)
check "cancelling is refused natively" grep -q "^MPI_Cancel: class [1-9]" <<<"$native"
expect "and with the shim" 0 shimmed 2 COMPSHIM_POLICY="$scratch/policy.ini" "$program" cancel
only_open_mpi "which error cancelling gives" &&
    check "cancelling gives the same error" diff <(printf '%s\n' "$native") <(printf '%s\n' "$output")

output=$(shimmed 3 COMPSHIM_POLICY="$scratch/policy.ini" "$program" mismatch 2>&1)
case $? in
0 | 124 | 137) fail "a mismatch ends the job" "$output" ;;
*) pass "a mismatch ends the job" ;;
esac
if ! mpich_reports_mismatch; then
    contains "it shows one view" "100000 x float32"
    contains "and the other" "50000 x float32"
fi
finish
