#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the sampled error of NCCL's calls: the report's error agrees, within a tenth, with that of all elements, which
# the program computes, and calls do not fail if sampling fails.
. "$(dirname "$0")/lib.sh"
program=$build/tests/nccl_sampled
rule() { # CODEC ALGORITHM [LINE]: writes the policy
    printf '[rule all]\ndtype = %s\ncodec = %s\nalgorithm = %s\n%s\n' "${dtype:-float32}" "$1" "$2" "${3-}" \
        >"$scratch/policy.ini"
}
# right NAME RANKS ARGUMENTS...: the sampled error equals that of all elements, within a tenth
right() {
    local error
    expect "$1, $2 ranks: runs" 0 preloaded "$2" "$program" "${@:3}"
    error=$(sed -n 's/^error //p' <<<"$output")
    reports "$1, $2 ranks: its error" "len(rows) == 1 and abs(rows[0]['rel_error'] / ${error:-0} - 1) < 0.1"
}
# samples NAME COUNT: COUNT calls were sampled on each rank; the report counts their bytes
samples() {
    calls "$1" "all(sum(c['call'] == 'ncclAllGather' and c['count'] == 520 for c in rank) == $2 for rank in calls)"
    check "$1: their bytes" python3 - "$scratch" <<'P'
import glob, json, sys
calls = [json.loads(line) for name in glob.glob(sys.argv[1] + "/*.calls") for line in open(name)]
sent = sum(c["bytes_sent"] for c in calls if c["call"] == "ncclSend" or c["count"] == 520)
row, = json.load(open(sys.argv[1] + "/report.json"))["rows"]
assert row["bytes_wire"] == sent, (row["bytes_wire"], sent)
P
}

for ranks in 2 4; do
    rule fp8_e4m3 two_shot
    right "fp8_e4m3 by two_shot" $ranks sum float32 sum 16
    rule int8 one_shot
    right "int8 by one_shot" $ranks sum float32 sum 16
    rule fp16 cast
    right "fp16 by cast" $ranks sum float32 sum 16
done
rule fp8_e4m3 hierarchical
NODES=0,0,1,1 right "fp8_e4m3, hierarchical" 4 sum float32 sum 16
NODES=0,0,1,1 right "hierarchical, a factor of each rank" 4 sum float32 scaled 16
NODES=0,0,1,1 right "hierarchical, a factor on the device" 4 sum float32 device 16
reports "with a factor: by hierarchical" '[row["algorithm"] for row in rows] == ["hierarchical"]'
NODES=0,1,1,0 right "hierarchical, a reduce-scatter" 4 scatter float32 sum 16
rule int8 two_shot
right "an average" 3 sum float32 avg 16
right "a factor of each rank" 3 sum float32 scaled 16
right "a factor on the device" 3 sum float32 device 16
right "a reduce-scatter" 3 scatter float32 sum 16
right "in one group" 3 sum float32 sum 16 group
dtype=float64 rule int8 two_shot
right "float64" 3 sum float64 scaled 16
dtype=float16 rule int8 two_shot
right "float16" 3 sum float16 scaled 16
dtype=bfloat16 rule int8 two_shot
right "bfloat16" 3 sum bfloat16 device 16
rule int8 auto 'collective = allgather, alltoall, broadcast'
for collective in gather alltoall broadcast; do
    right "$collective" 3 $collective float32 sum 16
    calls "$collective: its sample sends nothing" "not any(c['count'] == 520 for rank in calls for c in rank)"
done
rule raw two_shot
expect "raw" 0 preloaded 3 "$program" sum float32 sum 16
reports "raw: float32's own rounding" "0 < rows[0]['rel_error'] < 1e-7"
expect "raw, with exact sums" 0 preloaded 3 "$build/tests/nccl_groups" several
reports "raw, with exact sums: no error" "rows[0]['rel_error'] == 0"

# Which calls ------------------------------------------------------------------------------------
expect "captured calls" 0 preloaded 3 "$build/tests/nccl_graphs" graph
calls "captured calls are not sampled" "not any(c['captured'] and c['count'] == 520 for rank in calls for c in rank)"
reports "calls between them are" "rows[0]['rel_error'] == 0"
rule int8 two_shot
right "20 calls" 3 sum float32 sum 20
samples "the first 16 are sampled" 16
right "20 calls in one group" 3 sum float32 sum 20 group
samples "the first 16 of a group are sampled" 16
expect "the table" 0 preloaded 3 COMPSHIM_REPORT=summary "$program" sum float32 sum 4
check "has the error" grep -qE '^compshim: all +int8 .* [0-9.]+e-03$' <<<"$output"

# Without samples on rank 0 ----------------------------------------------------------------------
# without NAME SETTING: rank 0 lacks samples, or some of them; all ranks still make the same calls
without() {
    expect "$1: runs" 0 preloaded 3 sh "$top/tests/nccl/rank_setting.sh" 0 "$2" "$program" sum float32 sum 16
    calls "$1: the calls are the same" "[sum(c['count'] == 520 for c in rank) for rank in calls] == [16] * 3"
}
without "no memory on rank 0's host" STANDIN_FAIL=cuMemHostAlloc:2
reports "no memory on rank 0's host: no error is reported" "rows[0]['calls'] == 16 and rows[0]['rel_error'] is None"
without "no event" STANDIN_FAIL=cuEventCreate:6
reports "no event: the error of the other samples" "rows[0]['calls'] == 16 and 1e-3 < rows[0]['rel_error'] < 1e-2"
without "no report" COMPSHIM_REPORT=off
finish
