#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the shim writes to no buffer that MPI would not write to, and that calls with one buffer as input and
# output do not hang if the library does not check arguments.
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_buffers
export COMPSHIM_POLICY=$scratch/policy.ini COMPSHIM_REPORT=$scratch/report.json

# constant CODEC COMPRESSED PASSED: broadcasts a constant table and copies of it. COMPRESSED calls must be compressed
# and PASSED passed through as read_only: the table itself, if the codec would round it.
constant() {
    printf '[rule data]\ncollective = broadcast\ncodec = %s\nmin_size = 1KiB\nworth = always\n' "$1" >"$COMPSHIM_POLICY"
    [ "$1" != bounded ] || echo "abs_error = 0.01" >>"$COMPSHIM_POLICY"
    expect "broadcasts of constant memory: $1" 0 shimmed 3 "$program" constant
    reports "are passed through if all ranks would need other elements: $1" \
        "sum(r['calls'] for r in rows) == $2 and passed.get('read_only', 0) == $3"
}
# UCX, which MPICH may use, may fail to send read-only memory.
if mpi 3 "$program" constant >/dev/null 2>&1; then
    constant raw 6 0
    constant lossless 6 0
    for codec in fp16 fp8_e4m3 int8 bounded; do
        constant $codec 3 3
    done
else
    skip "broadcasts of constant memory: the library itself fails"
fi

export OMPI_MCA_mpi_param_check=0 MPIR_CVAR_ERROR_CHECKING=0
codecs_tried="raw fp16"
if ! mpi 3 "$program" one_buffer >/dev/null 2>&1; then
    skip "one buffer given as both: the library always refuses it"
    codecs_tried=
fi
for codec in $codecs_tried; do
    for algorithm in auto one_shot hierarchical cast; do
        printf '[rule all]\ncollective = allreduce, reduce, reduce_scatter\ncodec = %s\nalgorithm = %s\nworth = always\n' \
            $codec $algorithm >"$COMPSHIM_POLICY"
        expect "one buffer given as both by some ranks, in place by others: $codec, $algorithm" 0 \
            shimmed 3 "$program" one_buffer
        check "is compressed" test "$(json 'sum(x["calls"] for x in r["rows"]) > 0')" = True
    done
done
finish
