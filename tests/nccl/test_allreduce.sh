#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares every algorithm, type and operation with a float64 reference, on the stand-in for NCCL. test_all_codecs.sh
# covers all codecs.
. "$(dirname "$0")/lib.sh"
program=$build/tests/nccl_allreduce

# matches RANKS CODEC ALGORITHM STEPS [DTYPE [OP [COLLECTIVE [VARIABLE=VALUE...]]]]: compares results with float64, and
# checks that calls were compressed
matches() {
    local dtype=${5:-float32} op=${6:-sum} collective=${7:-allreduce}
    printf '[rule all]\ndtype = %s\ncodec = %s\nalgorithm = %s\n' "$dtype" "$2" "$3" \
        >"$scratch/policy.ini"
    expect "$collective $op $dtype as $2 by $3, $1 ranks ${*:8}" 0 \
        preloaded "$1" "${@:8}" "$program" "$2" "$4" "$dtype" "$op" "$collective"
    [ "$1" = 1 ] || reports "it was compressed" "('$2', '$dtype') in {(row['codec'], row['dtype']) for row in rows}"
}
digests() { sed -n 's/^rank [0-9]*: digest \([0-9a-f]*\),.*/\1/p' <<<"$output" | sort -u; }

expect "NCCL's own sum, 3 ranks" 0 job 3 "$program" none 1

for codec in raw fp8_e4m3 int4; do
    matches 3 $codec two_shot 2
    matches 2 $codec one_shot 1
done
for ranks in 2 4 8; do
    matches $ranks fp8_e4m3 two_shot 2
done
for ranks in 3 4; do
    matches $ranks int8 one_shot 1
done
for codec in raw fp16 bf16; do
    matches 4 $codec cast 0
done
matches 8 fp16 cast 0
reports "8 ranks by cast were compressed" '[row["algorithm"] for row in rows] == ["cast"]'

levels() { # NODES RANKS CODEC [OPERATION [COLLECTIVE]]: compares results of hierarchical on these nodes
    NODES=$1 matches "$2" "$3" hierarchical 3 float32 "${4-sum}" "${5-allreduce}"
    reports "nodes $1${4+, ${*:4}}: used hierarchical" '[row["algorithm"] for row in rows] == ["hierarchical"]'
}
levels 0,0,1,1 4 int8
levels 0,1,0,1 4 fp8_e4m3
levels 0,1,1,0 4 fp16
levels 0,1,2,2,1,0 6 int8
levels 0,0,1,1,2,2,3,3 8 fp16
levels 0,0,1,1 4 int8 avg
levels 0,0,1,1 4 raw sum scatter
levels 0,1,1,0 4 fp8_e4m3 avg scatter
levels 0,1,2,2,1,0 6 fp16 scaled scatter
levels 0,0,1,1 4 fp8_e4m3 scaled
NODES=0,0,0,1 matches 4 fp8_e4m3 hierarchical 2 # falls back: nodes differ in size

for op in avg scaled; do
    matches 3 fp8_e4m3 two_shot 2 float32 $op
    matches 4 fp16 cast 0 float32 $op
done
matches 2 int8 one_shot 1 float32 scaled
matches 4 fp8_e4m3 two_shot 2 float16
matches 3 int8 two_shot 2 bfloat16 avg
matches 3 fp16 two_shot 2 float64
matches 3 fp32 one_shot 1 float64
for codec in raw fp8_e4m3; do
    matches 4 $codec two_shot 1 float32 sum scatter
done
matches 3 int8 two_shot 1 float16 avg scatter
matches 2 fp16 two_shot 1 float32 scaled scatter
reports "reduce-scatters were compressed" '[row["collective"] for row in rows] == ["reduce_scatter"]'

matches 4 fp8_e4m3 two_shot 2 float32 sum allreduce STANDIN_LAZY=1
first=$(digests)
for seed in 1 2; do
    matches 4 fp8_e4m3 two_shot 2 float32 sum allreduce STANDIN_DELAY_US=300 STANDIN_SEED=$seed
    check "the same bits on every rank and in every run" test "$first" = "$(digests)"
done
check "there was one digest" test "$(wc -w <<<"$first")" = 1
matches 4 int8 two_shot 2
check "another codec gives other bits" test "$first" != "$(digests)"

# moves COLLECTIVE CODEC [DTYPE [VARIABLE=VALUE...]]: 8 calls of a data-movement collective that a rule names
moves() {
    printf '[rule all]\ncollective = %s\ncodec = %s\n' "$1" "$2" >"$scratch/policy.ini"
    expect "$1 of ${3-float32} as $2 ${*:4}" 0 \
        preloaded 3 "${@:4}" "$build/tests/nccl_moves" "$1" "$2" "${3-float32}"
    reports "$1 was compressed" "[(row['collective'], row['calls']) for row in rows] == [('$1', 8)]"
    [ "$2" != raw ] || reports "$1 as raw is exact" "rows[0]['rel_error'] == 0"
    check "$1: reported bytes are the bytes sent" python3 - "$scratch" <<'P'
import glob, json, sys
calls = [json.loads(line) for name in glob.glob(sys.argv[1] + "/*.calls") for line in open(name)]
sent = sum(c["bytes_sent"] for c in calls if c["call"] in ("ncclSend", "ncclBroadcast"))
row, = json.load(open(sys.argv[1] + "/report.json"))["rows"]
assert 0 < row["bytes_wire"] == sent, (row["bytes_wire"], sent)
P
}
for collective in allgather alltoall broadcast; do
    expect "$collective natively" 0 job 3 "$build/tests/nccl_moves" $collective none
    for codec in raw fp8_e4m3; do
        moves $collective $codec
        [ $collective = alltoall ] || check "the same on every rank" test "$(digests | wc -w)" = 1
    done
    moves $collective int8 float16
    moves $collective raw float32 STANDIN_DELAY_US=300 STANDIN_SEED=1
    moves $collective raw float32 STANDIN_LAZY=1
done
finish
