#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Times are foretold: rank 0's facts count on all ranks of a context, what does not gain is passed on, and a
# context measures only what it needs.
. "$(dirname "$0")/lib.sh"
unset COMPSHIM_MACHINE
cd "$scratch" || exit 1
program=$build/tests/gloo_cases
if ! on_nodes 0,1,2; then
    skip "processes cannot be given a hostname here"
    finish
fi
nodes=("${setting[@]}")

# facts NAME BYTES_PER_SECOND: a machine with such links
facts() {
    printf '%s\n' "native = gloo" "latency_between = 1e-6" "latency_inside = 1e-6" "cores = 1" "add = 1e10" \
        "bandwidth_between = $2" "bandwidth_inside = $2" >"$1"
    for codec in $(codecs); do printf 'encode_%s = 5e9\ndecode_%s = 5e9\n' "$codec" "$codec"; done >>"$1"
}
facts slow 1e7
facts fast 1e12
rule "codec = fp8_e4m3"
sums=("${nodes[@]}" "$program" sums 3)

expect "links slower than the codec" 0 preloaded 3 COMPSHIM_MACHINE=slow "${sums[@]}"
reports "are worth it: foretold and taken is told" \
    'rows[0]["calls"] == 3 and rows[0]["seconds_foretold"] > 0 and report["machine"]["native"] == "gloo"'
expect "links faster than the codec" 0 preloaded 3 COMPSHIM_MACHINE=fast "${sums[@]}"
reports "are not" 'rows == [] and passed == {"no_gain": 3}'
only "1 2" COMPSHIM_MACHINE=/nowhere
expect "a file of other ranks'" 0 preloaded 3 COMPSHIM_MACHINE=fast "${setting[@]}" "${sums[@]}"
reports "does not count: rank 0's does" 'passed == {"no_gain": 3}'
expect "COMPSHIM_MACHINE=off" 0 preloaded 3 COMPSHIM_MACHINE=off "${sums[@]}"
reports "foretells nothing" 'rows[0]["calls"] == 3 and "seconds_foretold" not in rows[0] and "machine" not in report'
printf 'bandwith_between = 1\n' >wrong
output=$(preloaded 3 COMPSHIM_MACHINE=wrong "${sums[@]}" 2>&1) && fail "a wrong file ends the job"
contains "a wrong file is told of" "wrong:1: unknown fact 'bandwith_between' (did you mean 'bandwidth_between'?)"

rule "codec = fp8_e4m3" "worth = always"
on_nodes 0,1,0,1
expect "a job that measures" 0 preloaded 4 COMPSHIM_LOG=info "${setting[@]}" "$program" sums 3
check "says so once" test "$(grep -c "the links and codecs are measured" <<<"$output")" = 1
reports "has all facts of its links and codecs" \
    'set(report["machine"]) >= {"latency_between", "bandwidth_between", "bandwidth_pair", "busy_between", "latency_inside", "bandwidth_inside",
     "message", "cores", "add", "encode_fp8_e4m3"} and "encode_int4" not in report["machine"] and rows[0]["seconds_foretold"] > 0'
expect "another context of the job" 0 preloaded 3 COMPSHIM_LOG=info "${nodes[@]}" "$program" leftovers
check "gets the same facts" test "$(grep -c "the links and codecs are measured" <<<"$output")" = 1
expect "one node" 0 preloaded 3 "$program" sums 3
reports "measures nothing" 'rows[0]["calls"] == 3 and "machine" not in report'
expect "an observed job" 0 preloaded 3 COMPSHIM=observe "${sums[@]}"
reports "measures nothing, since it compresses nothing" '"machine" not in report'
rule "codec = none"
expect "a policy that compresses nothing" 0 preloaded 3 "${sums[@]}"
reports "measures nothing either" '"machine" not in report'
finish
