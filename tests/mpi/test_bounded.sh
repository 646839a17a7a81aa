#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the codec bounded keeps a rule's abs_error, for every collective, and by several algorithms.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/nodes.sh"
program=$build/tests/mpi_bounded
all=allreduce,reduce,reduce_scatter,allgather,alltoall,broadcast

# bounded BOUND [KEY=VALUE]: writes the policy
bounded() {
    printf '[rule fields]\ncollective = %s\ncodec = bounded\nabs_error = %s\n%s\n' $all "$1" "${2-}" \
        >"$scratch/policy.ini"
}
# keeps RANKS COUNT BOUND [KEY=VALUE]: checks that all six collectives are compressed, and that no element is off by more
# than BOUND for each rank that is added
keeps() {
    bounded "$3" "${4-}"
    expect "$2 elements on $1 ranks within $3${4:+, $4}" 0 shimmed "$1" COMPSHIM_REPORT="$scratch/report.json" \
        COMPSHIM_POLICY="$scratch/policy.ini" "$program" "$2" "$3"
    reports "all six collectives were compressed" \
        "[r['calls'] for r in rows if r['codec'] == 'bounded'] == 12 * [4] and {r['collective'] for r in rows} == set('$all'.split(','))"
}
# sums NAME PYTHON: checks the rows of all-reduces, in float32 and in float64
sums() { reports "$1" "[$2 for r in rows if r['collective'] == 'allreduce'] == [True, True]"; }
for ranks in 2 3 5; do
    keeps $ranks 30001 1e-4
done
keeps 4 1000 3e-3 "algorithm = one_shot"
sums "by one_shot" "r['algorithm'] == 'one_shot'"
keeps 4 30001 1.9 "algorithm = two_shot"
sums "by two_shot" "r['algorithm'] == 'two_shot'"
keeps 4 30001 1e-4 "gather_codec = lossless"
sums "sums are sent without loss, in more bytes" "1.2 < r['bytes_native'] / r['bytes_wire'] < 2"
keeps 3 30001 1e-4 "check_ranks = 1"
sums "ranks are compared" "r['ranks_checked'] == {'calls': 4, 'different': 0}"
keeps 3 30001 1e-4 "verify = 1"
sums "results are verified" "r['verified']['calls'] == 4"
reports "bytes on the wire are fewer" \
    '[r["bytes_wire"] * 1.2 < r["bytes_native"] for r in rows if r["collective"] in ("allgather", "alltoall")] == 4 * [True]'
if can_make_nodes; then
    bounded 1e-4 "algorithm = hierarchical"
    expect "hierarchical, on two nodes" 0 on_nodes here:2,there:2 COMPSHIM_REPORT="$scratch/report.json" \
        COMPSHIM_POLICY="$scratch/policy.ini" "$program" 30001 1e-4
    sums "the nodes' sums are compressed" "r['algorithm'] == 'hierarchical' and r['bytes_network'] > 0"
else
    skip "this user cannot give a process a hostname: hierarchical on two nodes"
fi
# Counter-check: the program reports a bound that is exceeded.
bounded 1e-3
expect "a bound that is exceeded is found" 1 shimmed 3 COMPSHIM_POLICY="$scratch/policy.ini" "$program" 3000 1e-4
contains "with the collective that exceeds it" "allreduce, kind 0"
finish
