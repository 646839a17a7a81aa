#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks calls that fail or do not match, ranks that are killed, missing or gone, and processes forked during calls: the
# caller gets an exception of a type that gloo throws, and no rank waits much longer than its time limit.
. "$(dirname "$0")/lib.sh"
program=$build/tests/gloo_cases
rule "codec = raw"

job 3 "$program" wrong >"$scratch/native" 2>&1
expect "wrong calls" 0 preloaded 3 COMPSHIM_REPORT=off "$program" wrong
check "fail as natively" diff <(sort "$scratch/native") <(sort <<<"$output")

# raised RANK TEXT: checks that the rank's exception matches TEXT
raised() {
    if grep -Eq "^rank $1: after [0-9.]+ s: gloo::IoException: .*($2)" <<<"$output"; then
        pass "rank $1 gets gloo's exception"
    else
        fail "rank $1 gets gloo's exception" "$output"
    fi
}
# Natively, too, some of the other ranks may wait until their time limit of 10 s.
fails_on 1
for delay in 0 3 10 20 40; do
    expect "rank 1 is killed after $delay ms" 0 preloaded 3 "${setting[@]}" "$program" killed $delay
    for rank in 0 2; do raised $rank "closed|reset|[Bb]roken pipe|Timed out waiting"; done
    check "nobody waits for more than a time-out" awk '/ after / && $4 > 19 { exit 1 }' <<<"$output"
done

# longest: prints the seconds of the rank that waited longest for its exception
longest() { sed -n 's/^rank .*: after \([0-9.]*\) s: gloo::IoException.*/\1/p' | sort -g | tail -n 1; }
# no_longer CALLS: succeeds if ranks that wait for an absent one wait at most 0.4 s longer than natively
no_longer() {
    local native shimmed
    native=$(job 3 "$program" absent "$1" 2>/dev/null | longest)
    preloaded 3 "$program" absent "$1" >"$scratch/absent" 2>&1
    shimmed=$(longest <"$scratch/absent")
    echo "natively $native s, with the shim $shimmed s"
    awk -v a="$native" -v b="$shimmed" 'BEGIN { exit !(a >= 1.9 && b >= 1.9 && b < a + 0.4) }'
}
for calls in 0 1; do
    check "a rank that makes only $calls calls: the others wait no longer" once_in_ten no_longer $calls
    output=$(cat "$scratch/absent")
    for rank in 0 1; do raised $rank "Timed out waiting"; done
done

expect "sizes and types that differ" 0 preloaded 3 "$program" sizes
check "each rank gets gloo's exception for each of the two calls, and lives" \
    test "$(grep -cE '^rank [0-2]: after [0-9.]+ s: gloo::(IoException|EnforceNotMet): ' <<<"$output")" = 6
contains "one of them says what does not match" "IoException: compshim: gloo::allreduce does not match between rank"
check "nobody waits for the limit" awk '/ after / && $4 > 12 { exit 1 }' <<<"$output"

expect "operations that differ" 0 preloaded 3 "$program" operations
for rank in 0 1; do
    contains "rank $rank says for whom it waits" "compshim: rank $rank has waited 10 s for rank 2 in a compressed sum of 50001 x float32"
done
check "each says it once" test "$(grep -c 'has waited 10 s' <<<"$output")" = 2

fails_on 1
expect "a rank exits while a thread of it waits, natively" 0 job 3 "${setting[@]}" "$program" exit
expect "a rank exits while a thread of it waits" 0 preloaded 3 "${setting[@]}" "$program" exit
raised 0 "Timed out|closed|reset|[Bb]roken pipe"
expect "processes are made while calls run, natively" 0 job 3 "$program" fork
expect "processes are made while calls run" 0 preloaded 3 "$program" fork
reports "one report, by the ranks" '[row["calls"] for row in rows] == [61] and passed == {}'
# Forked workers: the parent's table says that nothing was compressed in it, and that $lost workers' calls are not known.
sed -i '1i [compshim]\nreport = summary' "$COMPSHIM_POLICY"
for lost in 1 2; do
    expect "two forked processes sum, $lost of them without an end" 0 preloaded 1 "$program" workers $lost
    output=$(sed -z 's/\ncompshim:   / /g' <<<"$output")
    contains "the table says that nothing was compressed in the parent" "nothing was compressed in this process"
    contains "and what it does not know" "not known: the calls of $lost process"
    reports "so does the report" "report['unreported_processes'] == $lost"
done
expect "two forked processes sum and end" 0 preloaded 1 "$program" workers 0
check "then everything is known" test "$(grep -c 'not known' <<<"$output")" = 0
reports "the parent's report" "rows == [] and 'unreported_processes' not in report"
check "stands beside that of rank 0" grep -q '"calls": 3, ' "$(compgen -G "$scratch/report.fork?.json")"

expect "a second gloo" 0 preloaded 2 "$program" second "$build/tests/standin_gloo_user.so"
check "each process says so once" test "$(grep -c 'a second gloo is in this process' <<<"$output")" = 2
reports "its calls are passed through, the others compressed" '[row["calls"] for row in rows] == [2] and passed == {"second_library": 2}'
finish
