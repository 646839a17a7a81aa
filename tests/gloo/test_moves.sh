#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks gloo's data-movement collectives, which are compressed only by a rule that names them and, unless its codec is
# exact (raw, lossless), the element type.
. "$(dirname "$0")/lib.sh"
program=$build/tests/gloo_moves

# moves COLLECTIVE TYPE RANKS COUNT ERROR LINE...: runs the collective under a rule for it with these lines
moves() {
    rule "collective = ${1%v}" "${@:6}"
    expect "$1: $4 x $2, $3 ranks, ${*:6}" 0 preloaded "$3" "$program" "$1" "$2" "$4" "$5"
    [ "${1%v}" = alltoall ] || check "every rank has the same bits" awk -v ranks="$3" \
        '/^digest/ { seen[$2]++; any = 1 } END { for (digest in seen) if (seen[digest] % ranks != 0) exit 1; exit !any }' \
        <<<"$output"
}
passes() { reports "$1" "rows == [] and '$2' in passed and set(passed) <= {'$2', 'read_only'}"; }

for collective in allgather allgatherv alltoall alltoallv broadcast; do
    for ranks in 2 3 4; do
        counts="1 1000 70001"
        [ $ranks = 3 ] || counts=70001
        for count in $counts; do
            moves $collective float32 $ranks $count 0 "codec = raw"
            reports "all is compressed" 'len(rows) == 1 and passed == {}'
        done
        moves $collective float32 $ranks 300000 0.0626 "codec = fp8_e4m3" "dtype = float32"
        reports "a quarter of the bytes is sent, once" \
            "len(rows) == 1 and rows[0]['bytes_native'] / rows[0]['bytes_wire'] > (3.9 if '$collective' != 'broadcast' else 2.9)"
        reports "the sampled error is that of one quantization" '0.01 < rows[0]["rel_error"] < 0.04'
    done
    moves $collective int32 3 70001 0 "codec = lossless"
    reports "integers have no loss" 'rows[0]["codec"] == "lossless" and passed == {}'
    moves $collective float64 3 70001 0.0005 "codec = fp16" "dtype = float64"
    reports "a quarter of float64 is sent" 'rows[0]["bytes_native"] / rows[0]["bytes_wire"] > 2.9'
    moves $collective int32 3 70001 0 "codec = fp8_e4m3" "dtype = float32"
    passes "integers are recognised" dtype
    moves $collective float64 3 70001 0 "codec = fp8_e4m3" "dtype = float32"
    passes "elements of another size are not the rule's" no_rule
    moves $collective float32 3 70001 0 "codec = fp8_e4m3"
    passes "a lossy codec needs the type" dtype
    moves $collective float32 3 70001 0.01 "codec = int8" "dtype = float32" "rounding = stochastic" "check_ranks = 1"
    [ "${collective%v}" = alltoall ] ||
        reports "the ranks agree" 'rows[0]["ranks_checked"]["different"] == 0 < rows[0]["ranks_checked"]["calls"]'
    rule "codec = fp16"
    expect "$collective without a rule that names it" 0 preloaded 3 "$program" $collective float32 1000 0
    reports "it is counted" "rows == [] and list(report['not_compressed']) == ['gloo::$collective']"
    rule "collective = ${collective%v}" "codec = fp16" "dtype = float32"
    expect "$collective, only observed" 0 preloaded 3 COMPSHIM=observe "$program" $collective float32 1000 0
    reports "it is recorded" \
        "{k['collective'] for k in report['observed']['kinds']} == {'${collective%v}'} and set(passed) == {'disabled'}"
done
rule "collective = broadcast" "codec = fp8_e4m3" "dtype = float32"
expect "broadcasts from one and two buffers" 0 preloaded 4 "$program" broadcast float32 1000 0.0626
reports "a root in read-only memory is not written to" 'rows[0]["calls"] == 8 and passed == {"read_only": 4}'
for codec in raw fp8_e4m3; do
    rule "collective = allgather" "codec = $codec" "dtype = float32"
    expect "an all-gather of unequal sizes, $codec" 0 preloaded 3 "$program" mismatch float32 70000 0
    check "every rank gets an exception" test "$(grep -c '^rank .*Exception' <<<"$output")" = 3
    contains "it names both views" "gloo::allgather does not match between rank"
done
finish
