#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the ways in which PyTorch uses gloo (gloo_shapes.py): with the shim, results and errors must be those of a
# native run, and a report must have the compressed and counted calls.
. "$(dirname "$0")/lib.sh"
pytorch
printf '[rule all]\ncodec = raw\n' >raw.ini
(cat raw.ini && printf '[rule moved]\ncollective = allgather, alltoall, broadcast\ncodec = lossless\n') >moved.ini
ranks=3

# job SHAPE [VARIABLE=VALUE...]: runs the shape and prints all ranks' output, sorted; fails if a rank fails, except in
# "killed", where a signal ends one rank, and PyTorch the others.
job() {
    local shape=$1 meeting rank pids=() status=0
    shift
    meeting=$(mktemp -d "$scratch/meeting.XXXXXX")
    for rank in $(seq 0 $((ranks - 1))); do
        timeout --kill-after=10 "$LIMIT" env RANK="$rank" WORLD_SIZE=$ranks "$@" \
            "$python" "$clients/gloo_shapes.py" "$shape" "$meeting" >"$meeting.$rank" &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do
        wait "$rank" 2>/dev/null || [ "$shape" = killed ] || status=1
    done
    sort "$meeting".?
    return $status
}
# alike SHAPE [POLICY]: checks that runs without and with the shim print the same. In a training the parameters depend
# on the order of the sums, so they are compared only between the ranks of a run.
alike() {
    local run
    rm -f report.json
    ran "$1 without the shim" without job "$1"
    ran "$1 with it" with job "$1" LD_PRELOAD="$preload" COMPSHIM_POLICY="$scratch/${2-raw}.ini" \
        COMPSHIM_REPORT="$scratch/report.json"
    for run in without with; do
        sed -n '/parameters/d; /^rank/p' $run >$run.told
        ! grep -q parameters $run || is "$1 $run the shim: all ranks have the same parameters" \
            "$(sed -n 's/.*: parameters //p' $run | sort -u | wc -l)" 1
    done
    same "$1: the same answers" without.told with.told
    facts report.json
}
compresses() { number_holds "$1: what can be compressed is" "$compressed >= $2"; }
counts() {
    output=$(json '" ".join(r.get("not_compressed", {}))')
    contains "$1: $2 is counted" "gloo::$2"
}

alike at_once
compresses at_once 6
alike groups
compresses groups 5
for name in loader zero; do
    alike $name
    compresses $name 8
    counts $name broadcast
done
if job fsdp 2>&1 | grep -q "no fully_shard"; then
    skip "FSDP2, which this PyTorch does not have"
else
    alike fsdp moved
    compresses fsdp 8
    output=$(json '" ".join(row["collective"] for row in r["rows"])')
    contains "fsdp: parameters are compressed, too" "allgather"
fi
alike moves moved
compresses moves 4
alike time_out
alike killed
finish
