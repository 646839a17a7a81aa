#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks gloo::allreduce in many shapes and types, by every algorithm, and by every codec but bounded and topk,
# against a float64 reference; then its report, bounded and topk, and other operations and collectives.
. "$(dirname "$0")/lib.sh"
program=$build/tests/gloo_allreduce

# matches RANKS CODEC ALGORITHM STEPS [DTYPE]: checks the results (gloo_allreduce), and that CODEC and ALGORITHM were
# used
matches() {
    rule "codec = $2" "algorithm = $3"
    expect "${5:-float32} as $2 by $3, $1 ranks" 0 preloaded "$1" "$program" "$2" "$4" "${5:-float32}"
    reports "it was compressed" "{(row['codec'], row['algorithm'], row['dtype']) for row in rows} == {('$2', '$3', '${5:-float32}')}"
    reports "nothing else was" "set(passed) <= {'dtype', 'empty', 'op'}"
}
digests() { sed -n 's/^rank [0-9]*: digest \([0-9a-f]*\),.*/\1/p' <<<"$output" | sort -u; }

expect "gloo's own sum, 3 ranks" 0 job 3 "$program" none 1
matches 3 raw two_shot 2
matches 2 raw one_shot 1
matches 5 fp8_e4m3 two_shot 2
matches 2 int8 one_shot 1 float64
matches 3 fp16 two_shot 2 float16
matches 4 bf16 two_shot 2 bfloat16
matches 3 fp16 cast 0
matches 3 fp8_e4m3 two_shot 2
first=$(digests)
expect "the same once more" 0 preloaded 3 "$program" fp8_e4m3 2
check "the same bits on every rank and in every run" test "$first,$(wc -w <<<"$first")" = "$(digests),1"

# check_codecs ALGORITHM RANKS: checks the codecs that takes() selects (tests/sums.h), in one job
check_codecs() {
    "$program" --policy "$1" >"$scratch/policy.ini"
    expect "every codec by $1, $2 ranks" 0 preloaded "$2" "${setting[@]}" "$program" all "$1"
    reports "a row of each rule, by $1" "sorted(row['rule'] for row in rows if row['algorithm'] == '$1') == sorted([$(
        sed -n "s/^\[rule \(.*\)\]/'\1',/p" "$scratch/policy.ini" | tr -d '\n'
    )])"
}
setting=()
check_codecs two_shot 3
check_codecs one_shot 2
check_codecs cast 2
check_codecs grid 5
if on_nodes 0,1,0,1,0; then
    check_codecs hierarchical 5
    reports "on two nodes" 'report["nodes"] == 2'
else
    skip "this user cannot give a process a hostname: hierarchical"
fi

# Options and errors in the report.
repeat() { # NAME RANKS CALLS: sets $distance, of the mean from the sum
    expect "$1" 0 preloaded "$2" "$program" repeat "$3"
    distance=$(sed -n 's/^distance //p' <<<"$output")
}
below() { check "$1" awk -v a="$2" -v b="$3" 'BEGIN { exit !(a > 0 && a < b) }'; }
rule "codec = fp8_e4m3" "algorithm = two_shot" "verify = 2" "check_ranks = 3"
repeat "verified and compared" 3 12
reports "calls and bytes" '[(r["calls"], r["bytes_in"]) for r in rows] == [(12, 12 * 200000)]'
reports "fp8 sends at most 1/3.9, and verified calls their native bytes" \
    '0.25 < rows[0]["bytes_wire"] / rows[0]["bytes_native"] - rows[0]["verified"]["calls"] / 12 < 1 / 3.9'
reports "the sampled error is that of fp8" '0.01 < rows[0]["rel_error"] < 0.06'
reports "and so is the verified" '0 < rows[0]["verified"]["calls"] < 12 and 0.02 < rows[0]["verified"]["rel_l2"] < 0.05'
reports "the ranks agree" '0 < rows[0]["ranks_checked"]["calls"] < 12 and rows[0]["ranks_checked"]["different"] == 0'
reports "the library is gloo" 'report["library"].startswith("gloo") and report["ranks"] == 3'
rule "codec = int4"
repeat "int4, 64 times the same" 2 64
plain=$distance
below "errs alike each time" 0.03 "$plain"
rule "codec = int4" "error_feedback = on"
repeat "with error feedback" 2 64
below "the mean comes 20 times nearer" "$distance" "$(awk -v a="$plain" 'BEGIN { print a / 20 }')"
rule "codec = int8" "error_feedback = on"
expect "threads that sum one input, with counts of their own" 0 preloaded 2 "$build/tests/gloo_cases" shared
reports "are compressed" 'rows[0]["calls"] == 120'
rule "codec = bounded" "abs_error = 1e-3" "verify = 1"
repeat "with a bound" 3 6
reports "no element is off by more than the bound for each rank" '0 < rows[0]["verified"]["largest"] <= 3e-3'
reports "in half the bytes, beside those of the native calls" '(rows[0]["bytes_wire"] - rows[0]["bytes_native"]) * 2 < rows[0]["bytes_native"]'
rule "codec = fp16" "verify = 1"
repeat "verified, with messages of one length" 3 6
reports "in half the bytes, and those of the native calls" '1.4 < rows[0]["bytes_wire"] / rows[0]["bytes_native"] < 1.6'
rule "codec = topk" "keep = 32" "error_feedback = on" "check_ranks = 1"
repeat "with few elements, which wait for each other" 3 64
below "the mean comes near after many calls" "$distance" 0.2
reports "the ranks agree on few elements, too" 'rows[0]["ranks_checked"]["different"] == 0 and rows[0]["bytes_native"] > 8 * rows[0]["bytes_wire"]'
rule "codec = int4" "rounding = stochastic"
repeat "with stochastic rounding" 2 64
below "the mean comes four times nearer" "$distance" "$(awk -v a="$plain" 'BEGIN { print a / 4 }')"
first=$(digests)
repeat "stochastic rounding again" 2 64
check "gives the same bits" test "$first" = "$(digests)"
rule "codec = int4" "max_rel_error = 0.01"
repeat "max_rel_error, which there is not for gloo" 2 5
reports "is passed through by name" 'rows == [] and passed == {"option": 5}'
rule "library = mpi, nccl" "codec = fp16"
repeat "rules of other libraries" 2 5
reports "are not gloo's" 'rows == [] and passed == {"no_rule": 5}'

rule "codec = raw"
expect "every type and operation" 0 preloaded 3 "$build/tests/gloo_cases" kinds
reports "sums of floats are compressed" '(all(row["calls"] == 2 for row in rows) and
    sorted(row["dtype"] for row in rows) == ["bfloat16", "float16", "float32", "float64"])'
reports "the others are passed through by name" 'passed == {"op": 4 * 3, "dtype": 3 * 5 + 2}'
for dtype in float16 bfloat16; do
    printf '[compshim]\nreport = summary\n[rule a]\ndtype = float64\ncodec = none\n' >"$COMPSHIM_POLICY"
    expect "sums of $dtype that match no rule" 0 preloaded 2 "$program" none 1 $dtype
    eval "$(sed -n "s/^compshim: \(printf '\[rule .*'\)\$/\1/p" <<<"$output")" >>"$COMPSHIM_POLICY"
    expect "and the rule that the report prints for them" 0 "$build/compshim" explain --policy "$COMPSHIM_POLICY" --library gloo --dtype $dtype --size 1MiB
    contains "compresses them" "fp8_e4m3"
done
rule "codec = raw"
expect "other collectives" 0 preloaded 3 "$build/tests/gloo_cases" others
reports "are counted with the bytes of the larger buffer" 'report["not_compressed"] == {
    "gloo::" + name: {"calls": 1, "bytes": 4000 if name in ("reduce", "broadcast") else 12000}
    for name in "reduce allgather allgatherv alltoall alltoallv broadcast".split()}'
expect "calls with many buffers on one rank" 0 preloaded 3 "$build/tests/gloo_cases" many
reports "are compressed" '[row["calls"] for row in rows] == [2] and passed == {}'
finish
