#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks MPI_Allreduce_c, MPI_Alltoallv_c and related functions with 64-bit counts: they are compressed or counted
# like those with int counts. A program that finds them only in the preload, because its MPI has none, must work too.
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_large_counts
has_them=yes
nonblocking=0 # number of compressed calls among MPI_Iallreduce_c and the start of MPI_Allreduce_init_c's request
compresses_nonblocking "$program" && nonblocking=2
if [ "$MPI" = openmpi ]; then
    has_them=no
    expect "a program that can do without" 0 mpi 2 "$program" 1000
    contains "finds none natively" "this MPI has no large counts"
else
    expect "natively the sums are right" 0 mpi 3 "$program" 100000
    expect "natively those of arrays are right" 0 mpi 3 "$program" arrays
fi

policy "$scratch/policy.ini" fp8_e4m3
export COMPSHIM_POLICY=$scratch/policy.ini COMPSHIM_REPORT=$scratch/report.json
expect "each function" 0 shimmed 3 "$program" 100000
contains "is right" "work done, 0 failures"
check "and compressed" test "$(json 'sorted((x["collective"], x["calls"]) for x in r["rows"])')" = \
    "[('allreduce', $((1 + nonblocking))), ('reduce', 1), ('reduce_scatter', 2)]"
check "or passed through by a reason" test "$(json 'r["passed_through"].get("nonblocking", 0)')" = $((2 - nonblocking))
check "the others are counted in the rows of their kin" test \
    "$(json 'sorted((k, v["calls"], v["bytes"]) for k, v in r["not_compressed"].items())')" = \
    "[('MPI_Allgather', 1, 8), ('MPI_Alltoall', 1, 8), ('MPI_Bcast', 2, 4024), ('MPI_Gather', 1, 8), ('MPI_Ibcast', 1, 4000), ('MPI_Ireduce', 1, 4000), ('MPI_Scan', 1, 4000), ('MPI_Scatter', 1, 8)]"
expect "with the shim off" 0 shimmed 3 COMPSHIM=off "$program" 100000
contains "they are right" "work done, 0 failures"

expect "those by arrays of counts" 0 shimmed 3 "$program" arrays
contains "find everything where it belongs" "work done, 0 failures"
check "and are counted once each" test \
    "$(json 'sorted((k, v["calls"], v["bytes"]) for k, v in r["not_compressed"].items())')" = \
    "[('MPI_Allgatherv', 3, 16), ('MPI_Alltoallv', 4, 0), ('MPI_Alltoallw', 1, 0), ('MPI_Gatherv', 3, 16), ('MPI_Neighbor_allgatherv', 3, 12), ('MPI_Neighbor_alltoallv', 3, 0), ('MPI_Neighbor_alltoallw', 3, 0), ('MPI_Scatterv', 1, 4)]"
expect "with the shim off" 0 shimmed 3 COMPSHIM=off "$program" arrays
contains "too" "work done, 0 failures"

if [ $has_them = no ]; then
    expect "counts beyond those of int" 0 shimmed 2 "$program" beyond
    check "are refused by the caller's error handler" test "$(grep -c ': MPI_ERR_COUNT$' <<<"$output")" = 6
    contains "it says why" "MPI_Bcast_c: this MPI has only MPI_Bcast, and a count or displacement is above its limit of 2147483647"
    expect "counts and displacements in arrays" 0 shimmed 2 "$program" arrays beyond
    contains "those of nothing do not matter" "work done, 0 failures"
    check "are refused by it, too" test "$(grep -c ': MPI_ERR_COUNT$' <<<"$output")" = 14
    contains "it says why, too" "MPI_Alltoallw_c: this MPI has only MPI_Alltoallw, and a count or displacement is above"
fi
finish
