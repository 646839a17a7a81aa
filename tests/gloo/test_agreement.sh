#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks ranks that differ: without the shim, with another or a wrong policy, or late. The results must be right, all
# ranks must decide alike, one message must say that ranks lack the shim, and no rank may wait long. Also checks
# COMPSHIM=off and observe, traces, and which rank writes the report.
. "$(dirname "$0")/lib.sh"
program=$build/tests/gloo_cases
rule "codec = raw"

# missing RANKS: runs a job in which only these ranks have the shim; saves output and status in $scratch
missing() {
    only "$1" LD_PRELOAD="$preload"
    job 4 COMPSHIM_REPORT=off "${setting[@]}" "$program" sums >"$scratch/only $1" 2>&1
    echo "status $?" >>"$scratch/only $1"
}
late() { # RANKS RANK MILLISECONDS LIMIT: runs a job in which RANK is late, with a time limit; ranks pause after a call
    only "$2" LATE="$3"
    job "$1" LD_PRELOAD="$preload" COMPSHIM_REPORT="$scratch/late $*.json" CALL_LIMIT="$4" PAUSE=50 "${setting[@]}" \
        "$program" sums 12 >"$scratch/late $*" 2>&1
    echo "status $?" >>"$scratch/late $*"
}
# neither RANKS WITH_SHIM LATE: runs a job in which only the ranks WITH_SHIM have the shim, and the ranks LATE are late
neither() {
    only "$2" LD_PRELOAD="$preload"
    local -a preload_there=("${setting[@]}")
    only "$3" LATE=3000
    job "$1" COMPSHIM_REPORT=off CALL_LIMIT=10000 "${preload_there[@]}" "${setting[@]}" "$program" sums \
        >"$scratch/neither $*" 2>&1
    echo "status $?" >>"$scratch/neither $*"
}
# The jobs run at once, because they mostly wait. In $lates, some ranks are more than 10 s late, some more than a
# quarter of the calls' time limit: the other ranks must not give a call up after such times.
lates=("2 0 13000 60000" "4 3 13000 1800000" "2 1 7000 20000" "4 0 7000 20000" "4 2 7000 20000" "3 0 1500 60000")
neithers=("2|1|1" "2|0|0" "4|0 1|2" "4|0 1|1" "4|1 2 3|3" "4|1 2 3|0")
for ranks in "0 1" "2 3" "0" "1 3" "0 2"; do missing "$ranks" & done
# shellcheck disable=SC2086 # words
for late in "${lates[@]}"; do late $late & done
wait
for job in "${neithers[@]}"; do
    IFS='|' read -r -a words <<<"$job"
    neither "${words[@]}" &
done
wait
for ranks in "0 1" "2 3" "0" "1 3" "0 2"; do
    output=$(cat "$scratch/only $ranks")
    contains "only ranks $ranks: the results are right" "status 0"
    check "only ranks $ranks: one warning" test "$(grep -c '^compshim: ' <<<"$output")" = 1
    contains "only ranks $ranks: it says what is known" "nothing is compressed yet: no answer to rank ${ranks%% *} from rank"
done
for late in "${lates[@]}"; do
    output=$(cat "$scratch/late $late")
    contains "late, $late: the results are right" "status 0"
    check "late, $late: nothing is said" test "$(grep -cE '^compshim: (nothing is|all ranks)' <<<"$output")" = 0
    cp "$scratch/late $late.json" "$scratch/report.json"
    reports "late, $late: later calls are compressed" \
        'sum(row["calls"] for row in rows) > 0 and set(passed) <= {"not_agreed"}'
done
for job in "${neithers[@]}"; do
    output=$(cat "$scratch/neither ${job//|/ }")
    contains "ranks with the shim and late ones, $job: the others are not disturbed" "status 0"
done

only "0 2" LD_PRELOAD="$preload"
expect "a context that has not agreed leaves nothing" 0 job 3 COMPSHIM_REPORT=off "${setting[@]}" "$program" leftovers
expect "natively, a context that is freed leaves no socket" 0 job 3 "$program" released
expect "a context that has agreed and is freed leaves none, before any further call" 0 preloaded 3 "$program" released
reports "its calls were compressed" 'sum(row["calls"] for row in rows) >= 3'

# Rank 0's policy applies to the whole job.
printf '[rule other]\ncodec = fp8_e4m3\n' >"$scratch/other.ini"
printf '[rule all]\ncodc = raw\n' >"$scratch/wrong.ini"
for other in other wrong; do
    only "1 2 3" COMPSHIM_POLICY="$scratch/$other.ini"
    expect "another policy elsewhere: $other" 0 preloaded 4 "${setting[@]}" "$program" sums
    reports "rank 0's counts" '[(row["codec"], row["calls"]) for row in rows] == [("raw", 3)]'
done
output=$(preloaded 3 COMPSHIM_POLICY="$scratch/wrong.ini" "$program" sums 2>&1) && fail "a wrong policy ends the job" "$output"
contains "a wrong policy: file, line and remedy" "wrong.ini:2: unknown key 'codc' (did you mean 'codec'?)"
cd "$scratch" || exit 3
for policy in policy.ini ""; do
    expect "a second group in another folder, with COMPSHIM_POLICY=$policy" 0 \
        preloaded 3 COMPSHIM_POLICY="$policy" COMPSHIM_REPORT="$scratch/report.json" PAUSE=50 "$program" regrouped
    reports "the policy stays" '[(row["codec"], row["calls"]) for row in rows] == [("raw", 24)]'
done
cd "$top" || exit 3

native=$(job 3 "$program" sums 2>&1 | sort)
expect "COMPSHIM=off" 0 preloaded 3 COMPSHIM=off "$program" sums
check "is as natively" test "$native" = "$(sort <<<"$output")"
check "without a report" test ! -e "$scratch/report.json"
expect "COMPSHIM=observe" 0 preloaded 3 COMPSHIM=observe "$program" sums
reports "writes every call down" 'rows == [] and [(k["dtype"], k["op"], k["ranks"], k["calls"], k["bytes"])
    for k in report["observed"]["kinds"]] == [("float32", "sum", 3, 3, 200004)]'
expect "COMPSHIM=observe, every type and operation" 0 preloaded 3 COMPSHIM=observe "$program" kinds
reports "separates the types" '(lambda kinds: {dtype: sum(k["calls"] for k in kinds if k["dtype"] == dtype and k["op"] == "other")
    for dtype in {k["dtype"] for k in kinds}} == {"float32": 3, "float64": 3, "float16": 3, "bfloat16": 3, "other": 17})(report["observed"]["kinds"])'
expect "COMPSHIM_TRACE" 0 preloaded 3 COMPSHIM_TRACE="$scratch/trace-{rank}.json" "$program" sums
check "has every call of every rank" python3 - "$scratch" <<'P'
import json, sys
for rank in range(3):
    events = json.load(open(f"{sys.argv[1]}/trace-{rank}.json"))["traceEvents"]
    calls = [event["name"] for event in events if event.get("cat") == "compressed"]
    assert calls == ["allreduce raw"] * 3, (rank, calls)
    assert {event["name"] for event in events if event.get("cat") == "phase"} == {"encode", "exchange", "decode"}
P
expect "a report of each rank" 0 preloaded 3 COMPSHIM_REPORT="$scratch/report-{rank}.json" "$program" sums
check "is written by rank 0 alone" test "$(cd "$scratch" && ls report*.json)" = report-0.json
expect "the table" 0 preloaded 3 COMPSHIM_REPORT=summary "$program" sums
contains "names the library" "gloo"
contains "and the rule" "all "
finish
