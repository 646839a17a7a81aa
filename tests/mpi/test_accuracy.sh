#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks verify, check_ranks, max_rel_error, error_feedback and stochastic rounding on a real MPI.
. "$(dirname "$0")/../lib.sh"
export COMPSHIM_POLICY=$scratch/policy.ini COMPSHIM_REPORT=$scratch/report.json

# rule CODEC ALGORITHM LINE...: writes a policy of one rule with these lines
rule() {
    policy "$COMPSHIM_POLICY" "$1" "$2"
    printf '%s\n' "${@:3}" >>"$COMPSHIM_POLICY"
}
# repeat NAME RANKS CALLS: sets $distance (of the mean from the sum) and $digest
repeat() {
    expect "$1" 0 shimmed "$2" "$build/tests/mpi_repeated_sum" "$3"
    distance=$(sed -n 's/^distance \([^ ]*\) .*/\1/p' <<<"$output")
    digest=$(sed -n 's/.* digest //p' <<<"$output")
}
below() { check "$1" awk -v a="$2" -v b="$3" 'BEGIN { exit !(a > 0 && a < b) }'; }

rule fp8_e4m3 two_shot 'verify = 2' 'check_ranks = 3'
repeat "verified and compared" 3 12
contains "the table reports the verified calls" "6 calls verified natively: relative L2 error"
contains "and of those compared" "4 results compared across ranks, 0 differed"
reports "the report has what was measured" \
    'rows[0]["verified"]["calls"] == 6 and 0.02 < rows[0]["verified"]["rel_l2"] < 0.05'
reports "rounding to nearest has no bias to speak of" 'abs(rows[0]["verified"]["bias"]) < 1e-3'
reports "and says that the ranks agree" 'rows[0]["ranks_checked"] == {"calls": 4, "different": 0}'

# With contributions in int4 and reduced chunks in fp16, the error is that of int4 alone.
for layout in "two_shot 0,0,0,0" "hierarchical 0,0,1,1" "grid 0,0,0,0" "one_shot 0,0"; do
    read -r algorithm nodes <<<"$layout"
    rule int4 "$algorithm" 'gather_codec = fp16' 'check_ranks = 1' 'verify = 1'
    expect "int4, sums in fp16, by $algorithm" 0 shimmed_on "$nodes" "$build/tests/mpi_repeated_sum" 9
    [ "$algorithm" != grid ] && range="0.06 0.09" || range="0.09 0.13" # one quantization in int4, two in a grid
    reports "has the error of its roundings" "${range% *} < rows[0]['verified']['rel_l2'] < ${range#* }"
    reports "on all ranks" 'rows[0]["ranks_checked"] == {"calls": 9, "different": 0}'
done
rule lossless two_shot 'gather_codec = raw'
repeat "lossless, sums in raw" 4 3
first=$digest
rule raw two_shot
repeat "raw" 4 3
check "is the same in every bit" test -n "$first" -a "$first" = "$digest"
rule int8 two_shot 'gather_codec = raw'
repeat "int8, sums in raw" 4 3
first=$digest
rule int8 two_shot 'gather_codec = lossless'
repeat "int8, sums without loss" 4 3
check "are the same in every bit" test -n "$first" -a "$first" = "$digest"
reports "and sent in fewer bytes" 'rows[0]["calls"] == 3 and rows[0]["bytes_native"] > 1.7 * rows[0]["bytes_wire"]'

rule bf16 cast
expect "bf16 by cast on two nodes" 0 shimmed_on 0,0,1,1 "$build/tests/mpi_repeated_sum" 3
reports "counts the bytes between the nodes" '0 < rows[0]["bytes_network"] < rows[0]["bytes_wire"]'

# way: the codecs from int4 to int8 by decreasing error, as Python strings, without OCP's and NVIDIA's. int8 is the
# first whose error is below 0.01, the limit of the following rules.
way=$(sed -nE '/mxfp|nvfp/d; s/^[A-Z]+ *\([0-9]+, *[A-Z0-9_]+, *(\w+).* ([0-9.e-]+)\)$/\2 \1/p' "$top/codecs/formats.def" | sort -gr |
    sed -nE '/ int4$/,/ int8$/s/.* (.*)/"\1", /p' | tr -d '\n')
for layout in "two_shot 0,0,0,0" "one_shot 0,0" "hierarchical 0,0,1,1" "grid 0,0,0,0,0"; do
    read -r algorithm nodes <<<"$layout"
    rule int4 "$algorithm" 'max_rel_error = 0.01' 'check_ranks = 1'
    expect "int4 by $algorithm with an error of 0.01 allowed" 0 shimmed_on "$nodes" "$build/tests/mpi_repeated_sum" 9
    contains "says what moved" "all: 50000 x float32 went from int4 to fp8_e5m2 after call 1"
    reports "moves step by step to a codec that keeps to it" \
        "[(m['from'], m['to'], m['after_call']) for m in report['moved']] == [(a, b, i + 1) for i, (a, b) in enumerate(zip([$way], [$way][1:]))]"
    reports "counts each codec in a row of its own" \
        "{x['codec']: x['calls'] for x in rows} == {codec: 1 if codec != 'int8' else 10 - len([$way]) for codec in [$way]}"
    reports "and all ranks go together" 'all(x["ranks_checked"] == {"calls": x["calls"], "different": 0} for x in rows)'
done
for layout in 4:0,0,1,1,1 5:0,0,0,1,1,1; do # in the first, rank 4 has no peer on the other node
    rule int8 hierarchical 'max_rel_error = 0.01'
    expect "outliers on rank ${layout%%:*} of nodes ${layout#*:}" 0 \
        shimmed_on "${layout#*:}" "$build/tests/mpi_numbers" outliers "${layout%%:*}"
    reports "all ranks hear of its error" 'len(report["moved"]) == 1'
done
# With so few elements some ranks of a grid reduce none. These ranks learn the errors of other rows from messages of
# their own row.
rule int8 grid 'max_rel_error = 0.01'
for outliers in "0 192" "1 256" "3 256" "4 320"; do
    # shellcheck disable=SC2086 # two words
    expect "outliers on a rank of a grid, among few elements: $outliers" 0 shimmed 5 "$build/tests/mpi_numbers" outliers $outliers
    reports "all ranks of the grid hear of its error" 'len(report["moved"]) == 1'
done
for numbers in "4e-50" "4e60" "1e200 overflow" "1e-170 underflow"; do
    policy "$COMPSHIM_POLICY" fp16 auto float64
    echo 'max_rel_error = 0.01' >>"$COMPSHIM_POLICY"
    # shellcheck disable=SC2086 # one word or two
    expect "float64 of magnitude $numbers" 0 shimmed 2 "$build/tests/mpi_numbers" magnitude $numbers
    reports "goes raw in the end" '[m["to"] for m in report["moved"]] == ["fp32", "raw"]'
done
rule int4 two_shot 'rounding = stochastic'
expect "random numbers" 0 shimmed 2 "$build/tests/mpi_numbers" duplicates
rule int8 two_shot 'max_rel_error = 0.5'
repeat "an error that is allowed" 3 3
reports "moves nothing" 'report["moved"] == [] and rows[0]["calls"] == 3'

for algorithm in two_shot one_shot; do
    rule int4 "$algorithm"
    repeat "int4 by $algorithm, 64 times the same" 3 64
    plain=$distance
    below "errs alike each time" 0.03 "$plain"
    rule int4 "$algorithm" 'error_feedback = on'
    repeat "with error feedback" 3 64
    below "the mean comes 20 times nearer" "$distance" "$(awk -v a="$plain" 'BEGIN { print a / 20 }')"
    rule int4 "$algorithm" 'rounding = stochastic'
    repeat "with stochastic rounding" 3 64
    below "the mean comes four times nearer" "$distance" "$(awk -v a="$plain" 'BEGIN { print a / 4 }')"
done
first=$digest
repeat "stochastic rounding again" 3 64
check "gives the same bits" test "$digest" = "$first"
sed -i 's/^report = off/&\nseed = 7/' "$COMPSHIM_POLICY"
repeat "with another seed" 3 64
check "gives other bits" test "$digest" != "$first"

rule int4 auto 'error_feedback = on' 'max_rel_error = 0.01'
expect "a residual that goes from one_shot to two_shot with its codec" 0 \
    shimmed 3 "$build/tests/mpi_repeated_sum" 12 10000
contains "was in both" "int4     one_shot"
contains "as it should" "int8     two_shot"

# The limits allow for one quantization step of each contribution and of each sum that is encoded, and for the codec's
# own error.
for layout in "int4 one_shot 0.9" "int4 two_shot 2.1" "int4 hierarchical 2.1" "int4 grid 3" "int8 two_shot 0.1" "fp8_e4m3 two_shot 1.6" \
    "fp8_e5m2 one_shot 1.6" "bf16 two_shot 0.1" "fp32 two_shot 1e-5"; do
    read -r codec algorithm limit <<<"$layout"
    rule "$codec" "$algorithm" 'error_feedback = on'
    expect "$codec by $algorithm: memory that another array had" 0 shimmed_on 0,0,1,1 "$build/tests/mpi_numbers" reused "$limit"
done

for algorithm in hierarchical grid; do
    rule fp8_e4m3 $algorithm 'error_feedback = on'
    expect "error feedback by $algorithm" 0 shimmed_on 0,0,1,1 "$build/tests/mpi_repeated_sum" 64
    below "the mean comes near" "$(sed -n 's/^distance \([^ ]*\) .*/\1/p' <<<"$output")" 1.2e-3
done

rule int4 two_shot 'error_feedback = on'
sed -i 's/^report = off/&\nfeedback_memory = 150KiB/' "$COMPSHIM_POLICY"
for calls in 4000 4200; do
    expect "room for one large residual and a small one, $calls calls between two large ones" 0 \
        shimmed 2 "$build/tests/mpi_numbers" unused $calls
    check "what has not been used for 4096 calls makes room" \
        test "$(grep -c 'no memory for another residual' <<<"$output")" = $((calls < 4096 ? 2 : 0))
done
sed -i 's/^feedback_memory = .*/feedback_memory = 100KiB/' "$COMPSHIM_POLICY"
expect "more residuals than memory for them" 0 shimmed 2 "$build/tests/mpi_repeated_sum" 64
contains "is said, with the limit" "feedback_memory = 102400"
check "once on each rank" test "$(grep -c 'no memory for another residual' <<<"$output")" = 2
below "and goes on without" 0.03 "$(sed -n 's/^distance \([^ ]*\) .*/\1/p' <<<"$output")"
finish
