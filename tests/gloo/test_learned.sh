#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that calls of gloo are measured: all ranks choose alike, the report has the learned choices, and
# COMPSHIM_MACHINE fixes them. test_mix.sh measures calls that run at once.
. "$(dirname "$0")/lib.sh"
unset COMPSHIM_MACHINE
cd "$scratch" || exit 1
program=$build/tests/gloo_cases
rule "codec = fp8_e4m3"

expect "500 sums" 0 preloaded 3 "$program" sums 500
reports "are all compared with native ones" \
    'sum(r.get("compared_calls", 0) + r.get("native_calls", 0) for r in rows) >= 490 and passed["no_gain"] >= 3'
reports "and the report has the choice" 'len(report["learned"]) == 1 and report["learned"][0].startswith("gloo 3/1 float32 fp8_e4m3 ")'
contains "and the answer" "compshim: saved "
expect "500 sums with one tag" 0 preloaded 3 TAG=1000 "$program" sums 500
reports "are measured, too" 'len(report["learned"]) == 1'
expect "500 sums" 0 preloaded 3 "$program" sums 500
expect "its choices" 0 "$build/compshim" report --learned "$scratch/report.json"
echo "$output" >learned
for way in native "two_shot fp8_e4m3"; do
    sed "s/= .*/= $way/" learned >file
    expect "a file that says $way" 0 preloaded 3 COMPSHIM_MACHINE=file "$program" sums 60
    if [ "$way" = native ]; then
        reports "passes all calls on" 'rows == [] and passed == {"no_gain": 60}'
    else
        reports "makes all calls so" '[(r["algorithm"], r["calls"]) for r in rows] == [("two_shot", 60)] and passed == {}'
    fi
done
only "1 2" COMPSHIM_MACHINE=/nowhere
sed "s/= .*/= native/" learned >file
expect "a file of other ranks'" 0 preloaded 3 COMPSHIM_MACHINE=file "${setting[@]}" "$program" sums 3
reports "does not count: rank 0's does" 'passed == {"no_gain": 3}'
printf 'nonsense\n' >wrong
output=$(preloaded 3 COMPSHIM_MACHINE=wrong "$program" sums 3 2>&1) && fail "a wrong file ends the job"
contains "a wrong file is reported" "wrong:1: not a line 'LIBRARY RANKS/NODES DTYPE CODEC BYTES RULE = ALGORITHM CODEC'"
expect "COMPSHIM_MACHINE=off" 0 preloaded 3 COMPSHIM_MACHINE=off "$program" sums 60
reports "tries nothing" 'rows[0]["calls"] == 60 and passed == {} and "learned" not in report'
rule "codec = fp8_e4m3" "worth = foretold"
expect "worth = foretold" 0 preloaded 3 COMPSHIM_MACHINE=off "$program" sums 60
reports "is native before it is known to gain" 'rows == [] and passed == {"no_gain": 60}'
finish
