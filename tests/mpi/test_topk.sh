#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the codec topk sends the contents of residuals in later calls, by one_shot, two_shot and hierarchical.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/nodes.sh"
program=$build/tests/mpi_topk

# topk KEEP [KEY=VALUE...]: writes the policy
topk() {
    printf '[rule fields]\nmin_size = 8KiB\ncodec = topk\nkeep = %s\nerror_feedback = on\n' "$1" \
        >"$scratch/policy.ini"
    printf '%s\n' "${@:2}" >>"$scratch/policy.ini"
}
# arrives RANKS KEEP [KEY=VALUE...]: checks that 120 sums have everything but what the residuals may hold (mpi_topk)
arrives() {
    topk "${@:2}"
    expect "$2 of 256 elements on $1 ranks${3:+, ${*:3}}" 0 shimmed "$1" COMPSHIM_REPORT="$scratch/report.json" \
        COMPSHIM_POLICY="$scratch/policy.ini" "$program" "$2" 120
    compressed
}
# compressed: checks that both collectives are compressed
compressed() {
    reports "two collectives were compressed" \
        "sorted((r['collective'], r['codec'], r['calls']) for r in rows) == [('allreduce', 'topk', 120), ('reduce_scatter', 'topk', 120)]"
}
# sums NAME PYTHON: checks the row of all-reduces
sums() { reports "$1" "[$2 for r in rows if r['collective'] == 'allreduce'] == [True]"; }
arrives 2 32
arrives 3 64
arrives 4 32 "algorithm = one_shot"
sums "by one_shot" "r['algorithm'] == 'one_shot'"
arrives 4 32 "algorithm = two_shot" "gather_codec = fp16"
sums "sums are sent in fp16, in more bytes" "2 < r['bytes_native'] / r['bytes_wire'] < 4"
arrives 4 32 "algorithm = two_shot"
sums "by two_shot" "r['algorithm'] == 'two_shot'"
arrives 4 4 "algorithm = two_shot"
sums "4 of 256 are sent in 40 times fewer bytes, also in short messages" "r['bytes_wire'] * 40 < r['bytes_native']"
if can_make_nodes; then
    topk 32 "algorithm = hierarchical"
    expect "hierarchical, on two nodes" 0 on_nodes here:2,there:2 COMPSHIM_REPORT="$scratch/report.json" \
        COMPSHIM_POLICY="$scratch/policy.ini" "$program" 32 120
    compressed
    sums "by hierarchical" "r['algorithm'] == 'hierarchical'"
else
    skip "this user cannot give a process a hostname: hierarchical on two nodes"
fi
# Without memory for residuals, messages are longer and lose only the rounding of int4.
topk 4 "algorithm = two_shot"
sed -i '1i [compshim]\nfeedback_memory = 1KiB' "$scratch/policy.ini"
expect "no memory for residuals" 0 shimmed 3 COMPSHIM_REPORT="$scratch/report.json" COMPSHIM_POLICY="$scratch/policy.ini" \
    "$program" 4 120
contains "which is said" "no memory for another residual"
sums "all elements are sent" "2 < r['bytes_native'] / r['bytes_wire'] < 3"
finish
